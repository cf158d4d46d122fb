"""What a fitted multi-class SVM gives for rows: scores, classes, probabilities and explanations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tellwhy.classifiers.svm import weights
from tellwhy.classifiers.svm.calibration import best_temperature, softmax
from tellwhy.classifiers.svm.fit_input import checked_rows
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.parallel import tracked_batches
from tellwhy.core.params import integer, real, validate_value
from tellwhy.core.registry import card
from tellwhy.core.score_function import Floats


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
            return self._of_scores(X, lambda scores: (scores > 0).astype(np.int64))
        return self.classes_[self._of_scores(X, lambda scores: scores.argmax(axis=1))]

    def predict_top_k(self, X: Any, k: int) -> Any:
        """The k classes with the highest scores, best first: rows × k."""
        check_is_fitted(self)
        validate_value(f"{type(self).__name__}.predict_top_k", "k", k, integer(1, len(self.classes_)))
        # Stable: of equal scores the first class wins, as in `predict`.
        best = self._of_scores(X, lambda scores: np.argsort(-scores, axis=1, kind="stable")[:, :k])
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
        self.temperature_ = best_temperature(scores, np.searchsorted(self.classes_, y))
        return self

    @available_if(is_calibrated)
    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class, once `calibrate` was called."""
        return softmax(self._scores(X) / self.temperature_)

    def explain(
        self,
        X: Any,
        *,
        against: str | None = "runner_up",
        of: Any = None,
        feature_names: Sequence[str] | None = None,
    ) -> Explanation:
        """Share each row's score, or its lead over the runner-up, among its features.

        See `LinearRelevance`, whose parameters these are.
        """
        check_is_fitted(self)
        checked_rows(self, X)  # its errors name the cell
        explainer = card("classifier explainer", "LinearRelevance").cls(self, feature_names=feature_names)
        explained: Explanation = explainer.explain(X, against=against, of=of)
        return explained

    def sparsify(self, threshold: float = 0.0) -> Self:
        """Set weights of at most this size to zero and store the others only."""
        check_is_fitted(self)
        validate_value(f"{type(self).__name__}.sparsify", "threshold", threshold, real(0, closed="left"))
        self.coef_ = weights.without_small(self.coef_, threshold)
        return self

    def densify(self) -> Self:
        """Store all weights in an array."""
        check_is_fitted(self)
        self.coef_ = weights.dense(self.coef_)
        return self

    @property
    def density_(self) -> float:
        """Share of weights that are not zero."""
        check_is_fitted(self)
        return weights.density(self.coef_)

    @property
    def _is_multilabel(self) -> bool:
        return bool(getattr(self, "multilabel_", False))

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        return self._scores_of(checked_rows(self, X), self.coef_.T)

    def _scores_of(self, rows: Any, by_feature: Any) -> Floats:
        return np.asarray(weights.dense(rows @ by_feature), dtype=np.float64) + self.intercept_

    def _of_scores(self, X: Any, compute: Callable[[Floats], Any]) -> Any:
        """Join what is computed from the scores of each batch of rows.

        The scores of all rows may not fit into memory.
        """
        rows = checked_rows(self, X)
        # Products would bring the weights into this order again for each batch.
        by_feature = weights.by_feature(self.coef_)
        batches = tracked_batches(rows.shape[0], rows.data.itemsize * len(self.intercept_), "scoring rows")
        return np.concatenate([compute(self._scores_of(rows[batch], by_feature)) for batch in batches])
