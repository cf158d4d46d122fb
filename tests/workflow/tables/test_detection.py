"""How well scores separate labelled rows, and which value of a label means 'anomaly'."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from tellwhy.core.errors import InvalidInput
from tellwhy.data import as_table
from tellwhy.kinds.table_result import measure_detection
from tellwhy.workflow import explain_table

SCORES = np.array([0.1, 0.9, 0.3, 0.8, 0.7, 0.2])


def detection(labels, label="label", rows=None, threshold=0.75):
    table = as_table(pd.DataFrame({"label": labels}))
    rows = np.arange(len(labels)) if rows is None else np.asarray(rows)
    return measure_detection(table, label, rows, SCORES[rows], threshold)


def test_both_measures_by_their_definition():
    truth = np.array([0, 1, 0, 1, 0, 1])
    found = detection(truth)
    pairs = [(SCORES[i] > SCORES[j]) for i in np.flatnonzero(truth) for j in np.flatnonzero(truth == 0)]
    assert found.auroc == pytest.approx(np.mean(pairs))
    assert found.average_precision == pytest.approx((1 / 1 + 2 / 2 + 3 / 5) / 3)
    assert (found.label, found.positive, found.n_positive) == ("label", "1", 3)


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        (
            ["fraud", "ok", "fraud", "fraud", "ok", "fraud"],
            "fraud",
        ),  # by its name, though it is the more common
        (["Yes", "no", "no", "Yes", "Yes", "Yes"], "Yes"),
        ([True, False, True, True, True, False], "True"),
        ([1.0, 0.0, 1.0, 1.0, 1.0, 0.0], "1"),
        (["left", "right", "left", "left", "right", "left"], "right"),  # else the rarer of two
        (["a", "outlier", "b", "c", "c", "a"], "outlier"),
    ],
)
def test_which_value_marks_anomalies(labels, positive):
    found = detection(labels)
    assert found.positive == positive
    assert found.n_positive == [str(v) for v in labels].count(positive) or positive == "1"


def test_a_value_that_is_named_wins():
    found = detection(["a", "b", "c", "a", "b", "a"], "label=c")
    assert (found.positive, found.n_positive) == ("c", 1)
    with pytest.raises(InvalidInput, match="say which marks anomalies, label=VALUE"):
        detection(["a", "b", "c", "a", "b", "a"])
    with pytest.raises(InvalidInput, match="say which marks anomalies, label=VALUE"):
        detection(["ok", "fraud", "attack", "ok", "ok", "ok"])  # two values by such names
    assert measure_detection(as_table(pd.DataFrame({"x": [1]})), None, np.array([0]), SCORES[:1], 0.5) is None


def test_labels_belong_to_the_rows_that_were_scored():
    found = detection(["ok", "fraud", "ok", "ok", "fraud", "fraud"], rows=[5, 4, 0, 2])
    truth = np.array([True, True, False, False])
    assert found.n_positive == 2
    assert found.auroc == roc_auc_score(truth, SCORES[[5, 4, 0, 2]])
    assert found.average_precision == average_precision_score(truth, SCORES[[5, 4, 0, 2]])


def test_rows_that_were_dropped_take_their_labels_with_them():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=80), "b": rng.normal(size=80), "truth": 0})
    table.loc[[60, 70], ["a", "truth"]] = [25.0, 1]
    table.loc[:30, "b"] = np.where(np.arange(31) % 2, np.nan, table["b"][:31])
    run = explain_table(table, label="truth", missing="drop", top=2)
    assert run.detection.auroc == 1.0
    assert run.detection.n_positive == 2
    assert {a.row for a in run.anomalies[:2]} == {60, 70}
    np.testing.assert_array_equal(run.rows, table.index[table["b"].notna()])


def test_precision_and_recall_at_the_threshold():
    labels = ["odd", "odd", "ok", "ok", "odd", "ok"]  # scores 0.1, 0.9, 0.3, 0.8, 0.7, 0.2
    found = detection(labels, "label=odd", threshold=0.6)
    assert (found.n_alarms, found.precision, found.recall) == (3, pytest.approx(2 / 3), pytest.approx(2 / 3))
    at = detection(labels, "label=odd", threshold=0.8)  # what is at the threshold is no alarm
    assert (at.n_alarms, at.precision, at.recall) == (1, 1.0, pytest.approx(1 / 3))
    none = detection(labels, "label=odd", threshold=1.0)
    assert (none.n_alarms, none.precision, none.recall) == (0, None, 0.0)


def test_every_other_value_is_odd():
    labels = ["dos", "probe", "normal", "dos", "normal", None]
    found = detection(labels, "label!=normal", threshold=0.75)
    assert (found.label, found.positive, found.negated, found.n_positive) == ("label", "normal", True, 3)
    assert (found.n_alarms, found.precision, found.recall) == (2, 1.0, pytest.approx(2 / 3))
    assert found.auroc == roc_auc_score([1, 1, 0, 1, 0], SCORES[:5])  # the row without a label has no say
    with pytest.raises(InvalidInput, match=r"label != 'none' marks 5 of 5 rows"):
        detection(labels, "label!=none")
    with pytest.raises(InvalidInput, match=r"no column 'lable'.*Did you mean 'label'"):
        detection(labels, "lable!=normal")


def test_columns_whose_names_hold_the_signs():
    frame = pd.DataFrame({"is!": ["a", "b", "b"], "x!=y": [1, 0, 0]})
    rows = np.arange(3)
    found = measure_detection(as_table(frame), "is!=a", rows, SCORES[:3], 0.5)
    assert (found.label, found.positive, found.negated) == ("is!", "a", False)
    found = measure_detection(as_table(frame), "x!=y", rows, SCORES[:3], 0.5)
    assert (found.label, found.positive, found.negated) == ("x!=y", "1", False)


def test_a_negated_label_is_no_feature():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=90), "kind": rng.choice(["x", "y", "z"], 90)})
    run = explain_table(table, label="kind!=x", top=2)
    assert run.columns == ["a"]
    assert run.detection.negated
