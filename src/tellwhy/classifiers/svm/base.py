"""What the multi-class SVMs share: scikit-learn's interface over one solver."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Self

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from tellwhy.classifiers.svm.calibration import best_temperature, softmax
from tellwhy.classifiers.svm.engines.pair_engine import PairEngine
from tellwhy.classifiers.svm.engines.single_engine import SingleEngine
from tellwhy.classifiers.svm.problem import (
    Labels,
    Problem,
    check_entries,
    feasible,
    make_multilabel_problem,
    make_problem,
    memory_for,
    with_intercept,
)
from tellwhy.classifiers.svm.solver import Progress, Settings, is_done, solve
from tellwhy.core.errors import InvalidInput, InvalidParameter, NotConverged
from tellwhy.core.explanation import Explanation
from tellwhy.core.parallel import tracked_batches
from tellwhy.core.params import (
    Rules,
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
from tellwhy.core.score_function import Floats
from tellwhy.core.storage.saved_models import SavedModel
from tellwhy.core.tables import column_names, not_a_number

SPARSE_BELOW = 0.3  # `coef_` becomes sparse if fewer of its entries than this share are not zero
SPARSE_FROM = 10_000  # entries


def is_calibrated(model: Any) -> bool:
    """Whether `calibrate` was called; if not, the error says so."""
    if not hasattr(model, "temperature_"):
        raise AttributeError("Call calibrate(X, y) first, with rows that were not trained on.")
    return True


class MulticlassSVM(SavedModel, ClassifierMixin, BaseEstimator):
    """Base of the multi-class SVMs; subclasses name their loss and whether rows may have several labels."""

    _loss: ClassVar[str]
    _multilabel: ClassVar[bool] = False
    coef_: Any
    classes_: Any
    _model_io = "tellwhy.classifiers.model_io"
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
        class_weight: Any = None,
        n_jobs: int | None = None,
        n_bundles: str | int = "auto",
        shrinking: bool = True,
        dtype: str = "float64",
        warm_start: bool = False,
        random_state: Any = None,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
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
        if y is None:
            raise InvalidInput(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        rows, y = self._validated(X, y)
        labels, n_classes = self._read_labels(y)
        caps = self._caps(rows, labels, sample_weight)
        problem = self._problem(rows, labels, caps, n_classes)
        engine = self._engine(problem)
        try:
            progress = self._ascend(engine, problem)
            self._keep(engine.weights(), progress)
            if self.warm_start:
                self.dual_coef_, self.dual_caps_ = engine.duals(), problem.caps
        finally:
            engine.close()
        return self

    def path(self, X: Any, y: Any, Cs: Any, sample_weight: Any = None) -> list[Self]:
        """Fit one model per C, each started from the one before; best in increasing order."""
        models: list[Self] = []
        for C in Cs:
            model = clone(self).set_params(C=C, warm_start=True)
            if models:
                for name in ("dual_coef_", "dual_caps_", "classes_"):
                    setattr(model, name, getattr(models[-1], name))
            models.append(model.fit(X, y, sample_weight))
        return models

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
            return self._of_scores(X, lambda scores: (scores > 0).astype(np.int64))
        return self.classes_[self._of_scores(X, lambda scores: scores.argmax(axis=1))]

    def predict_top_k(self, X: Any, k: int) -> Any:
        """The k classes with the highest scores, best first: rows × k."""
        check_is_fitted(self)
        validate_value(f"{type(self).__name__}.predict_top_k", "k", k, integer(1, len(self.classes_)))
        return self.classes_[
            self._of_scores(X, lambda scores: np.argsort(-scores, axis=1, kind="stable")[:, :k])
        ]

    def calibrate(self, X: Any, y: Any) -> Self:
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
        self.temperature_ = best_temperature(scores, np.searchsorted(self.classes_, y))
        return self

    @available_if(is_calibrated)
    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class, once `calibrate` was called."""
        return softmax(self._scores(X) / self.temperature_)

    def explain(
        self, X: Any, *, against: str | None = "runner_up", of: Any = None, feature_names: Any = None
    ) -> Explanation:
        """Share each row's score, or its lead over the runner-up, among its features; see `LinearRelevance`."""
        check_is_fitted(self)
        self._validated(X)  # its errors name the cell
        explainer = card("classifier explainer", "LinearRelevance").cls(self, feature_names=feature_names)
        explained: Explanation = explainer.explain(X, against=against, of=of)
        return explained

    def sparsify(self, threshold: float = 0.0) -> Self:
        """Set weights of at most this size to zero and store the others only."""
        check_is_fitted(self)
        validate_value(f"{type(self).__name__}.sparsify", "threshold", threshold, real(0, closed="left"))
        kept = sparse.csr_array(self.coef_)
        kept.data = np.where(np.abs(kept.data) > threshold, kept.data, 0)
        kept.eliminate_zeros()
        self.coef_ = kept
        return self

    def densify(self) -> Self:
        """Store all weights in an array."""
        check_is_fitted(self)
        self.coef_ = self.coef_.toarray() if sparse.issparse(self.coef_) else self.coef_
        return self

    @property
    def density_(self) -> float:
        """Share of weights that are not zero."""
        check_is_fitted(self)
        nonzero = self.coef_.nnz if sparse.issparse(self.coef_) else np.count_nonzero(self.coef_)
        return float(nonzero / (self.coef_.shape[0] * self.coef_.shape[1]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self._multilabel
        return tags

    @property
    def _is_multilabel(self) -> bool:
        return bool(getattr(self, "multilabel_", False))

    def _validated(self, X: Any, y: Any = None) -> Any:
        """Rows as CSR with finite float64 entries (and y, where given)."""
        checks: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": False}
        try:
            if y is None:
                rows = validate_data(self, X, reset=False, **checks)
            elif self._multilabel and type_of_target(y) == "multilabel-indicator":
                rows, y = validate_data(self, X, y, multi_output=True, **checks)
            else:
                rows, y = validate_data(self, X, y, **checks)
        except ValueError as error:
            raise InvalidInput(_rows_words(X, error)) from error
        rows = sparse.csr_array(rows)
        check_entries(rows, column_names(X))
        return rows if y is None else (rows, y)

    def _read_labels(self, y: Any) -> tuple[Labels, int]:
        """Set `classes_`; return labels as numbers and how many classes there are (with a threshold's)."""
        name = type(self).__name__
        try:
            check_classification_targets(y)
        except ValueError as error:
            raise InvalidInput(str(error)) from error
        self.multilabel_ = self._multilabel and type_of_target(y) == "multilabel-indicator"
        if self.multilabel_:
            self.classes_ = np.arange(y.shape[1])
            return Labels.of_indicator(y), y.shape[1] + (self._loss == "ww")
        before = getattr(self, "classes_", None)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if before is not None and not np.array_equal(before, self.classes_):
            self.__dict__.pop("dual_coef_", None)
        if len(self.classes_) < 2:
            raise InvalidInput(
                f"{name} needs at least 2 classes in y; got 1 class ({self.classes_.tolist()[0]!r}). Add rows of "
                "another class."
            )
        return Labels.of_classes(numbers), len(self.classes_)

    def _caps(self, rows: Any, labels: Labels, sample_weight: Any) -> Floats:
        """C_i = C · sample weight · class weight."""
        try:
            weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        except ValueError as error:
            raise InvalidInput(str(error)) from error
        caps: Floats = self.C * weights
        if self.class_weight is not None and self.multilabel_:
            raise InvalidParameter(
                f"class_weight of {type(self).__name__} needs one class per row; y holds sets of labels. Weigh rows by "
                "sample_weight."
            )
        if self.class_weight is not None:
            caps = caps * self._class_factors(labels)[labels.classes]
        return caps

    def _class_factors(self, labels: Labels) -> Floats:
        try:
            found = compute_class_weight(
                self.class_weight, classes=self.classes_, y=self.classes_[labels.classes]
            )
        except ValueError as error:
            raise InvalidInput(
                f"{type(self).__name__}: {error}. Got classes {self.classes_.tolist()[:5]}."
            ) from error
        bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
        if len(bad):
            raise InvalidInput(
                f"class_weight of {type(self).__name__} gives class {self.classes_.tolist()[bad[0]]!r} the factor "
                f"{found[bad[0]]}; expected finite factors of at least 0."
            )
        return np.asarray(found, dtype=np.float64)

    def _problem(self, rows: Any, labels: Labels, caps: Floats, n_classes: int) -> Problem:
        if self.fit_intercept:
            rows = with_intercept(rows, self.intercept_scaling)
        if self.multilabel_ and self._loss == "ww":
            return make_multilabel_problem(rows, labels, caps, n_classes=n_classes, dtype=self.dtype)
        return make_problem(rows, labels, caps, n_classes=n_classes, loss=self._loss, dtype=self.dtype)

    def _engine(self, problem: Problem) -> Any:
        threads = joblib.effective_n_jobs(self.n_jobs)
        pairs = self._loss in ("ww", "cs")
        n = (
            default_blocks(problem.n_classes, pairs=pairs)
            if self.n_bundles == "auto"
            else int(self.n_bundles)
        )
        kind = PairEngine if pairs else SingleEngine
        with memory_for(problem):
            return kind(
                problem,
                n_blocks=min(n, problem.n_classes),
                n_jobs=threads,
                seed=generator(self.random_state),
            )

    def _ascend(self, engine: Any, problem: Problem) -> Progress:
        settings = Settings(self.tol, self.stopping, self.max_epochs, self.shrinking)
        before = getattr(self, "dual_coef_", None) if self.warm_start else None
        shape = (problem.n_examples, problem.n_classes)
        warm = before is not None and before.shape == shape
        if warm:
            engine.set_duals(feasible(_rescaled(before, self.dual_caps_, problem.caps), problem))
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

    def adopt(
        self, weights: Any, classes: Any, progress: Progress, *, feature_names: list[str] | None = None
    ) -> None:
        """Take weights that were trained elsewhere: CSR, classes × features, the intercept's feature last."""
        self.classes_, self.multilabel_ = classes, False
        self.n_features_in_ = weights.shape[1] - int(self.fit_intercept)
        if feature_names is not None:
            self.feature_names_in_ = np.array(feature_names, dtype=object)
        self._keep_history(progress)
        self._set_weights(weights)

    def _keep(self, weights: Any, progress: Progress) -> None:
        """Set what was learned; weights come features × classes, the intercept's feature and the threshold last."""
        if self.multilabel_ and self._loss == "ww":
            weights = weights[:, :-1] - weights[:, -1:]
        self._set_weights(np.ascontiguousarray(weights.T))
        self._keep_history(progress)

    def _set_weights(self, coef: Any) -> None:
        """Set `coef_`, sparse where that pays, and `intercept_` from weights, classes × features."""
        self.intercept_ = np.zeros(coef.shape[0], dtype=coef.dtype)
        if self.fit_intercept:
            last = coef[:, [-1]]
            last = last.toarray() if sparse.issparse(last) else last
            self.intercept_ = last.ravel() * self.intercept_scaling
            coef = coef[:, :-1]
        size = coef.shape[0] * coef.shape[1]
        nonzero = coef.nnz if sparse.issparse(coef) else np.count_nonzero(coef)
        if size >= SPARSE_FROM and nonzero < SPARSE_BELOW * size:
            self.coef_ = sparse.csr_array(coef)
        else:
            self.coef_ = coef.toarray() if sparse.issparse(coef) else np.ascontiguousarray(coef)

    def _keep_history(self, progress: Progress) -> None:
        self.history_ = progress.history
        self.n_iter_ = progress.epochs
        self.objective_ = progress.last["objective"]
        self.dual_gap_ = progress.last["gap"]
        for name in ("temperature_", "centre_"):
            self.__dict__.pop(name, None)

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        return self._scores_of(self._validated(X), self.coef_.T)

    def _scores_of(self, rows: Any, weights: Any) -> Floats:
        scores = rows @ weights
        return (
            np.asarray(scores.toarray() if sparse.issparse(scores) else scores, dtype=np.float64)
            + self.intercept_
        )

    def _of_scores(self, X: Any, compute: Callable[[Floats], Any]) -> Any:
        """Join what is computed from the scores of each batch of rows: those of all rows may not fit into memory."""
        rows = self._validated(X)
        # Products would bring the weights into this order again for each batch.
        weights = self.coef_.T.tocsr() if sparse.issparse(self.coef_) else np.ascontiguousarray(self.coef_.T)
        batches = tracked_batches(rows.shape[0], rows.data.itemsize * len(self.intercept_), "scoring rows")
        return np.concatenate([compute(self._scores_of(rows[batch], weights)) for batch in batches])


def default_blocks(n_classes: int, *, pairs: bool) -> int:
    """How many bundles to cut classes into.

    A Weston–Watkins row is solved for all classes at once where they form one bundle; cut into several, it
    takes more epochs, up to many more where every class is in play. Losses that judge each class on its own
    take few more epochs with more bundles, which threads share.
    """
    if pairs or n_classes < 8:
        return 1
    return 4 if n_classes < 256 else 8


def _rescaled(duals: Any, before: Floats, now: Floats) -> Any:
    """Move dual variables from old caps to new ones: what was feasible stays so."""
    factor = np.divide(now, before, out=np.zeros_like(now), where=before > 0)
    return sparse.csr_array(sparse.diags_array(factor) @ duals)


def _rows_words(X: Any, error: ValueError) -> str:
    """What is wrong with rows; where they are texts, what learns from texts."""
    if "could not convert" not in str(error):
        return str(error)
    if np.ndim(X) == 1:
        return "X holds texts; expected rows of numbers. TextClassifier learns from texts."
    return not_a_number(np.asarray(X), column_names(X), error)
