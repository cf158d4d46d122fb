"""Pairs of cells in words."""

from dataclasses import replace

import numpy as np
import pandas as pd

from tellwhy.results.result import Reason
from tellwhy.verdicts.words import measure_pair


def cell(feature, value):
    return Reason(feature, value, [], 0.5)


def pair_words(one, other, rows):
    return replace(one, kind="pair", facts=measure_pair(one, other, rows), is_share=False).text


def test_labels_are_counted_together():
    rows = pd.DataFrame({"country": ["US"] * 60 + ["DE"] * 40, "pay": ["card"] * 58 + ["invoice"] * 42})
    words = pair_words(cell("pay", "invoice"), cell("country", "US"), rows)
    assert words == "pay = invoice with country = US: 2 of 100 rows"


def test_a_number_is_compared_with_the_rows_that_share_the_label():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"kind": ["small"] * 200 + ["large"] * 200})
    rows["weight"] = np.concatenate([rng.uniform(1, 2, 200), rng.uniform(100, 200, 200)])
    words = pair_words(cell("weight", 150.0), cell("kind", "small"), rows)
    low, high = np.quantile(rows["weight"][:200], [0.05, 0.95])
    assert words == f"weight = 150 with kind = small (there usually {low:.3f}–{high:.3f})"


def test_a_number_is_compared_with_the_rows_whose_other_number_is_near():
    x = np.linspace(0.0, 1.0, 1_000)
    rows = pd.DataFrame({"load": x, "power": 100.0 * x})
    words = pair_words(cell("power", 90.0), cell("load", 0.5), rows)
    assert words == "power = 90 with load = 0.5 (there usually 47.79–52.21)"


def test_nothing_is_claimed_from_few_rows_or_for_missing_cells():
    rows = pd.DataFrame({"kind": ["a"] * 5 + ["b"] * 95, "weight": np.arange(100.0)})
    assert pair_words(cell("weight", 3.0), cell("kind", "a"), rows) == "weight = 3 with kind = a"
    assert pair_words(cell("weight", None), cell("kind", "a"), rows) == "weight = missing with kind = a"
