"""What would make a row look normal: one answer wherever it is asked, scored as it is shown."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.params import generator
from tellwhy.data import TableEncoder, as_table
from tellwhy.kinds.request import Request
from tellwhy.kinds.table_cells import fit_table
from tellwhy.kinds.table_model import check_selection
from tellwhy.kinds.table_rows import select
from tellwhy.scoring.distance_scores import points_of
from tellwhy.verdicts.words import make_plain_cell
from tellwhy.words.numbers import write_plain
from tellwhy.workflow import explain_table


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
    table.loc[4, ["flag", "n"]] = [True, 32]
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
    assert set(found) >= {0, 1, 3, 4, 5, 6}  # of a label that one row in 200 has, chance may be the cause
    main = {0: "x", 1: "n", 3: "when", 4: "n", 5: "gap", 6: "x"}
    for row, column in main.items():
        assert column in found[row]


@pytest.fixture(scope="module")
def fitted(table):
    source = as_table(table)
    selection, _ = check_selection(source, select(source, Request()), "impute")
    return fit_table(selection, TableEncoder(compress=False).fit(selection.frame), "auto", generator(0))


def score_without(row, fitted, changed):
    """Score of a changed row, judged without the row that it was made from."""
    inner = fitted.score.inner
    points = points_of(fitted.training_rows(np.array([row])), inner.remembered)
    return float(inner.value(fitted.encoder.transform(changed), points)[0])


def read_back(words, like):
    """A cell as someone types it in who reads it on the screen."""
    if pd.api.types.is_bool_dtype(like.dtype):
        return words == "True"
    if pd.api.types.is_numeric_dtype(like.dtype):
        return float(words)
    return pd.Timestamp(words) if like.dtype.kind == "M" else words


def test_a_row_with_the_shown_values_put_into_it_is_normal(table, run, fitted):
    for row in (0, 1, 3, 4, 5):  # row 6 is odd by a finding
        version = table.iloc[[row]].copy()
        assert score_without(row, fitted, version) > run.threshold
        for name, value in suggested(run)[row].items():
            version[name] = [read_back(write_plain(value), table[name])]
        assert score_without(row, fitted, version) <= run.threshold


def test_suggested_cells_occur_in_other_rows(table, run):
    for row, changes in suggested(run).items():
        others = table.drop(index=row)
        for name, value in changes.items():
            cells = {make_plain_cell(cell) for cell in others[name]}
            assert value in cells
            assert isinstance(value, {"n": int, "k": str, "flag": bool, "when": str}.get(name, (int, float)))


def test_they_are_taken_from_one_row(table, run):
    for changes in suggested(run).values():
        is_source = np.ones(len(table), dtype=bool)
        for name, value in changes.items():
            is_source &= (table[name].map(make_plain_cell) == value).to_numpy()
        assert is_source.any()


def test_every_alarm_has_a_suggestion_and_no_other_row_has(table):
    run = explain_table(table, top=30, contamination=0.1)
    assert [a.nearest_normal is not None for a in run.anomalies] == [True] * 20 + [False] * 10


def test_where_a_cell_of_the_ordinary_row_is_missing_the_usual_value_is_told(fitted, table):
    missing = int(np.flatnonzero(table["gap"].isna())[2])
    told = fitted.known_rows(np.array([missing, 0]))
    assert told["gap"].iloc[0] == pytest.approx(table["gap"].median(), abs=1e-9)
    assert told["x"].tolist() == table["x"].iloc[[missing, 0]].tolist()


def test_rows_of_a_separate_reference_are_told_by_their_numbers():
    rng = np.random.default_rng(0)
    reference = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc"))
    scored = pd.DataFrame(rng.normal(size=(5, 3)), columns=list("abc"))
    selection = replace(select(as_table(scored), Request()), reference=reference, own=None, is_clean=True)
    fitted = fit_table(selection, TableEncoder().fit(reference), "auto", generator(0))
    told = fitted.known_rows(np.array([7, 2, 5, 7]))
    seen = reference.iloc[fitted.sample]  # in the order in which the detector saw them
    expected = [seen.iloc[2], scored.iloc[2], seen.iloc[0], seen.iloc[2]]
    assert told["b"].tolist() == [row["b"] for row in expected]


def test_a_method_that_scores_rows_with_themselves_changes_no_suggestion_rule(table, fitted):
    """Which rows are odd is told by the ranking, whatever the explaining method takes for the row's score."""
    run = explain_table(table, top=5, method="Occlusion")
    assert {a.row for a in run.anomalies[:5]} <= set(range(7))
    for anomaly in run.anomalies[:5]:
        version = table.iloc[[anomaly.row]].assign(**{k: [v] for k, v in anomaly.nearest_normal.items()})
        assert score_without(anomaly.row, fitted, version) <= run.threshold


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
    assert first[1].feature == "day"
    assert first[1].text.startswith("day = 28.11.2031 lies in the future")


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
