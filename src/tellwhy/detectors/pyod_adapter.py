"""Our detectors as PyOD's, for its tools that combine scores and draw thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from tellwhy.core.errors import InvalidInput
from tellwhy.core.optional import require
from tellwhy.core.score import Floats


def as_pyod(detector: Any, *, contamination: float = 0.1) -> Any:
    """Return a detector of this package as one of PyOD's.

    Its `decision_function` is high for anomalies, `predict` gives 1 for them, and after `fit` there are
    `decision_scores_`, `labels_` and `threshold_`; `predict_proba` and `predict_confidence` are PyOD's own.
    Their scores and lists of them go to PyOD's combinations and ensembles.

    Parameters
    ----------
    detector
        One of `tellwhy.detectors`, fitted or not. It is not changed: `fit` fits a copy of it.
    contamination
        Share of training rows that PyOD's labels call anomalous.

    Returns
    -------
    pyod.models.base.BaseDetector
        Where the detector is fitted already, one that is fitted too.

    Examples
    --------
    >>> from tellwhy.detectors import KernelDensity
    >>> rows = np.append(np.random.default_rng(0).normal(size=(60, 2)), [[9.0, 9.0]], axis=0)
    >>> as_pyod(KernelDensity()).fit(rows).predict([[0.0, 0.0], [9.0, -9.0]]).tolist()
    [0, 1]
    """
    if not hasattr(detector, "outlierness") or isinstance(detector, type):
        raise InvalidInput(
            "as_pyod takes a detector of tellwhy.detectors, such as KernelDensity(). Got "
            f"{detector!r} instead."
        )
    return _make_class()(detector, contamination=contamination)


def _make_class() -> Any:
    """Return the class of PyOD's detectors that ask one of ours; PyOD is loaded when it is used."""
    base = require("pyod.models.base", "as_pyod").BaseDetector

    class FromTellwhy(base):  # type: ignore[misc,valid-type]
        """A detector of PyOD's whose scores are those of one of ours."""

        def __init__(self, detector: Any, contamination: float = 0.1):
            super().__init__(contamination=contamination)
            self.detector = detector
            if hasattr(detector, "training_scores_"):
                self.detector_ = detector
                self._take_scores(detector.training_scores_)

        def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> FromTellwhy:  # noqa: ARG002
            """Fit a copy of the detector."""
            self.detector_ = clone(self.detector).fit(X)
            scores = self.detector_.training_scores_
            n = np.shape(X)[0]
            # of very many rows only a sample was scored without themselves
            self._take_scores(scores if len(scores) == n else self.detector_.outlierness(X))
            return self

        def decision_function(self, X: ArrayLike) -> Floats:
            """Return how odd each row is: high = anomalous."""
            found: Floats = self.detector_.outlierness(X)
            return found

        def _take_scores(self, scores: Floats) -> None:
            self._set_n_classes(None)
            self.decision_scores_ = np.asarray(scores)
            self._process_decision_scores()

    return FromTellwhy
