"""Flipping in the space of differences to support points (Algorithm 4 of the One-Class DTD paper).

A model made of distances sees a row x only through its differences Ψ_ij = x_i − u_ji to the support points
u_j: its score is a function of the squared distances s_j = Σ_i Ψ_ij², pooled over the points. Taking feature
i away sets Ψ_ij = 0 for every point at once: the row then differs from no support point in that feature,
which no replaced value of x_i could achieve. With all features away the score is the least there is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from tellwhy.core.capabilities import Capability, HasExpansion, LeavesRowsOut
from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.parallel import BATCH_BYTES, row_batches, thread_map
from tellwhy.core.score_function import (
    CentreDistance,
    Floats,
    Integers,
    KernelExpansion,
    NeighbourDistance,
    PointExpansion,
)
from tellwhy.evaluation._compiled import Differences, add_features_back
from tellwhy.kernels import Exponential, StudentT
from tellwhy.kernels.distances import ScaledPoints, centre_and_unit
from tellwhy.scoring.scores import _compiled
from tellwhy.scoring.training_rows import points_of

Pool = Callable[[Floats, Integers], Floats]
"""From squared distances (k, m) and the point that each line does without (k,) to scores (k,)."""


@runtime_checkable
class HasOffset(Protocol, metaclass=Capability):
    """A score with a constant that is added after the distances have been pooled, as a density has."""

    @property
    def offset(self) -> float:
        """The constant."""
        ...


class _Pooling(NamedTuple):
    """The support points in scaled coordinates, and how the score pools scaled squared distances to them."""

    points: ScaledPoints
    pool: Pool


@dataclass(frozen=True)
class _Removal:
    """What the rows of one call share.

    Attributes
    ----------
    points_by_column
        Scaled support points, one line per column.
    starts, columns
        Feature f owns the columns columns[starts[f]:starts[f + 1]].
    order
        Features of each row, first to be taken away first.
    left_out
        Support point that each row does without, or −1.
    pool
        From squared distances to scores.
    """

    points_by_column: Floats
    starts: Integers
    columns: Integers
    order: Integers
    left_out: Integers
    pool: Pool

    @property
    def n_states(self) -> int:
        """How often a row is scored: with all features, and after each of the steps."""
        return self.order.shape[1] + 1


def difference_curves(
    score: HasExpansion, X: Floats, order: Integers, *, owner: Integers, training_rows: Integers | None
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
    points, pool = pooling(score)
    columns = np.argsort(owner, kind="stable")
    removal = _Removal(
        points_by_column=np.ascontiguousarray(points.scaled.T),
        starts=np.searchsorted(owner[columns], np.arange(order.shape[1] + 1)),
        columns=columns,
        order=order,
        left_out=_points_left_out(training_rows, score, X),
        pool=pool,
    )
    Z = points.rescale(X)
    batches = row_batches(len(X), 8 * len(points.scaled) * (removal.n_states + 1))
    curves = thread_map(lambda rows: _curves_of_batch(Z[rows], rows, removal), batches)
    return np.concatenate(curves) + (score.offset if isinstance(score, HasOffset) else 0.0)


def _curves_of_batch(Z: Floats, rows: slice, removal: _Removal) -> Floats:
    """Go through the steps from the last to the first, as many at a time as memory allows."""
    n = len(Z)
    m = removal.points_by_column.shape[1]
    left_out = removal.left_out[rows]
    given = Differences(Z, removal.points_by_column, removal.order[rows], removal.starts, removal.columns)
    curves = np.empty((n, removal.n_states))
    running = np.zeros((n, m))  # the end: no feature is present
    for block in reversed(row_batches(removal.n_states, 8 * n * m, BATCH_BYTES)):
        n_steps = block.stop - block.start
        S = np.empty((n * n_steps, m))
        add_features_back(given, block.start, block.stop, running, S)
        curves[:, block] = removal.pool(S, np.repeat(left_out, n_steps)).reshape(n, -1)
    return curves


def _points_left_out(training_rows: Integers | None, score: Any, X: Floats) -> Integers:
    """Support point that each row does without, or −1, from the training row it was explained without."""
    if training_rows is None:
        return score.match(X) if isinstance(score, LeavesRowsOut) else np.full(len(X), -1, dtype=np.int64)
    given = np.asarray(training_rows, dtype=np.int64)
    if isinstance(score.expansion, PointExpansion):
        given = points_of(given, score.expansion)
    return score.leave_some(given) if isinstance(score, LeavesRowsOut) else given


def pooling(score: Any) -> _Pooling:
    """Return the support points of a score and its way of pooling distances, by what it is made of."""
    expansion = score.expansion
    if isinstance(expansion, KernelExpansion):
        return _Pooling(
            ScaledPoints.of(expansion.points, expansion.kernel.bandwidth), _kernel_pool(expansion)
        )
    if isinstance(expansion, CentreDistance):
        unit = centre_and_unit(expansion.centres)[1]
        return _Pooling(ScaledPoints.of(expansion.centres, unit), lambda S, _: S.min(axis=1) * unit**2)
    if isinstance(expansion, NeighbourDistance):
        unit = centre_and_unit(expansion.points)[1]
        k = expansion.n_neighbours
        return _Pooling(
            ScaledPoints.of(expansion.points, unit), lambda S, out: _mean_of_nearest(S, out, k) * unit
        )
    raise UnsupportedModel(
        f"flipping does not know the expansion of {score.describes}: {type(expansion).__name__}."
    )


def _kernel_pool(expansion: KernelExpansion) -> Pool:
    """Return how a kernel model pools: the compiled loops that its score itself is computed by."""
    weights = expansion.weights
    kernel = expansion.kernel
    if not isinstance(kernel, (Exponential, StudentT)):
        raise UnsupportedModel(
            f"flipping knows exponential and t-Student kernels; got {type(kernel).__name__}."
        )

    def pool(S: Floats, left_out: Integers) -> Floats:
        scores = np.empty(len(S))
        unused = np.empty(len(S))  # what the loops attribute, in their other modes
        if isinstance(kernel, Exponential):
            _compiled.pool_exponential(S, weights, float(kernel.q), left_out, _compiled.SCORE, scores, unused)
            return scores
        # The factor m of o = m/g counts the points in use: one less where a row does without its own.
        in_use = len(weights) - (left_out >= 0).astype(np.float64)
        factor = np.ones(len(S)) if expansion.scale == "one" else in_use
        q = float(kernel.q)
        a = float(kernel.a)
        _compiled.pool_student(S, weights, q, a, factor, left_out, _compiled.SCORE, scores, unused)
        return scores

    return pool


def _mean_of_nearest(S: Floats, left_out: Integers, k: int) -> Floats:
    """Mean distance to the k points that are nearest in the features still present."""
    lines = np.flatnonzero(left_out >= 0)
    S[lines, left_out[lines]] = np.inf
    S.partition(k - 1, axis=1)
    return np.asarray(np.sqrt(S[:, :k]).mean(axis=1))
