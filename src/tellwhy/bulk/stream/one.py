"""One event at a time, as River's detectors take it: `score_one` and `learn_one`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidParameter
from tellwhy.data.reading.cells import make_frame
from tellwhy.data.table import Table
from tellwhy.kinds.request import Request
from tellwhy.kinds.table import read_rows, score_rows
from tellwhy.kinds.table_model import TableModel, fit


class OneByOne:
    """A detector of events that come one by one, for pipelines of River.

    It learns from a window of events, anew after every `refit_every` of them; until the first time, every
    event scores 0.

    Parameters
    ----------
    model
        To begin with; by default none.
    window
        Events to learn from.
    refit_every
        Events between two times.
    settings
        Of a fitting: exclude, by, …

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> detector = OneByOne(refit_every=200)
    >>> for size, price in rng.normal(size=(200, 2)):
    ...     _ = detector.learn_one({"size": size, "price": price})
    >>> detector.score_one({"size": 0.1, "price": 9.0}) > detector.score_one({"size": 0.1, "price": 0.2})
    True
    """

    def __init__(
        self,
        model: TableModel | None = None,
        *,
        window: int = 2_000,
        refit_every: int = 1_000,
        **settings: Any,
    ) -> None:
        if not refit_every >= 10 or not window >= 10:
            raise InvalidParameter("window and refit_every must be at least 10 events.")
        self.model = model
        self.window: deque[dict[str, Any]] = deque(maxlen=window)
        self.refit_every = refit_every
        self._request = Request(**settings) if model is None else replace(model.request, normal=None)
        self._n_since = 0

    def score_one(self, x: Mapping[str, Any]) -> float:
        """Score one event by what was learned so far; higher is odder."""
        if self.model is None:
            return 0.0
        frame = make_frame([x]).reindex(columns=list(dict.fromkeys([*self.model.table_columns, *x])))
        score = score_rows(self.model, read_rows(self.model, Table(frame, "stream"), self.model.request))[0]
        return 0.0 if np.isnan(score) else float(score)

    def learn_one(self, x: Mapping[str, Any]) -> None:
        """Keep one event, and learn anew where it is time."""
        self.window.append(dict(x))
        self._n_since += 1
        if self._n_since >= self.refit_every:
            self._n_since = 0
            self.model = fit(Table(make_frame(self.window), "stream"), self._request, clean=False)
