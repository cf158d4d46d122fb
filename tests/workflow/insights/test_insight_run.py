"""Insights from a file: the rows that are read, and what is recorded of what was learned."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tellwhy
from tellwhy.core.errors import CannotWrite, InvalidInput, InvalidParameter, UnreadableFile
from tellwhy.detectors import PCADetector
from tellwhy.explainers import DMMMEN
from tellwhy.kinds.insight import (
    load_model,
    read_insights,
    read_rows,
    record_insight,
    run_record,
    save_insights,
)
from tellwhy.results.store import load_result, save_result

SHORT = {"n_sweeps": 60, "n_components": 2, "random_state": 0}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models_of_insight_test.py").write_text("def score(X):\n    return 3 * X[:, 0] - X[:, 2]\n")
    rows = np.random.default_rng(0).normal(size=(90, 3))
    np.savez("rows.npz", other=np.ones(3), X=rows)
    np.savez("only.npz", inputs=rows)
    return tmp_path


def test_arrays_and_tables_are_read(folder):
    rows, notices = read_rows(folder / "rows.npz")
    assert rows.shape == (90, 3)
    assert notices == ()
    np.testing.assert_array_equal(read_rows(folder / "only.npz")[0], rows)
    pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}).to_csv("t.csv", index=False)
    assert list(read_rows(folder / "t.csv")[0].columns) == ["a", "b"]
    np.savez("two.npz", a=rows, b=rows)
    with pytest.raises(InvalidInput, match=r"\['a', 'b'\]; name the inputs X"):
        read_rows(folder / "two.npz")


def test_a_model_is_found_in_the_working_folder_and_the_path_is_left_alone(folder):
    import sys

    before = list(sys.path)
    assert load_model("models_of_insight_test:score")(np.array([[1.0, 5.0, 1.0]]))[0] == 2.0
    assert sys.path == before
    assert load_model("math:pi") == math.pi


def test_what_was_learned_is_recorded(folder):
    model = tellwhy.fit("models_of_insight_test:score", kind="insight", top=2, **SHORT)
    result = tellwhy.judge(model, folder / "rows.npz")
    run = read_insights(result)
    assert (run.model, run.n_rows) == ("models_of_insight_test:score", 90)
    assert run.source == str(folder / "rows.npz")
    record = json.loads((save_insights(run, folder / "out") / "insights.json").read_text())
    assert record == json.loads(json.dumps(run_record(run), default=float)) | {"schema": 1}
    assert record["rows"] == 90
    (agreement,) = run.convergence.values()
    (recorded,) = record["convergence"].values()
    assert recorded.keys() == {"r_hat", "ess", "tail_ess", "ended"}
    assert recorded["tail_ess"] == pytest.approx(agreement.tail)
    assert recorded["tail_ess"].keys() == recorded["r_hat"].keys() == recorded["ess"].keys()
    timed = replace(agreement, ended="ended by the time limit of 2 s")
    record = run_record(replace(run, convergence={"score": timed}))
    assert record["convergence"]["score"]["ended"] == "ended by the time limit of 2 s"
    first = run.insights[0]
    told = record["insights"][0]
    assert told["features"][0]["feature"] == "x0"
    assert told["share"] == pytest.approx(first.share)
    assert told["credibility"] == first.credibility
    assert [f["feature"] for f in told["features"]] == list(first.names)
    placed = replace(first, applies=[("x1", -0.5, 2.0), ("x2", 0.25, 0.75)])
    assert record_insight(placed)["applies"] == [
        {"feature": "x1", "from": -0.5, "to": 2.0},
        {"feature": "x2", "from": 0.25, "to": 0.75},
    ]


def asked_alone(model, rows, top):
    """What the explainer itself learns."""
    explainer = DMMMEN(model, **SHORT).fit(rows)
    return explainer.insights(top), explainer.convergence_


def test_one_call_a_model_and_its_file_tell_the_same(folder):
    with np.load("rows.npz") as arrays:
        rows = arrays["X"]
    detector = PCADetector(1).fit(rows)
    expected, convergence = asked_alone(detector, rows, 2)
    model = tellwhy.fit(detector, kind="insight", top=2, **SHORT)
    kept = tellwhy.load(model.save(folder / "m.tellwhy"))
    for each in (model, kept):
        result = tellwhy.judge(each, folder / "rows.npz")
        found = read_insights(load_result(save_result(result, folder / "run")))
        assert found.convergence == convergence
        assert found.model == "PCADetector"
        assert len(found.insights) == len(expected) == len(result.anomalies)
        for one, other in zip(found.insights, expected, strict=True):
            assert record_insight(one) == record_insight(other)
            for name, value in vars(other).items():
                np.testing.assert_array_equal(getattr(one, name), value)
        np.testing.assert_array_equal(result.scores, [insight.share for insight in expected])
        assert result.n_flagged == 0
    words = [reason.feature for reason in result.anomalies[0].reasons]
    assert words == list(expected[0].names)
    effects = np.abs(expected[0].effects)
    shares = [reason.share for reason in result.anomalies[0].reasons]
    np.testing.assert_allclose(shares, effects[expected[0].top] / effects.sum())
    limits = [list(reason.typical) for reason in result.anomalies[0].reasons]
    np.testing.assert_array_equal(limits, expected[0].interval[expected[0].top])
    assert f"{words[0]}: " in tellwhy.tell(result)
    assert "stand in for what the model has learned" in tellwhy.tell(result, "html")
    assert len(tellwhy.judge(model, rows, top=1).anomalies[0].reasons) == 1


def test_what_cannot_be_asked_or_kept_is_told(folder):
    model = tellwhy.fit("models_of_insight_test:score", kind="insight", **SHORT)
    with pytest.raises(CannotWrite, match="is code, which is not written"):
        model.save(folder / "m.tellwhy")
    with pytest.raises(InvalidParameter, match="no setting 'depth'"):
        tellwhy.fit("models_of_insight_test:score", kind="insight", depth=3)
    with pytest.raises(InvalidParameter, match="n_sweeps cannot be changed"):
        tellwhy.judge(model, folder / "rows.npz", n_sweeps=80)
    result = tellwhy.judge(model, folder / "rows.npz")
    with pytest.raises(UnreadableFile, match="are damaged"):
        read_insights(replace(result, arrays={}))
