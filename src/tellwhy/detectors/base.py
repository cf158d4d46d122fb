"""What every detector shares: scikit-learn's interface over one number, the outlierness."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.arrays import draw_sample
from tellwhy.core.errors import InvalidInput, MissingExtra, UnreadableFile
from tellwhy.core.estimator_rows import validate_rows
from tellwhy.core.old_names import takes_old_names
from tellwhy.core.params import Fit, Rules, real, validate_parameters, validate_value
from tellwhy.core.score import Floats, LeavesRowsOut, ScoreFunction
from tellwhy.scoring.reference_rows import ReferenceRows
from tellwhy.storage.model_file import SavedModel

CALIBRATION_ROWS = 20_000  # training rows that thresholds are drawn from: enough for any usual share


class Detector(SavedModel, OutlierMixin, BaseEstimator):
    """Base of the detectors: `outlierness(X)` is high for anomalous rows.

    Subclasses implement `to_score()` and `_fit(X)`. The latter sets what it learned, `training_scores_` (the
    outlierness of training rows, which thresholds are drawn from) and `threshold_`.
    """

    novelty = True  # scikit-learn's word: thresholds are for new rows, training rows may lie below them
    _parameters: ClassVar[dict[str, Rules]] = {}
    training_scores_: Floats
    threshold_: float
    observed_: ReferenceRows

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Detector:  # noqa: ARG002
        """Learn what normal rows look like. `y` is ignored."""
        validate_parameters(self)
        rows = self._validated(X, reset=True)
        self._fit(rows)
        # Explainers ask later what ordinary rows look like, when the training table is long gone.
        self.observed_ = ReferenceRows.of(rows)
        return self

    @abstractmethod
    def _fit(self, X: Floats) -> None:
        """Learn from checked rows."""

    @abstractmethod
    def to_score(self) -> ScoreFunction:
        """Return the outlierness as a score function."""

    def outlierness(self, X: ArrayLike) -> Floats:
        """Return how odd each row is: high = anomalous."""
        check_is_fitted(self)
        scores = self.to_score().value(self._validated(X, reset=False))
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores)))
            raise InvalidInput(
                f"The outlierness of row {row} is {scores[row]} by {type(self).__name__}: the row is so far "
                "from those it was fitted on that its score leaves the range of floating-point numbers. "
                "Leave it out, or look for a wrong unit."
            )
        return scores

    def score_samples(self, X: ArrayLike) -> Floats:
        """Return minus the outlierness (scikit-learn's sign: low = anomalous)."""
        return -self.outlierness(X)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return threshold − outlierness: negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> Any:
        """Return −1 for anomalies (outlierness above the threshold) and 1 for normal rows."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    @property
    def offset_(self) -> float:
        """Minus the threshold, on scikit-learn's scale."""
        return -self.threshold_

    @property
    def decision_scores_(self) -> Floats:
        """Scores of the training rows, by the name that PyOD's tools know them by: high = anomalous.

        Examples
        --------
        >>> from tellwhy.detectors import KernelDensity
        >>> X = np.append(np.random.default_rng(0).normal(size=(60, 2)), [[9.0, 9.0]], axis=0)
        >>> detector = KernelDensity(contamination=0.01).fit(X)
        >>> int(detector.decision_scores_.argmax())
        60
        """
        return self.training_scores_

    def set_threshold(self, *, contamination: float | None = None, value: float | None = None) -> Detector:
        """Move the threshold of a fitted detector.

        Parameters
        ----------
        contamination
            Share of the training rows to lie above the threshold, in terms of `training_scores_`.
        value
            The threshold itself, on the scale of `outlierness`.
        """
        check_is_fitted(self)
        if (contamination is None) == (value is None):
            raise InvalidInput(
                "set_threshold takes either contamination=… or value=…, and exactly one of them."
            )
        if contamination is not None:
            owner = f"{type(self).__name__}.set_threshold"
            validate_value(owner, "contamination", contamination, real(0, 0.5, closed="right"))
            value = float(np.quantile(self.training_scores_, 1 - contamination))
        threshold = float(value)  # type: ignore[arg-type]
        if np.isnan(threshold):
            raise InvalidInput(
                "set_threshold got value=nan; expected a number, above which rows are anomalous."
            )
        self.threshold_ = threshold
        return self

    @property
    def _names(self) -> list[str] | None:
        """Names of the columns; scikit-learn sets the attribute only where there are names."""
        return list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None

    @property
    def _known_threshold(self) -> float | None:
        """The threshold; None while `fit` scores the training rows to find it."""
        return self.threshold_ if "threshold_" in vars(self) else None

    def _validated(self, X: ArrayLike, *, reset: bool) -> Floats:
        rows: Floats = validate_rows(self, X, reset=reset, min_rows=2 if reset else 1)
        return rows

    def _require(self) -> Iterator[Fit]:
        """Score one row, so that arrays that do not fit together are noticed now."""
        if not any(name.endswith("_") for name in vars(self)):
            return  # a parameter of another model, which fits a copy of it
        n_columns = self.n_features_in_
        if not isinstance(n_columns, int) or n_columns < 1:
            raise ValueError(f"it has {n_columns!r} columns.")
        # Infinite: no row, or every one, is anomalous. None is above a threshold that is no number.
        yield "threshold_", bool(np.isnan(float(self.threshold_))), False
        score = self.set_threshold(value=self.threshold_).to_score()
        if score.feature_shape != (n_columns,):
            raise ValueError(
                f"it was fitted on {n_columns} columns, but scores rows of shape {score.feature_shape}."
            )
        names = self._names
        yield "feature_names_in_", n_columns if names is None else len(names), n_columns
        try:
            found = score.value(np.zeros((1, n_columns)))
        except (InvalidInput, MissingExtra):
            # Zeros may be too far from the data to have a score; a network may be loaded where it cannot run.
            return
        yield "score of one row", found.shape, (1,)


class RememberingDetector(Detector):
    """A detector that keeps every training row, and so finds each of them familiar.

    Thresholds are drawn from training rows scored without themselves: that is how new rows will score.
    `fit_predict` judges the rows it was given in the same way, while `fit(X).predict(X)` asks about rows that
    the model has seen.
    """

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None, **kwargs: Any) -> Any:
        """Fit, and return −1 for the rows that are anomalous among the others, 1 for normal ones."""
        self.fit(X, y, **kwargs)
        score = self.to_score()
        assert isinstance(score, LeavesRowsOut)
        rows = self._validated(X, reset=False)
        # Each row is at distance 0 from itself: without leaving it out, none would look odd.
        return np.where(score.value(rows, score.match(rows)) > self.threshold_, -1, 1)


def choose_calibration_rows(n: int) -> Any:
    """Training rows whose left-out scores calibrate thresholds: all, or a fixed random sample of many."""
    # The same rows in every fit, because a threshold must not depend on chance.
    return np.sort(draw_sample(n, CALIBRATION_ROWS, np.random.default_rng(0)))


@takes_old_names
def load(path: str | Path) -> Any:
    """Read a detector that its `save` wrote: it gives the same scores, bit for bit.

    Raises `UnreadableFile` for a file that is damaged, of another version, or made up.

    Examples
    --------
    >>> import tempfile
    >>> from tellwhy.detectors import KernelDensity
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> detector = KernelDensity().fit(X)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(detector.save(place + "/density.tellwhy"))
    >>> bool((again.outlierness(X) == detector.outlierness(X)).all())
    True
    """
    model = SavedModel.load(path)
    if not hasattr(model, "outlierness"):
        raise UnreadableFile(f"{path} holds a {type(model).__name__}, which is no detector.")
    return model
