import warnings

import numpy as np
import pandas as pd
import pytest
from oracles.multiclass_svm import optimum
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from tellwhy.classifiers import CrammerSingerSVM, LeeLinWahbaSVM, OneVsRestSVM, WestonWatkinsSVM
from tellwhy.classifiers.svm.multiclass_svm import find_best_temperature
from tellwhy.classifiers.svm.problem import rescaled
from tellwhy.core.errors import InvalidInput, InvalidParameter, NotConverged

ALL = [WestonWatkinsSVM, CrammerSingerSVM, LeeLinWahbaSVM, OneVsRestSVM]


def rows(n=80, n_classes=4, d=30, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)
    X[np.arange(n), y] += 2.0
    return X, y


def fitted(cls, **options):
    """A model of `rows()`."""
    return cls(**({"random_state": 0} | options)).fit(*rows())


def checked(cls):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(cls(random_state=0, tol=1e-9), on_fail=None)
    return [(f["check_name"], str(f["exception"])[:200]) for f in found if f["status"] == "failed"]


def test_scikit_learn_contract():
    assert checked(WestonWatkinsSVM) == []


@pytest.mark.slow
@pytest.mark.parametrize("cls", ALL[1:])
def test_scikit_learn_contract_of_the_others(cls):
    assert checked(cls) == []


@pytest.mark.parametrize("cls", ALL)
def test_threads_do_not_change_a_bit(cls):
    X, y = rows(n_classes=9)
    models = [cls(n_jobs=n, n_bundles=4, random_state=0).fit(X, y) for n in (1, 2, 4)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        assert model.objective_ == models[0].objective_


@pytest.mark.parametrize("cls", ALL)
def test_class_blocks_do_not_change_the_objective(cls):
    X, y = rows(n_classes=5)
    ends = [
        cls(C=0.1, tol=1e-7, n_bundles=b, random_state=0, max_epochs=5000).fit(X, y).objective_
        for b in (1, 3, 4)
    ]
    assert ends == pytest.approx([ends[0]] * 3, rel=1e-6)


@pytest.mark.parametrize("cls", ALL)
def test_dense_and_sparse_rows_give_the_same(cls):
    model = fitted(cls)
    X, y = rows()
    again = cls(random_state=0).fit(sparse.csr_matrix(X), y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_allclose(
        again.decision_function(sparse.csc_array(X)), model.decision_function(X), atol=1e-12
    )


def test_two_classes_are_binary_machines():
    X, _ = rows(n=40)
    y = (X[:, 0] > 1).astype(int)
    C = 0.3
    for cls, factor in ((WestonWatkinsSVM, 2.0), (CrammerSingerSVM, 2.0), (LeeLinWahbaSVM, 0.5)):
        # With w_1 = −w_0 = u/2 (WW, CS) ½‖W‖² = ¼‖u‖², so that a binary machine with 2C has the same u.
        model = cls(C=C, tol=1e-9, fit_intercept=False, random_state=0, max_epochs=20_000).fit(X, y)
        binary = LinearSVC(
            C=factor * C, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0
        ).fit(X, y)
        ours = model.decision_function(X) / (1 if cls is not LeeLinWahbaSVM else 2)
        np.testing.assert_allclose(ours, binary.decision_function(X), atol=2e-3)


def test_crammer_singer_is_that_of_liblinear():
    X, y = rows()
    ours = CrammerSingerSVM(C=0.5, tol=1e-8, fit_intercept=False, random_state=0, max_epochs=20_000).fit(X, y)
    theirs = LinearSVC(
        C=0.5, multi_class="crammer_singer", fit_intercept=False, tol=1e-8, max_iter=10**6, random_state=0
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("of_classes", [None, {2: 4.0, 0: 0.3}, "balanced"], ids=["none", "dict", "balanced"])
def test_weights_of_rows_and_classes_scale_c(cls, of_classes):
    X, y = rows(n=24, d=5)
    y[y == 3] = np.where(np.arange(6) < 4, 2, 3)
    weight = np.where(np.arange(24) % 5 == 1, 3.0, 0.5)
    options = {"C": 0.05, "tol": 1e-8, "fit_intercept": False, "random_state": 0, "max_epochs": 20_000}
    model = cls(class_weight=of_classes, **options).fit(X, y, weight)
    counted = {"balanced": 24 / (4 * np.bincount(y)), None: np.ones(4)}
    factors = np.array([0.3, 1.0, 4.0, 1.0]) if isinstance(of_classes, dict) else counted[of_classes]
    value = optimum(X, y, 0.05 * weight * factors[y], 4, model._loss)[0]
    assert model.objective_ == pytest.approx(value, rel=1e-6)
    without = cls(**options).fit(X, y).objective_
    assert abs(without - value) > 0.01 * value


def test_intercept_is_a_regularised_constant_feature():
    X, y = rows()
    model = WestonWatkinsSVM(intercept_scaling=2.0, random_state=0).fit(X, y)
    by_hand = WestonWatkinsSVM(fit_intercept=False, random_state=0).fit(
        np.hstack((X, np.full((len(X), 1), 2.0))), y
    )
    np.testing.assert_allclose(model.intercept_, 2.0 * by_hand.coef_[:, -1])
    np.testing.assert_allclose(
        model.decision_function(X), X @ by_hand.coef_[:, :-1].T + 2.0 * by_hand.coef_[:, -1]
    )


@pytest.mark.parametrize("cls", ALL)
def test_empty_rows_cost_what_they_must(cls):
    X, y = rows(n=20)
    X[3] = X[8] = 0
    weight = np.linspace(0.5, 2, 20)
    options = {"tol": 1e-8, "fit_intercept": False, "random_state": 0, "max_epochs": 20_000}
    model = cls(**options).fit(X, y, weight)
    assert model.objective_ == pytest.approx(optimum(X, y, weight, 4, model._loss)[0], rel=1e-6)
    assert 0 <= model.dual_gap_ + 1e-12 <= 2e-8


def test_classes_with_one_row_are_learned():
    X = np.eye(6)
    assert (
        WestonWatkinsSVM(fit_intercept=False, random_state=0).fit(X, list("abcdef")).score(X, list("abcdef"))
        == 1
    )


def test_a_warm_start_needs_fewer_epochs_and_ends_the_same():
    X, y = rows()
    cold = WestonWatkinsSVM(C=2.0, tol=1e-6, random_state=0, max_epochs=5000).fit(X, y)
    warm = WestonWatkinsSVM(C=1.9, tol=1e-6, random_state=0, warm_start=True, max_epochs=5000).fit(X, y)
    warm.set_params(C=2.0).fit(X, y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-5)
    assert warm.n_iter_ < cold.n_iter_
    assert (warm.dual_coef_.toarray() <= 2.0 + 1e-12).all()


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("sets", [False, True])
def test_a_warm_start_from_other_labels_ends_where_a_cold_one_does(cls, sets):
    if sets and cls not in (WestonWatkinsSVM, OneVsRestSVM):
        pytest.skip("takes one label a row")
    X, y = rows()
    other = np.roll(y, 1)
    if sets:
        y, other = (np.eye(4, dtype=int)[labels] for labels in (y, other))
    options = {"C": 0.1, "tol": 1e-5, "random_state": 0, "max_epochs": 5000}
    warm = cls(warm_start=True, **options).fit(X, y).fit(X, other)
    cold = cls(**options).fit(X, other)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-5)
    assert -1e-12 < warm.dual_gap_ <= 1e-5
    np.testing.assert_array_equal(warm.predict(X), cold.predict(X))


def test_dual_variables_move_with_their_caps():
    before, now = np.array([2.0, 0.0, 4.0]), np.array([1.0, 3.0, 8.0])
    moved = rescaled(sparse.csr_array([[2.0, 1.0], [0.0, 0.0], [4.0, 0.0]]), before, now)
    np.testing.assert_array_equal(moved.toarray(), [[1.0, 0.5], [0.0, 0.0], [8.0, 0.0]])


def test_path_over_c():
    X, y = rows()
    models = WestonWatkinsSVM(tol=1e-5, random_state=0, max_epochs=5000).path(X, y, [0.01, 0.1, 1.0, 1.02])
    for model in models:
        alone = WestonWatkinsSVM(C=model.C, tol=1e-5, random_state=0, max_epochs=5000).fit(X, y)
        assert model.objective_ == pytest.approx(alone.objective_, rel=1e-4)
    assert models[-1].history_[0]["gap"] < 0.1 < alone.history_[0]["gap"]
    weight = np.where(y == 1, 5.0, 0.1)
    (weighted,) = WestonWatkinsSVM(tol=1e-5, random_state=0, max_epochs=5000).path(
        X, y, [0.01], sample_weight=weight
    )
    alone = WestonWatkinsSVM(C=0.01, tol=1e-5, random_state=0, max_epochs=5000).fit(X, y, weight)
    assert weighted.objective_ == pytest.approx(alone.objective_, rel=1e-4)


def test_history_and_certificate():
    model = fitted(WestonWatkinsSVM, tol=1e-5)
    assert model.dual_gap_ <= 1e-5
    assert model.history_[-1]["objective"] == model.objective_
    assert model.n_iter_ == model.history_[-1]["epoch"]
    assert {"epoch", "seconds", "objective", "dual", "gap", "violation", "listed"} == set(model.history_[0])


def test_stopping_early_is_told():
    X, y = rows()
    with pytest.warns(NotConverged, match="stopped after 3 epochs at a relative duality gap"):
        WestonWatkinsSVM(max_epochs=3, tol=1e-9, random_state=0).fit(X, y)


def test_top_k_begins_with_the_prediction():
    model = fitted(WestonWatkinsSVM)
    X = rows()[0]
    top = model.predict_top_k(X, 3)
    assert top.shape == (80, 3)
    np.testing.assert_array_equal(top[:, 0], model.predict(X))
    scores = np.take_along_axis(model.decision_function(X), np.searchsorted(model.classes_, top), axis=1)
    assert (np.diff(scores, axis=1) <= 0).all()
    with pytest.raises(InvalidParameter, match="'k'"):
        model.predict_top_k(X, 5)


@pytest.mark.parametrize("sets", [False, True])
def test_scores_of_all_rows_are_never_held_at_once(sets, monkeypatch):
    X, y = rows()
    model = WestonWatkinsSVM(random_state=0).fit(X, np.eye(4, dtype=int)[y] if sets else y)
    whole, best = model.predict(X), model.predict_top_k(X, 2)
    seen, scores_of = [], WestonWatkinsSVM._compute_scores_of
    monkeypatch.setattr(
        "tellwhy.core.running.cut_batches", lambda n, *_: [slice(i, i + 7) for i in range(0, n, 7)]
    )
    monkeypatch.setattr(
        WestonWatkinsSVM,
        "_compute_scores_of",
        lambda self, X, W: seen.append(X.shape[0]) or scores_of(self, X, W),
    )
    np.testing.assert_array_equal(model.predict(X), whole)
    np.testing.assert_array_equal(model.predict_top_k(X, 2), best)
    assert max(seen) == 7
    assert sum(seen) == 2 * len(X)


def test_leads_over_a_class_that_is_named():
    model = fitted(WestonWatkinsSVM)
    X = rows()[0]
    found = model.explain(X[:9], target=1, against=2)
    np.testing.assert_allclose(found.values, X[:9] * (model.coef_[1] - model.coef_[2]), atol=1e-12)
    np.testing.assert_allclose(found.base_values, model.intercept_[1] - model.intercept_[2])
    assert (found.extras["explained"].tolist(), found.extras["rival"].tolist()) == ([1] * 9, [2] * 9)


def test_sparse_weights_where_they_pay():
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 4000), density=0.002, rng=rng, format="csr")
    y = np.arange(60) % 6
    model = WestonWatkinsSVM(random_state=0).fit(X, y)
    assert sparse.issparse(model.coef_)
    dense = model.decision_function(X)
    assert model.density_ < 0.3
    np.testing.assert_allclose(model.densify().decision_function(X), dense, atol=1e-12)
    before, limit = model.coef_.copy(), np.abs(model.coef_).max() / 10
    model.sparsify(limit)
    np.testing.assert_array_equal(model.coef_.toarray(), np.where(np.abs(before) > limit, before, 0))
    assert 0 < model.coef_.nnz < np.count_nonzero(before)
    assert (model.coef_.data < 0).any()


def test_probabilities_only_after_calibration():
    model = fitted(WestonWatkinsSVM)
    X, y = rows()
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as refusal:
        _ = model.predict_proba
    assert "Call calibrate(X, y) first" in str(refusal.value.__cause__)
    other, labels = rows(n=200, seed=1)
    model.calibrate(other, labels)
    found = model.predict_proba(other)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    loss = -np.log(found[np.arange(200), labels]).mean()
    for factor in (0.8, 1.25):
        scores = model.decision_function(other) / (model.temperature_ * factor)
        worse = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(200), labels]
        assert loss < worse.mean()
    some = labels >= 2  # rows of two of the four classes
    model.calibrate(other[some], labels[some])
    scores = model.decision_function(other[some])
    assert model.temperature_ == pytest.approx(find_best_temperature(scores, labels[some]))
    with pytest.raises(InvalidInput, match="fitted on"):
        model.calibrate(X, y + 10)
    assert not hasattr(model.fit(X, y), "predict_proba")


@pytest.mark.parametrize("cls", [WestonWatkinsSVM, OneVsRestSVM])
def test_label_sets(cls):
    X, Y = make_multilabel_classification(120, 12, n_classes=4, random_state=0)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    model = cls(C=50.0, random_state=0, tol=1e-3, max_epochs=5000).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert (model.predict(X) == Y).mean() > 0.8
    assert model.decision_function(X).shape == Y.shape
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X) > 0)
    with pytest.raises(InvalidParameter, match="needs one class per row"):
        cls(class_weight="balanced").fit(X, Y)


def test_label_sets_against_the_quadratic_programme():
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(7, 3)), (rng.random((7, 3)) < 0.5).astype(int)
    Y[0] = 0
    Y[1] = 1
    X[4] = 0
    directions, caps = [], []
    for i in range(7):
        own, others = [*np.flatnonzero(Y[i])], [*np.flatnonzero(Y[i] == 0)]
        cap = 1.0 / (max(len(own), 1) * max(len(others), 1))
        for p, q in [(p, q) for p in own for q in [*others, 3]] + [(3, q) for q in others]:
            V = np.zeros((4, 3))
            V[p] += X[i]
            V[q] -= X[i]
            directions.append(V.ravel())
            caps.append(cap)
    V = np.array(directions)
    Q = V @ V.T
    best = minimize(
        lambda a: 0.5 * a @ Q @ a - a.sum(), np.zeros(len(caps)), jac=lambda a: Q @ a - 1,
        bounds=[(0, c) for c in caps], options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000},
    )  # fmt: skip
    model = WestonWatkinsSVM(fit_intercept=False, tol=1e-8, random_state=0, max_epochs=20_000).fit(X, Y)
    assert model.objective_ == pytest.approx(-best.fun, rel=1e-6)
    W = (V.T @ best.x).reshape(4, 3)
    np.testing.assert_allclose(model.coef_, W[:3] - W[3], atol=1e-4)


@pytest.mark.parametrize("cls", ALL)
def test_bad_input_is_told(cls):
    X, y = rows()
    with pytest.raises(InvalidInput, match="at least 2 classes"):
        cls().fit(X, np.zeros(80))
    bad = X.copy()
    bad[3, 2] = np.nan
    with pytest.raises(InvalidInput, match="NaN in row 3, column 2"):
        cls().fit(bad, y)
    with pytest.raises(InvalidInput, match="infinity"):
        cls().fit(sparse.csr_array(np.where(bad == bad, bad, np.inf)), y)
    with pytest.raises(InvalidInput, match="sample"):
        cls().fit(X, y[:-1])
    with pytest.raises(InvalidInput, match="'x' in row 0, column 'a'"):
        cls().fit(pd.DataFrame({"a": ["x"] * 80, "b": y}), y)
    with pytest.raises(InvalidInput, match="TextClassifier learns from texts"):
        cls().fit(["a text"] * 80, y)
    with pytest.raises(InvalidInput, match="at least one non-zero"):
        cls().fit(X, y, np.zeros(80))
    with pytest.raises(InvalidInput):
        cls().fit(X, y, -np.ones(80))
    with pytest.raises(InvalidParameter, match="'C'"):
        cls(C=0).fit(X, y)
    with pytest.raises(InvalidParameter, match=r"'n_jobs' .* must be None or -1 or an int"):
        cls(n_jobs=0).fit(X, y)
    with pytest.raises(InvalidInput, match=r"gives class 2 the factor -1\.0; expected finite factors"):
        cls(class_weight={2: -1.0}).fit(X, y)
    with pytest.raises(InvalidInput, match="not in class_weight"):
        cls(class_weight={7: 1.0}).fit(X, y)
    with pytest.raises(NotFittedError):
        cls().predict(X)
    with pytest.raises(InvalidInput, match="features"):
        cls(random_state=0).fit(X, y).predict(X[:, :3])


def test_weights_that_no_machine_can_hold_are_told(monkeypatch):
    def refuse(*args, **kwargs):
        raise MemoryError("Unable to allocate 128 GiB")

    monkeypatch.setattr(WestonWatkinsSVM, "_engine", refuse)
    with pytest.raises(
        InvalidInput, match=r"no memory for the weights of 31 features and 4 classes \(0\.0 GiB\)"
    ):
        WestonWatkinsSVM().fit(*rows())


def test_nothing_of_the_users_is_changed():
    X, y = rows()
    table = sparse.csr_array(X)
    kept = table.copy()
    labels = y.copy()
    weight = np.ones(80)
    WestonWatkinsSVM(random_state=0).fit(table, y, weight).predict(table)
    assert (table != kept).nnz == 0
    np.testing.assert_array_equal(y, labels)
    np.testing.assert_array_equal(weight, np.ones(80))


def test_one_vs_rest_is_dense_only_for_want_of_an_intercept():
    """Sparser than one-vs-rest, as the thesis has it, comes from fitting both without a constant."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(40), 6)
    X = np.zeros((240, 300))
    for i, c in enumerate(y):
        X[i, rng.choice(10, 3) + 10 * (c // 6)] = 1.0
        X[i, 100 + 3 * c + rng.choice(3, 2)] = 1.5
        X[i, rng.choice(300, 2)] = 0.7
    X = sparse.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True))
    density = {
        (cls, has): cls(C=10.0, fit_intercept=has, random_state=0).fit(X, y).density_
        for cls in (WestonWatkinsSVM, OneVsRestSVM)
        for has in (False, True)
    }
    assert density[OneVsRestSVM, False] > 1.8 * density[WestonWatkinsSVM, False]
    assert density[OneVsRestSVM, True] < 1.2 * density[WestonWatkinsSVM, True]
