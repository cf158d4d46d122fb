"""`explain_table(by=…)`: odd for its segment, though not for the table."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.verdicts.run_io import record_anomaly
from tellwhy.workflow import explain_table, load_run, save_run

PAY = {"intern": (2100, 150), "clerk": (3200, 300), "engineer": (6000, 900), "manager": (9000, 1200)}


def staff(seed=0, n=1500):
    rng = np.random.default_rng(seed)
    role = rng.choice(list(PAY), size=n, p=[0.2, 0.3, 0.3, 0.2])
    middle = np.array([PAY[r][0] for r in role])
    spread = np.array([PAY[r][1] for r in role])
    return pd.DataFrame(
        {
            "role": role,
            "salary": (middle + spread * rng.normal(size=n)).round(-1),
            "hours": (38 + 3 * rng.normal(size=n)).round(1),
        }
    )


def planted(seed=0):
    frame = staff(seed)
    row = int(np.flatnonzero(frame["role"] == "intern")[5])
    frame.loc[row, "salary"] = 9000.0
    return frame, row


@pytest.mark.parametrize("seed", range(3))
def test_ordinary_overall_and_odd_for_an_intern(seed):
    frame, row = planted(seed)
    assert row not in [a.row for a in explain_table(frame).anomalies if a.above_threshold]
    run = explain_table(frame, by=["role"])
    assert [a.row for a in run.anomalies if a.above_threshold] == [row]
    first = run.anomalies[0]
    reason = first.reasons[0]
    assert (reason.feature, reason.value, reason.holds) == ("salary", 9000.0, True)
    low, high = reason.typical
    own = frame.loc[frame["role"] == "intern", "salary"]
    assert (low, high) == pytest.approx(tuple(own.quantile([0.05, 0.95])))
    assert reason.text.startswith(f"salary = 9000 (usually {low:.0f}–")
    assert "where role = intern) · " in reason.text
    assert first.segment == "role = intern"
    assert first.nearest_normal["salary"] in set(own)
    assert abs(first.nearest_normal["salary"] - 2100) < 600
    assert "role" not in run.columns


def test_odd_overall_and_ordinary_in_its_segment():
    frame = staff(4)
    rng = np.random.default_rng(0)
    head = pd.DataFrame(
        {"role": "owner", "salary": (90_000 + 9000 * rng.normal(size=30)).round(-1), "hours": 38.0}
    )
    frame = pd.concat([frame, head], ignore_index=True)
    assert not [a for a in explain_table(frame, by=["role"]).anomalies if a.above_threshold and a.row >= 1500]


@pytest.mark.parametrize("seed", range(6))
def test_a_clean_table_raises_next_to_none(seed):
    assert explain_table(staff(10 + seed), by=["role"]).n_flagged <= 1


def test_small_segments_lean_on_the_table():
    frame = staff(5)
    few = frame.iloc[:12].assign(role="guard", salary=[3000.0, 3100, 2900, 3050, 2950, 3010] * 2)
    frame = pd.concat([frame, few], ignore_index=True)
    frame.loc[1505, "salary"] = 9500.0
    run = explain_table(frame, by=["role"])
    assert run.anomalies[0].row == 1505
    reason = next(reason for reason in run.anomalies[0].reasons if reason.feature == "salary")
    low, high = reason.typical
    assert 2000 < low < 2900
    assert 3100 < high < 4500


def test_a_reference_with_other_segments():
    reference = staff(6)
    frame = staff(7, n=200)
    frame.loc[3, ["role", "salary"]] = ["astronaut", 4000.0]
    frame.loc[4, "role"] = None
    frame.loc[8, ["role", "salary"]] = ["intern", 9000.0]
    run = explain_table(frame, reference=reference, by=["role"])
    assert run.anomalies[0].row == 8
    assert any("2 rows have no role, or a new one" in notice for notice in run.notes)
    assert not [a for a in run.anomalies if a.above_threshold and a.row in (3, 4)] or run.findings


def test_several_columns_from_wide_to_narrow():
    rng = np.random.default_rng(8)
    frame = staff(8, n=4000)
    frame["land"] = rng.choice(["A", "B"], size=len(frame))
    is_rich = (frame["land"] == "B") & (frame["role"] == "clerk")
    frame.loc[is_rich, "salary"] += 4000
    row = int(np.flatnonzero((frame["land"] == "A") & (frame["role"] == "clerk"))[7])
    frame.loc[row, "salary"] = 7200.0  # as clerks of B have it
    run = explain_table(frame, by=["role", "land"])
    assert [a.row for a in run.anomalies if a.above_threshold] == [row]
    assert "where role = clerk and land = A)" in run.anomalies[0].reasons[0].text


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(InvalidInput, match=r"no column 'rolle'\. Did you mean 'role'"):
        explain_table(staff(), by=["rolle"])


def test_an_empty_column_is_no_segment():
    with pytest.raises(InvalidInput, match="is empty"):
        explain_table(staff().assign(team=None), by=["team"])


def test_a_name_per_row_is_no_segment_but_no_error():
    frame, _ = planted(1)
    frame["badge"] = [f"b{i}" for i in range(len(frame))]
    run = explain_table(frame, by=["badge"])
    assert any("have fewer than 5 rows" in notice for notice in run.notes)
    assert run.n_flagged <= 1


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_missing_cells(missing):
    frame, row = planted(2)
    frame.loc[[10, 20, 30], "hours"] = np.nan
    run = explain_table(frame, by=["role"], missing=missing)
    assert run.anomalies[0].row == row
    assert len(run.scores) == (len(frame) - 3 if missing == "drop" else len(frame))


def test_what_is_told_is_kept(tmp_path):
    frame, _ = planted(0)
    run = explain_table(frame, by=["role"], top=3)
    loaded = load_run(save_run(run, tmp_path / "run"))
    assert loaded.anomalies[0].segment == "role = intern"
    assert loaded.anomalies[0].usual["salary"].quantiles == pytest.approx(
        run.anomalies[0].usual["salary"].quantiles
    )
    assert record_anomaly(loaded.anomalies[0])["segment"] == "role = intern"
    assert "where role = intern" in (tmp_path / "run" / "anomalies.csv").read_text(encoding="utf-8-sig")
    assert run.settings["by"] == ["role"]


def test_the_order_of_rows_does_not_matter():
    frame, row = planted(0)
    order = np.random.default_rng(0).permutation(len(frame))
    one = explain_table(frame, by=["role"])
    other = explain_table(frame.iloc[order].reset_index(drop=True), by=["role"])
    assert order[other.anomalies[0].row] == one.anomalies[0].row == row
