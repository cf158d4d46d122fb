"""One mixture per explained row, fitted to neighbours of the row over its segments."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tellwhy.core.errors import NotConverged
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.surrogate.mixture import Local, Plan, fit_surrogate
from tellwhy.explainers.surrogate.segments import neighbour_masks, neighbours, present_cells, segment

R_HAT = 1.1


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """How neighbours of a row are made: inputs of this shape, segments or fixed groups, replaced by a background."""

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


@dataclass(eq=False)
class LocalFits:
    """Contributions of the cells of each row, and their evidence."""

    values: Floats
    stderr: Floats
    base: Floats
    extras: dict[str, Any] = field(default_factory=dict)


def explain_locally(
    X: Floats,
    explained: tuple[Floats, Integers],
    outputs: Callable[[Floats], Floats],
    where: Neighbourhood,
    plan: Plan,
    *,
    seed: Any,
    credibility: float,
) -> LocalFits:
    """Explain each row (its score, its target) by a mixture fitted to neighbours that keep some of its segments.

    A segment's value is its coefficient: the change of the output when it is there. Its cells share it
    equally.
    """
    scores, targets = explained
    found = LocalFits(np.zeros(X.shape), np.zeros(X.shape), np.zeros(len(X)))
    arrays = {name: np.zeros(shape) for name, shape in _shapes(X).items()}
    apart = []
    for i in track(range(len(X)), len(X), "explaining by local mixtures"):
        label = where.label(X[i])
        rng = np.random.default_rng(seed)
        local, agreement = _fit_one(
            X[i], label, (scores[i], int(targets[i])), outputs, where, plan, rng, credibility
        )
        apart.append(agreement)
        sizes = np.bincount(label)[label]
        found.values[i], found.stderr[i] = local.values[label] / sizes, local.stderr[label] / sizes
        found.base[i] = local.base
        arrays["segments"][i] = label
        arrays["coefficients"][i] = local.coefficients[label]
        arrays["interval"][i] = local.interval[label] / sizes[:, None]
        arrays["coefficient_interval"][i] = local.coefficient_interval[label]
    found.extras = {**arrays, "segments": arrays["segments"].astype(np.int64), "r_hat": np.array(apart)}
    _warn(np.array(apart))
    return found


def _shapes(X: Floats) -> dict[str, tuple[int, ...]]:
    pairs = dict.fromkeys(("interval", "coefficient_interval"), (*X.shape, 2))
    return {"segments": X.shape, "coefficients": X.shape, **pairs}


def _fit_one(  # noqa: PLR0917
    x: Floats,
    label: Integers,
    explained: tuple[float, int],
    outputs: Callable[[Floats], Floats],
    where: Neighbourhood,
    plan: Plan,
    rng: np.random.Generator,
    credibility: float,
) -> tuple[Local, float]:
    n_segments = int(label.max()) + 1
    # Segments that already show the background cannot matter: they stay, and get no coefficient.
    differing = np.flatnonzero(np.bincount(label, x != where.background, minlength=n_segments))
    masks = np.ones((where.n_neighbours, n_segments))
    masks[:, differing] = neighbour_masks(len(differing), where.n_neighbours, rng, kept=where.kept)
    y = outputs(neighbours(x, where.background, label, masks))[:, explained[1]]
    surrogate = fit_surrogate(masks, y, plan, rng=rng, origin=np.zeros(n_segments))
    uniforms = rng.random(len(surrogate.coef))
    row = np.ones(n_segments)
    local = surrogate.local(row, explained[0], uniforms=uniforms, credibility=credibility, owner=None)
    return local, surrogate.posterior.convergence.worst_r_hat


def _warn(r_hat: Floats) -> None:
    apart = int((r_hat > R_HAT).sum())
    if apart:
        warnings.warn(
            f"The chains of {apart} of {len(r_hat)} rows do not agree yet (R̂ up to {r_hat.max():.2f}, "
            f"expected < {R_HAT}): their intervals may be too narrow. Raise n_burn and n_sweeps, or lower "
            "n_components.",
            NotConverged,
            stacklevel=4,
        )
