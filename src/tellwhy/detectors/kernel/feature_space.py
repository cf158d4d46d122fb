"""One-class SVM over the features φ(x) of very many rows, with few passes over them.

The problem: among all weighted means w = Σ_i α_i φ(x_i) of the rows, with Σα = 1 and 0 ≤ α ≤ 1/(νn), find the
shortest. It is solved by cutting planes:

1. For the current w, take the mean a(w) of the share ν of rows with the smallest products w·φ(x). No allowed
   mean lies farther back, against w.
2. So ½‖w‖² can fall by at most ‖w‖² − w·a(w), called the duality gap. Stop where that is small enough.
3. Else add a(w) to the points found so far, and let w be the shortest vector in their convex hull.

Each round needs two passes over the rows, whose features are computed again each time rather than kept.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tellwhy.bases.feature_map import FeatureMap
from tellwhy.core.errors import NotConverged
from tellwhy.core.parallel import row_batches
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers
from tellwhy.optimise._compiled_smo import smo

MAX_ROUNDS = 100
_BATCH_BYTES = 16 * 2**20


@dataclass(frozen=True)
class FeatureRows:
    """Rows in single precision, divided by the bandwidth; their features are computed whenever needed."""

    Z: NDArray[np.float32]
    feature_map: FeatureMap

    @classmethod
    def of(cls, X: Floats, fitted: FeatureMap) -> FeatureRows:
        """Centre and scale in double precision, then keep single precision."""
        scaled = ((X - fitted.centre) / fitted.bandwidth).astype(np.float32)
        return cls(scaled, replace(fitted, bandwidth=1.0, centre=np.zeros(X.shape[1])))

    def __len__(self) -> int:
        return len(self.Z)

    def products(self, w: Floats) -> Floats:
        """w·φ(x) of every row."""
        direction = w.astype(np.float32)
        out = np.empty(len(self))
        room, batches = self._room(len(self))
        for rows in batches:
            out[rows] = self.feature_map.apply(self.Z[rows], room) @ direction
        return out

    def combination(self, index: Integers, weights: Floats) -> Floats:
        """Σ weights · φ(x) over some rows."""
        total = np.zeros(self.feature_map.n_features)
        room, batches = self._room(len(index))
        for rows in batches:
            total += weights[rows].astype(np.float32) @ self.feature_map.apply(self.Z[index[rows]], room)
        return total

    def _room(self, n: int) -> tuple[NDArray[np.float32], list[slice]]:
        """Return memory for the features of a batch, and the batches."""
        batches = row_batches(n, 4 * self.feature_map.n_features, _BATCH_BYTES)
        return np.empty((batches[0].stop, self.feature_map.n_features), dtype=np.float32), batches


@dataclass(frozen=True)
class FeatureSolution:
    """Weights of the rows, and the duality gap as a share of ‖w‖²."""

    weights: Floats
    gap: float


def solve_in_features(rows: FeatureRows, *, nu: float, tol: float) -> FeatureSolution:
    """Solve the one-class problem to a duality gap of at most `tol` · ‖w‖²."""
    n = len(rows)
    cap = 1.0 / (nu * n)
    if cap * n <= 1 + 1e-12:  # ν = 1 leaves one feasible point
        return FeatureSolution(np.full(n, 1.0 / n), 0.0)
    sets: list[tuple[Integers, Floats]] = []
    points: list[Floats] = []
    shares = np.ones(1)
    gap = np.inf
    w = rows.combination(np.arange(n), np.full(n, 1.0 / n))
    for _ in track(range(MAX_ROUNDS), MAX_ROUNDS, "fitting the one-class model on features"):
        lowest = _lowest(rows.products(w), cap)
        point = rows.combination(*lowest)
        gap = float(w @ w - w @ point)
        if points and gap <= tol * float(w @ w):
            break
        sets.append(lowest)
        points.append(point)
        shares = _shortest(np.array(points))
        w = shares @ np.array(points)
        if w @ w < 1.0 / len(w):  # as short as the features' own error: nothing is left to gain
            break
    _warn_if_unsolved(gap / float(w @ w), w, tol)
    return FeatureSolution(_row_weights(sets, shares, n), gap / float(w @ w))


def _lowest(products: Floats, cap: float) -> tuple[Integers, Floats]:
    """Rows with the smallest products, at the cap, and one with what is left; their weights sum to 1."""
    full = min(int(1.0 / cap + 1e-9), len(products) - 1)  # 1/cap = νn may be whole but for rounding
    order = np.argpartition(products, full)[: full + 1]
    last = order[np.argmax(products[order])]
    index = np.append(np.sort(order[order != last]), last)
    weights = np.full(len(index), cap)
    weights[-1] = max(1.0 - full * cap, 0.0)
    return index, weights


def _shortest(points: Floats) -> Floats:
    """Convex weights of the shortest vector in the hull of some points."""
    K = points @ points.T
    shares = np.zeros(len(points))
    shares[-1] = 1.0  # any feasible start will do; the newest point is close to the solution
    smo(K, K[:, -1].copy(), shares, 1.0, 1e-10 * float(np.trace(K)) / len(K), 100_000)
    return shares / shares.sum()


def _row_weights(sets: list[tuple[Integers, Floats]], shares: Floats, n: int) -> Floats:
    weights = np.zeros(n)
    for (index, own), share in zip(sets, shares, strict=True):
        weights[index] += share * own
    return weights


def _warn_if_unsolved(gap: float, w: Floats, tol: float) -> None:
    """Say that features were too few for the bandwidth, or rounds for the tolerance."""
    if w @ w < 2.0 / len(w):
        warnings.warn(
            f"{len(w)} features are too few for this bandwidth: the kernel between rows is smaller than the "
            "features' own error, and the model is little better than a density of all rows. Raise "
            "n_features or the bandwidth.",
            NotConverged,
            stacklevel=6,
        )
    elif gap > tol:
        warnings.warn(
            f"The one-class problem was solved to a duality gap of {gap:.1e}, not to tol={tol:g}. Raise tol.",
            NotConverged,
            stacklevel=6,
        )
