import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from storage.changed_files import members_of
from tellwhy.classifiers import WestonWatkinsSVM, load
from tellwhy.classifiers.svm.training.files import read_rows
from tellwhy.classifiers.svm.training.job import Job
from tellwhy.classifiers.svm.training.rank_training import Alone, run_rank, write_model
from tellwhy.classifiers.svm.training.run import _read_job, main, mpiexec, pass_on_now_and_then, train
from tellwhy.core.errors import CannotWrite, InvalidInput, InvalidParameter, TellwhyError, UnreadableFile
from tellwhy.explainers import LinearRelevance
from tellwhy.views.cli import app


def write_rows(path, n_classes=6, n=90, d=12, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes, d))
    lines = []
    for i in range(n):
        c, at = i % n_classes, np.sort(rng.choice(d, 5, replace=False))
        values = centres[c, at] + rng.normal(size=5)
        lines.append(" ".join([str(10 * c), *(f"{j + 1}:{v:.6f}" for j, v in zip(at, values, strict=True))]))
    path.write_text("\n".join([*lines[:9], "20", *lines[9:], "10"]) + "\n")  # two rows are empty
    return path


@pytest.fixture
def data(tmp_path):
    return write_rows(tmp_path / "rows.svm")


def job(data, **options):
    return Job(**({"data": str(data), "out": str(data.with_name("model")), "C": 0.1, "tol": 1e-7} | options))


def interrupt_at(words):
    """Tell a training's lines to nobody, and interrupt it at the first that has these words."""

    def show(text):
        if words in text:
            raise KeyboardInterrupt

    return show


def test_one_rank_equals_the_estimator(data):
    rows = read_rows(data)
    ours = train(job(data, max_epochs=5000))
    expected = WestonWatkinsSVM(C=0.1, tol=1e-7, random_state=0, max_epochs=5000).fit(rows.X, rows.y)
    assert ours.objective_ == pytest.approx(expected.objective_, rel=1e-6)
    np.testing.assert_allclose(ours.coef_, expected.coef_, atol=1e-3)
    assert ours.classes_.tolist() == expected.classes_.tolist()
    assert not job(data).checkpoint.exists()


def stopped_after(epoch):
    """Tell a training's lines to nobody, and stop it at the first certificate after this epoch."""

    def show(text):
        if text.startswith("epoch") and int(text.split()[1]) > epoch:
            raise KeyboardInterrupt

    return show


@pytest.mark.parametrize("intercept", [True, False])  # without one, empty rows have no variables
@pytest.mark.parametrize("loss", ["ww", "cs", "llw"])
def test_a_checkpoint_goes_on_to_the_same_bits(data, intercept, loss):
    settings = {"max_epochs": 60, "fit_intercept": intercept, "checkpoint_every": 5, "loss": loss}
    whole = train(job(data, **settings))
    with pytest.raises(KeyboardInterrupt):
        run_rank(job(data, **settings), Alone(), stopped_after(22))
    saved = json.loads((job(data).checkpoint / "checkpoint.json").read_text())
    assert 5 <= saved["epochs"] <= 22
    lines = []
    again = train(job(data, resume=True, **settings), lines.append)
    assert int(lines[0].split()[1]) == saved["epochs"]
    assert again.history_[: len(saved["history"])] == saved["history"]
    assert [line["objective"] for line in again.history_] == [line["objective"] for line in whole.history_]
    np.testing.assert_array_equal(again.coef_, whole.coef_)
    np.testing.assert_array_equal(again.intercept_, whole.intercept_)


def test_an_interrupt_says_how_to_go_on(data, monkeypatch):
    with pytest.raises(KeyboardInterrupt, match=r"Interrupted\. There is no checkpoint yet"):
        train(job(data), interrupt_at("epoch 7"))
    with pytest.raises(
        KeyboardInterrupt, match="model-checkpoint holds epoch 2: run the same command with --resume"
    ):
        train(job(data, checkpoint_every=1), interrupt_at("epoch 7"))
    monkeypatch.setattr(
        "tellwhy.classifiers.svm.training.run.run_rank", lambda *_: interrupt_at("now")("now")
    )
    done = CliRunner().invoke(app, ["fit-svm", str(data), "--out", str(data.with_name("model"))])
    assert done.exit_code == 130
    assert "holds epoch 2" in done.stderr.replace("\n", " ")


def test_a_checkpoint_of_other_settings_is_refused(data):
    with pytest.raises(InvalidInput, match="no checkpoint"):
        train(job(data, resume=True))

    with pytest.raises(KeyboardInterrupt):
        run_rank(job(data, checkpoint_every=1), Alone(), interrupt_at("epoch 7"))
    with pytest.raises(InvalidInput, match=r"was made with C = 0\.1, this training has 1\.0"):
        train(job(data, C=1.0, resume=True))
    lines = data.read_text().splitlines()
    data.write_text("\n".join(lines[1:] + lines[:1]) + "\n")
    with pytest.raises(InvalidInput, match="made from rows with other labels"):
        train(job(data, resume=True))


@pytest.mark.parametrize("ranks", [1, 2])
def test_no_more_epochs_than_asked_for(data, ranks):
    if ranks > 1:
        pytest.importorskip("mpi4py")
    told = []
    assert train(job(data, max_epochs=1, ranks=ranks, quiet=True), told.append).n_iter_ == 1
    assert ranks > 1 or told[-1].startswith("stopped at a gap of")
    with pytest.raises(KeyboardInterrupt):
        run_rank(job(data, checkpoint_every=1), Alone(), interrupt_at("epoch 7"))
    reached = json.loads((job(data).checkpoint / "checkpoint.json").read_text())["epochs"]
    assert train(job(data, max_epochs=1, ranks=ranks, quiet=True, resume=True)).n_iter_ == reached


def test_ranks_that_fall_short_say_what_one_process_has(data, capfd):
    """Ranks take plain steps alone: at a large C these do not end."""
    pytest.importorskip("mpi4py")
    alone = train(job(data, loss="llw", C=1000.0))
    assert alone.dual_gap_ <= 1e-3
    two = train(job(data, loss="llw", C=1000.0, max_epochs=60, ranks=2))
    assert two.dual_gap_ > 1e-3
    told = "".join(capfd.readouterr())
    assert f"stopped at a gap of {two.dual_gap_:.2g}, short of " in told
    assert "without --ranks, methods for large C are tried that ranks do not have" in told


def test_single_precision_is_asked_for(data):
    single, double = (train(job(data, tol=1e-3, dtype=dtype)) for dtype in ("float32", "float64"))
    assert (single.coef_.dtype, double.coef_.dtype) == (np.float32, np.float64)
    assert single.objective_ == pytest.approx(double.objective_, rel=2e-3)


def test_settings_are_checked(data):
    with pytest.raises(InvalidParameter, match="one of 'ww'"):
        train(job(data, loss="hinge"))
    with pytest.raises(InvalidParameter, match="'feature_parts'"):
        train(job(data, feature_parts=3))
    with pytest.raises(InvalidParameter, match=r"must be one of 1 for 1 ranks .* Got 2 instead"):
        train(job(data, feature_parts=2))
    with pytest.raises(InvalidParameter, match="--feature-parts goes with --loss ww and cs"):
        train(job(data, feature_parts=1, loss="llw"))
    with pytest.raises(InvalidParameter, match="'ranks'"):
        train(job(data, ranks=0))
    with pytest.raises(InvalidParameter, match="'seed'"):
        train(job(data, seed=-1))


def test_one_class_is_refused(tmp_path):
    (tmp_path / "one.svm").write_text("1 1:1\n1 2:1\n")
    with pytest.raises(InvalidInput, match=r"one\.svm needs rows of at least two classes"):
        train(job(tmp_path / "one.svm"))


def test_files_that_cannot_be_learned_from_are_told_before_training(tmp_path):
    def told(name, text, words, **options):
        (tmp_path / name).write_text(text)
        with pytest.raises(InvalidInput, match=words):
            train(job(tmp_path / name, **options), pytest.fail)
        assert not (tmp_path / "model").exists()

    told("empty.svm", "1\n2\n1\n", "has no feature in any row")
    told("price.svm", "1.5 1:1\n2.25 1:2\n1.5 2:1\n", "continuous")
    told("rows.svm", "1 1:1\n2 1:2\n", "leave out --label", label="kind")
    told("alone.csv", "kind\n1\n2\n", "no feature", label="kind")


def test_ranks_that_are_interrupted_end_without_a_word(data, tmp_path, monkeypatch, capfd):
    ended = []
    comm = SimpleNamespace(rank=0, size=1, bcast=lambda value: value, Abort=ended.append)
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=SimpleNamespace(COMM_WORLD=comm)))
    monkeypatch.setattr(
        "tellwhy.classifiers.svm.training.run.run_rank", lambda *_: interrupt_at("now")("now")
    )
    (tmp_path / "job.json").write_text(json.dumps({"data": str(data), "out": str(tmp_path / "m")}))
    main(str(tmp_path / "job.json"))
    assert ended == [130]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("density", [0.02, 0.5])
@pytest.mark.parametrize("intercept", [True, False])
def test_models_are_written_piece_by_piece(tmp_path, density, intercept):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(70, 200)) * (rng.random((70, 200)) < density)
    X, y = rng.normal(size=(210, 200 - intercept)), np.arange(210) % 70
    model = WestonWatkinsSVM(max_epochs=1, tol=1.0, fit_intercept=intercept).fit(X, y)
    model._set_weights(table)
    model.save(tmp_path / "whole")
    model._set_weights(np.zeros_like(table))
    write_model(model, (table[first : first + 9] for first in range(0, 70, 9)), tmp_path / "streamed")
    whole, streamed = load(tmp_path / "whole"), load(tmp_path / "streamed")
    assert type(whole.coef_) is type(streamed.coef_)
    np.testing.assert_array_equal(streamed.decision_function(X), whole.decision_function(X))
    np.testing.assert_array_equal(streamed.intercept_, whole.intercept_)
    assert sorted(members_of(tmp_path / "streamed")) == sorted(members_of(tmp_path / "whole"))


def test_certificates_are_told_now_and_then():
    told = []
    show = pass_on_now_and_then(told.append, pause=1e9)
    for text in ("epoch 2 …", "epoch 7 …", "stopped at a gap of 0.1", "epoch 12 …"):
        show(text)
    assert told == ["epoch 2 …", "stopped at a gap of 0.1"]
    show = pass_on_now_and_then(told.append, pause=0)
    show("epoch 17 …")
    show("epoch 22 …")
    assert told[2:] == ["epoch 17 …", "epoch 22 …"]


def test_the_command(data, tmp_path):
    out = tmp_path / "from-the-command"
    done = CliRunner().invoke(
        app, ["fit-svm", str(data), "--c", "0.1", "--loss", "ww", "--out", str(out), "--json"]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["classes"] == 6
    assert told["dual_gap"] <= 1e-3
    assert load(out).objective_ == pytest.approx(told["objective"])
    data.write_text("1 1:1\n2 1:x\n")
    done = CliRunner().invoke(app, ["fit-svm", str(data), "--out", str(out)])
    assert done.exit_code == 1
    assert "line 2" in done.stderr


def test_places_that_cannot_be_written_are_told_before_training(data, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    told = []
    with pytest.raises(CannotWrite, match="it is a folder; expected a file"):
        train(replace(job(data), out=str(tmp_path / "mine")), told.append)
    with pytest.raises(CannotWrite, match="Cannot write to"):
        train(replace(job(data), out=str(tmp_path / "mine" / "notes.txt" / "model")), told.append)
    assert told == []
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    with pytest.raises(UnreadableFile, match="There is no file"):
        train(job(tmp_path / "none.svm"))


@pytest.mark.parametrize("intercept", [True, False])
def test_tables_are_scaled_and_models_take_rows_as_they_came(tmp_path, intercept):
    X, y = load_wine(return_X_y=True, as_frame=True)
    X.assign(kind=y).to_csv(tmp_path / "wine.csv", index=False)
    settings = {"C": 0.01, "tol": 1e-7, "fit_intercept": intercept, "max_epochs": 20_000}
    model = train(job(tmp_path / "wine.csv", label="kind", scale=True, checkpoint_every=10_000, **settings))
    scaler = StandardScaler(with_mean=intercept)
    peer = make_pipeline(scaler, WestonWatkinsSVM(random_state=0, **settings)).fit(X, y)
    assert model.objective_ == pytest.approx(peer[-1].objective_, rel=1e-5)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-3)
    again = load(tmp_path / "model")
    ours, theirs = again.explain(X), LinearRelevance(peer).explain(X)
    scores = np.sort(peer.decision_function(X), axis=1)
    is_clear = scores[:, 1] - scores[:, 0] > 1e-2  # which class is the runner-up
    assert is_clear.mean() > 0.9
    np.testing.assert_allclose(ours.values[is_clear], theirs.values[is_clear], atol=1e-3)
    np.testing.assert_allclose(ours.base_values[is_clear], theirs.base_values[is_clear], atol=1e-3)
    np.testing.assert_allclose(ours.residual, 0, atol=1e-9)
    np.testing.assert_array_equal(LinearRelevance(again).explain(X).values, ours.values)
    assert hasattr(again, "centre_") == intercept
    assert not hasattr(again.fit(X / X.max(), y), "centre_")


def test_only_tables_are_scaled(data):
    with pytest.raises(InvalidParameter, match="Only the columns of tables"):
        train(job(data, scale=True))


def test_options_of_texts_want_texts(data):
    done = CliRunner().invoke(app, ["fit-svm", str(data), "--held-out", "0.2"])
    assert done.exit_code == 1
    assert "--held-out goes with --text" in done.stderr


def test_two_ranks_give_the_same_bits(data):
    pytest.importorskip("mpi4py")
    for loss in ("ww", "cs"):
        settings = {"loss": loss, "tol": 1e-4, "max_epochs": 5000}
        alone, two = (train(job(data, ranks=ranks, quiet=True, **settings)) for ranks in (1, 2))
        np.testing.assert_array_equal(two.coef_, alone.coef_)
        np.testing.assert_array_equal(two.intercept_, alone.intercept_)
        assert two.objective_ == alone.objective_
    alone, two = (train(job(data, loss="llw", C=0.02, max_epochs=5000, ranks=n, quiet=True)) for n in (1, 2))
    assert two.objective_ == pytest.approx(alone.objective_, rel=1e-6)
    np.testing.assert_allclose(two.coef_, alone.coef_, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "threads"), [(3, 1), (4, 1), (2, 2)])
@pytest.mark.parametrize("loss", ["ww", "llw", "ovr"])
def test_more_ranks_reach_the_same_objective(tmp_path, loss, ranks, threads):
    pytest.importorskip("mpi4py")
    data = write_rows(tmp_path / "rows.svm", n_classes=9, n=120)
    alone = train(job(data, loss=loss, C=0.02, max_epochs=5000))
    several = train(job(data, loss=loss, C=0.02, max_epochs=5000, ranks=ranks, threads=threads, quiet=True))
    assert several.objective_ == pytest.approx(alone.objective_, rel=1e-6)
    if loss == "ww":
        np.testing.assert_array_equal(several.coef_, alone.coef_)


def test_a_malformed_file_ends_the_job_with_its_line(data):
    pytest.importorskip("mpi4py")
    data.write_text("1 1:1\n2 1:1\n3 oops\n")
    with pytest.raises(TellwhyError, match=r"line 3: 'oops'"):
        train(job(data, ranks=2, quiet=True))
    data.write_text("1 1:1\n2 1:1\n")
    with pytest.raises(TellwhyError, match="2 classes, fewer than the 3 ranks"):
        train(job(data, ranks=3, quiet=True))


def in_ranks(described, ranks=2):
    module = "tellwhy.classifiers.svm.training.run"
    command = [*mpiexec(), "-n", str(ranks), sys.executable, "-m", "mpi4py", "-m", module, str(described)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_ranks_are_started_by_hand_from_a_file(data, tmp_path):
    pytest.importorskip("mpi4py")
    described = tmp_path / "job.json"
    described.write_text(json.dumps({"data": str(data), "out": str(tmp_path / "by-hand"), "C": 0.1}))
    done = in_ranks(described)
    assert done.returncode == 0, done.stderr
    assert "objective" in done.stdout
    assert load(tmp_path / "by-hand").objective_ == pytest.approx(train(job(data)).objective_, rel=2e-3)
    described.write_text(json.dumps({"data": str(data), "out": str(tmp_path / "by-hand"), "c": 1}))
    done = in_ranks(described)
    assert done.returncode != 0
    assert "unexpected keyword argument 'c'" in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "does not describe a training"),
        ("[]", "does not describe a training"),
        ('{"data": "rows.svm"}', "missing 1 required positional argument: 'out'"),
        ('{"data": "rows.svm", "out": "m", "loss": "hinge"}', "one of 'ww'"),
        ('{"data": "none.svm", "out": "m"}', r"There is no file none\.svm"),
    ],
)
def test_descriptions_that_make_no_job_are_told(tmp_path, text, words):
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(TellwhyError, match=words):
        _read_job(tmp_path / "job.json", 2)


def test_a_description_is_run_over_the_ranks_that_there_are(data, tmp_path):
    (tmp_path / "job.json").write_text(
        json.dumps({"data": str(data), "out": str(tmp_path / "m"), "ranks": 7})
    )
    found, failure = _read_job(tmp_path / "job.json", 2)
    assert (found.ranks, failure) == (2, None)
    with pytest.raises(UnreadableFile, match="Cannot read"):
        _read_job(tmp_path / "none.json", 2)


def ranks_with(mark):
    """Process ids of the ranks whose environment carries the mark."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                mine = mark.encode() in (place / "environ").read_bytes()
                command = (place / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if mine and b"mpi4py" in command and command[0] == sys.executable.encode():
                found.append(int(place.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="finds the ranks in /proc")
def test_a_killed_rank_leaves_a_checkpoint_to_resume_from(data, monkeypatch):
    pytest.importorskip("mpi4py")
    mark = uuid.uuid4().hex
    monkeypatch.setenv("TELLWHY_TEST_MARK", mark)
    endless = job(data, tol=1e-14, max_epochs=10**6, ranks=2, checkpoint_every=1, quiet=True)
    raised = []

    def run():
        try:
            train(endless)
        except TellwhyError as error:
            raised.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 120
    while not (endless.checkpoint / "checkpoint.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(ranks_with(mark)[0], signal.SIGKILL)
    thread.join(60)
    assert not thread.is_alive()
    assert "A rank ended before the training was done" in raised[0]
    assert "--resume" in raised[0]
    monkeypatch.delenv("TELLWHY_TEST_MARK")
    settings = {"tol": 1e-9, "max_epochs": 5000, "checkpoint_every": 1, "quiet": True}
    resumed = train(job(data, resume=True, ranks=2, **settings))
    fresh = train(job(data, **settings))
    assert resumed.objective_ == fresh.objective_
    np.testing.assert_array_equal(resumed.coef_, fresh.coef_)


def test_without_mpi_the_install_is_named(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match=r"tellwhy\[mpi\]"):
        train(job(data, ranks=2))


def test_a_damaged_checkpoint_is_told(data):
    with pytest.raises(KeyboardInterrupt):
        run_rank(job(data, checkpoint_every=1), Alone(), interrupt_at("epoch 7"))
    (job(data).checkpoint / "rank-0.npz").write_bytes(b"nothing")
    with pytest.raises(UnreadableFile, match="missing or damaged"):
        train(job(data, resume=True))
