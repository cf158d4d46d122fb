"""What would make a row look normal: one answer wherever it is asked, scored as it is shown."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from oracles import one_class as oracle

import tellwhy
from tellwhy.core.params import generator
from tellwhy.counterfactuals.normal_versions import NAME
from tellwhy.data import TableEncoder, as_table
from tellwhy.workflow import explain_table
from tellwhy.workflow.tables.fitted import fit_table
from tellwhy.workflow.tables.reasons import cell_words
from tellwhy.workflow.tables.request import Request
from tellwhy.workflow.tables.selection import select


def mixed_table(n=200):
    """Numbers, counts, text, dates, flags and gaps; rows 0 to 6 are odd in one way each."""
    rng = np.random.default_rng(3)
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, n), unit="D")
    table = pd.DataFrame(
        {
            "x": rng.normal(50.0, 10.0, n),
            "n": rng.poisson(5, n),
            "k": rng.choice(list("abcd"), n, p=[0.5, 0.3, 0.15, 0.05]),
            "when": when,
            "flag": rng.random(n) < 0.03,
            "gap": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
        }
    )
    table.loc[0, "x"] = 260.0
    table.loc[1, "n"] = 60
    table.loc[2, "k"] = "never seen before"
    table.loc[3, "when"] = pd.Timestamp("1999-06-01")
    table.loc[4, ["flag", "n"]] = [True, 25]
    table.loc[5, "gap"] = 30.0
    table.loc[6, ["x", "gap"]] = [-200.0, np.nan]
    return table


@pytest.fixture(scope="module")
def table():
    return mixed_table()


@pytest.fixture(scope="module")
def run(table):
    return explain_table(table, top=12)


def suggested(run):
    return {a.row: a.nearest_normal for a in run.anomalies if a.nearest_normal is not None}


def test_every_odd_row_has_a_suggestion_about_what_is_odd(run):
    found = suggested(run)
    assert set(found) >= set(range(7))
    main = {0: "x", 1: "n", 3: "when", 4: "n", 5: "gap", 6: "x"}
    for row, column in main.items():
        assert column in found[row]


def score_without(row, table, changed):
    """Outlierness of a changed row under the density of all other rows, by the definition."""
    encoder = TableEncoder().fit(table)
    Z = encoder.transform(table)
    width = 0.5 * np.median([oracle.distance(a, b) for i, a in enumerate(Z) for b in Z[:i]])
    points, weights = oracle.without(row, Z, np.full(len(Z), 1 / len(Z)))
    z = encoder.transform(changed)[0]
    return oracle.outlierness(z, points, weights, "exponential", q=2, bandwidth=width)


def read_back(words, like):
    """A cell as someone types it in who reads it on the screen."""
    if pd.api.types.is_bool_dtype(like.dtype):
        return words == "True"
    if pd.api.types.is_numeric_dtype(like.dtype):
        return float(words)
    return pd.Timestamp(words) if like.dtype.kind == "M" else words


def test_a_row_with_the_shown_values_put_into_it_is_normal(table, run):
    for row in (0, 1, 2, 3, 4, 5, 6):
        version = table.iloc[[row]].copy()
        assert score_without(row, table, version) > run.threshold
        for name, value in suggested(run)[row].items():
            version[name] = [read_back(cell_words(value), table[name])]
        assert score_without(row, table, version) <= run.threshold * (1 + 1e-12)


def test_suggested_cells_occur_or_lie_between_cells_that_occur(table, run):
    for row, changes in suggested(run).items():
        for name, value in changes.items():
            column = table[name]
            if name in ("x", "gap", "n"):
                assert column.min() <= value <= column.max()
            elif name == "when":
                assert pd.Timestamp(value) == pd.Timestamp(value).normalize()  # a day, like all others
                assert column.min() <= pd.Timestamp(value) <= column.max()
            else:
                assert value in set(column.drop(index=row))
            assert isinstance(value, {"n": int, "k": str, "flag": bool, "when": str}.get(name, (int, float)))


def test_the_report_suggests_what_the_extras_hold(table, run):
    versions = run.explanation.extras[NAME]
    assert list(versions.columns) == run.columns
    for i, anomaly in enumerate(run.anomalies):
        expected = table[run.columns].iloc[anomaly.row].to_dict()
        if anomaly.nearest_normal is not None:
            expected |= anomaly.nearest_normal
        for name in run.columns:
            cell = versions[name].iloc[i]
            if anomaly.above_threshold and anomaly.nearest_normal is None:
                continue  # beyond the first rows, none is shown
            if name == "when":
                assert pd.Timestamp(expected[name]) == cell
            else:
                assert cell == expected[name] or (pd.isna(cell) and pd.isna(expected[name]))


@pytest.fixture(scope="module")
def fitted(table):
    source = as_table(table)
    selection = select(source, None, Request())
    return fit_table(selection, TableEncoder().fit(table), "auto", generator(0))


def test_a_row_explained_by_itself_has_the_same_version(table, run, fitted):
    """The same row, model and background, asked through the one-liner and through the report."""
    score = replace(fitted.score, level=run.threshold)
    for row in (0, 3, 6):
        alone = tellwhy.explain(score, table.iloc[[row]], "auto", background=table)
        version = alone.extras[NAME].iloc[0]
        expected = table[run.columns].iloc[row].to_dict() | suggested(run)[row]
        for name in run.columns:
            got, wanted = version[name], expected[name]
            wanted = pd.Timestamp(wanted) if name == "when" else wanted
            assert got == wanted or (pd.isna(got) and pd.isna(wanted))


def test_missing_cells_stay_missing_where_they_are_not_what_is_odd(run):
    version = run.explanation.extras[NAME].iloc[[a.row for a in run.anomalies].index(6)]
    assert "gap" not in suggested(run)[6]
    assert pd.isna(version["gap"])


def test_no_suggestion_that_its_digits_would_break():
    """The column lies within 0.02 around 100000.5; shown numbers of that size have no decimals, so none is normal."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"pressure": 100_000.5 + 0.01 * rng.normal(size=150), "y": rng.normal(size=150)})
    table.loc[0, "pressure"] = 100_000.9
    run = explain_table(table, top=1)
    assert run.anomalies[0].row == 0
    assert run.anomalies[0].above_threshold
    assert run.anomalies[0].reasons[0].feature == "pressure"
    assert run.anomalies[0].nearest_normal is None
    version = run.explanation.extras[NAME][0]  # with all its digits, there is one
    assert version[0] == pytest.approx(100_000.5, abs=0.1)
    assert version[1] == table.loc[0, "y"]


def test_only_the_first_rows_above_the_threshold_have_suggestions(table):
    run = explain_table(table, top=3, contamination=0.1)
    assert len(run.anomalies) == 20
    assert [a.nearest_normal is not None for a in run.anomalies] == [True] * 3 + [False] * 17
    calm = explain_table(table, top=30)
    for anomaly in calm.anomalies:
        assert (anomaly.nearest_normal is None) or anomaly.above_threshold
    assert not calm.anomalies[-1].above_threshold


def test_a_method_that_scores_rows_with_themselves_changes_no_suggestion_rule(table):
    """Which rows are odd is told by the ranking, whatever the explaining method takes for the row's score."""
    run = explain_table(table, top=5, method="Occlusion")
    assert {a.row for a in run.anomalies[:5]} <= set(range(7))
    for anomaly in run.anomalies[:5]:
        version = table.iloc[[anomaly.row]].assign(**{k: [v] for k, v in anomaly.nearest_normal.items()})
        assert score_without(anomaly.row, table, version) <= run.threshold * (1 + 1e-12)


def test_rare_labels_are_told_by_their_names():
    """Labels beyond the kept ones are encoded as one; a suggestion still names a label that a cell can hold."""
    rng = np.random.default_rng(0)
    labels = np.array([f"label {i}" for i in range(200)])
    table = pd.DataFrame({"k": labels[rng.integers(0, 60, 400)], "x": rng.normal(size=400)})
    table.loc[0, "x"] = 40.0
    run = explain_table(table, top=8)
    for changes in suggested(run).values():
        assert changes.get("k", table["k"][0]) in set(table["k"])


def test_numbers_stored_as_text_and_dates_in_other_layouts_are_told_as_numbers_and_dates():
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "size": [f"{v:.2f}" for v in rng.normal(100.0, 5.0, 150)],
            "day": [f"{d:02d}.03.2024" for d in rng.integers(1, 29, 150)],
            "y": rng.normal(size=150),
        }
    )
    table.loc[0, "size"] = "190.00"
    table.loc[1, "day"] = "28.11.2031"
    run = explain_table(table, top=5)
    found = suggested(run)
    assert 85.0 < found[0]["size"] < 115.0
    assert "2024-03-01" <= found[1]["day"] <= "2024-03-28"
    first = {a.row: a.reasons[0] for a in run.anomalies}
    assert first[0].value == 190.0
    assert first[0].text.startswith("size = 190 (usually 9")
    assert first[1].text.startswith("day = 2031-11-28 (usually 2024-03-0")


@pytest.mark.parametrize("has_gaps", [False, True])  # with gaps, pandas keeps counts as floats
def test_counts_are_suggested_without_a_decimal_point(has_gaps):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=150), "n": rng.poisson(5, 150)})
    table.loc[1, "n"] = 60
    if has_gaps:
        table["n"] = table["n"].where(np.arange(150) % 10 > 0)
    first = explain_table(table, top=1).anomalies[0]
    assert first.row == 1
    assert type(first.nearest_normal["n"]) is int
    assert 0 <= first.nearest_normal["n"] < 60
