"""Which method to trust: measured on rows that the detector has not seen, told in one sentence."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.params import generator
from tellwhy.kinds import comparison as table_comparison
from tellwhy.kinds.comparison import _split, _take_least_odd, compare_table, recommend


def test_rows_to_change_are_not_learned_from():
    for n, n_rows in ((90, 100), (1_000, 100), (31, 10)):
        learned, held_out = _split(n, n_rows, generator(0))
        assert not set(learned) & set(held_out)
        assert set(learned) | set(held_out) == set(range(n))
        assert len(held_out) == min(2 * n_rows, n // 3)
        assert (np.diff(learned) > 0).all()


def test_the_least_odd_rows_are_changed():
    rows = pd.DataFrame({"a": [5.0, 1.0, 4.0, 0.0, 9.0]})
    found = _take_least_odd(rows, rows["a"].to_numpy(), 3)
    assert found.index.tolist() == [1, 2, 3]


def measured(*lines):
    return pd.DataFrame(lines, columns=["method", "mrr", "mrr_low", "mrr_high"])


RANDOM = ("RandomAttribution", 0.4, 0.35, 0.45)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            [("A", 0.9, 0.85, 0.95), ("B", 0.6, 0.5, 0.7)],
            "A finds the changed column best (mean reciprocal rank 0.90).",
        ),
        (
            [("A", 0.9, 0.85, 0.95), ("B", 0.88, 0.8, 0.91), ("C", 0.87, 0.8, 0.89), ("D", 0.86, 0.8, 0.9)],
            "A finds the changed column best (mean reciprocal rank 0.90); B, D may be just as good.",
        ),
        (
            [("A", 0.5, 0.44, 0.6)],
            "No method finds the changed columns better than a random order: trust none of them on this data.",
        ),
        ([("A", 0.5, 0.46, 0.6)], "A finds the changed column best (mean reciprocal rank 0.50)."),
        ([("A", np.nan, np.nan, np.nan)], "No method could be measured on this data."),
    ],
)
def test_the_recommendation(lines, words):
    assert recommend(measured(*lines, RANDOM)).text == words
    assert recommend(measured(RANDOM, *lines)).text == words


def test_what_to_know_of_the_table_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(table_comparison, "compare", lambda *_, **__: measured(RANDOM))
    rows = np.random.default_rng(0).normal(size=(40, 2)).round(3)
    frame = pd.DataFrame(rows, columns=["a", "b"]).assign(constant=7)
    frame.to_csv(tmp_path / "t.csv", sep=";", index=False)
    found = compare_table(tmp_path / "t.csv", n_rows=5)
    assert found.notices[0] == "Columns are separated by semicolons."
    assert any("'constant'" in text for text in found.notices[1:])
    assert (found.n_rows, found.source) == (5, str(tmp_path / "t.csv"))
