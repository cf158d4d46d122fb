"""Samples of rows: evenly spread ones from one end to the other, random ones without repeats."""

import re
from pathlib import Path

import numpy as np
import pytest

import tellwhy
from tellwhy.core.arrays import draw_sample, spread_evenly


@pytest.mark.parametrize("n", [0, 1, 2, 7, 100, 1001, 12_345])
@pytest.mark.parametrize("most", [2, 3, 100, 1000])
def test_evenly_spread_from_the_first_to_the_last(n, most):
    found = spread_evenly(n, most)
    assert len(found) == min(n, most)
    assert found.dtype == np.int64
    if n:
        assert (found[0], found[-1]) == (0, n - 1)
    gaps = np.diff(found)
    assert (gaps >= 1).all()
    assert np.ptp(gaps) <= 1 if len(gaps) else True


def test_random_samples():
    rng = np.random.default_rng(0)
    assert draw_sample(5, 5, rng).tolist() == [0, 1, 2, 3, 4]
    drawn = draw_sample(1_000, 400, rng)
    assert len(np.unique(drawn)) == 400
    assert 0 <= drawn.min() < 20
    assert 980 < drawn.max() < 1_000
    assert (np.diff(drawn) < 0).any()  # in the order they were drawn
    untouched = np.random.default_rng(0)
    np.testing.assert_array_equal(draw_sample(1_000, 400, untouched), drawn)  # all of few draws nothing


def test_nobody_spreads_rows_in_another_way():
    """A second formula for the same sample would soon give other rows."""
    folder = Path(tellwhy.__file__).parent
    formula = re.compile(r"linspace\(0, [^)\n]*- 1,|\[::\s*max\(|\.choice\([^)\n]*replace=False\)")
    allowed = {"core/arrays.py", "explainers/surrogate/sampler.py"}  # the sampler draws centres, not a sample
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if any(formula.search(line) for line in path.read_text(encoding="utf-8").splitlines())
    }
    assert found <= allowed
