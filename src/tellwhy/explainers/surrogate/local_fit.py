"""One mixture per explained row, fitted to neighbours of the row over its segments."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tellwhy.core.errors import NotConverged
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.surrogate.convergence import R_HAT
from tellwhy.explainers.surrogate.mixture import Explained, Local, Plan, RowFits, fit_surrogate
from tellwhy.explainers.surrogate.segments import neighbour_masks, neighbours, present_cells, segment


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """How neighbours of a row are made: some of its segments are replaced by a background.

    Attributes
    ----------
    shape
        Of one input.
    background
        Values that replaced cells take, flat.
    group
        Segment of each cell, the same for all rows; None: every row has segments of its own.
    n_neighbours
        How many to make.
    n_segments
        About how many segments an image or sequence has.
    kept
        Share of the segments that neighbours keep.
    """

    shape: tuple[int, ...]
    background: Floats
    group: Integers | None
    n_neighbours: int
    n_segments: int
    kept: float = 0.75

    def label(self, x: Floats) -> Integers:
        """Segment of each cell of a flattened input."""
        if self.group is not None:
            return self.group
        if len(self.shape) == 1:
            return present_cells(x, self.background)
        return segment(x.reshape(self.shape), self.n_segments).ravel()


@dataclass(frozen=True, eq=False)
class LocalPlan:
    """How rows are explained one by one.

    Attributes
    ----------
    outputs
        From flat inputs to the outputs of the model, one column per target.
    where
        How neighbours of a row are made.
    plan
        How a mixture is fitted to them.
    seed
        Of the random numbers, the same for every row: the explanation of a row does not depend on others.
    credibility
        Probability of the intervals.
    """

    outputs: Callable[[Floats], Floats]
    where: Neighbourhood
    plan: Plan
    seed: int
    credibility: float


class _OneFit(NamedTuple):
    """What the mixture of one row says, per segment, and how far its chains agree."""

    local: Local
    r_hat: float


def explain_locally(X: Floats, explained: Explained, how: LocalPlan) -> RowFits:
    """Explain each row by a mixture of its own, fitted to neighbours that keep some of its segments.

    A segment's value is its coefficient: the change of the output when it is there. Its cells share it
    equally.
    """
    cells = {name: np.zeros(shape) for name, shape in _shapes(X).items()}
    base = np.zeros(len(X))
    r_hat = np.zeros(len(X))
    for i in track(range(len(X)), len(X), "explaining by local mixtures"):
        label = how.where.label(X[i])
        local, r_hat[i] = _fit_one(X[i], label, explained.scores[i], int(explained.targets[i]), how)
        sizes = np.bincount(label)[label]  # of the segment that each cell belongs to
        base[i] = local.base
        cells["values"][i] = local.values[label] / sizes
        cells["stderr"][i] = local.stderr[label] / sizes
        cells["segments"][i] = label
        cells["coefficients"][i] = local.coefficients[label]
        cells["interval"][i] = local.interval[label] / sizes[:, None]
        cells["coefficient_interval"][i] = local.coefficient_interval[label]
    _warn(r_hat)
    values = cells.pop("values")
    stderr = cells.pop("stderr")
    segments = cells["segments"].astype(np.int64)
    return RowFits(values, stderr, base, {**cells, "segments": segments, "r_hat": r_hat})


def _shapes(X: Floats) -> dict[str, tuple[int, ...]]:
    """Shapes of what is recorded for each cell."""
    pairs = dict.fromkeys(("interval", "coefficient_interval"), (*X.shape, 2))
    return {**dict.fromkeys(("values", "stderr", "segments", "coefficients"), X.shape), **pairs}


def _fit_one(x: Floats, label: Integers, score: float, target: int, how: LocalPlan) -> _OneFit:
    """Fit a mixture to neighbours of one row, in columns that say which segments each one keeps."""
    where = how.where
    rng = np.random.default_rng(how.seed)
    n_segments = int(label.max()) + 1
    # Segments that already show the background cannot matter: they stay, and get no coefficient.
    differing = np.flatnonzero(np.bincount(label, x != where.background, minlength=n_segments))
    masks = np.ones((where.n_neighbours, n_segments))
    masks[:, differing] = neighbour_masks(len(differing), where.n_neighbours, rng, kept=where.kept)
    y = how.outputs(neighbours(x, where.background, label, masks))[:, target]
    surrogate = fit_surrogate(masks, y, how.plan, rng=rng, origin=np.zeros(n_segments))
    local = surrogate.local(
        np.ones(n_segments),  # the row itself keeps all of its segments
        score,
        uniforms=rng.random(len(surrogate.coef)),
        credibility=how.credibility,
        owner=None,
    )
    return _OneFit(local, surrogate.posterior.convergence.worst_r_hat)


def _warn(r_hat: Floats) -> None:
    """Say in how many rows chains do not agree, at the line that called `explain`."""
    apart = int((r_hat > R_HAT).sum())
    if apart:
        warnings.warn(
            f"The chains of {apart} of {len(r_hat)} rows do not agree yet (R̂ up to {r_hat.max():.2f}, "
            f"expected < {R_HAT}): their intervals may be too narrow. Raise n_burn and n_sweeps, or lower "
            "n_components.",
            NotConverged,
            stacklevel=7,
        )
