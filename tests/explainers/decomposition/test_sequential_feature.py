"""Sequences of features against a loop over all candidates."""

import numpy as np
import pytest
from oracles import baseline_oracles as oracle
from oracles.one_class import without
from sklearn.decomposition import PCA
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from tellwhy.detectors import KernelDensity, OneClassSVM
from tellwhy.explainers import Marginal, SequentialFeature
from tellwhy.scoring import as_score

RNG = np.random.default_rng(0)
D = 5
MIX = RNG.normal(size=(D, D))
X = np.concatenate([RNG.normal(size=(90, D)) @ MIX, RNG.normal(size=(60, D)) @ MIX.T + 3.0])
NEW = RNG.normal(size=(8, D)) * 5


def compare(found, energy_of_row, n_picked=None):
    for r in range(len(NEW)):
        order, added = oracle.sequence(energy_of_row(NEW[r]), D, n_picked)
        assert np.argsort(-found.values[r]).tolist() == order
        np.testing.assert_allclose(found.extras["conditional_energy"][r], added, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("n_picked", [None, 1, 3, D, 99])
def test_mixtures(n_picked):
    model = GaussianMixture(3, random_state=0).fit(X)
    m = as_score(model).mixture
    found = SequentialFeature(model, n_picked=n_picked).explain(NEW)
    picked = None if n_picked is None else min(n_picked, D)
    compare(found, lambda x: lambda S: oracle.mixture_energy(x, S, m.weights, m.means, m.covariances), picked)


@pytest.mark.parametrize("n_picked", [None, 2])
@pytest.mark.parametrize("detector", [OneClassSVM(nu=0.3), KernelDensity(bandwidth=0.4)])
def test_kernels(detector, n_picked):
    expansion = detector.fit(X).expansion_
    parts = (expansion.points, expansion.weights, expansion.kernel.bandwidth)
    found = SequentialFeature(detector, n_picked=n_picked).explain(NEW)
    compare(found, lambda x: lambda S: oracle.kernel_energy(x, S, *parts), n_picked)


def test_energies_add_up_to_the_score():
    models = [
        GaussianMixture(2, random_state=0),
        BayesianGaussianMixture(n_components=2, random_state=0),
        KernelDensity(),
        OneClassSVM(),
        PCA(2),
    ]
    for model in models:
        for rows in (NEW, X[:20]):
            found = SequentialFeature(model.fit(X)).explain(rows)
            np.testing.assert_allclose(
                found.extras["conditional_energy"].sum(axis=1), found.scores, rtol=1e-9
            )


def test_far_clusters_do_not_underflow():
    far = np.array([[0.0, 0.0], [1.0, 0.5], [300.0, 300.0], [301.0, 300.5]])
    detector = KernelDensity(bandwidth=1.0).fit(far)
    row = np.array([[0.0, 300.0]])  # each feature is ordinary, both together are not
    found = SequentialFeature(detector).explain(row)
    expected = oracle.sequence(lambda S: oracle.kernel_energy(row[0], S, far, np.full(4, 0.25), 1.0), 2)[1]
    np.testing.assert_allclose(found.extras["conditional_energy"][0], expected, rtol=1e-10)
    assert found.scores[0] > 4e4


def test_rows_that_were_trained_on_do_without_themselves():
    detector = KernelDensity(bandwidth=0.8).fit(X)
    expansion = detector.expansion_
    found = SequentialFeature(detector).explain(X[3:5])
    for r, own in enumerate([3, 4]):
        kept = without(own, expansion.points, expansion.weights)
        order, added = oracle.sequence(
            lambda S, own=own, kept=kept: oracle.kernel_energy(X[own], S, *kept, 0.8), D
        )
        assert np.argsort(-found.values[r]).tolist() == order
        np.testing.assert_allclose(found.extras["conditional_energy"][r], added, rtol=1e-9)


def test_the_first_feature_is_the_one_with_the_largest_marginal_energy():
    model = GaussianMixture(2, random_state=0).fit(X)
    first = SequentialFeature(model).explain(NEW)
    assert (first.values.argmax(axis=1) == Marginal(model).explain(NEW).values.argmax(axis=1)).all()
    assert sorted(first.values[0].tolist()) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_reconstruction_errors_are_in_the_order_of_marginal():
    model = PCA(2).fit(X)
    marginal, sequence = Marginal(model).explain(NEW), SequentialFeature(model).explain(NEW)
    np.testing.assert_array_equal(np.argsort(-marginal.values), np.argsort(-sequence.values))


def test_columns_and_rows_may_be_in_any_order():
    model, order = GaussianMixture(1).fit(X), RNG.permutation(D)
    permuted = GaussianMixture(1).fit(X[:, order])
    expected = SequentialFeature(model).explain(NEW).values
    np.testing.assert_array_equal(
        SequentialFeature(permuted).explain(NEW[:, order]).values, expected[:, order]
    )
    np.testing.assert_array_equal(SequentialFeature(model).explain(NEW[::-1]).values, expected[::-1])
