"""Columns that never varied in the reference: another value in them is news."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.checks import check_table
from tellwhy.data.columns.roles import read_columns
from tellwhy.workflow import explain_new, explain_table, fit_model


def tables(n=60):
    rng = np.random.default_rng(0)
    old = pd.DataFrame({"x": rng.normal(size=n), "unit": "kg", "factor": 1.0, "is_new": True})
    new = old.assign(x=rng.normal(size=n), factor=1)
    return old, new


def found(old, new):
    known = read_columns(old)
    read = read_columns(new, roles=known.roles)
    findings = check_table(read.frame, known.roles, reference=known.frame).findings
    return {f.columns[0]: (f.rows, f.surprise > 0) for f in findings if f.kind == "new_level"}


def test_another_value_is_news_and_the_same_one_is_not():
    old, new = tables()
    assert found(old, new) == {}
    new = new.astype({"factor": float, "unit": object, "is_new": object})
    new.loc[3, "unit"] = "lb"
    new.loc[[5, 9], "factor"] = 2.5
    new.loc[7, "is_new"] = False
    assert found(old, new) == {"unit": ((3,), True), "factor": ((5, 9), True), "is_new": ((7,), True)}


def test_a_new_constant_makes_no_row_odd():
    old, new = tables()
    assert found(old, new.assign(unit="lb")) == {"unit": (tuple(range(60)), False)}
    few, _ = tables(2)
    assert found(few, new.assign(unit=["lb"] + ["kg"] * 59))["unit"] == ((0,), False)


def test_a_gap_is_no_other_value():
    old, new = tables()
    new.loc[4, "unit"] = None
    assert found(old, new) == {}


@pytest.mark.filterwarnings("ignore")
def test_every_way_tells_it():
    old, new = tables()
    new.loc[3, "unit"] = "lb"
    for run in (explain_table(new, reference=old), explain_new(fit_model(old), new)):
        told = next(anomaly for anomaly in run.anomalies if anomaly.row == 3)
        assert told.above_threshold
        assert told.reasons[0].feature == "unit"
