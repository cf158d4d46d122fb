"""Kernels and distances against plain arithmetic, arc-cosine kernels against their recursion."""

import numpy as np
import pytest
from oracles.basis_oracles import arc_cosine_kernel

from tellwhy.kernels import ArcCosine, Exponential, Linear, StudentT, is_positive_definite
from tellwhy.kernels.distances import ScaledPoints, centre_and_unit


@pytest.mark.parametrize("q", [1, 1.5, 2, 4])
def test_kernels_equal_their_formulas(q):
    r = np.array([0.0, 0.3, 1.0, 2.5])
    s = (r / 1.7) ** 2
    np.testing.assert_allclose(Exponential(1.7, q).of_squared(s), np.exp(-((r / 1.7) ** q) / q), rtol=1e-14)
    np.testing.assert_allclose(StudentT(1.7, q, 0.4).of_squared(s), 1 / (0.4 + (r / 1.7) ** q), rtol=1e-14)
    assert Exponential(1.7, q).at_zero == 1
    assert StudentT(1.7, q, 0.4).at_zero == pytest.approx(2.5)


def test_positive_definite_up_to_q_2():
    points = np.random.default_rng(0).normal(size=(100, 3))
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    for kernel in (Exponential(1.0, 1), Exponential(1.0, 2), StudentT(1.0, 2)):
        assert is_positive_definite(kernel)
        assert np.linalg.eigvalsh(kernel.of_squared(squared)).min() > -1e-9
    assert not is_positive_definite(Exponential(1.0, 4))
    assert np.linalg.eigvalsh(Exponential(1.0, 4).of_squared(squared)).min() < -0.1
    assert is_positive_definite(Linear())


@pytest.mark.parametrize(("offset", "spread"), [(0, 1), (1e9, 1), (0, 1e8), (-1e12, 1e5)])
def test_squared_distances_keep_their_digits(offset, spread):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(3, 4)) * spread
    points = centres[rng.integers(3, size=30)] + rng.normal(size=(30, 4)) + offset
    rows = np.vstack([points[:5], points[:5] + rng.normal(size=(5, 4)) * 1e-3])
    scaled = ScaledPoints.of(points, 2.0)
    exact = ((rows[:, None] - points[None]) ** 2).sum(axis=2) / 4.0
    found = scaled.squared_distances(scaled.rescale(rows))
    resolution = (np.finfo(float).eps * (abs(offset) + spread)) * 4 * np.sqrt(exact)
    assert (np.abs(found - exact) <= 1e-9 * exact + resolution).all()
    assert (np.diagonal(found[:5, :5]) == 0).all()


def test_centre_and_unit_do_not_overflow():
    rows = np.array([[1.7e308, 0.0], [-1.7e308, 0.0], [1.7e308, 1.0]])
    centre, unit = centre_and_unit(rows[:, 1:])
    assert (centre[0], unit) == pytest.approx((1 / 3, 2 / 3))
    assert np.isfinite(centre_and_unit(rows[[0, 0]])[0]).all()
    assert centre_and_unit(np.ones((3, 2)))[1] == 1.0


RNG = np.random.default_rng(0)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_values_are_those_of_the_recursion(depth):
    X, Y = 3.0 * RNG.normal(size=(5, 4)), RNG.normal(size=(6, 4))
    exact = [[arc_cosine_kernel(x, y, depth) for y in Y] for x in X]
    np.testing.assert_allclose(ArcCosine(depth).between(X, Y), exact, rtol=1e-10)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_row_with_itself_gives_its_squared_length(depth):
    X = 10.0 * RNG.normal(size=(8, 3))
    np.testing.assert_allclose(np.diagonal(ArcCosine(depth).between(X, X)), (X**2).sum(axis=1), rtol=1e-6)
    assert ArcCosine(depth).between(np.zeros((1, 3)), X).tolist() == [[0.0] * 8]
    eigenvalues = np.linalg.eigvalsh(ArcCosine(depth).between(X, X))
    assert eigenvalues.min() > -1e-6 * eigenvalues.max()
