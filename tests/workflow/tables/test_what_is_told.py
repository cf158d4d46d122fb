"""The sentences, counts and names of a run."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.explanation import Explanation
from tellwhy.kinds.table_result import average_shares
from tellwhy.workflow import explain_table


def make_table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    table.loc[[10, 11], "b"] = [14.0, -15.0]
    return table.assign(
        name=[f"row {i}" for i in range(n)], batch=np.where(np.arange(n) < n // 2, "old", "new")
    )


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def run(table):
    return explain_table(table, id_column="name", top=6, exclude=["batch"])


def test_each_anomaly_is_about_its_own_row(table, run):
    assert len(run.anomalies) >= 6
    for anomaly in run.anomalies:
        assert anomaly.id == f"row {anomaly.row}"
        assert anomaly.score == run.scores[anomaly.row]
        assert anomaly.above_threshold == (anomaly.score > run.threshold)
        for reason in anomaly.reasons:
            assert reason.value == table.loc[anomaly.row, reason.feature]
    rows = [a.row for a in run.anomalies]
    np.testing.assert_array_equal(run.explanation.data[run.columns], table.loc[rows, run.columns])
    np.testing.assert_allclose(run.explanation.scores, [a.score for a in run.anomalies])


def test_a_row_whose_score_is_the_threshold_is_not_above_it():
    """Of 101 rows, the highest tenth is drawn at the score of a row."""
    run = explain_table(make_table(101)[["a", "b", "c"]], contamination=0.1, top=20)
    assert run.anomalies[10].score == run.threshold
    assert [a.above_threshold for a in run.anomalies] == [True] * 10 + [False] * 10
    assert run.anomalies[10].nearest_normal is None


def test_shares_are_those_of_the_score(run):
    shares = run.explanation.shares() * (1 - np.array([a.unattributed for a in run.anomalies]))[:, None]
    for i, anomaly in enumerate(run.anomalies):
        for reason in anomaly.reasons:
            c = run.columns.index(reason.feature)
            assert reason.share == pytest.approx(shares[i, c])
            if " with " not in reason.text:  # a pair has the shares of both
                assert reason.text.endswith(f"· {100 * shares[i, c]:.0f} %")
        assert anomaly.unattributed == pytest.approx(
            np.clip(run.explanation.residual[i] / run.explanation.scores[i], 0, 1)
        )


def test_columns_are_ranked_by_their_mean_share(run):
    mean = run.explanation.shares().mean(axis=0)
    assert list(run.column_shares) == [run.columns[c] for c in np.argsort(-mean)]
    np.testing.assert_allclose(list(run.column_shares.values()), np.sort(mean)[::-1] / mean.sum())
    nothing = np.vstack([np.zeros(3), [[1.0, 3.0, 0.0]]])  # a row without shares takes none from the others
    halves = Explanation(values=nothing, scores=nothing.sum(axis=1), feature_names=list("abc"), method="M")
    assert average_shares(halves) == {"b": 0.75, "a": 0.25, "c": 0.0}
    assert list(average_shares(run.explanation[:1])) == [
        run.columns[c] for c in np.argsort(-run.explanation.shares()[0])
    ]


def test_the_summary_counts_what_was_done(table, run):
    assert run.summary == (
        "120 rows of pandas.DataFrame were compared with all rows of the table in 3 columns by a committee "
        "of six simple detectors; explained by CommitteeShares."
    )
    one = explain_table(table.iloc[:60], normal="batch=old", id_column="name", contamination=1 / 60, top=1)
    assert "compared with the rows with batch = old in 3 columns" in one.summary


def test_settings_are_as_asked_and_as_used(run):
    assert run.settings["id_column"] == "name"
    assert run.settings["top"] == 6
    assert run.settings["exclude"] == ["batch"]
    assert run.settings["method"] == "CommitteeShares"
    assert run.settings["rows_learned_from"] == 120
    assert run.settings["reference"] == "all rows of the table"
    assert run.settings["seed"] == 0
    assert "random_state" not in run.settings
    other = explain_table(make_table(), top=1, exclude=["name", "batch"], random_state=7)
    assert other.settings["seed"] == 7
    assert run.settings["detector"].startswith("committee of six")


def test_what_is_usual_is_what_the_reference_has(table):
    run = explain_table(table, normal="batch=old", id_column="name", top=3)
    old = table.loc[table["batch"] == "old", "b"]
    np.testing.assert_allclose(
        run.typical["b"].quantiles, np.quantile(old, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1])
    )
    other = make_table(seed=1)[["a", "b", "c"]] + 50.0
    apart = explain_table(table[["a", "b", "c"]], reference=other, top=3)
    assert apart.typical["a"].quantiles[3] == pytest.approx(other["a"].median())
    assert apart.anomalies[0].reasons[0].typical == [
        pytest.approx(other[apart.anomalies[0].reasons[0].feature].quantile(q)) for q in (0.05, 0.95)
    ]


def test_a_sample_is_stated_with_both_numbers():
    rows = np.random.default_rng(1).normal(size=(6_000, 2))
    run = explain_table(rows, top=1)
    assert "The detector learned from a random 5,000 of 6,000 reference rows." in run.notes
    assert "all rows of the table (a random 5,000 of them)" in run.summary
    few = explain_table(rows[:100], top=1)
    assert not any("random" in text for text in [*few.notes, few.summary])


def test_how_a_file_was_read_is_told_first(table, tmp_path):
    table[["a", "b"]].round(3).to_csv(tmp_path / "t.csv", sep=";", decimal=",", index=False)
    run = explain_table(tmp_path / "t.csv", top=1)
    assert run.notes[0] == "Columns are separated by semicolons."
    assert run.notes[1].startswith("Numbers have a decimal comma (")


def test_what_was_left_out_or_filled_in_is_told(table):
    gaps = table.assign(a=table["a"].where(np.arange(120) % 4 > 0), constant=7)
    run = explain_table(gaps, id_column="name", top=1)
    assert any("'constant'" in text for text in run.notes)
    assert any("'a'" in text and "30" in text for text in run.notes)
    apart = explain_table(gaps.iloc[:40], reference=table.assign(constant=7), id_column="name", top=1)
    assert any(
        text.startswith("In the scored rows: ") and "'a'" in text and "10" in text for text in apart.notes
    )


def test_ids_are_written_as_a_person_would():
    table = make_table().assign(name=np.arange(120) + 1000.0)
    run = explain_table(table, id_column="name", top=2, exclude=["batch"])
    assert {a.id for a in run.anomalies[:2]} == {"1010", "1011"}
    assert explain_table(table, top=1, exclude=["batch", "name"]).anomalies[0].id is None


def test_the_same_seed_gives_the_same_run(table, run):
    again = explain_table(table, id_column="name", top=6, exclude=["batch"])
    assert again.anomalies == run.anomalies
    assert again.evidence == run.evidence
    assert again.fingerprint == run.fingerprint
    changed = table.assign(c=table["c"].where(table.index != 100, 0.5))
    assert explain_table(changed, id_column="name", top=6, exclude=["batch"]).fingerprint != run.fingerprint


def test_the_order_of_rows_changes_nothing_but_row_numbers(table, run):
    order = np.random.default_rng(0).permutation(len(table))
    shuffled = explain_table(table.iloc[order], id_column="name", top=6, exclude=["batch"])
    assert [a.id for a in shuffled.anomalies] == [a.id for a in run.anomalies]
    assert [order[a.row] for a in shuffled.anomalies] == [a.row for a in run.anomalies]
    np.testing.assert_allclose(shuffled.scores, run.scores[order])
