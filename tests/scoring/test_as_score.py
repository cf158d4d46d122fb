import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from oracles.score_oracles import central_differences, minus_log_density, minus_log_discriminant
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.cluster import BisectingKMeans, KMeans, MiniBatchKMeans
from sklearn.covariance import EllipticEnvelope, LedoitWolf
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, SGDOneClassSVM
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity, LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, OneClassSVM

from tellwhy import detectors
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.score import ScoreFunction
from tellwhy.scoring import (
    CentreScore,
    FunctionScore,
    KernelScore,
    MixtureScore,
    NeighbourScore,
    ProjectionScore,
    as_score,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)) @ RNG.normal(size=(4, 4)) + [5.0, -3.0, 0.0, 1.0]
NEW = np.vstack([X[:20] + RNG.normal(scale=0.3, size=(20, 4)), RNG.normal(scale=4.0, size=(20, 4))])
NEAR = NEW[:20]
NAMES = ["a", "b", "c", "d"]
WEIGHTS = np.where(np.arange(120) % 7 == 0, 0.0, np.arange(120) % 5 + 0.5)


def minus_log_g(model, rows):
    """−log g with Σα = 1, from scikit-learn's own Σ α k."""
    return -np.log(model.score_samples(rows) / model.dual_coef_.sum())


def minus_samples(model, rows):
    return -model.score_samples(rows)


def reconstruction_error(model, rows):
    return ((rows - model.inverse_transform(model.transform(rows))) ** 2).sum(axis=1)


def mahalanobis(model, rows):
    return model.mahalanobis(rows)


def nearest_centre(model, rows):
    return model.transform(rows).min(axis=1) ** 2


def mean_distance(model, rows):
    return model.kneighbors(rows)[0].mean(axis=1)


def cubic(A, B):
    return (np.asarray(A) @ np.asarray(B).T + 1.0) ** 3


@dataclass(frozen=True, eq=False)
class Case:
    model: Any
    oracle: Callable
    score_type: type
    gradient: bool = False
    threshold: bool = False
    n_exact: int = len(NEW)  # leading rows where the model's own score keeps its digits


CASES = {
    "svm": Case(OneClassSVM(nu=0.2), minus_log_g, KernelScore, True, True, len(NEAR)),
    "svm gamma": Case(OneClassSVM(gamma=0.05, nu=0.5), minus_log_g, KernelScore, True, True, len(NEAR)),
    "svm auto": Case(OneClassSVM(gamma="auto", nu=0.1), minus_log_g, KernelScore, True, True, len(NEAR)),
    "svm linear": Case(OneClassSVM(kernel="linear", nu=0.2), minus_samples, FunctionScore, True, True),
    "svm poly": Case(OneClassSVM(kernel="poly", coef0=0.5, nu=0.2), minus_samples, FunctionScore, True, True),
    "svm degree 2": Case(
        OneClassSVM(kernel="poly", degree=2, gamma=0.3), minus_samples, FunctionScore, True, True
    ),
    "svm sigmoid": Case(OneClassSVM(kernel="sigmoid", gamma=0.05), minus_samples, FunctionScore, True, True),
    "kde": Case(KernelDensity(bandwidth=0.7), minus_samples, KernelScore, True, False, len(NEAR)),
    "kde ball tree": Case(
        KernelDensity(algorithm="ball_tree"), minus_samples, KernelScore, True, False, len(NEAR)
    ),
    "kde minkowski": Case(
        KernelDensity(metric="minkowski"), minus_samples, KernelScore, True, False, len(NEAR)
    ),
    "kde exponential": Case(
        KernelDensity(kernel="exponential", bandwidth=0.6), minus_samples, KernelScore, True, False, len(NEAR)
    ),
    "kde manhattan": Case(KernelDensity(metric="manhattan"), minus_samples, FunctionScore),
    "kde p=3": Case(KernelDensity(metric="minkowski", metric_params={"p": 3}), minus_samples, FunctionScore),
    "kde tophat": Case(KernelDensity(kernel="tophat", bandwidth=99.0), minus_samples, FunctionScore),
    **{
        f"gmm {kind}": Case(
            GaussianMixture(3, covariance_type=kind, random_state=0), minus_samples, MixtureScore, True
        )
        for kind in ("full", "tied", "diag", "spherical")
    },
    **{
        f"bayesian {kind}": Case(
            BayesianGaussianMixture(n_components=2, covariance_type=kind, random_state=0, max_iter=900),
            minus_samples,
            MixtureScore,
            True,
        )
        for kind in ("full", "tied", "diag", "spherical")
    },
    "pca": Case(PCA(2), reconstruction_error, ProjectionScore, True),
    "pca whiten": Case(PCA(2, whiten=True), reconstruction_error, ProjectionScore, True),
    "pca incremental": Case(IncrementalPCA(2), reconstruction_error, ProjectionScore, True),
    "svd": Case(TruncatedSVD(2, random_state=0), reconstruction_error, ProjectionScore, True),
    "forest": Case(
        IsolationForest(n_estimators=20, random_state=0), minus_samples, FunctionScore, False, True
    ),
    "forest with contamination": Case(
        IsolationForest(n_estimators=20, contamination=0.1, random_state=0),
        minus_samples,
        FunctionScore,
        False,
        True,
    ),
    "lof": Case(LocalOutlierFactor(novelty=True), minus_samples, FunctionScore, False, True),
    "elliptic": Case(EllipticEnvelope(random_state=0), minus_samples, FunctionScore, True, True),
    "covariance": Case(LedoitWolf(), mahalanobis, FunctionScore, True),
    "sgd": Case(SGDOneClassSVM(nu=0.9, random_state=0), minus_samples, FunctionScore, True, True),
    "k-means": Case(KMeans(3, random_state=0), nearest_centre, CentreScore, True),
    "mini-batch k-means": Case(MiniBatchKMeans(3, random_state=0), nearest_centre, CentreScore, True),
    "bisecting k-means": Case(BisectingKMeans(3, random_state=0), nearest_centre, CentreScore, True),
    "neighbours": Case(NearestNeighbors(n_neighbors=4), mean_distance, NeighbourScore, True),
    "neighbours l2": Case(
        NearestNeighbors(algorithm="ball_tree", metric="l2"), mean_distance, NeighbourScore, True
    ),
    "neighbours manhattan": Case(NearestNeighbors(metric="manhattan"), mean_distance, FunctionScore),
    "neighbours p=1": Case(NearestNeighbors(p=1), mean_distance, FunctionScore),
    "neighbours cosine": Case(NearestNeighbors(metric="cosine"), mean_distance, FunctionScore),
}


def over_cases(keep=lambda case: True):
    chosen = {name: case for name, case in CASES.items() if keep(case)}
    return pytest.mark.parametrize("case", chosen.values(), ids=chosen.keys())


@cache
def fitted(case, framed=False):
    return clone(case.model).fit(pd.DataFrame(X, columns=NAMES) if framed else X)


@over_cases()
def test_value_is_the_models_own_score(case):
    model = fitted(case)
    score = as_score(model)
    rows = NEW[: case.n_exact]
    np.testing.assert_allclose(score.value(rows), case.oracle(model, rows), rtol=1e-10, atol=1e-10)


@over_cases(lambda case: case.score_type is KernelScore)
def test_value_of_kernel_models_far_away(case):
    model = fitted(case)
    oracle = minus_log_density if isinstance(model, KernelDensity) else minus_log_discriminant
    far = np.vstack([NEW, 1e4 * NEW])
    np.testing.assert_allclose(as_score(model).value(far), oracle(model, far), rtol=1e-10, atol=1e-10)


@over_cases()
def test_score_says_what_it_is(case):
    score = as_score(fitted(case))
    assert isinstance(score, ScoreFunction)
    assert type(score) is case.score_type
    assert score.feature_shape == (4,)
    assert score.feature_names is None
    assert type(case.model).__name__ in score.describes
    assert hasattr(score, "gradient") == case.gradient
    assert (score.threshold is not None) == case.threshold


@over_cases(lambda case: case.gradient)
def test_gradient_agrees_with_differences(case):
    score = as_score(fitted(case))
    np.testing.assert_allclose(
        score.gradient(NEW), central_differences(score.value, NEW), rtol=1e-5, atol=1e-5
    )


@over_cases(lambda case: case.threshold)
def test_threshold_separates_as_predict_does(case):
    model = fitted(case)
    score = as_score(model)
    np.testing.assert_array_equal(score.value(NEW) > score.threshold, model.predict(NEW) == -1)


def test_thresholds_are_tried_on_both_sides():
    split = [name for name, case in CASES.items() if case.threshold and 0 < _n_outside(case) < len(NEW)]
    assert len(split) >= 9


def _n_outside(case):
    return (fitted(case).predict(NEW) == -1).sum()


@over_cases()
def test_models_fitted_on_frames_take_arrays_and_frames_without_warnings(case):
    score = as_score(fitted(case, framed=True))
    assert score.feature_names == NAMES
    expected = as_score(fitted(case)).value(NEW)
    np.testing.assert_allclose(score.value(NEW), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        score.value(pd.DataFrame(NEW, columns=NAMES)), expected, rtol=1e-10, atol=1e-10
    )
    if case.gradient:
        assert score.gradient(NEW).shape == NEW.shape


@over_cases()
def test_models_fitted_on_arrays_take_frames_without_warnings(case):
    score = as_score(fitted(case))
    np.testing.assert_allclose(score.value(pd.DataFrame(NEW, columns=NAMES)), score.value(NEW), rtol=1e-12)


@over_cases()
def test_unfitted_models_say_so(case):
    with pytest.raises(NotFittedError):
        as_score(clone(case.model))


@over_cases()
@pytest.mark.parametrize(
    "bad",
    [
        NEW[:, :3],
        np.full((2, 4), np.nan),
        np.full((2, 4), -np.inf),
        np.full((2, 4), "a"),
        NEW[0],
        NEW + 0j,
        NEW[:0],
    ],
    ids=["columns", "nan", "inf", "text", "1D", "complex", "empty"],
)
def test_bad_rows_are_refused(case, bad):
    with pytest.raises(InvalidInput):
        as_score(fitted(case)).value(bad)


@over_cases(lambda case: case.score_type in (FunctionScore, MixtureScore, ProjectionScore))
def test_columns_in_another_order_are_refused(case):
    score = as_score(fitted(case, framed=True))
    with pytest.raises(InvalidInput, match="Column 0 of X is 'd', but the model was fitted with 'a'"):
        score.value(pd.DataFrame(NEW, columns=NAMES[::-1]))
    with pytest.raises(InvalidInput, match=r"missing \['d'\], not known to the model \['e', 'f'\]"):
        score.value(pd.DataFrame(np.ones((2, 5)), columns=[*NAMES[:3], "e", "f"]))


@over_cases()
def test_models_are_left_as_they_were(case):
    model = fitted(case)
    before = {name: repr(value) for name, value in vars(model).items()}
    as_score(model).value(NEW)
    assert {name: repr(value) for name, value in vars(model).items()} == before


def test_svm_expansion_holds_the_support_points_and_their_training_rows():
    model = OneClassSVM(nu=0.2).fit(X)
    expansion = as_score(model).expansion
    np.testing.assert_array_equal(X[expansion.training_rows], expansion.points)
    assert expansion.n_training == len(X)
    assert expansion.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert expansion.kernel.bandwidth == pytest.approx(1 / np.sqrt(2 * model._gamma), rel=1e-14)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
def test_svm_fitted_on_sparse_rows_scores_dense_ones(kernel):
    sparse = csr_matrix(np.where(np.abs(X) < 1, 0.0, X))
    ours, dense = (
        as_score(OneClassSVM(kernel=kernel, gamma=0.1, nu=0.2, tol=1e-9).fit(rows))
        for rows in (sparse, sparse.toarray())
    )
    np.testing.assert_allclose(ours.value(NEW), dense.value(NEW), rtol=1e-6)
    np.testing.assert_allclose(ours.gradient(NEW), dense.gradient(NEW), rtol=1e-6, atol=1e-8)
    assert ours.threshold == pytest.approx(dense.threshold, rel=1e-6)


def test_svm_with_sample_weights():
    model = OneClassSVM(nu=0.2).fit(X, sample_weight=WEIGHTS + 0.1)
    np.testing.assert_allclose(as_score(model).value(NEAR), minus_log_g(model, NEAR), rtol=1e-10)


def test_svm_with_a_callable_kernel_does_not_record_its_columns():
    model = OneClassSVM(kernel=cubic, nu=0.2).fit(X)
    score = as_score(model)
    assert score.feature_shape is None
    assert not hasattr(score, "gradient")
    np.testing.assert_allclose(score.value(NEW), -model.score_samples(NEW), rtol=1e-10)
    np.testing.assert_array_equal(score.value(NEW) > score.threshold, model.predict(NEW) == -1)


def test_svm_with_a_flat_kernel():
    model = OneClassSVM(gamma=0.0, nu=0.2).fit(X)
    assert type(as_score(model)) is FunctionScore
    np.testing.assert_allclose(as_score(model).value(NEW), as_score(model).threshold, rtol=1e-10)


def test_far_rows_keep_finite_growing_scores():
    score = as_score(OneClassSVM(nu=0.2).fit(X))
    far = score.value(np.array([[1e3] * 4, [1e6] * 4]))
    assert 1e4 < far[0] < far[1] < np.inf


@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
@pytest.mark.parametrize("d", [1, 3, 7])
def test_density_normaliser_in_any_dimension(kernel, d):
    rows = RNG.normal(size=(60, d))
    model = KernelDensity(kernel=kernel, bandwidth=0.4).fit(rows)
    new = RNG.normal(size=(15, d))
    np.testing.assert_allclose(as_score(model).value(new), -model.score_samples(new), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree"])
def test_density_respects_sample_weights(kernel, algorithm):
    model = KernelDensity(kernel=kernel, algorithm=algorithm, leaf_size=5).fit(X, sample_weight=WEIGHTS)
    score = as_score(model)
    with np.errstate(divide="ignore"):  # scikit-learn takes the logarithm of every weight
        theirs = -model.score_samples(NEAR)
    np.testing.assert_allclose(score.value(NEAR), theirs, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(score.value(NEW), minus_log_density(model, NEW), rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(score.expansion.training_rows, np.flatnonzero(WEIGHTS))
    np.testing.assert_array_equal(score.expansion.points, X[WEIGHTS > 0])
    assert score.expansion.n_training == len(X)


def test_density_with_named_bandwidth():
    model = KernelDensity(bandwidth="scott").fit(X)
    np.testing.assert_allclose(as_score(model).value(NEAR), -model.score_samples(NEAR), rtol=1e-10)


def test_density_without_support_at_a_row_is_an_error_that_names_it():
    score = as_score(KernelDensity(kernel="tophat", bandwidth=0.5).fit(X))
    with pytest.raises(InvalidInput, match=r"tophat kernel is inf for row 1"):
        score.value(np.vstack([X[0], X[0] + 100]))


def test_neighbours_are_training_rows():
    expansion = as_score(NearestNeighbors(n_neighbors=3).fit(X)).expansion
    np.testing.assert_array_equal(expansion.points, X)
    np.testing.assert_array_equal(expansion.training_rows, np.arange(len(X)))
    assert expansion.n_neighbours == 3


def test_neighbours_of_sparse_rows():
    model = NearestNeighbors().fit(csr_matrix(X))
    np.testing.assert_allclose(as_score(model).value(NEW), mean_distance(model, NEW), rtol=1e-7)


def test_more_neighbours_than_rows():
    with pytest.raises(InvalidInput, match="asks for 9 neighbours, but was fitted on 4 rows"):
        as_score(NearestNeighbors(n_neighbors=9).fit(X[:4]))


class Shifted(OneClassSVM):
    """A user's own subclass."""


def test_subclasses_are_recognised():
    assert type(as_score(Shifted(nu=0.2).fit(X))) is KernelScore


class Norm(OutlierMixin, BaseEstimator):
    """A detector by somebody else, without score_samples."""

    def fit(self, rows, y=None):
        self.limit_ = 3.0
        return self

    def decision_function(self, rows):
        return self.limit_ - np.linalg.norm(rows, axis=1)


def test_detector_with_only_a_decision_function():
    score = as_score(Norm().fit(X))
    np.testing.assert_allclose(score.value(NEW), np.linalg.norm(NEW, axis=1) - 3.0, rtol=1e-12)
    assert score.threshold == 0.0


def test_search_gives_its_best_estimator():
    search = GridSearchCV(KernelDensity(), {"bandwidth": [0.3, 1.0]}, cv=2).fit(X)
    score = as_score(search)
    np.testing.assert_allclose(score.value(NEAR), -search.best_estimator_.score_samples(NEAR), rtol=1e-10)
    with pytest.raises(NotFittedError):
        as_score(clone(search))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (RandomForestClassifier(), r"classifier.*explains what it predicts.*as_prediction"),
        (SVC(), r"classifier.*explains what it predicts"),
        (LinearRegression(), r"regressor.*explains what it predicts.*as_prediction"),
        (StandardScaler(), r"StandardScaler has no anomaly score"),
        (OneClassSVM, r"OneClassSVM is a class; pass a fitted instance"),
        ("auto", r"builtins\.str is neither a model tellwhy knows nor a function"),
        (None, r"NoneType"),
    ],
)
def test_what_cannot_be_scored_is_refused_with_advice(model, message):
    with pytest.raises(UnsupportedModel, match=message):
        as_score(model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (OneClassSVM(kernel="precomputed"), r"sees kernel values.*score_samples\(kernel"),
        (NearestNeighbors(metric="precomputed"), r"sees distances, not rows"),
    ],
)
def test_precomputed_models_are_refused_with_advice(model, message):
    with pytest.raises(UnsupportedModel, match=message):
        as_score(model.fit(X @ X.T + 100 * np.eye(len(X)) if "SVM" in str(model) else np.ones((9, 9))))


def test_local_outlier_factor_without_novelty_is_refused():
    with pytest.raises(UnsupportedModel, match="novelty=True"):
        as_score(LocalOutlierFactor().fit(X))


@pytest.mark.parametrize("name", ["OneClassSVM", "SVDD", "KernelDensity", "NearestNeighbours"])
def test_own_detectors(name):
    detector = getattr(detectors, name)()
    with pytest.raises(NotFittedError):
        as_score(detector)
    detector.fit(X)
    np.testing.assert_array_equal(as_score(detector).value(NEW), detector.outlierness(NEW))


def test_own_svm_and_scikit_learns_give_the_same_score():
    theirs = OneClassSVM(gamma=0.125, nu=0.2, tol=1e-10).fit(X)
    ours = detectors.OneClassSVM(bandwidth=2.0, nu=0.2, tol=1e-6).fit(X)
    np.testing.assert_allclose(as_score(theirs).value(NEW), ours.outlierness(NEW), rtol=1e-5)


def test_functions_and_score_functions():
    assert as_score(lambda rows: rows[:, 0]).value(NEW).tolist() == NEW[:, 0].tolist()
    score = as_score(KMeans(2, random_state=0).fit(X))
    assert as_score(score) is score


def test_importing_scores_loads_no_third_party_but_the_base():
    program = "import sys, tellwhy.scoring; print([m for m in ('pyod', 'torch', 'pandas', 'plotly') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
