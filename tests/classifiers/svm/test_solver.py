"""The loop around the sweeps: when it stops, when it takes another method, and how it goes on from a checkpoint."""

import json

import numpy as np
import pytest
from scipy import sparse

from tellwhy.classifiers import CrammerSingerSVM, LeeLinWahbaSVM, OneVsRestSVM, WestonWatkinsSVM
from tellwhy.classifiers.svm import solver as checkpoint
from tellwhy.classifiers.svm.lee_lin_wahba import SingleEngine
from tellwhy.classifiers.svm.problem import Labels, make_problem
from tellwhy.classifiers.svm.solver import Certificate, Progress, Settings, is_done, is_slow, solve
from tellwhy.classifiers.svm.weston_watkins import PairEngine
from tellwhy.core.errors import InvalidInput, NotConverged, UnreadableFile


class Counted(PairEngine):
    """An engine that counts the passes over its variables."""

    passes = 0

    def dense_epoch(self):
        self.passes += 1
        super().dense_epoch()

    def epoch(self, negligible, patience):
        self.passes += 1
        return super().epoch(negligible, patience)


def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 8)), np.arange(60) % 5


def engine(kind=Counted):
    X, y = rows()
    problem = make_problem(
        sparse.csr_array(X), Labels.of_classes(y), np.ones(60), n_classes=5, loss="ww", dtype="float64"
    )
    return kind(problem, n_blocks=1, n_jobs=1, seed=np.random.default_rng(0))


@pytest.mark.parametrize("most", [1, 2, 3, 4, 13])
def test_no_more_epochs_than_asked_for(most):
    counted = engine()
    progress = solve(counted, Settings(tol=1e-12, max_epochs=most))
    assert counted.passes == progress.epochs == progress.last["epoch"] == most


@pytest.mark.parametrize(("before", "most"), [(0, 1), (6, 7), (6, 6), (9, 6)])
def test_epochs_before_count_where_a_solution_goes_on(before, most):
    first, counted = engine(), engine()
    solve(first, Settings(tol=1e-12, max_epochs=4))
    counted.set_duals(first.duals())
    progress = solve(counted, Settings(tol=1e-12, max_epochs=most), Progress(before), warm=True)
    assert counted.passes == max(most - before, 0)
    assert progress.epochs == max(before, most)
    assert progress.last["objective"] > progress.last["dual"] > 0


@pytest.mark.parametrize("cls", [WestonWatkinsSVM, CrammerSingerSVM, LeeLinWahbaSVM, OneVsRestSVM])
def test_an_estimator_of_one_epoch(cls):
    X, y = rows()
    with pytest.warns(NotConverged, match="stopped after 1 epoch at a relative duality gap"):
        model = cls(max_epochs=1, tol=1e-9, warm_start=True, random_state=0).fit(X, y)
    assert model.n_iter_ == 1
    with pytest.warns(NotConverged):
        again = model.fit(X, y)
    assert again.n_iter_ == 1
    assert again.dual_gap_ > 0


@pytest.mark.parametrize("stopping", ["gap", "violation"])
def test_it_stops_at_the_first_certificate_that_is_good_enough(stopping):
    settings = Settings(tol=1e-2, stopping=stopping)
    progress = solve(engine(), settings)
    assert is_done(progress, settings)
    assert all(line[stopping] > 1e-2 for line in progress.history[:-1])
    epochs = [line["epoch"] for line in progress.history]
    assert epochs == sorted(epochs)
    assert [line["seconds"] for line in progress.history] == sorted(
        line["seconds"] for line in progress.history
    )


def test_interrupts_that_compiled_code_swallowed_are_raised():
    class Interrupted(Counted):
        cause: type[BaseException] = KeyboardInterrupt

        def certify(self, slack):
            raise SystemError("returned a result with an exception set") from self.cause()

    stopped = engine(Interrupted)
    with pytest.raises(KeyboardInterrupt):
        solve(stopped, Settings())
    stopped.cause = ValueError
    with pytest.raises(SystemError):
        solve(stopped, Settings())


def test_the_gap_is_relative_to_the_primal_objective():
    assert Certificate(10.0, 8.0, 0.0, 0).gap == pytest.approx(0.2)
    assert Certificate(0.0, 0.0, 0.0, 0).gap == 0
    progress = solve(engine(), Settings(tol=1e-2))
    for line in progress.history:
        assert line["gap"] == pytest.approx((line["objective"] - line["dual"]) / line["objective"])


def test_without_shrinking_every_variable_is_listed():
    listed = {
        shrinking: [
            line["listed"] for line in solve(engine(), Settings(tol=1e-2, shrinking=shrinking)).history
        ]
        for shrinking in (True, False)
    }
    assert set(listed[False]) == {60 * 4}
    assert max(listed[True]) < 60 * 4


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("loss", ["ww", "cs", "ovr"])
def test_weights_that_no_variable_reaches_are_zero(loss, n_blocks):
    rng = np.random.default_rng(1)
    y = np.arange(300) % 20
    X = np.zeros((300, 200))
    for _ in range(4):
        X[np.arange(300), 10 * y + rng.integers(0, 10, 300)] += 1  # a word of the row's own class
    for _ in range(2):
        X[np.arange(300), rng.integers(0, 200, 300)] += rng.uniform(0.5, 1, 300)
    X = sparse.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True))
    problem = make_problem(X, Labels.of_classes(y), np.ones(300), n_classes=20, loss=loss, dtype="float64")
    kind = SingleEngine if loss == "ovr" else PairEngine
    solved = kind(problem, n_blocks=n_blocks, n_jobs=1, seed=rng)
    progress = solve(solved, Settings(tol=1e-6))
    W, held = solved.weights(), solved.duals().toarray()
    if loss != "ovr":
        held[np.arange(300), y] += held.sum(
            axis=1
        )  # a row's variables reach the weights of its own class too
    reached = (X.T @ held) > 0
    assert not reached.all()
    np.testing.assert_array_equal(W[~reached], 0)
    found = solved.certify(0.1)
    assert found.primal == pytest.approx(progress.last["objective"], rel=1e-10)
    assert found.dual == pytest.approx(progress.last["dual"], rel=1e-10)


class Leaping(Counted):
    """An engine whose other method ends at a gap that plain steps then widen."""

    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        self.gaps = []
        self.switched_at = None

    def switch_method(self, tol):
        assert tol == 1e-12
        return self.duals()

    def certify(self, slack):
        found = super().certify(slack)
        held = self.duals().sum()
        if self.switched_at is None and self.passes >= 20:
            self.switched_at = held  # plain steps got here; from now on only this point has a small gap
        elif self.switched_at is not None:
            gap = 0.01 if held == self.switched_at else 0.5
            found = Certificate(found.dual / (1 - gap), found.dual, found.worst, found.listed)
        return found


def test_a_switch_is_gone_back_to_where_steps_after_it_widen_the_gap(monkeypatch):
    monkeypatch.setattr("tellwhy.classifiers.svm.solver.SLOW_AFTER", 20)
    steps = engine(Leaping)
    progress = solve(steps, Settings(tol=1e-12, max_epochs=40))
    gaps = [round(line["gap"], 6) for line in progress.history]
    assert gaps[-1] == 0.01
    assert 0.5 in gaps
    assert progress.epochs == 40
    assert steps.duals().sum() == pytest.approx(steps.switched_at)


ROWS = np.array([2, 5, 7])


DUALS = sparse.csr_array(np.array([[0.0, 0.5, -0.5], [1.0, 0.0, -1.0], [0.0, 0.0, 0.0]]))


SETTINGS = {"labels": "abc", "C": 1.0}


TRIPLES = {"row": ROWS, "cls": np.array([0, 1, 2]), "val": np.ones(3)}


class OneRank:
    """What the ranks of a training say to each other where there is only one."""

    rank = 0
    size = 1

    def bcast(self, value):
        return value

    def Barrier(self):
        pass


@pytest.fixture
def saved(tmp_path):
    progress = Progress(3, 1.5, [{"violation": 0.1}])
    checkpoint.write(tmp_path / "c", OneRank(), rows=ROWS, duals=DUALS, progress=progress, settings=SETTINGS)
    return tmp_path / "c"


def test_what_was_written_is_read_by_whoever_holds_the_rows(saved):
    table, progress = checkpoint.read(saved, ROWS, 3, SETTINGS)
    np.testing.assert_array_equal(table.toarray(), DUALS.toarray())
    assert (progress.epochs, progress.seconds, progress.history) == (3, 1.5, [{"violation": 0.1}])
    some, _ = checkpoint.read(saved, np.array([1, 5]), 3, SETTINGS)
    np.testing.assert_array_equal(some.toarray(), [[0, 0, 0], [1.0, 0, -1.0]])


def test_other_rows_and_settings_are_refused(saved):
    with pytest.raises(InvalidInput, match="rows with other labels"):
        checkpoint.read(saved, ROWS, 3, {**SETTINGS, "labels": "abd"})
    with pytest.raises(InvalidInput, match=r"C = 1.0, this training has 2.0"):
        checkpoint.read(saved, ROWS, 3, {**SETTINGS, "C": 2.0})


@pytest.mark.parametrize("key", ["settings", "ranks", "epochs", "seconds", "history"])
@pytest.mark.parametrize("value", ["absent", "text"])
def test_a_damaged_head_names_its_key(saved, key, value):
    head = json.loads((saved / "checkpoint.json").read_text())
    del head[key]
    if value != "absent":
        head[key] = value
    (saved / "checkpoint.json").write_text(json.dumps(head))
    with pytest.raises(UnreadableFile, match=rf"checkpoint\.json lacks '{key}'"):
        checkpoint.read(saved, ROWS, 3, SETTINGS)


@pytest.mark.parametrize("ranks", [0, -1])
def test_a_training_without_ranks_is_none(saved, ranks):
    head = json.loads((saved / "checkpoint.json").read_text())
    (saved / "checkpoint.json").write_text(json.dumps({**head, "ranks": ranks}))
    with pytest.raises(UnreadableFile, match=r"checkpoint\.json names no 'ranks'"):
        checkpoint.read(saved, ROWS, 3, SETTINGS)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"val": None}, r"rank-0\.npz lacks 'val'"),
        ({"row": ROWS[:2]}, r"rank-0\.npz does not hold one row, class and value"),
        ({"row": ROWS[:, None]}, r"rank-0\.npz does not hold one row"),
        ({"row": ROWS.astype(float)}, r"rank-0\.npz does not hold one row"),
        ({"val": np.array(["a", "b", "c"])}, r"rank-0\.npz does not hold one row"),
        ({"cls": np.array([0, 1, 3])}, r"rank-0\.npz holds classes that there are not in 'cls'"),
        ({"cls": np.array([0, 1, -1])}, r"rank-0\.npz holds classes that there are not in 'cls'"),
        ({"val": np.array([0.0, np.nan, 1.0])}, r"rank-0\.npz holds .* no numbers in 'val'"),
    ],
    ids=range(8),
)
def test_damaged_variables_are_told(saved, changes, told):
    arrays = {name: array for name, array in {**TRIPLES, **changes}.items() if array is not None}
    np.savez(saved / "rank-0.npz", **arrays)
    with pytest.raises(UnreadableFile, match=told):
        checkpoint.read(saved, ROWS, 3, SETTINGS)


def test_only_checkpoints_are_removed(saved, tmp_path):
    (tmp_path / "mine").mkdir()
    for folder in (saved, tmp_path / "mine"):
        checkpoint.remove(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def asked_at(factor, max_epochs, loss="ww"):
    """The epochs at which another method would be tried, with a gap that falls by a factor each epoch."""
    history = []
    found = []
    for epoch in range(2, max_epochs, 10):
        history.append({"epoch": epoch, "gap": 0.5 * factor**epoch})
        if is_slow(loss, history, tol=1e-3, max_epochs=max_epochs):
            found.append(epoch)
    return found


def test_another_method_is_tried_where_the_epochs_left_will_not_do():
    # ln(500) / ln(1 / 0.98) = 308 epochs, and 6,200 with 0.999.
    assert asked_at(0.98, 1000) == []
    assert asked_at(0.98, 250) == [102, 202]
    assert asked_at(0.999, 1000) == [102, 202, 402, 802]
    assert asked_at(1.001, 10_000)[:3] == [102, 202, 402]
    assert asked_at(0.98, 1000, loss="llw") == [22]
