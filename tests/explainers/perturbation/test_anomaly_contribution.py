"""Contributions against weighted least squares over a list of neighbours."""

import tracemalloc

import numpy as np
import pytest
from oracles import baseline_oracles as oracle
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

from tellwhy.core.running import BATCH_BYTES, cut_batches
from tellwhy.detectors import OneClassSVM
from tellwhy.explainers import AnomalyContribution
from tellwhy.explainers.perturbation.anomaly_contribution import Neighbours
from tellwhy.scoring import as_score

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4)) * [1.0, 5.0, 0.2, 2.0] + [0.0, 10.0, 0.0, -3.0]
NEW = RNG.normal(size=(6, 4)) * [3.0, 9.0, 1.0, 4.0] + [0.0, 10.0, 0.0, -3.0]


def bent(Z):
    return np.log1p((Z**2).sum(axis=1)) + np.sin(Z[:, 0] * Z[:, 2])


@pytest.mark.parametrize("width", [0.1, 0.7])
def test_contributions_are_weighted_least_squares(width):
    for model in (bent, GaussianMixture(2, random_state=0).fit(X)):
        explainer = AnomalyContribution(model, width=width).fit(X)
        found, near, value = explainer.explain(NEW), explainer.neighbours_, as_score(model).value
        base = value(X).min()
        for x, values in zip(NEW, found.values, strict=True):
            scale = X.std(axis=0)
            expected = oracle.contribution(value, x, X.mean(axis=0), scale, base, near.noise, near.weights)
            np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
        np.testing.assert_allclose(found.base_values, base, rtol=1e-12)


def test_noise_has_exact_second_moments_and_near_neighbours_count_more():
    near = Neighbours.draw(300, 5, 0.4, 0)
    moments = (near.noise.T * near.weights) @ near.noise / 300
    np.testing.assert_allclose(moments, 0.16 * np.eye(5), atol=1e-12)
    length = np.linalg.norm(near.noise, axis=1)
    assert near.weights[length.argmin()] > 1 > near.weights[length.argmax()]
    np.testing.assert_allclose(near.weights.mean(), 1.0, rtol=1e-12)


def test_linear_scores_are_exact():
    slopes, near = np.array([1.0, -2.0, 0.0, 0.5]), Neighbours.draw(50, 4, 0.3, 0)
    position = RNG.normal(size=(6, 4))
    height, change = (position @ slopes)[:, None], near.noise @ slopes
    fitted = near.fit(position, height + change, height - change)
    np.testing.assert_allclose(fitted.slopes, np.tile(slopes, (6, 1)), atol=1e-12)
    np.testing.assert_allclose(near.standard_errors(fitted, position, np.arange(4), 4), 0, atol=1e-12)


def test_a_column_of_equal_numbers_has_no_spread():
    background = np.column_stack([X[:50], np.full(50, 0.1)])
    assert background.std(axis=0)[4] > 0  # by a rounding error, which must not become a unit
    found = AnomalyContribution(bent).fit(background)
    assert (found.mean_[4], found.scale_[4]) == (0.1, 0.0)


def test_constants_of_the_score_do_not_matter():
    plain = AnomalyContribution(bent).fit(X).explain(NEW)
    lifted = AnomalyContribution(lambda Z: bent(Z) + 1000.0).fit(X).explain(NEW)
    np.testing.assert_allclose(lifted.values, plain.values, atol=1e-8)
    np.testing.assert_allclose(lifted.base_values, plain.base_values + 1000, rtol=1e-12)


def test_units_of_columns_do_not_matter():
    factor, shift = np.array([1e3, 1e-3, 7.0, 1.0]), np.array([5.0, -1.0, 0.0, 100.0])
    plain = AnomalyContribution(bent).fit(X).explain(NEW)
    moved = AnomalyContribution(lambda Z: bent((Z - shift) / factor)).fit(X * factor + shift)
    np.testing.assert_allclose(moved.explain(NEW * factor + shift).values, plain.values, rtol=1e-6, atol=1e-8)


def test_standard_errors_are_the_spread_over_seeds():
    runs = [
        AnomalyContribution(bent, width=0.7, random_state=seed).fit(X).explain(NEW) for seed in range(150)
    ]
    centre = np.mean([run.values for run in runs], axis=0)
    covered = np.mean([np.abs(run.values - centre) <= 1.96 * run.stderr for run in runs])
    assert 0.93 < covered < 0.99
    spread = np.std([run.values for run in runs], axis=0)
    stated = np.mean([run.stderr for run in runs], axis=0)
    ratio = spread / stated
    assert ratio.max() < 1.3
    assert np.median(ratio) > 0.75


def test_standard_errors_of_columns_made_from_one_are_of_their_sum():
    bins = KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf")
    pipeline = make_pipeline(bins, GaussianMixture(2, reg_covar=0.1, random_state=0)).fit(X)
    runs = [
        AnomalyContribution(pipeline, width=0.7, n_samples=60, random_state=seed).fit(X).explain(NEW)
        for seed in range(100)
    ]
    assert runs[0].values.shape == runs[0].stderr.shape == NEW.shape
    spread = np.std([run.values for run in runs], axis=0)
    assert (spread / np.mean([run.stderr for run in runs], axis=0)).max() < 1.5


def test_a_value_never_seen_in_a_constant_column_counts():
    background = X.copy()
    background[:, 1] = 7.0
    explainer = AnomalyContribution(lambda Z: (Z[:, 1] - 7.0) ** 2).fit(background)
    row = np.array([[0.0, 9.0, 0.0, -3.0], [0.0, 7.0, 0.0, -3.0]])
    found = explainer.explain(row).values
    assert found[0].argmax() == 1
    assert found[0, 1] > 1
    assert found[1, 1] == 0


def test_training_rows_are_left_out():
    detector = OneClassSVM(nu=0.3).fit(X)
    own = detector.support_[:3]
    found = AnomalyContribution(detector).fit(X).explain(X[own])
    assert found.extras["left_out"].tolist() == own.tolist()
    np.testing.assert_allclose(found.scores, detector.to_score().value(X[own], np.arange(3)), rtol=1e-12)


def test_scores_made_of_steps_are_explained():
    forest = IsolationForest(n_estimators=50, random_state=0).fit(X)
    odd = np.array([[0.0, 10.0, 3.0, -3.0]])
    assert AnomalyContribution(forest, width=0.7).fit(X).explain(odd).values[0].argmax() == 2


def test_batches_of_rows_and_of_neighbours_change_nothing(monkeypatch):
    whole = AnomalyContribution(bent).fit(X).explain(NEW)

    def small(n_rows, bytes_per_row, limit=4000):
        return cut_batches(n_rows, bytes_per_row, limit)

    assert len(small(128, 24 * 4)) > 2
    monkeypatch.setattr("tellwhy.explainers.perturbation.anomaly_contribution.cut_batches", small)
    monkeypatch.setattr("tellwhy.core.running.cut_batches", small)
    parts = AnomalyContribution(bent).fit(X).explain(NEW)
    np.testing.assert_allclose(parts.values, whole.values, rtol=1e-10)
    np.testing.assert_allclose(parts.stderr, whole.stderr, rtol=1e-9)


def test_memory_of_many_columns_is_that_of_the_noise_and_its_moments():
    d, seen = 1500, []

    def score(Z):
        seen.append(Z.nbytes)
        return (Z**2).sum(axis=1)

    rows = np.random.default_rng(0).normal(size=(3, d))
    tracemalloc.start()
    try:
        explainer = AnomalyContribution(score).fit(rows)
        noise = explainer.neighbours_.noise
        kept = noise.nbytes + 8 * d**2
        assert tracemalloc.get_traced_memory()[1] < kept + 2 * BATCH_BYTES
        tracemalloc.reset_peak()
        explainer.explain(rows)
        assert tracemalloc.get_traced_memory()[1] < noise.nbytes + 2 * BATCH_BYTES
    finally:
        tracemalloc.stop()
    assert max(seen) <= BATCH_BYTES
    moments = (noise.T * explainer.neighbours_.weights) @ noise / len(noise)
    np.testing.assert_allclose(moments, explainer.width**2 * np.eye(d), atol=1e-10)
