"""What the multi-class SVMs share: scikit-learn's interface over one solver.

In this order: what is given to `fit`, checked and brought into the shape that a problem is made of; scores,
classes, probabilities and explanations of rows; the temperature between scores and probabilities, fitted on
rows that were held out; and fitted weights, classes × features, sparse where that pays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from tellwhy.classifiers.svm.problem import (
    Labels,
    Problem,
    add_intercept,
    check_entries,
    describe_memory_for,
    feasible,
    make_multilabel_problem,
    make_problem,
    rescaled,
    tell_why_infeasible,
)
from tellwhy.classifiers.svm.solver import Engine, Progress, Settings, is_done, solve
from tellwhy.core.arrays import list_columns, not_a_number
from tellwhy.core.errors import InvalidInput, InvalidParameter, NotConverged
from tellwhy.core.explanation import Explanation
from tellwhy.core.old_names import takes_old_names
from tellwhy.core.params import (
    Fit,
    Rules,
    Seed,
    are_finite,
    boolean,
    generator,
    instance_of,
    integer,
    none,
    one_of,
    real,
    seed,
    validate_parameters,
    validate_value,
)
from tellwhy.core.registry import card
from tellwhy.core.running import n_threads, track_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.storage.model_file import SavedModel

# Entries that are not finite are refused below, by row and column, which scikit-learn does not tell.
_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": False}


class ReadLabels(NamedTuple):
    """Labels as numbers, the classes these stand for, and whether a row may have several."""

    labels: Labels
    classes: Any
    are_sets: bool


def checked_rows(model: BaseEstimator, X: Any) -> Any:
    """Rows to be scored as CSR with finite float64 entries."""
    try:
        rows = validate_data(model, X, reset=False, **_CHECKS)
    except ValueError as error:
        raise InvalidInput(_tell_what_is_wrong(X, error)) from error
    return _finite(rows, X)


def check_rows_and_labels(model: BaseEstimator, X: Any, y: Any, *, takes_sets: bool) -> tuple[Any, Any]:
    """Rows to be fitted as CSR with finite float64 entries, and their labels."""
    if y is None:
        raise InvalidInput(f"{type(model).__name__} requires y to be passed, but the target y is None.")
    try:
        sets = takes_sets and type_of_target(y) == "multilabel-indicator"
        rows, y = validate_data(model, X, y, multi_output=sets, **_CHECKS)
    except ValueError as error:
        raise InvalidInput(_tell_what_is_wrong(X, error)) from error
    return _finite(rows, X), y


def _finite(rows: Any, X: Any) -> Any:
    rows = sparse.csr_array(rows)
    check_entries(rows, list_columns(X))
    return rows


def _tell_what_is_wrong(X: Any, error: ValueError) -> str:
    """What is wrong with rows; where they are texts, what learns from texts."""
    if "could not convert" not in str(error):
        return str(error)
    if np.ndim(X) == 1:
        return "X holds texts; expected rows of numbers. TextClassifier learns from texts."
    return not_a_number(np.asarray(X), list_columns(X), error)


def read_labels(y: Any, *, takes_sets: bool, owner: str) -> ReadLabels:
    """Labels as numbers; sets of labels come as a 0/1 matrix, rows × labels."""
    try:
        check_classification_targets(y)
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    if takes_sets and type_of_target(y) == "multilabel-indicator":
        return ReadLabels(Labels.of_indicator(y), np.arange(y.shape[1]), are_sets=True)
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInput(
            f"{owner} needs at least 2 classes in y; got 1 class ({classes.tolist()[0]!r}). Add rows of "
            "another class."
        )
    return ReadLabels(Labels.of_classes(numbers), classes, are_sets=False)


def compute_row_caps(
    rows: Any,
    found: ReadLabels,
    *,
    C: float,
    sample_weight: ArrayLike | None,
    class_weight: str | dict[Any, float] | None,
    owner: str,
) -> Floats:
    """C_i = C · sample weight · class weight."""
    try:
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    caps: Floats = C * weights
    if class_weight is None:
        return caps
    if found.are_sets:
        raise InvalidParameter(
            f"class_weight of {owner} needs one class per row; y holds sets of labels. Weigh rows by "
            "sample_weight."
        )
    return caps * _compute_class_factors(found, class_weight, owner)[found.labels.classes]


def _compute_class_factors(found: ReadLabels, class_weight: str | dict[Any, float], owner: str) -> Floats:
    classes = found.classes
    try:
        factors = compute_class_weight(class_weight, classes=classes, y=classes[found.labels.classes])
    except ValueError as error:
        raise InvalidInput(f"{owner}: {error}. Got classes {classes.tolist()[:5]}.") from error
    bad = np.flatnonzero(~(np.isfinite(factors) & (factors >= 0)))
    if len(bad):
        raise InvalidInput(
            f"class_weight of {owner} gives class {classes.tolist()[bad[0]]!r} the factor {factors[bad[0]]}; "
            "expected finite factors of at least 0."
        )
    return np.asarray(factors, dtype=np.float64)


def softmax(scores: Floats) -> Floats:
    """exp(s) / Σ exp(s), row by row."""
    return np.exp(scores - logsumexp(scores, axis=1, keepdims=True))


def find_best_temperature(scores: Floats, y: Integers) -> float:
    """T > 0 that maximises the likelihood of the classes y under softmax(scores / T).

    Examples
    --------
    >>> scores = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    >>> T = find_best_temperature(scores, np.array([0, 0, 0, 1]))
    >>> softmax(scores / T)[0].round(4)
    array([0.75, 0.25])
    """
    at = np.arange(len(y))
    # Over log T: any real number is allowed, and halving T is as large a step as doubling it.

    def loss(log_temperature: float) -> float:
        s = scores / np.exp(log_temperature)
        return float((logsumexp(s, axis=1) - s[at, y]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-8, 8), method="bounded", options={"xatol": 1e-8}).x))


SPARSE_BELOW = 0.3  # weights are kept sparse if fewer of them than this share are not zero
SPARSE_FROM = 10_000  # weights


def dense(weights: Any) -> Any:
    """Weights in an array."""
    return weights.toarray() if sparse.issparse(weights) else weights


def density(weights: Any) -> float:
    """Share of weights that are not zero."""
    nonzero = weights.nnz if sparse.issparse(weights) else np.count_nonzero(weights)
    return float(nonzero / (weights.shape[0] * weights.shape[1]))


def stored(weights: Any) -> Any:
    """Weights as they are kept: sparse where they are many and most of them zero."""
    if weights.shape[0] * weights.shape[1] >= SPARSE_FROM and density(weights) < SPARSE_BELOW:
        return sparse.csr_array(weights)
    return np.ascontiguousarray(dense(weights))


def drop_small(weights: Any, threshold: float) -> Any:
    """Sparse weights without those of at most this size."""
    kept = sparse.csr_array(weights)
    kept.data = np.where(np.abs(kept.data) > threshold, kept.data, 0)
    kept.eliminate_zeros()
    return kept


def order_weights_by_feature(weights: Any) -> Any:
    """Features × classes, in the order in memory that products with many rows want."""
    return weights.T.tocsr() if sparse.issparse(weights) else np.ascontiguousarray(weights.T)


def is_calibrated(model: LinearScores) -> bool:
    """Whether `calibrate` was called; if not, the error says so."""
    if not hasattr(model, "temperature_"):
        raise AttributeError("Call calibrate(X, y) first, with rows that were not trained on.")
    return True


class LinearScores(ClassifierMixin, BaseEstimator):
    """The part of a multi-class SVM that needs no more than its weights, intercepts and classes."""

    coef_: Any
    intercept_: Floats
    classes_: Any

    def decision_function(self, X: Any) -> Floats:
        """Score of each class, rows × classes; with two classes, how far the second is ahead of the first."""
        scores = self._scores(X)
        if self._is_multilabel or scores.shape[1] != 2:
            return scores
        return scores[:, 1] - scores[:, 0]

    def predict(self, X: Any) -> Any:
        """Class with the highest score; for label sets a 0/1 matrix of the labels above the threshold."""
        check_is_fitted(self)
        if self._is_multilabel:
            return self._join_by_scores(X, lambda scores: (scores > 0).astype(np.int64))
        return self.classes_[self._join_by_scores(X, lambda scores: scores.argmax(axis=1))]

    def predict_top_k(self, X: Any, k: int) -> Any:
        """The k classes with the highest scores, best first: rows × k."""
        check_is_fitted(self)
        validate_value(f"{type(self).__name__}.predict_top_k", "k", k, integer(1, len(self.classes_)))
        # Stable: of equal scores the first class wins, as in `predict`.
        best = self._join_by_scores(X, lambda scores: np.argsort(-scores, axis=1, kind="stable")[:, :k])
        return self.classes_[best]

    def calibrate(self, X: Any, y: ArrayLike) -> Self:
        """Learn from rows that were not trained on how far scores can be trusted; `predict_proba` needs this.

        The probabilities are softmax(scores / temperature_): one number is fitted, by maximum likelihood.
        """
        check_is_fitted(self)
        if self._is_multilabel:
            raise InvalidInput("calibrate needs one class per row; this model was fitted on label sets.")
        y = np.asarray(y)
        known = np.isin(y, self.classes_)
        if y.ndim != 1 or not known.all():
            strange = y[~known][:1].tolist() if y.ndim == 1 else y.shape
            raise InvalidInput(
                f"calibrate got labels {strange} in y; expected classes that the model was fitted on."
            )
        scores = self._scores(X)
        if len(scores) != len(y):
            raise InvalidInput(f"X has {len(scores)} rows, y has {len(y)}; expected as many.")
        self.temperature_ = find_best_temperature(scores, np.searchsorted(self.classes_, y))
        return self

    @available_if(is_calibrated)
    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class, once `calibrate` was called."""
        return softmax(self._scores(X) / self.temperature_)

    @takes_old_names
    def explain(
        self,
        X: Any,
        *,
        target: Any = None,
        against: Any = "runner_up",
        feature_names: Sequence[str] | None = None,
        progress: bool | None = None,
    ) -> Explanation:
        """Share each row's score, or its lead over the runner-up, among its features.

        See `LinearRelevance`, whose parameters these are.
        """
        check_is_fitted(self)
        checked_rows(self, X)  # its errors name the cell
        settings = {"target": target, "against": against, "feature_names": feature_names}
        explainer = card("classifier explainer", "LinearRelevance").cls(self, **settings)
        explained: Explanation = explainer.explain(X, progress=progress)
        return explained

    def sparsify(self, threshold: float = 0.0) -> Self:
        """Set weights of at most this size to zero and store the others only."""
        check_is_fitted(self)
        validate_value(f"{type(self).__name__}.sparsify", "threshold", threshold, real(0, closed="left"))
        self.coef_ = drop_small(self.coef_, threshold)
        return self

    def densify(self) -> Self:
        """Store all weights in an array."""
        check_is_fitted(self)
        self.coef_ = dense(self.coef_)
        return self

    @property
    def density_(self) -> float:
        """Share of weights that are not zero."""
        check_is_fitted(self)
        return density(self.coef_)

    @property
    def _is_multilabel(self) -> bool:
        return bool(getattr(self, "multilabel_", False))

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        return self._compute_scores_of(checked_rows(self, X), self.coef_.T)

    def _compute_scores_of(self, rows: Any, by_feature: Any) -> Floats:
        return np.asarray(dense(rows @ by_feature), dtype=np.float64) + self.intercept_

    def _join_by_scores(self, X: Any, compute: Callable[[Floats], Any]) -> Any:
        """Join what is computed from the scores of each batch of rows.

        The scores of all rows may not fit into memory.
        """
        rows = checked_rows(self, X)
        # Products would bring the weights into this order again for each batch.
        by_feature = order_weights_by_feature(self.coef_)
        batches = track_batches(rows.shape[0], rows.data.itemsize * len(self.intercept_), "scoring rows")
        return np.concatenate(
            [compute(self._compute_scores_of(rows[batch], by_feature)) for batch in batches]
        )


class MulticlassSVM(SavedModel, LinearScores):
    """Base of the multi-class SVMs; subclasses name their loss, its solver, and what labels rows may have."""

    _loss: ClassVar[str]
    _engine: ClassVar[type[Any]]
    _multilabel: ClassVar[bool] = False
    _parameters: ClassVar[dict[str, Rules]] = {
        "C": real(0),
        "tol": real(0),
        "stopping": one_of("gap", "violation"),
        "max_epochs": integer(1),
        "fit_intercept": boolean,
        "intercept_scaling": real(0),
        "class_weight": (none, one_of("balanced"), instance_of(dict, words="a dict")),
        "n_jobs": (none, one_of(-1), integer(1)),
        "n_bundles": (one_of("auto"), integer(1)),
        "shrinking": boolean,
        "dtype": one_of("float64", "float32"),
        "warm_start": boolean,
        "random_state": seed,
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: float = 1e-3,
        stopping: str = "gap",
        max_epochs: int = 1000,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: str | dict[Any, float] | None = None,
        n_jobs: int | None = None,
        n_bundles: str | int = "auto",
        shrinking: bool = True,
        dtype: str = "float64",
        warm_start: bool = False,
        random_state: Seed = 0,
    ):
        self.C = C
        self.tol = tol
        self.stopping = stopping
        self.max_epochs = max_epochs
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.n_bundles = n_bundles
        self.shrinking = shrinking
        self.dtype = dtype
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the weights of all classes together.

        Parameters
        ----------
        X
            Rows, sparse or dense.
        y
            One class per row; for estimators that take label sets also a 0/1 matrix, rows × labels.
        sample_weight
            Factor of C per row.
        """
        validate_parameters(self)
        problem = self._problem(X, y, sample_weight)
        with describe_memory_for(problem):
            engine = self._engine(
                problem,
                n_blocks=None if self.n_bundles == "auto" else int(self.n_bundles),
                n_jobs=n_threads(self.n_jobs),
                seed=generator(self.random_state),
            )
        try:
            progress = self._ascend(engine, problem)
            learned = engine.weights()
            self._check_objective(problem, learned, progress)
            self._keep(learned, progress)
            if self.warm_start:
                self.dual_coef_ = engine.duals()
                self.dual_caps_ = problem.caps
        finally:
            engine.close()
        return self

    @takes_old_names
    def path(
        self, X: Any, y: ArrayLike, Cs: Iterable[float], *, sample_weight: ArrayLike | None = None
    ) -> list[Self]:
        """Fit one model per C, each started from the one before; best in increasing order."""
        models: list[Self] = []
        for C in Cs:
            model = clone(self).set_params(C=C, warm_start=True)
            if models:
                for name in ("dual_coef_", "dual_caps_", "classes_"):
                    setattr(model, name, getattr(models[-1], name))
            models.append(model.fit(X, y, sample_weight))
        return models

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self._multilabel
        return tags

    def _problem(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Problem:
        """Check what is given, set `classes_` and return the problem to solve."""
        owner = type(self).__name__
        rows, y = check_rows_and_labels(self, X, y, takes_sets=self._multilabel)
        found = read_labels(y, takes_sets=self._multilabel, owner=owner)
        self._take_classes(found)
        caps = compute_row_caps(
            rows, found, C=self.C, sample_weight=sample_weight, class_weight=self.class_weight, owner=owner
        )
        if self.fit_intercept:
            rows = add_intercept(rows, self.intercept_scaling)
        n_classes = len(found.classes)
        if found.are_sets and self._loss == "ww":
            # One class more, the threshold that tells a row's labels from the others.
            return make_multilabel_problem(
                rows, found.labels, caps, n_classes=n_classes + 1, dtype=self.dtype
            )
        return make_problem(rows, found.labels, caps, n_classes=n_classes, loss=self._loss, dtype=self.dtype)

    def _take_classes(self, found: ReadLabels) -> None:
        """Set `classes_`; dual variables of other classes are no start for these."""
        before = getattr(self, "classes_", None)
        self.multilabel_ = found.are_sets
        self.classes_ = found.classes
        if not found.are_sets and before is not None and not np.array_equal(before, self.classes_):
            self.__dict__.pop("dual_coef_", None)

    def _ascend(self, engine: Engine, problem: Problem) -> Progress:
        settings = Settings(self.tol, self.stopping, self.max_epochs, self.shrinking)
        before = getattr(self, "dual_coef_", None) if self.warm_start else None
        warm = before is not None and before.shape == (problem.n_examples, problem.n_classes)
        if before is not None and warm:
            start = feasible(rescaled(before, self.dual_caps_, problem.caps), problem)
            # Variables that were changed, or read from a file, may be no start: then there is none.
            warm = tell_why_infeasible(start, problem) is None
            if warm:
                engine.set_duals(start)
        progress = solve(engine, settings, warm=warm)
        if not is_done(progress, settings):
            passes = "1 epoch" if progress.epochs == 1 else f"{progress.epochs} epochs"
            warnings.warn(
                f"{type(self).__name__} stopped after {passes} at a relative duality gap of "
                f"{progress.last['gap']:.2g}; asked for {self.tol:g}. Raise max_epochs or tol, lower C, or "
                "scale rows to unit length or columns to unit variance.",
                NotConverged,
                stacklevel=3,
            )
        return progress

    def _check_objective(self, problem: Problem, learned: Any, progress: Progress) -> None:
        """Have the history end with the objective of the weights that are returned."""

    def adopt(
        self, coef: Any, classes: Any, progress: Progress, *, feature_names: list[str] | None = None
    ) -> None:
        """Take weights that were trained elsewhere: CSR, classes × features, the intercept's feature last."""
        self.classes_ = classes
        self.multilabel_ = False
        self.n_features_in_ = coef.shape[1] - int(self.fit_intercept)
        if feature_names is not None:
            self.feature_names_in_ = np.array(feature_names, dtype=object)
        self._keep_history(progress)
        self._set_weights(coef)

    def _keep(self, learned: Any, progress: Progress) -> None:
        """Set what was learned, weights of features × classes; the last class may be the threshold."""
        if self.multilabel_ and self._loss == "ww":
            # Scores count from the threshold's, so that a label is one whose score is positive.
            learned = learned[:, :-1] - learned[:, -1:]
        self._set_weights(np.ascontiguousarray(learned.T))
        self._keep_history(progress)

    def _set_weights(self, coef: Any) -> None:
        """Set `coef_` and `intercept_` from weights, classes × features, the intercept's feature last."""
        self.intercept_ = np.zeros(coef.shape[0], dtype=coef.dtype)
        if self.fit_intercept:
            self.intercept_ = dense(coef[:, [-1]]).ravel() * self.intercept_scaling
            coef = coef[:, :-1]
        self.coef_ = stored(coef)

    def _keep_history(self, progress: Progress) -> None:
        self.history_ = progress.history
        self.n_iter_ = progress.epochs
        self.objective_ = progress.last["objective"]
        self.dual_gap_ = progress.last["gap"]
        # What belonged to the weights before.
        for name in ("temperature_", "centre_"):
            self.__dict__.pop(name, None)

    def _require(self) -> Iterator[Fit]:
        if not any(name.endswith("_") for name in vars(self)):
            return  # a parameter of another model, which fits a copy of it
        shape = (len(self.classes_), self.n_features_in_)
        yield "coef_", (self.coef_.shape, self.coef_.dtype.kind), (shape, "f")
        yield "intercept_", self.intercept_.shape, shape[:1]
        yield "objective_", are_finite(self.objective_), True
        yield "dual_gap_", are_finite(self.dual_gap_) and self.dual_gap_ >= 0, True
        last = self.history_[-1]
        yield "history_", (last["objective"], last["gap"]), (self.objective_, self.dual_gap_)
        if hasattr(self, "centre_"):
            yield "centre_", self.centre_.shape, shape[1:]
        if hasattr(self, "feature_names_in_"):
            yield "feature_names_in_", len(self.feature_names_in_), self.n_features_in_
