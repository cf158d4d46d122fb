"""A certificate is finite and holds: nothing is certified that is not so."""

import json
import math

import numpy as np
import pytest
from scipy import sparse

from storage.changed_files import edited
from tellwhy.classifiers import CrammerSingerSVM, LeeLinWahbaSVM, OneVsRestSVM, WestonWatkinsSVM, load
from tellwhy.classifiers.svm import solver
from tellwhy.classifiers.svm.lee_lin_wahba import SingleEngine
from tellwhy.classifiers.svm.problem import PAIR_LOSSES, Labels, make_problem, tell_why_infeasible
from tellwhy.classifiers.svm.solver import Certificate, Progress, Settings, solve
from tellwhy.classifiers.svm.training.job import Job
from tellwhy.classifiers.svm.training.run import train
from tellwhy.classifiers.svm.weston_watkins import PairEngine
from tellwhy.core.errors import InvalidInput, UnreadableFile

SVMS = [WestonWatkinsSVM, CrammerSingerSVM, LeeLinWahbaSVM, OneVsRestSVM]
LOSSES = ["ww", "cs", "llw", "ovr"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = np.argmax(X[:, :3] + RNG.normal(size=(60, 3)), axis=1)


def problem(loss, dtype="float64", scale=1.0):
    rows = sparse.csr_array(X * scale)
    return make_problem(rows, Labels.of_classes(Y), np.full(60, 0.5), n_classes=3, loss=loss, dtype=dtype)


def engine(loss, dtype="float64"):
    kind = PairEngine if loss in PAIR_LOSSES else SingleEngine
    return kind(problem(loss, dtype), n_jobs=1, seed=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("primal", "dual"),
    [(math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0), (1.0, -math.inf), (math.inf, math.inf)],
)
def test_objectives_that_are_no_numbers_have_no_gap(primal, dual):
    found = Certificate(primal, dual, 0.0, 0)
    assert math.isnan(found.gap)
    assert not found.is_sound("float64")


def test_a_gap_below_zero_is_rounding_or_false():
    assert Certificate(1.0, 1.0 + 1e-15, 0.0, 0).gap == 0.0
    assert Certificate(1.0, 1.0 + 1e-9, 0.0, 0).is_sound("float64")
    assert not Certificate(1.0, 1.0 + 1e-6, 0.0, 0).is_sound("float64")
    assert Certificate(1.0, 1.0 + 1e-5, 0.0, 0).is_sound("float32")
    assert not Certificate(1.0, 1.01, 0.0, 0).is_sound("float32")
    assert Certificate(0.0, 0.0, 0.0, 0).gap == 0.0
    assert not Certificate(0.0, 1.0, 0.0, 0).is_sound("float64")


@pytest.mark.parametrize("svm", SVMS)
@pytest.mark.parametrize(
    ("cell", "dtype", "told"),
    [
        (1e39, "float32", r"value 1e\+39 of row 5, feature 2 .* is beyond float32"),
        (-1e100, "float32", "is beyond float32"),
        (1e200, "float64", "squared length of row 5"),
        (1e200, "float32", "beyond"),
    ],
)
def test_cells_beyond_the_precision_are_refused(svm, cell, dtype, told):
    rows = X.copy()
    rows[5, 2] = cell
    with pytest.raises(InvalidInput, match=told):
        svm(dtype=dtype, max_epochs=20, random_state=0).fit(rows, Y)


@pytest.mark.filterwarnings("ignore::tellwhy.core.errors.NotConverged", "ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("svm", SVMS)
@pytest.mark.parametrize("scale", [1e-160, 1e-30, 1e18, 1e30, 1e38, 1e100, 1e150])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whatever_the_scale_a_certificate_holds_or_an_error_tells(svm, scale, dtype):
    try:
        model = svm(dtype=dtype, max_epochs=30, random_state=0).fit(X * scale, Y)
    except InvalidInput:
        return
    assert math.isfinite(model.objective_)
    assert 0.0 <= model.dual_gap_ <= 1.0 + 1e-9
    assert np.isfinite(model.coef_).all()


def test_a_file_with_such_a_cell(tmp_path):
    """As `tellwhy fit-svm --dtype float32` was told 'objective nan, certified to 0.0e+00'."""
    (tmp_path / "d.svm").write_text("1 1:1 2:1e39\n2 1:2\n3 1:3\n1 1:1\n")
    with pytest.raises(InvalidInput, match="beyond float32"):
        train(Job(str(tmp_path / "d.svm"), str(tmp_path / "m"), dtype="float32"))
    assert not (tmp_path / "m").exists()


class Broken:
    """An engine whose certificates are not what they should be."""

    def __init__(self, inner, primal, dual):
        self.inner = inner
        self.found = Certificate(primal, dual, 0.0, 0)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def certify(self, slack):
        self.inner.certify(slack)
        return self.found


@pytest.mark.parametrize(("primal", "dual"), [(math.nan, math.nan), (math.inf, 0.0), (1.0, 2.0)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_training_that_cannot_be_certified_is_an_error(primal, dual, dtype):
    with pytest.raises(InvalidInput, match="cannot be certified"):
        solve(Broken(engine("ww", dtype), primal, dual), Settings())


def exact_gap(loss, duals):
    """The gap of dual variables, computed in double precision from the data."""
    exact = engine(loss)
    exact.set_duals(duals.astype(np.float64))
    return exact.certify(np.inf).gap


@pytest.mark.parametrize("loss", LOSSES)
def test_single_precision_ends_with_the_gap_of_its_own_variables(loss):
    trained = engine(loss, "float32")
    progress = solve(trained, Settings(tol=1e-3, max_epochs=2000))
    assert progress.last["gap"] <= 1e-3
    assert exact_gap(loss, trained.duals()) == pytest.approx(progress.last["gap"], abs=2e-6)
    assert solver.is_done(progress, Settings(tol=1e-3))


def feasible_duals(loss):
    trained = engine(loss)
    solve(trained, Settings(max_epochs=50))
    return trained.duals()


def changed(duals, kind, loss):
    dense = duals.toarray()
    if kind == "negative":
        dense[3, (Y[3] + 1) % 3] = -0.1
    if kind == "above":
        dense[3, (Y[3] + 1) % 3] = 0.6
    if kind == "own class":
        dense[3, Y[3]] = 0.1
    if kind == "sum":
        dense[3, [(Y[3] + 1) % 3, (Y[3] + 2) % 3]] = 0.45
    if kind == "not a number":
        dense[3, (Y[3] + 1) % 3] = np.nan
    applies = {"own class": loss != "ovr", "sum": loss == "cs"}.get(kind, True)
    return sparse.csr_array(dense), applies


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["negative", "above", "own class", "sum", "not a number"])
def test_variables_out_of_their_bounds_are_seen(loss, kind):
    duals = feasible_duals(loss)
    assert tell_why_infeasible(duals, problem(loss)) is None
    assert tell_why_infeasible(duals.astype(np.float32), problem(loss, "float32")) is None
    wrong, applies = changed(duals, kind, loss)
    assert (tell_why_infeasible(wrong, problem(loss)) is not None) == applies


def test_a_warm_start_from_variables_that_are_none_starts_afresh():
    cold = WestonWatkinsSVM(warm_start=True, random_state=0, tol=1e-6, max_epochs=5000).fit(X, Y)
    objective = cold.objective_
    cold.dual_coef_ = sparse.csr_array(cold.dual_coef_.toarray() + 5.0)
    again = cold.fit(X, Y)
    assert again.objective_ == pytest.approx(objective, rel=1e-5)
    assert 0 <= again.dual_gap_ <= 1e-6


@pytest.fixture
def interrupted(tmp_path):
    """A job with a checkpoint of a training that was stopped."""
    lines = [
        f"{y + 1} " + " ".join(f"{j + 1}:{v:.6f}" for j, v in enumerate(x)) for x, y in zip(X, Y, strict=True)
    ]
    (tmp_path / "d.svm").write_text("\n".join(lines) + "\n")
    job = Job(str(tmp_path / "d.svm"), str(tmp_path / "m"), tol=1e-9, max_epochs=10**6, checkpoint_every=1)

    def stop(line):
        if int(line.split()[1]) >= 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(job, stop)
    return job


def resumed(job, **changes):
    return train(Job(**{**vars(job), "tol": 1e-3, "resume": True, **changes}))


def test_a_checkpoint_is_certified_anew(interrupted):
    assert 0 <= resumed(interrupted).dual_gap_ <= 1e-3


@pytest.mark.parametrize("change", ["negative", "huge", "twice", "other row"])
def test_variables_of_a_checkpoint_are_checked(interrupted, change):
    path = interrupted.checkpoint / "rank-0.npz"
    with np.load(path) as stored:
        arrays = dict(stored)
    if change == "negative":
        arrays["val"][0] = -1.0
    if change == "huge":
        arrays["val"] = arrays["val"] * 1e6
    if change == "twice":
        arrays = {name: np.concatenate([array, array[:1]]) for name, array in arrays.items()}
    if change == "other row":
        arrays["row"] = arrays["row"][::-1].copy()
    np.savez(path, **arrays)
    with pytest.raises(UnreadableFile, match="checkpoint"):
        resumed(interrupted)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("history", [{"gap": 0.0}]),
        ("history", [[1, 2]]),
        (
            "history",
            [dict.fromkeys(("epoch", "seconds", "objective", "dual", "gap", "violation", "listed"), "nan")],
        ),
        ("epochs", -5),
        ("seconds", -1.0),
        ("seconds", 1e999),
    ],
)
def test_what_a_checkpoint_says_of_its_way_is_checked(interrupted, key, value):
    path = interrupted.checkpoint / "checkpoint.json"
    head = {**json.loads(path.read_text()), key: value}
    path.write_text(json.dumps(head))
    with pytest.raises(UnreadableFile, match=key):
        resumed(interrupted)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("objective_", {"type": "number", "is": "nan"}),
        ("dual_gap_", {"type": "number", "is": "nan"}),
        ("dual_gap_", -0.5),
        ("dual_gap_", 0.0),
        ("dual_gap_", "small"),
        ("history_", {"type": "list", "is": []}),
    ],
)
def test_a_model_that_claims_what_it_did_not_reach_is_refused(key, value, tmp_path):
    path = WestonWatkinsSVM(random_state=0).fit(X, Y).save(tmp_path / "m")
    edited(path, ("learned", key), value)
    with pytest.raises(UnreadableFile, match="does not hold a working"):
        load(path)


def test_progress_without_history_has_no_certificate():
    assert not solver.is_done(Progress(), Settings())
