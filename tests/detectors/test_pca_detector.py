"""Principal components: the error, how many components, training rows left out, and what is refused."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from tellwhy.core.errors import InvalidInput
from tellwhy.detectors import PCADetector
from tellwhy.detectors.pca_detector import find_principal_axes

RNG = np.random.default_rng(0)
X = (
    RNG.normal(size=(120, 6))
    @ np.diag([9.0, 5.0, 3.0, 1.0, 0.5, 0.1])
    @ np.linalg.qr(RNG.normal(size=(6, 6)))[0]
)
NEW = 3 * RNG.normal(size=(20, 6))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_error_is_that_of_scikit_learns_pca(k):
    model = PCA(k).fit(X)
    expected = ((NEW - model.inverse_transform(model.transform(NEW))) ** 2).sum(axis=1)
    np.testing.assert_allclose(PCADetector(k).fit(X).outlierness(NEW), expected, rtol=1e-9)


def test_share_of_the_variance():
    shares = np.cumsum(PCA().fit(X).explained_variance_ratio_)
    for share in (0.5, 0.9, 0.99):
        detector = PCADetector(share).fit(X)
        assert len(detector.projection_.components) == np.searchsorted(shares, share) + 1
        assert detector.explained_ >= share


@pytest.mark.parametrize("rows", [X, X[:5], X[:, :1]])
def test_one_direction_is_always_left_out(rows):
    detector = PCADetector(0.9999999).fit(rows)
    assert len(detector.projection_.components) <= rows.shape[1] - 1
    assert detector.outlierness(NEW[:, : rows.shape[1]]).min() > 0


@pytest.mark.parametrize("seed", range(8))
def test_a_share_that_is_reached_but_for_rounding_is_reached(seed):
    corners = np.array([[3.0, 0, 0], [-3.0, 0, 0], [0, 0.7, 0], [0, -0.7, 0], [0, 0, 0.7], [0, 0, -0.7]])
    corners[2:] *= np.sqrt(0.5 / 0.49)  # variances 9 to 0.5 to 0.5: the first holds exactly nine tenths
    turned = corners @ np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    detector = PCADetector(0.9).fit(turned)
    assert len(detector.projection_.components) == 1
    assert detector.explained_ == pytest.approx(0.9, rel=1e-9)


@pytest.mark.parametrize("n", [8, 120])
def test_axes_by_either_route(n):
    """More rows than columns: eigenvectors of the covariance; fewer: singular vectors of the rows."""
    found = find_principal_axes(X[:n] + 1e6)
    expected = np.linalg.svd(X[:n] - X[:n].mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(found.variances, expected.S**2 / n, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.abs((found.axes * expected.Vh).sum(axis=1)), 1.0, rtol=1e-6)
    np.testing.assert_allclose(found.mean, X[:n].mean(axis=0) + 1e6, rtol=1e-14)


def test_thresholds_hold_for_new_rows_where_there_are_as_many_columns_as_rows():
    rng = np.random.default_rng(1)
    rows, new = rng.normal(size=(60, 50)), rng.normal(size=(1000, 50))
    detector = PCADetector(30, contamination=0.1).fit(rows)
    assert 0.04 < (detector.predict(new) == -1).mean() < 0.25
    assert (detector.outlierness(new) > np.quantile(detector.outlierness(rows), 0.9)).mean() > 0.6


def test_squares_that_would_overflow_are_refused():
    for factor in (1e200, 1e-200):
        with pytest.raises(InvalidInput, match="Scale the columns first"):
            PCADetector().fit(X * factor)


def test_gradient_and_projection():
    score = PCADetector(2).fit(X).to_score()
    assert score.projection.components.shape == (2, 6)
    residual = NEW - score.projection.mean
    residual = residual - residual @ score.projection.components.T @ score.projection.components
    np.testing.assert_allclose(score.gradient(NEW), 2 * residual, rtol=1e-12)
