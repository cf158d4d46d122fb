"""Marginal energies against plain loops, for mixtures, kernels and reconstructions."""

import numpy as np
import pytest
from oracles import baseline_oracles as oracle
from oracles.one_class import without
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tellwhy.detectors import KernelDensity, OneClassSVM
from tellwhy.explainers import Marginal
from tellwhy.scoring import as_score

RNG = np.random.default_rng(0)
SHAPE = np.array([[2.0, 1.2, 0.3], [0.0, 1.0, 0.8], [0.0, 0.0, 0.5]])
X = np.concatenate([RNG.normal(size=(80, 3)) @ SHAPE, RNG.normal(size=(40, 3)) @ SHAPE[::-1] + 4.0])
NEW = RNG.normal(size=(7, 3)) * 4


def parts(model):
    mixture = as_score(model).mixture
    return mixture.weights, mixture.means, mixture.covariances


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_mixture_marginals_come_from_blocks_of_the_covariance(covariance):
    model = GaussianMixture(3, covariance_type=covariance, random_state=0).fit(X)
    found = Marginal(model).explain(NEW)
    expected = [[oracle.mixture_energy(x, [i], *parts(model)) for i in range(3)] for x in NEW]
    np.testing.assert_allclose(found.values, expected, rtol=1e-10)
    assert (found.kind, found.residual) == ("ranking", None)


def test_blocks_of_the_precision_would_give_other_energies():
    model = GaussianMixture(2, random_state=0).fit(X)
    found = Marginal(model).explain(NEW).values
    wrong = [[oracle.precision_block_energy(x, [i], *parts(model)) for i in range(3)] for x in NEW]
    assert np.abs(found - wrong).max() > 1.0
    uncorrelated = GaussianMixture(2, covariance_type="diag", random_state=0).fit(X)
    same = [[oracle.precision_block_energy(x, [i], *parts(uncorrelated)) for i in range(3)] for x in NEW]
    np.testing.assert_allclose(Marginal(uncorrelated).explain(NEW).values, same, rtol=1e-10)


def test_one_feature_has_the_energy_of_the_whole_score():
    for model in (
        GaussianMixture(2, random_state=0),
        BayesianGaussianMixture(n_components=2, random_state=0),
    ):
        found = Marginal(model.fit(X[:, :1])).explain(NEW[:, :1])
        np.testing.assert_allclose(found.values[:, 0], found.scores, rtol=1e-10)


@pytest.mark.parametrize("detector", [OneClassSVM(nu=0.3), KernelDensity(bandwidth=0.7)])
def test_kernel_marginals_and_rows_that_were_trained_on(detector):
    expansion = detector.fit(X).expansion_
    found = Marginal(detector).explain(NEW)
    for x, values in zip(NEW, found.values, strict=True):
        parts_of = (expansion.points, expansion.weights, expansion.kernel.bandwidth)
        expected = [oracle.kernel_energy(x, [i], *parts_of) for i in range(3)]
        np.testing.assert_allclose(values, expected, rtol=1e-10)
    own = expansion.training_rows[:4]
    trained = Marginal(detector).explain(X[own])
    for j, values in enumerate(trained.values):
        kept = without(j, expansion.points, expansion.weights)
        expected = [oracle.kernel_energy(X[own[j]], [i], *kept, expansion.kernel.bandwidth) for i in range(3)]
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12)
    assert trained.extras["left_out"].tolist() == own.tolist()


def test_constants_of_a_density_are_spread_over_the_features():
    from sklearn.neighbors import KernelDensity as SklearnDensity

    model = SklearnDensity(bandwidth=0.5).fit(X)
    found = Marginal(model).explain(NEW).values
    weights = np.full(len(X), 1 / len(X))
    for x, values in zip(NEW, found, strict=True):
        for i in range(3):
            expected = oracle.kernel_energy(x, [i], X, weights, 0.5) + 0.5 * np.log(2 * np.pi * 0.25)
            np.testing.assert_allclose(values[i], expected, rtol=1e-10)


def test_reconstruction_errors_add_up_to_the_score():
    model = PCA(1).fit(X)
    found = Marginal(model).explain(NEW)
    rebuilt = model.inverse_transform(model.transform(NEW))
    np.testing.assert_allclose(found.values, (NEW - rebuilt) ** 2, rtol=1e-10)
    assert found.kind == "attribution"
    np.testing.assert_allclose(found.residual, 0, atol=1e-12 * found.scores.max())


def test_units_of_a_column_shift_its_energy_and_nothing_else():
    model, factor = GaussianMixture(1, reg_covar=0.0).fit(X), np.array([1.0, 1000.0, 0.01])
    scaled = GaussianMixture(1, reg_covar=0.0).fit(X * factor)
    shift = Marginal(scaled).explain(NEW * factor).values - Marginal(model).explain(NEW).values
    np.testing.assert_allclose(shift, np.tile(np.log(factor), (len(NEW), 1)), rtol=1e-9, atol=1e-9)


def test_columns_made_from_one_are_looked_at_together():
    colours = RNG.choice(["red", "blue", "green"], size=(len(X), 1))
    table = np.concatenate([colours.astype(object), X.astype(object)], axis=1)
    encode = make_column_transformer((OneHotEncoder(sparse_output=False), [0]), (StandardScaler(), [1, 2, 3]))
    model = make_pipeline(encode, GaussianMixture(2, reg_covar=1e-2, random_state=0)).fit(table)
    found = Marginal(model).explain(table[:5])
    encoded = encode.transform(table[:5]).astype(float)
    blocks = [[0, 1, 2], [3], [4], [5]]
    expected = [[oracle.mixture_energy(x, block, *parts(model[-1])) for block in blocks] for x in encoded]
    np.testing.assert_allclose(found.values, expected, rtol=1e-9)
