from __future__ import annotations

import numpy as np
import pytest

from tellwhy.core.errors import InvalidParameter
from tellwhy.data import gaussian_mixture
from tellwhy.data.generated import ANOMALIES


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


def test_scattered_anomalies_fill_the_box_of_normal_rows_and_a_tenth_around_it():
    X, y = gaussian_mixture(6000, 3, contamination=0.5, random_state=0)
    normal, odd = X[y == 0], X[y == 1]
    span = normal.max(axis=0) - normal.min(axis=0)
    below = (normal.min(axis=0) - odd.min(axis=0)) / span
    above = (odd.max(axis=0) - normal.max(axis=0)) / span
    for reach in (below, above):
        np.testing.assert_allclose(reach, 0.1, atol=0.005)


def test_spreads_of_clusters_and_of_local_anomalies():
    """Standard deviations from 0.2 to 1.5 along a cluster's own directions; threefold for anomalies."""
    found = []
    for seed in range(5):
        X, y = gaussian_mixture(8000, 6, 1, contamination=0.5, anomalies="local", random_state=seed)
        variances, directions = np.linalg.eigh(np.cov(X[y == 0].T))
        found += np.sqrt(variances).tolist()
        odd = ((X[y == 1] - X[y == 0].mean(axis=0)) @ directions).std(axis=0)
        np.testing.assert_allclose(odd, 3 * np.sqrt(variances), rtol=0.1)
    assert 0.19 < min(found) < 0.25
    assert 1.2 < max(found) < 1.55


def test_no_anomalies_and_bad_parameters():
    assert gaussian_mixture(50, 2, contamination=0, random_state=0)[1].sum() == 0
    with pytest.raises(InvalidParameter, match="'anomalies' parameter of gaussian_mixture"):
        gaussian_mixture(50, 2, anomalies="strange")
    with pytest.raises(InvalidParameter, match="'contamination'"):
        gaussian_mixture(50, 2, contamination=1.0)
