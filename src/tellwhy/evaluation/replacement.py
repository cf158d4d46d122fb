"""Flipping for any score: features replaced by normal values, most relevant first."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import DataNotice, InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.parallel import row_batches
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers, ScoreFunction
from tellwhy.core.tables import evenly_spread, take_rows
from tellwhy.evaluation.mixing import is_frame, mix, stack

N_REFERENCES = 16  # normal rows whose values replace those of each explained row
_LOOKED_AT = 512  # background rows that are scored to find them
_CALL_BYTES = 64 * 2**20  # of rows that are scored in one call


@dataclass(frozen=True)
class _Sources:
    """Explained rows with normal rows below them; `normal[i]` lists those that row i takes values from."""

    rows: Any
    normal: Integers


def replacement_curves(
    explanation: Explanation, score: ScoreFunction, order: Integers, background: Any
) -> tuple[Floats, Floats]:
    """Score of each row after 0, 1, …, d of its features took normal values, averaged over the normal rows.

    Also the highest score among the normal rows of each row: only rows above it are odd. Both are NaN for
    rows that have no nearest normal version to take values from.
    """
    data = explanation.data if is_frame(explanation.data) else np.asarray(explanation.data)
    if background is not None:
        _check_background(background, data)
        normal = typical_rows(background, score)
        below = len(data) + np.arange(len(normal))  # the same normal rows for every explained one
        return _curves(score, _Sources(stack(data, normal), np.tile(below, (len(data), 1))), order)
    nearest = _nearest_normals(explanation, score)
    known = np.flatnonzero(_has_version(nearest))
    curves = np.full((len(order), order.shape[1] + 1), np.nan)
    highest = np.full(len(order), np.nan)
    rows = stack(take_rows(data, known), take_rows(nearest, known))
    sources = _Sources(rows, len(known) + np.arange(len(known))[:, None])
    curves[known], highest[known] = _curves(score, sources, order[known])
    return curves, highest


def _curves(score: ScoreFunction, sources: _Sources, order: Integers) -> tuple[Floats, Floats]:
    """Mean score after each step, and the highest score among the normal rows of each row."""
    n, d = order.shape
    curves = np.empty((n, d + 1))
    curves[:, 0] = score.value(take_rows(sources.rows, np.arange(n)))
    ends = score.value(take_rows(sources.rows, np.arange(n, len(sources.rows))))
    ends = ends[sources.normal - n]  # (n, normal rows)
    curves[:, d] = ends.mean(axis=1)
    if d > 1:
        # The ends are scored once per row; only the steps between them need new rows. The inverse of an order
        # is its argsort: the step at which each feature goes.
        curves[:, 1:d] = _between(score, sources, np.argsort(order, axis=1, kind="stable"))
    return curves, ends.max(axis=1)


def _between(score: ScoreFunction, sources: _Sources, place: Integers) -> Floats:
    """Scores of steps 1 … d − 1; `place[i, c]` is the step at which feature c of row i is replaced."""
    n, d = place.shape
    n_normal = sources.normal.shape[1]
    middle = np.empty(n * (d - 1))
    batches = row_batches(len(middle), 16 * d * n_normal, _CALL_BYTES)
    for pairs in track(batches, len(batches), "flipping"):
        row, step = np.divmod(np.arange(pairs.start, pairs.stop), d - 1)
        gone = place[row] <= step[:, None]  # (pairs, d): step 0 here has one feature replaced
        source = np.where(gone[:, None, :], sources.normal[row][:, :, None], row[:, None, None])
        scores = score.value(mix(sources.rows, source.reshape(-1, d)))
        middle[pairs] = scores.reshape(-1, n_normal).mean(axis=1)
    return middle.reshape(n, d - 1)


def _nearest_normals(explanation: Explanation, score: ScoreFunction) -> Any:
    """Return the nearest normal version of each row, NaN for those that have none; one at least has."""
    nearest = explanation.extras.get("nearest_normal")
    if nearest is None:
        raise InvalidInput(
            f"flipping of {score.describes} needs normal values to put in the place of removed features, and "
            "the explanation has no extras['nearest_normal']. Pass background=…, rows that are mostly "
            "normal."
        )
    if np.shape(nearest) != explanation.values.shape:
        raise InvalidInput(
            f"extras['nearest_normal'] has shape {np.shape(nearest)}; expected one normal value per value "
            f"explained, {explanation.values.shape}."
        )
    lost = np.flatnonzero(~_has_version(nearest))
    if len(lost) == len(explanation):
        raise InvalidInput(
            "None of the rows has a normal version in extras['nearest_normal'] (all are NaN), so there is "
            "nothing to put in the place of removed features. Pass background=…, rows that are mostly "
            "normal."
        )
    if len(lost):
        warnings.warn(
            f"{len(lost)} of {len(explanation)} rows have no nearest normal version and are left out of "
            f"flipping (the first is row {lost[0]}).",
            DataNotice,
            stacklevel=4,
        )
    return nearest


def _has_version(nearest: Any) -> Any:
    """Tell which rows are not NaN: in any cell of an array, in all cells of a frame, which may lack some."""
    if is_frame(nearest):
        return ~np.asarray(nearest.isna()).all(axis=1)
    flat = np.asarray(nearest, dtype=np.float64).reshape(len(nearest), -1)
    return ~np.isnan(flat).any(axis=1)


def _check_background(background: Any, data: Any) -> None:
    """Raise unless background rows look like the explained ones, and there is one."""
    if np.shape(background)[1:] != np.shape(data)[1:]:
        raise InvalidInput(
            f"background has shape {np.shape(background)}; expected rows like the explained ones, whose "
            f"shape is {np.shape(data)}."
        )
    if len(background) == 0:
        raise InvalidInput("background is empty; at least one normal row is needed.")


def typical_rows(background: Any, score: ScoreFunction) -> Any:
    """Return up to 16 rows of the background, evenly spread over the half of it that scores lowest."""
    rows = background if is_frame(background) else np.asarray(background)
    looked_at = evenly_spread(len(rows), _LOOKED_AT)
    ranked = looked_at[np.argsort(score.value(take_rows(rows, looked_at)), kind="stable")]
    calm = ranked[: (len(ranked) + 1) // 2]  # a background may hold odd rows; half of it hardly does
    return take_rows(rows, calm[evenly_spread(len(calm), N_REFERENCES)])
