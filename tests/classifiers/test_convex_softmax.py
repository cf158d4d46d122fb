"""The softmax as a convex problem: its optimum, its certificate, its ridge and fitting once more on all rows."""

import warnings

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from tellwhy.bases import KernelBasis
from tellwhy.classifiers import KernelBasisClassifier, load
from tellwhy.classifiers.softmax import RIDGES, SoftmaxProblem, minimise, solve_path
from tellwhy.core.errors import InvalidParameter

X, Y = load_digits(return_X_y=True)
X = X / 16 - X.mean(axis=0) / 16
BASIS = KernelBasis(n_features=120, random_state=0)


def problem(n=300, d=6, n_classes=4, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    features = scale * rng.normal(size=(n, d)) * np.logspace(0, -2, d)
    labels = (features @ rng.normal(size=(d, n_classes)) + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    return SoftmaxProblem(lambda rows: features[rows], labels, np.arange(n), n_classes), features, labels


@parametrize_with_checks(
    [
        KernelBasisClassifier(
            KernelBasis(n_features=40, random_state=0), solver="convex", ridge=1e-4, refit=True
        )
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_gradient_is_that_of_the_objective():
    one, _, _ = problem(n=25, d=3)
    start = np.random.default_rng(1).normal(size=16)
    found = check_grad(
        lambda w: one.evaluate(w.reshape(4, 4), 0.1)[0],
        lambda w: one.evaluate(w.reshape(4, 4), 0.1)[1].ravel(),
        start,
    )
    assert found < 1e-6


@pytest.mark.parametrize("ridge", [1e-1, 1e-3, 1e-5])
def test_it_finds_the_optimum_of_another_solver(ridge):
    one, features, labels = problem()
    found = one.solve(np.zeros((7, 4)), ridge, 1e-8)
    with_ones = np.column_stack([features, np.ones(len(features))])
    other = LogisticRegression(
        C=1 / (ridge * len(labels)), fit_intercept=False, tol=1e-10, max_iter=5_000, solver="newton-cg"
    ).fit(with_ones, labels)
    best = one.evaluate(other.coef_.T, ridge)[0]
    assert found.gap <= 1e-8
    assert found.objective == pytest.approx(best, rel=1e-7)
    np.testing.assert_allclose(found.weights, other.coef_.T, atol=2e-3 * np.abs(other.coef_).max())


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6])
def test_the_gap_bounds_how_far_the_objective_is_from_its_least_value(tolerance):
    one, _, _ = problem(d=8, scale=5.0)
    least = minimize(
        lambda w: one.evaluate(w.reshape(9, 4), 1e-3)[0],
        np.zeros(36),
        jac=lambda w: one.evaluate(w.reshape(9, 4), 1e-3)[1].ravel(),
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 100_000},
    ).fun
    found = one.solve(np.zeros((9, 4)), 1e-3, tolerance)
    assert found.gap <= tolerance
    assert -1e-9 <= found.objective - least <= found.gap * found.objective + 1e-9


def test_the_duality_gap_is_that_of_its_definition():
    one, features, labels = problem(n=50, d=3)
    ridge, W = 0.02, np.random.default_rng(2).normal(size=(4, 4))
    found = minimise(
        lambda w: one.evaluate(w, ridge),
        W,
        ridge=ridge,
        precondition=lambda s: s,
        tolerance=0.1,
        max_rounds=0,
    )
    with_ones = np.column_stack([features, np.ones(50)])
    scores = with_ones @ W
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    errors = with_ones.T @ (p - np.eye(4)[labels]) / 50
    dual = -(p * np.log(p)).sum(axis=1).mean() - (errors**2).sum() / (2 * ridge)
    primal = one.evaluate(W, ridge)[0]
    assert found.gap * primal == pytest.approx(primal - dual, rel=1e-9)


def test_blocks_of_rows_and_features_too_wide_to_factorise_change_nothing(monkeypatch):
    one, _, _ = problem()
    expected = one.kept().solve(np.zeros((7, 4)), 1e-2, 1e-9).weights
    monkeypatch.setattr("tellwhy.classifiers.softmax.CHUNK", 37)
    monkeypatch.setattr("tellwhy.classifiers.softmax._HELD_BYTES", 0)
    assert one.kept() is one
    np.testing.assert_allclose(one.solve(np.zeros((7, 4)), 1e-2, 1e-9).weights, expected, atol=1e-4)
    monkeypatch.setattr("tellwhy.classifiers.softmax._MOST_FACTORISED", 3)
    np.testing.assert_allclose(one.solve(np.zeros((7, 4)), 1e-2, 1e-9).weights, expected, atol=1e-4)


def test_the_ridge_is_the_one_that_does_best_on_rows_held_out_whatever_the_scale():
    ridges = []
    for scale in (1.0, 1e3):
        _, features, labels = problem(n=400, d=60)
        rows = SoftmaxProblem(lambda r, f=scale * features: f[r], labels, np.arange(200), 4)
        held = SoftmaxProblem(rows.features, labels, np.arange(200, 400), 4)
        found, losses = solve_path(rows, held, RIDGES, 1e-6)
        ridges.append(found.ridge)
        assert held.mean_loss(found.weights) == pytest.approx(losses.min())
        assert found.ridge == sorted(RIDGES, reverse=True)[int(losses.argmin())]
        assert len(losses) <= int(losses.argmin()) + 3
    assert len(set(ridges)) == 1 or max(ridges) / min(ridges) <= 10.1  # the column of ones does not scale


def test_more_features_do_not_lose_for_want_of_rounds():
    """Nested features: whatever fewer reach on training rows, more reach too."""
    some = X[:500]
    wide = KernelBasis(n_features=600, random_state=0).fit(X).transform(some)
    wide = wide.reshape(500, 2, 300)
    objectives = []
    for width in (20, 100, 300):
        features = wide[:, :, :width].reshape(500, -1)
        one = SoftmaxProblem(lambda rows, f=features: f[rows], Y, np.arange(500), 10)
        found = one.solve(np.zeros((2 * width + 1, 10)), 1e-6, 1e-3)
        assert found.gap <= 1e-3
        objectives.append(found.objective)
    assert objectives[0] > objectives[1] > objectives[2]


def test_digits_are_learned_with_a_certificate_and_kept_in_a_file(tmp_path):
    model = KernelBasisClassifier(BASIS, solver="convex", refit=True, random_state=0).fit(X[:1200], Y[:1200])
    assert model.gap_ <= 1e-3
    assert model.ridge_ in RIDGES
    assert model.score(X[1200:], Y[1200:]) > 0.9
    features = model.basis_.transform(X[:1200])
    whole = SoftmaxProblem(lambda rows: features[rows], Y, np.arange(1200), 10)
    objective, slope = whole.evaluate(model.softmax_.weights, ridge := model.ridge_ * whole.mean_square())
    assert (slope**2).sum() / (2 * ridge * objective) == pytest.approx(model.gap_, rel=1e-6)
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert (again.gap_, again.ridge_) == (model.gap_, model.ridge_)
    assert not hasattr(model, "partial_fit")
    model.set_params(solver="batches", max_epochs=1).fit(X[:100], Y[:100])
    assert not hasattr(model, "gap_")
    other = KernelBasisClassifier(BASIS, solver="convex", ridge=1e-5, random_state=0).fit(X[:1200], Y[:1200])
    assert other.ridge_ == 1e-5
    assert other.transfer(X[:300], Y[:300] % 2).gap_ <= 1e-3


@pytest.mark.parametrize("solver", ["batches", "convex"])
def test_refitting_learns_from_rows_held_out(solver):
    """Rows are more likely under the model once half of them are no longer held out."""
    params = {"solver": solver, "random_state": 0, "validation_share": 0.5, "max_epochs": 3}
    plain, refitted = (KernelBasisClassifier(BASIS, refit=r, **params).fit(X, Y) for r in (False, True))
    np.testing.assert_array_equal(plain.losses_, refitted.losses_)
    own = [np.log(m.predict_proba(X)[np.arange(len(X)), Y]).mean() for m in (plain, refitted)]
    assert own[1] > own[0]


def test_a_gap_that_stays_large_is_told(monkeypatch):
    monkeypatch.setattr("tellwhy.classifiers.softmax._MOST_IDLE", 0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        KernelBasisClassifier(BASIS, solver="convex", ridge=1e-6).fit(X[:200], Y[:200])
    assert any(issubclass(w.category, ConvergenceWarning) and "duality gap" in str(w.message) for w in told)


def test_bad_parameters_are_refused():
    for params in ({"solver": "newton"}, {"ridge": 0.0}, {"tol": 1.0}, {"refit": "yes"}):
        with pytest.raises(InvalidParameter, match=f"'{next(iter(params))}' parameter"):
            KernelBasisClassifier(BASIS, **params).fit(X, Y)
