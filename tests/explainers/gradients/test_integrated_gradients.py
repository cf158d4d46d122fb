"""Integrated gradients against closed forms and fine Riemann sums."""

import numpy as np
import pandas as pd
import pytest
from oracles import baseline_oracles as oracle
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tellwhy.core.errors import NotConverged
from tellwhy.detectors import SVDD, NearestNeighbours, OneClassSVM
from tellwhy.explainers import IntegratedGradients
from tellwhy.explainers.gradients.integrated_gradients import Lines, Parts
from tellwhy.scoring import FunctionScore, as_score

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4)) @ RNG.normal(size=(4, 4))
NEW = RNG.normal(size=(6, 4)) * 3
A = np.array([[3.0, 1.0, 0.0, 0.2], [1.0, 2.0, 0.5, 0.0], [0.0, 0.5, 1.0, 0.3], [0.2, 0.0, 0.3, 4.0]])
CENTRE = np.array([1.0, -1.0, 0.5, 2.0])


def quadratic():
    return FunctionScore(
        lambda Z: 0.5 * np.einsum("ni,ij,nj->n", Z - CENTRE, A, Z - CENTRE),
        gradient=lambda Z: (Z - CENTRE) @ A,
        describes="a quadratic",
    )


@pytest.mark.parametrize("n_steps", [1, 16])
def test_quadratic_scores_are_exact_with_a_single_step(n_steps):
    explainer = IntegratedGradients(quadratic(), n_steps=n_steps).fit(X)
    found, mean = explainer.explain(NEW), X.mean(axis=0)
    expected = [oracle.quadratic_integrated_gradients(A, CENTRE, x, mean) for x in NEW]
    np.testing.assert_allclose(found.values, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.residual, 0, atol=1e-12)
    np.testing.assert_allclose(found.base_values, quadratic().value(mean[None])[0], rtol=1e-12)
    assert found.extras["n_gradients"].tolist() == [n_steps] * len(NEW)


@pytest.mark.parametrize(
    "model",
    [GaussianMixture(3, random_state=0), OneClassSVM(nu=0.3), OneClassSVM("student_t", q=1), SVDD("linear")],
)
def test_each_value_is_the_integral(model):
    score = as_score(model.fit(X))
    found = IntegratedGradients(model, tol=1e-8).fit(X).explain(NEW[:2])
    for x, values in zip(NEW, found.values, strict=False):
        expected = oracle.riemann_integrated_gradients(score.gradient, x, X.mean(axis=0), steps=4000)
        np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    difference = np.abs(found.scores - found.base_values)
    assert (np.abs(found.residual) <= 1e-6 * difference + 1e-9).all()


def kink(at):
    """|⟨x, 1⟩ − at|, whose gradient jumps on the way."""
    return FunctionScore(
        lambda Z: np.abs(Z.sum(axis=1) - at),
        gradient=lambda Z: np.sign(Z.sum(axis=1, keepdims=True) - at) * np.ones_like(Z),
    )


def test_sharp_bends_are_refined_until_the_limit():
    row, reference = np.array([[2.0, 1.0]]), [0.0, 0.0]
    settings = {"baseline": reference, "n_steps": 4}
    with pytest.warns(NotConverged, match="in 1 of 1 rows"):
        rough = IntegratedGradients(kink(0.7), **settings, max_iter=4).explain(row)
    fine = IntegratedGradients(kink(0.7), **settings, max_iter=4096).explain(row)
    share = 1 - 2 * 0.7 / 3  # gradient is −1 on the first 0.7/3 of the way
    np.testing.assert_allclose(fine.values, row * share, rtol=1e-5)
    assert abs(fine.residual[0]) < 1e-5 < 1e-2 < abs(rough.residual[0])
    assert rough.extras["n_gradients"][0] == 4 < fine.extras["n_gradients"][0] <= 4096


def test_the_limit_holds_where_the_gradient_jumps_all_the_time():
    model = NearestNeighbours().fit(X)
    found = IntegratedGradients(model, max_iter=256).fit(X).explain(NEW)
    assert found.extras["n_gradients"].max() <= 256
    total = found.base_values + found.values.sum(axis=1) + found.residual
    np.testing.assert_allclose(total, found.scores, rtol=1e-12)


def test_one_row_is_refined_without_the_others():
    score, row = kink(0.7), np.array([[2.0, 1.0], [0.1, 0.1], [-3.0, 1.0]])
    explainer = IntegratedGradients(score, baseline=[0.0, 0.0])
    used = explainer.explain(row).extras["n_gradients"]
    assert used[0] > used[1] == used[2] == 16


def test_a_row_that_is_the_reference_gets_nothing():
    found = IntegratedGradients(quadratic(), baseline=NEW[0]).explain(NEW[:1])
    np.testing.assert_array_equal(found.values, 0)
    assert found.residual[0] == 0


def test_references_are_rows_in_the_users_columns():
    frame = pd.DataFrame(X * [1.0, 10.0, 100.0, 0.1], columns=list("abcd"))
    pipeline = make_pipeline(StandardScaler(), GaussianMixture(2, random_state=0)).fit(frame)
    given = IntegratedGradients(pipeline, baseline=frame.mean().to_numpy()).explain(frame[:4])
    learned = IntegratedGradients(pipeline).fit(frame).explain(frame[:4])
    np.testing.assert_allclose(given.values, learned.values, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        given.base_values, as_score(pipeline).value(frame.mean().to_frame().T)[0], rtol=1e-10
    )


def test_training_rows_are_left_out():
    detector = OneClassSVM(nu=0.3).fit(X)
    own = detector.support_[:3]
    found = IntegratedGradients(detector).fit(X).explain(X[own])
    assert found.extras["left_out"].tolist() == own.tolist()
    np.testing.assert_allclose(found.residual, 0, atol=1e-5)
    np.testing.assert_allclose(found.scores, detector.to_score().value(X[own], np.arange(3)), rtol=1e-12)


def test_lines_take_rows_of_any_shape():
    pictures = RNG.normal(size=(3, 2, 4, 5))
    score = FunctionScore(lambda Z: (Z**3).sum(axis=(1, 2, 3)), gradient=lambda Z: 3 * Z**2)
    whole = Parts(np.arange(3), np.zeros(3), np.ones(3), np.zeros(3), np.zeros(3))
    found = Lines(score, pictures, np.zeros((2, 4, 5))).integrals(np.arange(3), whole, 4)
    np.testing.assert_allclose(found, pictures**3, rtol=1e-12)
