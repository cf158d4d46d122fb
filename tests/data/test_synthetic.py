from __future__ import annotations

import numpy as np
import pytest

from tellwhy.core.errors import InvalidParameter
from tellwhy.data import gaussian_mixture
from tellwhy.data.synthetic import ANOMALIES


@pytest.mark.parametrize("kind", ANOMALIES)
def test_shape_share_and_seed(kind):
    X, y = gaussian_mixture(500, 6, 2, contamination=0.1, anomalies=kind, random_state=3)
    assert X.shape == (500, 6)
    assert y.sum() == 50
    assert 0 < y[:250].sum() < 50  # in random order
    again, _ = gaussian_mixture(500, 6, 2, contamination=0.1, anomalies=kind, random_state=3)
    np.testing.assert_array_equal(X, again)


def nearest_distance(rows, others):
    return np.sqrt(((rows[:, None] - others[None]) ** 2).sum(axis=2)).min(axis=1)


@pytest.mark.parametrize("kind", ANOMALIES)
def test_anomalies_lie_farther_from_normal_rows(kind):
    X, y = gaussian_mixture(1000, 5, 2, contamination=0.1, anomalies=kind, random_state=0)
    normal, odd = X[y == 0], X[y == 1]
    usual = nearest_distance(normal[:300], normal[300:])
    assert np.median(nearest_distance(odd, normal)) > 1.5 * np.median(usual)


def test_broken_dependencies_have_ordinary_single_values():
    X, y = gaussian_mixture(800, 4, 3, contamination=0.2, anomalies="dependency", random_state=0)
    for column in range(4):
        assert np.isin(X[y == 1, column], X[y == 0, column]).all()


def test_no_anomalies_and_bad_parameters():
    assert gaussian_mixture(50, 2, contamination=0, random_state=0)[1].sum() == 0
    with pytest.raises(InvalidParameter, match="'anomalies' parameter of gaussian_mixture"):
        gaussian_mixture(50, 2, anomalies="strange")
    with pytest.raises(InvalidParameter, match="'contamination'"):
        gaussian_mixture(50, 2, contamination=1.0)
