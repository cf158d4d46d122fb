"""Arc-cosine kernels against the recursion, one pair at a time."""

import numpy as np
import pytest
from oracles.basis_oracles import arc_cosine_kernel

from tellwhy.kernels import ArcCosine

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
