"""Scores of an input whose parts are replaced, composed where the model computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.parallel import row_batches
from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.base import Rows
from tellwhy.scoring import NetworkOutput
from tellwhy.scoring.scores.flat_score import FlatScore


class Canvas:
    """One row of those that are explained; `scores` asks the model about mixtures of it and something else.

    Inputs of a network are put together on its device, batch by batch: only which cells are kept travels.
    """

    def __init__(self, rows: Rows, number: int):
        self.x = rows.X[number]
        self._score = rows.score
        self._own = tuple(each[number] for each in rows.without)
        self._network = _network_of(rows.score)
        self._there: Any = None if self._network is None else self._network.place(self._shaped(self.x[None]))

    def scores(self, keep: NDArray[np.bool_], fill: Floats, pieces: Integers | None = None) -> Floats:
        """Score of each mixture: the row where `keep` says so, elsewhere `fill`, (d,) or (m, d).

        `keep` tells it of each cell, (m, d); or of each piece, (m, n_pieces), where `pieces` holds the piece
        of each cell.
        """
        found = np.empty(len(keep))
        for part in self._parts(len(keep)):
            own = tuple(np.full(len(keep[part]), each) for each in self._own)
            some = fill[part] if fill.ndim > 1 else fill
            # Spread over the cells a few mixtures at a time: all at once would take most of the time.
            cells = keep[part] if pieces is None else np.take(keep[part], pieces, axis=1)
            found[part] = self._value(cells, some, own)
        return found

    def _parts(self, n: int) -> list[slice]:
        if self._network is None:
            return row_batches(n, 24 * len(self.x))
        size = self._network.batch_size
        return [slice(start, start + size) for start in range(0, n, size)]

    def _value(self, keep: NDArray[np.bool_], fill: Floats, own: tuple[Any, ...]) -> Floats:
        if self._network is None:
            return np.asarray(self._score.value(np.where(keep, self.x, fill), *own))
        import torch

        there = torch.as_tensor(self._shaped(keep), device=self._there.device)
        other = self._network.place(self._shaped(fill if fill.ndim > 1 else fill[None]))
        return np.asarray(self._network.value(torch.where(there, self._there, other), *own))

    def _shaped(self, flat: Any) -> Any:
        return np.ascontiguousarray(flat).reshape(len(flat), *self._score.shape)


def _network_of(score: Any) -> NetworkOutput | None:
    """The network behind a score of flat rows; None for other models, and for tokens, which are not mixed."""
    if type(score) is not FlatScore or not isinstance(score.inner, NetworkOutput):
        return None
    return None if score.inner.has_levels else score.inner


def baseline_row(name: str, given: Any, rows: Rows) -> Floats:
    """What replaces the cells of a row, from a number or an array like one input, in the score's columns."""
    wanted = rows.shape if rows.shape is not None else (rows.X.shape[1],)
    array = np.asarray(given, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(wanted, float(array))
    if array.shape not in (wanted, (rows.X.shape[1],)):
        raise InvalidParameter(
            f"The 'baseline' parameter of {name} must be a number, or an array like one input, of "
            f"shape {wanted}. "
            f"Got shape {array.shape} instead."
        )
    if not np.isfinite(array).all():
        raise InvalidParameter(f"The 'baseline' parameter of {name} must be finite. Got {given!r} instead.")
    return array.ravel()


def baseline_words(given: Any) -> dict[str, Any]:
    """A baseline as an explanation is saved with it."""
    return {} if isinstance(given, str) or np.ndim(given) == 0 else {"baseline": "given values"}


def input_shape(rows: Rows, name: str) -> tuple[int, ...]:
    """Shape of one input that windows move over; encoded tables have none."""
    if rows.n_owners != rows.X.shape[1] or not np.array_equal(rows.owner, np.arange(rows.n_owners)):
        raise InvalidInput(
            f"{name} moves patches over pictures, sequences and other arrays; the columns here are made from "
            f"{rows.n_owners} columns of a table by an encoding. Leave 'patch' out."
        )
    return rows.shape if rows.shape is not None else (rows.X.shape[1],)
