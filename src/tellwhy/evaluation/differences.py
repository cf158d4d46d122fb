"""Flipping in the space of differences to support points (Algorithm 4 of the One-Class DTD paper).

With Ψ_ij = x_i − u_ji, a model made of distances is a function o(Ψ) of s_j = Σ_i Ψ_ij², pooled over the
points j. Taking feature i away sets Ψ_ij = 0 for every j at once: the row then differs from no support point
in that feature, which no replaced value of x_i could achieve. With all features away the score is the least
there is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.parallel import BATCH_BYTES, row_batches, thread_map
from tellwhy.core.score_function import CentreDistance, Floats, Integers, KernelExpansion, NeighbourDistance
from tellwhy.evaluation._compiled import add_features_back
from tellwhy.kernels import Exponential, StudentT
from tellwhy.kernels.distances import ScaledPoints, centre_and_unit
from tellwhy.scoring.scores import _compiled
from tellwhy.scoring.training_rows import points_of

Pool = Callable[
    [Floats, Integers], Floats
]  # squared distances (k, m), point left out of each (k,) -> scores (k,)


@dataclass(frozen=True)
class _Removal:
    """What the steps of one call share: points by column, columns by feature, and the order of each row."""

    by_column: Floats
    starts: Integers
    columns: Integers
    order: Integers
    left_out: Integers
    pool: Pool


def difference_curves(
    score: Any, X: Floats, order: Integers, *, owner: Integers, training_rows: Any
) -> Floats:
    """Score of each row after 0, 1, …, d features have stopped differing from the support points.

    Parameters
    ----------
    score
        A score with an `expansion`.
    X
        Rows in the score's columns.
    order
        Features of each row, first to be taken away first, shape (n, d).
    owner
        The feature that each column of X belongs to.
    training_rows
        The training row that each row leaves out of the model, −1 for none. None: rows that the model was
        trained on leave themselves out.
    """
    points, pool = _pooling(score)
    columns = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[columns], np.arange(order.shape[1] + 1))
    left_out = _points_left_out(training_rows, score, X)
    removal = _Removal(np.ascontiguousarray(points.scaled.T), starts, columns, order, left_out, pool)
    Z = points.rescale(X)
    batches = row_batches(len(X), 8 * len(points.scaled) * (order.shape[1] + 2))
    curves = thread_map(lambda rows: _curves_of_batch(Z[rows], rows, removal), batches)
    return np.concatenate(curves) + getattr(score, "offset", 0.0)


def _curves_of_batch(Z: Floats, rows: slice, removal: _Removal) -> Floats:
    """Go through the steps from the last to the first, as many at a time as memory allows."""
    n, m, n_states = len(Z), removal.by_column.shape[1], removal.order.shape[1] + 1
    order, left_out = removal.order[rows], removal.left_out[rows]
    curves, running = np.empty((n, n_states)), np.zeros((n, m))
    for block in reversed(row_batches(n_states, 8 * n * m, BATCH_BYTES)):
        first, last = block.start, block.stop
        S = np.empty((n * (last - first), m))
        add_features_back(
            Z, removal.by_column, order, removal.starts, removal.columns, first, last, running, S
        )
        curves[:, block] = removal.pool(S, np.repeat(left_out, last - first)).reshape(n, -1)
    return curves


def _points_left_out(training_rows: Any, score: Any, X: Floats) -> Integers:
    """Support point that each row does without, or −1, from the training row it was explained without."""
    if training_rows is None:
        return np.asarray(score.match(X)) if hasattr(score, "match") else np.full(len(X), -1, dtype=np.int64)
    given = np.asarray(training_rows, dtype=np.int64)
    if hasattr(score.expansion, "training_rows"):
        given = points_of(given, score.expansion)
    return np.asarray(score.leave_some(given) if hasattr(score, "leave_some") else given)


def _pooling(score: Any) -> tuple[ScaledPoints, Pool]:
    """Return the support points in scaled coordinates, and how the score pools scaled squared distances."""
    expansion = score.expansion
    if isinstance(expansion, KernelExpansion):
        return ScaledPoints.of(expansion.points, expansion.kernel.bandwidth), _kernel_pool(expansion)
    if isinstance(expansion, CentreDistance):
        unit = centre_and_unit(expansion.centres)[1]
        return ScaledPoints.of(expansion.centres, unit), lambda S, _: S.min(axis=1) * unit**2
    if isinstance(expansion, NeighbourDistance):
        unit = centre_and_unit(expansion.points)[1]
        k = expansion.n_neighbours
        return ScaledPoints.of(expansion.points, unit), lambda S, out: _mean_of_nearest(S, out, k) * unit
    raise UnsupportedModel(
        f"flipping does not know the expansion of {score.describes}: {type(expansion).__name__}."
    )


def _kernel_pool(expansion: KernelExpansion) -> Pool:
    weights, kernel = expansion.weights, expansion.kernel
    if not isinstance(kernel, (Exponential, StudentT)):
        raise UnsupportedModel(
            f"flipping knows exponential and t-Student kernels; got {type(kernel).__name__}."
        )

    def pool(S: Floats, left_out: Integers) -> Floats:
        scores, unused = np.empty(len(S)), np.empty(len(S))
        if isinstance(kernel, Exponential):
            _compiled.pool_exponential(S, weights, float(kernel.q), left_out, _compiled.SCORE, scores, unused)
            return scores
        factor = (
            np.ones(len(S)) if expansion.scale == "one" else len(weights) - (left_out >= 0).astype(np.float64)
        )
        q, a = float(kernel.q), float(kernel.a)
        _compiled.pool_student(S, weights, q, a, factor, left_out, _compiled.SCORE, scores, unused)
        return scores

    return pool


def _mean_of_nearest(S: Floats, left_out: Integers, k: int) -> Floats:
    """Mean distance to the k points that are nearest in the features still present."""
    lines = np.flatnonzero(left_out >= 0)
    S[lines, left_out[lines]] = np.inf
    S.partition(k - 1, axis=1)
    return np.asarray(np.sqrt(S[:, :k]).mean(axis=1))
