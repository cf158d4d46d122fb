"""A table to a run: scores of rows as if new, thresholds, reasons, groups, evidence, detection, the folder."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from oracles import one_class as oracle
from zoo.anomalies import odd_row

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnreadableFile
from tellwhy.kinds.comparison import recommend
from tellwhy.results.result import Reason, Typical
from tellwhy.storage.csv_cells import neutralise
from tellwhy.verdicts.reasons import group_anomalies, is_usual, list_usual
from tellwhy.verdicts.words import make_plain_cell
from tellwhy.words.numbers import write_number
from tellwhy.workflow import compare_table, explain_table, load_run, save_run

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def frame():
    table = pd.DataFrame(RNG.normal(size=(150, 3)), columns=["a", "b", "c"])
    table.loc[[10, 11], "b"] = [14.0, -15.0]
    return table.assign(kind=np.where(RNG.random(150) < 0.5, "x", "y"))


@pytest.fixture(scope="module")
def run(frame):
    return explain_table(frame, top=4)


def test_rows_are_scored_without_themselves(frame):
    """The score of a row is that of a density of the other rows, in the encoded columns."""
    from tellwhy.data import TableEncoder
    from tellwhy.detectors import KernelDensity

    run = explain_table(frame, detector="KernelDensity", top=5)
    Z = TableEncoder().fit(frame).transform(frame)
    width = KernelDensity().fit(Z).to_score().expansion.kernel.bandwidth
    for row in (0, 20):
        points, weights = oracle.without(row, Z, np.full(len(Z), 1 / len(Z)))
        expected = oracle.outlierness(Z[row], points, weights, "exponential", q=2, bandwidth=width)
        assert run.scores[row] == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(run.explanation.scores, run.scores[[a.row for a in run.anomalies]], rtol=1e-12)


def test_anomalies_are_ranked_with_reasons(run):
    assert {run.anomalies[0].row, run.anomalies[1].row} == {10, 11}
    scores = [a.score for a in run.anomalies]
    assert scores == sorted(scores, reverse=True)
    first = run.anomalies[0].reasons[0]
    assert first.feature == "b"
    assert first.text.startswith(f"b = {write_number(first.value)} (usually ")
    assert sum(run.column_shares.values()) == pytest.approx(1)
    assert max(run.column_shares, key=run.column_shares.get) == "b"
    assert {10, 11} <= next(set(g.rows) for g in run.groups if tuple(g.features) == ("b",))


def test_the_threshold_and_its_rule(frame, run):
    assert run.settings["threshold_rule"] == "at most 10 % false alarms expected" == run.alarms.rule
    assert all(a.above_threshold == (a.score > run.threshold) for a in run.anomalies)
    assert run.alarms.n_flagged == run.n_flagged == sum(a.above_threshold for a in run.anomalies)
    share = explain_table(frame, contamination=0.2)
    assert (share.scores > share.threshold).mean() == pytest.approx(0.2, abs=0.01)
    budget = explain_table(frame, alarms=3)
    assert budget.n_flagged == 3
    assert budget.settings["threshold_rule"] == "a budget of 3 alarms"
    clean = explain_table(frame.iloc[:9], reference=frame.iloc[12:])
    assert clean.anomalies[0].percentile <= 100
    assert explain_table(frame, fdr=0.5).n_flagged >= run.n_flagged


def test_nearest_normal_values_make_the_row_normal():
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {"x": rng.normal(size=200), "n": rng.poisson(5, size=200), "k": rng.choice(list("ab"), 200)}
    )
    table.loc[7, "x"] = 15.0
    table.loc[8, "n"] = 60
    table["k"] = table["k"].where(table.index != 9, "zz")
    run = explain_table(table, top=3)
    by_row = {a.row: a.nearest_normal for a in run.anomalies}
    assert list(by_row[7]) == ["x"]
    assert by_row[7]["x"] in set(table["x"].drop(index=7))
    assert list(by_row[8]) == ["n"]
    assert isinstance(by_row[8]["n"], int)
    mended = table.copy()
    mended.loc[7, "x"] = by_row[7]["x"]
    mended.loc[8, "n"] = by_row[8]["n"]
    assert explain_table(mended, top=3).scores[[7, 8]].max() < run.scores[[7, 8]].min() / 2
    if 9 in by_row:
        assert by_row[9]["k"] in ("a", "b")
    assert run.anomalies[-1].nearest_normal is None or run.anomalies[-1].above_threshold


def test_all_rows_above_the_threshold_are_explained(frame):
    many = explain_table(frame, contamination=0.4, top=5)
    assert len(many.anomalies) == len(many.explanation) == 60


def test_evidence_compares_with_a_random_order_and_other_methods(run):
    evidence = run.evidence
    assert evidence.flipping_area["CommitteeShares"] < evidence.flipping_area["RandomAttribution"]
    assert evidence.flipping["CommitteeShares"][0] == 1
    assert 0 <= evidence.unattributed <= 1
    assert evidence.agreement == []


def test_second_opinions_on_request(frame):
    found = explain_table(frame, top=5, second_opinions=True).evidence.agreement
    assert {a.method for a in found} == {"Occlusion", "GaussianNLL"}
    assert all(0 <= a.same_top_feature <= 1 for a in found)


def test_detection_uses_a_label_and_never_as_a_feature(frame):
    labelled = frame.assign(truth=np.isin(np.arange(150), [10, 11]))
    run = explain_table(labelled, label="truth", top=2)
    assert run.detection.auroc > 0.99
    assert (run.detection.positive, run.detection.n_positive) == ("True", 2)
    assert "truth" not in run.columns
    assert explain_table(labelled, label="kind=x", top=2).detection.label == "kind"
    with pytest.raises(InvalidInput, match="marks 0 of 150 rows"):
        explain_table(labelled, label="kind=z")


def test_a_reference_inside_the_table(frame):
    run = explain_table(frame, normal="kind=x", top=2)
    assert "kind" not in run.columns
    assert run.settings["reference"] == "the rows with kind = x"
    own = (frame["kind"] == "x").to_numpy()
    assert run.settings["rows_learned_from"] == own.sum()


def test_a_large_table_is_learned_from_a_stated_sample():
    rows = np.random.default_rng(1).normal(size=(6_000, 2))
    rows[77, 1] = 30.0
    run = explain_table(rows, top=1)
    assert run.anomalies[0].row == 77
    assert any("5,000 of 6,000" in text for text in run.notes)
    assert "a random 5,000 of them" in run.summary


def test_the_folder_round_trip(run, tmp_path):
    folder = save_run(run, tmp_path / "run")
    loaded = load_run(folder)
    assert loaded.anomalies == run.anomalies
    as_saved = {
        name: replace(t, quantiles=list(t.quantiles), labels=list(t.labels))
        for name, t in run.typical.items()
    }
    assert loaded.typical == as_saved
    np.testing.assert_array_equal(loaded.scores, run.scores)
    np.testing.assert_array_equal(loaded.explanation.values, run.explanation.values)
    assert (loaded.evidence.agreement, loaded.groups) == (run.evidence.agreement, run.groups)
    head = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**head, "schema": 9}))
    with pytest.raises(UnreadableFile, match="schema 9; this version of tellwhy reads schema 3"):
        load_run(folder)
    (folder / "result.json").write_text(json.dumps({k: v for k, v in head.items() if k != "settings"}))
    with pytest.raises(UnreadableFile, match="settings"):
        load_run(folder)
    with pytest.raises(UnreadableFile, match="cannot be read as a result"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top": 0}, "'top' parameter of Request"),
        ({"columns": "a"}, "a list of column names"),
        ({"normal": "kind=x", "reference": np.ones((3, 1))}, "not both"),
        ({"normal": "kind"}, "names a column alone"),
        ({"columns": ["a", "zz"]}, "no column 'zz'"),
        ({"exclude": ["a", "b", "c", "kind"]}, "No column"),
        ({"random_state": -1}, "'random_state'"),
    ],
)
def test_wrong_requests(frame, settings, message):
    with pytest.raises((InvalidInput, InvalidParameter), match=message):
        explain_table(frame, **settings)


def test_a_column_that_looks_like_numbering_is_used_when_named(frame):
    numbered = frame.assign(step=np.arange(len(frame)))
    assert "step" not in explain_table(numbered, top=1).columns
    assert explain_table(numbered, top=1, columns=["b", "step"]).columns == ["b", "step"]


def test_too_few_rows():
    with pytest.raises(InvalidInput, match="only 5 rows to learn from"):
        explain_table(RNG.normal(size=(5, 2)))


def test_a_reference_without_the_columns(frame):
    with pytest.raises(InvalidInput, match=r"lacks the column\(s\) 'b'"):
        explain_table(frame, reference=frame.drop(columns="b"))


def test_comparison_of_methods(frame):
    result = compare_table(frame, n_rows=20)
    table = result.table.set_index("method")
    assert table.loc["CommitteeShares", "mrr"] > table.loc["RandomAttribution", "mrr"]
    density = compare_table(frame, n_rows=20, detector="KernelDensity").table.set_index("method")
    assert density.loc["OneClassDTD", "mrr"] > density.loc["RandomAttribution", "mrr"]
    # It would be 1 if the detector had seen the rows before the change.
    assert density.loc["NearestSupport", "mrr"] < 1
    assert result.recommendation
    nothing = result.table.assign(mrr_low=0.0, mrr_high=1.0)
    assert recommend(nothing).kind == "trust_none"


def test_numbers_and_cells_in_words():
    assert [write_number(v) for v in (3.0, -0.12345, 12345.678, 1e12, 0.00001)] == [
        "3",
        "-0.1235",
        "12346",
        "1 trillion",
        "1e-05",
    ]
    assert make_plain_cell(pd.NaT) is None
    assert make_plain_cell(pd.Timestamp("2024-05-01")) == "2024-05-01"
    assert make_plain_cell(pd.Timestamp("2024-05-01 10:00")) == "2024-05-01T10:00:00"
    assert make_plain_cell(np.bool_(True)) is True
    number = Typical("n", "number", [0, 1, 2, 3, 4, 5, 6])
    category = Typical("k", "category", shares={"x": 0.9, "y": 0.1})
    assert list_usual(number) == [1, 5]
    assert list_usual(category) == ["x", "y"]
    assert is_usual(3.0, number)
    assert not is_usual(5.5, number)
    assert not is_usual(None, number)
    assert is_usual("x", category)
    assert not is_usual("z", category)


def test_groups_need_two_rows_and_the_same_main_columns():
    def anomaly(row, *parts):
        return odd_row(row, None, 1.0, 99.0, True, [Reason(name, 0.0, [], share) for name, share in parts])

    found = group_anomalies(
        [anomaly(1, ("a", 0.6)), anomaly(2, ("a", 0.4), ("b", 0.3)), anomaly(5, ("a", 0.7), ("c", 0.2))]
    )
    assert [(g.features, g.rows) for g in found] == [(["a"], [1, 5])]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x"])
def test_formulas_are_made_text(text):
    assert neutralise(text) == f"'{text}"
    assert neutralise(f"a{text}") == f"a{text}"


@pytest.mark.parametrize("separator", ["\t", "\r"])
def test_so_are_formulas_in_what_a_spreadsheet_takes_for_a_cell_of_its_own(separator):
    assert neutralise(f"{separator}=1") == f"'{separator}'=1"
    assert neutralise(f"a{separator}=1") == f"a{separator}'=1"
