"""Rows that a model learned from: a sample of all of them, and the range of all of them."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.detectors import GaussianMixture
from tellwhy.scoring import as_score
from tellwhy.scoring.reference_rows import MOST_ROWS, ReferenceRows, find_rows_of_reference, some_rows


def test_the_kept_rows_are_spread_over_all_rows():
    """A table sorted by time or class keeps rows of every part of it, not those at its beginning."""
    ordered = np.column_stack([np.arange(5_000.0), np.arange(5_000.0) // 1_250])
    for rows in (
        ReferenceRows.of(ordered).rows,
        some_rows(ordered),
        some_rows(pd.DataFrame(ordered)).to_numpy(),
    ):
        assert len(rows) == MOST_ROWS
        assert (rows[0, 0], rows[-1, 0]) == (0.0, 4_999.0)
        assert set(np.diff(rows[:, 0])) <= {4.0, 5.0, 6.0}
        np.testing.assert_allclose(np.bincount(rows[:, 1].astype(int)), MOST_ROWS / 4, atol=1)


def test_fewer_of_very_wide_rows():
    rows = some_rows(np.repeat(np.arange(2_000.0)[:, None], 5_000, axis=1))
    assert rows.shape == (200, 5_000)
    assert (rows[0, 0], rows[-1, 0]) == (0.0, 1_999.0)
    assert len(some_rows(np.zeros((9, 3)))) == 9


def test_the_sample_is_a_copy():
    given = np.zeros((5, 2))
    some_rows(given)[:] = 1.0
    assert not given.any()


def test_ranges_and_whole_numbers_are_those_of_all_rows():
    rows = np.zeros((5_000, 3))
    rows[3, 0], rows[4, 1], rows[6, 2] = 9.0, -9.0, 0.5  # none of them is among the rows kept
    seen = ReferenceRows.of(rows)
    assert not seen.rows.any()
    assert seen.high.tolist() == [9.0, 0.0, 0.5]
    assert seen.low.tolist() == [0.0, -9.0, 0.0]
    assert seen.whole.tolist() == [True, True, False]


@pytest.mark.parametrize("n", [50, 3_000])
def test_a_detector_keeps_a_sample_of_its_training_rows(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    kept = find_rows_of_reference(as_score(GaussianMixture().fit(X)))
    np.testing.assert_array_equal(kept.rows, some_rows(X))
