"""What changed between two tables, as fit, judge and tell: one model, one file, one result."""

from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

import tellwhy
from tellwhy.core.errors import InvalidParameter
from tellwhy.kinds.two_tables import read_difference
from tellwhy.results.store import load_result, save_result
from tellwhy.views.page.drift import render_drift
from tellwhy.workflow import diff_tables

RNG = np.random.default_rng(0)


def orders(n, shift=0.0):
    return pd.DataFrame(
        {
            "price": RNG.normal(20 + shift, 2, n),
            "size": RNG.normal(size=n),
            "country": RNG.choice(["DE", "FR", "PL"], n),
            "paid": RNG.choice([True, False], n),
            "day": pd.date_range("2024-01-01", periods=n, freq="h").astype(str),
            "gaps": np.where(RNG.random(n) < 0.1, np.nan, RNG.normal(size=n)),
        }
    )


OLD, NEW = orders(500), orders(400, shift=5.0).drop(columns="size").assign(extra=1.0)


def assert_same(one, other):
    """Differences, field by field."""
    assert {f.name: getattr(one, f.name) for f in fields(one)} == {
        f.name: getattr(other, f.name) for f in fields(other)
    }


def test_fit_and_judge_say_what_the_one_call_says():
    model = tellwhy.fit(OLD, kind="drift")
    found = tellwhy.judge(model, NEW)
    whole = diff_tables(OLD, NEW)
    assert_same(read_difference(found), whole)
    assert [a.part.column for a in found.anomalies] == ["price"]
    assert found.anomalies[0].p_value < 1e-6
    assert (whole.gone_columns, whole.new_columns) == (["size"], ["extra"])


def test_the_model_from_its_file_says_the_same(tmp_path):
    model = tellwhy.fit(OLD, kind="drift")
    again = tellwhy.load(model.save(tmp_path / "january.tellwhy"))
    for asked in ({}, {"by": ["country"]}):
        before, after = (read_difference(tellwhy.judge(each, NEW, **asked)) for each in (model, again))
        assert_same(before, after)
    assert {drift.segment for drift in after.drifted} == {f"country = {c}" for c in ("DE", "FR", "PL")}


def test_a_result_is_kept_and_told_in_every_form(tmp_path):
    found = tellwhy.judge(tellwhy.fit(OLD, kind="drift"), NEW)
    again = load_result(save_result(found, tmp_path / "run"))
    assert_same(read_difference(found), read_difference(again))
    words = tellwhy.tell(again)
    assert words.startswith("1 of ")
    assert "price: median " in words or "price: 9 rows in 10 lie in " in words
    assert tellwhy.tell(again, "html") == render_drift(read_difference(found))


def test_nothing_drifts_from_a_table_to_itself():
    found = tellwhy.judge(tellwhy.fit(OLD, kind="drift"), OLD)
    assert (found.n_flagged, list(found.anomalies)) == (0, [])
    assert found.headline[0].startswith("No column drifted from ")


def test_what_was_decided_in_fitting_stays():
    with pytest.raises(InvalidParameter, match="exclude cannot be changed after fitting"):
        tellwhy.judge(tellwhy.fit(OLD, kind="drift"), NEW, exclude=["price"])
