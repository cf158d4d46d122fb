"""Two tables compared within segments: more rows of one country are no drift of prices."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidParameter
from tellwhy.kinds.drift import find_shared_segments
from tellwhy.workflow import diff_tables


def orders(n_german, n_french, rng, german=20.0):
    prices = np.r_[rng.normal(german, 2, n_german), rng.normal(40, 2, n_french)]
    lands = ["DE"] * n_german + ["FR"] * n_french
    return pd.DataFrame({"country": lands, "price": prices, "weight": rng.normal(size=len(lands))})


def test_what_follows_from_the_mix_is_told_of_the_mix_alone():
    rng = np.random.default_rng(0)
    old, new = orders(300, 700, rng), orders(700, 300, rng)
    assert [drift.column for drift in diff_tables(old, new).drifted] == ["price", "country"]
    assert [drift.name for drift in diff_tables(old, new, by=["country"]).drifted] == ["country"]


def test_what_changed_in_one_country_is_told_of_it():
    rng = np.random.default_rng(0)
    found = diff_tables(orders(400, 600, rng), orders(400, 600, rng, german=25.0), by=["country"])
    (drift,) = found.drifted
    assert (drift.name, drift.segment) == ("price where country = DE", "country = DE")
    assert drift.text.startswith("median ")
    assert {each.segment for each in found.drifts if each.column == "weight"} == {
        "country = DE",
        "country = FR",
    }


def test_every_comparison_is_corrected_for_their_number():
    rng = np.random.default_rng(0)
    found = diff_tables(orders(100, 100, rng), orders(100, 100, rng), by=["country"])
    assert len(found.drifts) == 5  # the country, and two columns in each of two countries
    least = min(found.drifts, key=lambda drift: drift.p_value)
    assert least.p_adjusted == pytest.approx(min(1.0, 5 * least.p_value))


def test_segments_have_rows_in_both_tables_and_labels_as_people_write_them():
    old = pd.DataFrame({"plan": [1.0] * 40 + [2.0] * 40 + [np.nan] * 5, "land": ["DE"] * 60 + ["FR"] * 25})
    new = old.iloc[:62]
    (segment,) = find_shared_segments(old, new, ["plan"])
    assert segment.words == "plan = 1"
    assert (segment.old.tolist(), segment.new.tolist()) == (list(range(40)), list(range(40)))
    assert [each.words for each in find_shared_segments(old, old, ["land", "plan"])] == [
        "land = DE and plan = 1"
    ]


def test_what_cannot_be_compared_by_is_refused():
    rng = np.random.default_rng(0)
    old = orders(100, 100, rng)
    with pytest.raises(InvalidParameter, match="'city'"):
        diff_tables(old, old, by=["city"])
    with pytest.raises(InvalidParameter, match="fewer values"):
        diff_tables(old, old, by=["weight"])
