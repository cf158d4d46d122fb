"""Scores computed a few rows at a time, in threads where that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tellwhy.core.parallel import thread_map
from tellwhy.core.params import Rule, Rules, integer, none
from tellwhy.core.score_function import Floats

BATCH = 4096  # rows per call where threads are asked for, whatever their number: so are the sums

BATCH_PARAMETERS: dict[str, Rules] = {
    "batch_size": (none, integer(1)),
    "n_jobs": Rule("a whole number other than 0", lambda v: integer().accepts(v) and v != 0),
}


class InBatches:
    """A score that gets at most `batch_size` rows per call, and several calls at once where `n_jobs` says so.

    All its other members are those of the score itself.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> calls = []
    >>> score = FunctionScore(lambda X: (calls.append(len(X)), X.sum(axis=1))[1])
    >>> InBatches(score, batch_size=2).value(np.ones((5, 2))), calls
    (array([2., 2., 2., 2., 2.]), [2, 2, 1])
    """

    def __init__(self, score: Any, *, batch_size: int | None = None, n_jobs: int = 1):
        self._score = score
        self._size = batch_size or BATCH
        self._n_jobs = n_jobs

    def __getattr__(self, name: str) -> Any:
        # Copying and unpickling ask before `_score` is there: handing that on would never end.
        if name.startswith("__") or name == "_score":
            raise AttributeError(name)
        return getattr(self._score, name)

    def value(self, X: Any, *further: Any) -> Floats:
        """Return one number per row."""
        return self._called(self._score.value, X, *further)

    @property
    def gradient(self) -> Callable[..., Floats] | None:
        """The gradient, in batches too; None where the score has none."""
        whole = getattr(self._score, "gradient", None)
        return None if whole is None else partial(self._called, whole)

    def _called(self, function: Callable[..., Any], X: Any, *further: Any) -> Floats:
        batches = [slice(start, start + self._size) for start in range(0, max(len(X), 1), self._size)]
        found = thread_map(
            lambda rows: function(X[rows], *(each[rows] for each in further)), batches, self._n_jobs
        )
        return found[0] if len(found) == 1 else np.concatenate(found)


def in_batches(score: Any, batch_size: int | None, n_jobs: int) -> Any:
    """Return the score itself, or one that is computed in batches where somebody asked for that."""
    if batch_size is None and n_jobs == 1:
        return score
    return InBatches(score, batch_size=batch_size, n_jobs=n_jobs)
