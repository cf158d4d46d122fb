"""Scores made of distances, computed by PyTorch: the formulas of `tellwhy.scoring.one_class`, on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score import CentreDistance, HasExpansion, KernelExpansion, NeighbourDistance
from tellwhy.kernels.distances import ScaledPoints, centre_and_unit
from tellwhy.kernels.radial import Exponential, StudentT
from tellwhy.scoring.one_class import KernelScore

Tensor = Any
DIGITS_KEPT = 1e-9  # relative error above which relevance is computed again from differences
EXACT_CELLS = 2**26  # differences that are held at once then


@dataclass(frozen=True, eq=False)
class Pooled:
    """Scores of rows without an offset, what each point counts in the relevance, and its sum.

    R_i = Σ_j coefficients_j (z_i − v_ji)² in the units of `length`².
    """

    scores: Tensor
    coefficients: Tensor
    attributed: Tensor


@dataclass(frozen=True, eq=False)
class Explained:
    """Relevance of each cell, score of each row, and the point that it does without, or −1."""

    values: Tensor
    scores: Tensor
    skipped: Tensor


class DevicePoints:
    """The points of a score on a device, and how distances to them become scores and relevance.

    Parameters
    ----------
    score
        A score of rows that is made of distances.
    device, dtype
        Where, and in which type, PyTorch computes.
    """

    def __init__(self, score: Any, device: str, dtype: str):
        import torch

        if not isinstance(score, HasExpansion):
            raise UnsupportedModel(
                f"device={device!r} serves detectors made of distances (kernel, neighbours or centres); "
                f"{score.describes} is none. Use device='cpu'."
            )
        self.score = score
        self.dtype = getattr(torch, dtype)
        self.device = device
        points = _scaled(score.expansion)
        self.length = points.length
        self.centre = torch.as_tensor(points.centre, device=device)
        self.points = torch.as_tensor(points.scaled, device=device, dtype=self.dtype)
        self.squares = self.points**2
        self.norms = self.squares.sum(dim=1)
        self.offset = float(getattr(score, "offset", 0.0) or 0.0)
        self._pool = _list_pools()[type(score.expansion)](score.expansion, self)

    def rescaled(self, rows: Tensor) -> Tensor:
        """Bring rows, in double precision, into the coordinates of the points."""
        return ((rows - self.centre) / self.length).to(self.dtype)

    def squared_distances(self, Z: Tensor) -> Tensor:
        """‖z_i − v_j‖² of rescaled rows."""
        S = Z @ self.points.T
        return S.mul_(-2.0).add_((Z * Z).sum(dim=1)[:, None]).add_(self.norms).clamp_(min=0.0)

    def own_points(self, rows: Tensor, S: Tensor) -> Tensor:
        """Point that each row is, because the model was trained on it, or −1."""
        import torch

        found = torch.full((len(rows),), -1, dtype=torch.int64, device=self.device)
        if not hasattr(self.score, "match"):
            return found
        # Only rows next to a point can be one: those few are looked up where all digits count.
        rounding = 64 * torch.finfo(self.dtype).eps * (1.0 + self.norms.max())
        near = torch.nonzero(S.amin(dim=1) <= rounding)[:, 0]
        if len(near):
            matched = self.score.match(rows[near].cpu().numpy())
            found[near] = torch.as_tensor(matched, device=self.device)
        return found

    def scores(self, rows: Tensor, *, unseen: bool = False) -> Tensor:
        """Score of each row; `unseen`: rows that the model was trained on do without themselves."""
        S = self.squared_distances(self.rescaled(rows))
        skip = self.own_points(rows, S) if unseen else None
        return self._pool(S, skip, relevance=False).scores + self.offset

    def masked_scores(self, rows: Tensor, kept: Tensor) -> Tensor:
        """Score of rows by their distances in the cells that are kept, without themselves."""
        Z = self.rescaled(rows)
        skip = self.own_points(rows, self.squared_distances(Z))
        kept = kept.to(self.dtype)
        Z = Z * kept
        S = (Z @ self.points.T).mul_(-2.0).add_((Z * Z).sum(dim=1)[:, None])
        S = S.addmm_(kept, self.squares.T).clamp_(min=0.0)
        return self._pool(S, skip, relevance=False).scores + self.offset

    def relevance(self, rows: Tensor) -> Explained:
        """Explain rows; those that the model was trained on do without themselves."""
        Z = self.rescaled(rows)
        S = self.squared_distances(Z)
        skip = self.own_points(rows, S)
        pooled = self._pool(S, skip, relevance=True)
        W = pooled.coefficients
        weight = W.sum(dim=1)
        found = Z * (Z * weight[:, None] - 2.0 * (W @ self.points)) + W @ self.squares
        self._recompute(found, Z, W, weight, pooled.attributed)
        return Explained(found.clamp_(min=0.0), pooled.scores + self.offset, skip)

    def _recompute(self, found: Tensor, Z: Tensor, W: Tensor, weight: Tensor, attributed: Tensor) -> None:
        """Sum over differences where the three terms of the product cancel."""
        import torch

        eps = 16 * torch.finfo(self.dtype).eps
        error = eps * (weight * (Z * Z).sum(dim=1) + W @ self.norms)
        # single precision has no nine digits to keep: there a thousandth is what is asked for
        digits = DIGITS_KEPT if self.dtype == torch.float64 else 1e-3
        lost = torch.nonzero(error > digits * attributed)[:, 0]
        for some in lost.split(max(1, EXACT_CELLS // self.points.numel())):
            squares = (Z[some][:, None, :] - self.points[None]).square_()
            found[some] = torch.einsum("nm,nmd->nd", W[some], squares)


def _scaled(expansion: Any) -> ScaledPoints:
    if isinstance(expansion, KernelExpansion):
        return ScaledPoints.of(expansion.points, expansion.kernel.bandwidth)
    points = expansion.centres if isinstance(expansion, CentreDistance) else expansion.points
    return ScaledPoints.of(points, centre_and_unit(points)[1])


def _list_pools() -> dict[type, Callable[..., Any]]:
    return {
        KernelExpansion: _make_kernel_pool,
        NeighbourDistance: _make_neighbour_pool,
        CentreDistance: _make_centre_pool,
    }


def _make_kernel_pool(expansion: KernelExpansion, points: DevicePoints) -> Any:
    if isinstance(expansion.kernel, Exponential):
        return ExponentialPool(expansion, points)
    if isinstance(expansion.kernel, StudentT):
        return StudentPool(expansion, points)
    raise UnsupportedModel(f"A device knows no kernel {type(expansion.kernel).__name__}. Use device='cpu'.")


class ExponentialPool:
    """o = −log Σ_j α_j exp(−(r_j/σ)^q/q); Δ_j = p_j min(o, (r_j/σ)^q/q)."""

    def __init__(self, expansion: KernelExpansion, points: DevicePoints):
        import torch

        self.q = float(expansion.kernel.q)
        self.weights = torch.as_tensor(expansion.weights, device=points.device, dtype=points.dtype)

    def __call__(self, S: Tensor, skip: Tensor | None, *, relevance: bool) -> Pooled:
        """Pool squared distances, which are overwritten."""
        import torch

        heights = _power(S, self.q) / self.q
        exponents = torch.log(self.weights) - heights
        kept = torch.zeros(len(S), dtype=S.dtype, device=S.device)
        if skip is not None and bool((skip >= 0).any()):
            rows = torch.nonzero(skip >= 0)[:, 0]
            exponents[rows, skip[rows]] = -torch.inf
            kept[rows] = torch.log1p(-self.weights[skip[rows]])
        total = torch.logsumexp(exponents, dim=1)
        o = (kept - total).clamp_(min=0.0)
        if not relevance:
            return Pooled(o, None, None)
        delta = exponents.sub_(total[:, None]).exp_()
        delta.mul_(torch.minimum(heights, o[:, None]))
        return _shared(delta, S, o)


class StudentPool:
    """o = m / Σ_j α_j/(a + (r_j/σ)^q); Δ_j = p_j (r_j/σ)^q/(a + (r_j/σ)^q) o."""

    def __init__(self, expansion: KernelExpansion, points: DevicePoints):
        import torch

        kernel: Any = expansion.kernel
        self.q = float(kernel.q)
        self.a = float(kernel.a)
        self.weights = torch.as_tensor(expansion.weights, device=points.device, dtype=points.dtype)
        self.is_one = expansion.scale == "one"

    def __call__(self, S: Tensor, skip: Tensor | None, *, relevance: bool) -> Pooled:
        """Pool squared distances, which are overwritten."""
        import torch

        powers = _power(S, self.q)
        k = 1.0 / (self.a + powers)
        parts = k * self.weights
        factor = torch.full(
            (len(S),), 1.0 if self.is_one else len(self.weights), dtype=S.dtype, device=S.device
        )
        if skip is not None and bool((skip >= 0).any()):
            rows = torch.nonzero(skip >= 0)[:, 0]
            parts[rows, skip[rows]] = 0.0
            factor[rows] -= 0.0 if self.is_one else 1.0
            factor[rows] *= 1.0 - self.weights[skip[rows]]
        g = parts.sum(dim=1)
        o = factor / g
        if not relevance:
            return Pooled(o, None, None)
        return _shared(parts.mul_(powers).mul_(k).mul_((o / g)[:, None]), S, o)


def _make_neighbour_pool(expansion: NeighbourDistance, points: DevicePoints) -> Any:
    def pool(S: Tensor, skip: Tensor | None, *, relevance: bool) -> Pooled:
        import torch

        if skip is not None and bool((skip >= 0).any()):
            rows = torch.nonzero(skip >= 0)[:, 0]
            S[rows, skip[rows]] = torch.inf
        nearest, index = S.topk(expansion.n_neighbours, dim=1, largest=False)
        r = nearest.sqrt()
        o = r.mean(dim=1) * points.length
        if not relevance:
            return Pooled(o, None, None)
        # (x − u)²/r in the units of the rows; equal rows have nothing to share
        shares = torch.where(r > 0, points.length / r, 0.0) / expansion.n_neighbours
        return Pooled(o, torch.zeros_like(S).scatter_(1, index, shares), o)

    return pool


def _make_centre_pool(expansion: CentreDistance, points: DevicePoints) -> Any:  # noqa: ARG001
    def pool(S: Tensor, skip: Tensor | None, *, relevance: bool) -> Pooled:  # noqa: ARG001
        import torch

        nearest, index = S.min(dim=1)
        o = nearest * points.length**2
        if not relevance:
            return Pooled(o, None, None)
        shares = torch.zeros_like(S)
        shares[torch.arange(len(S), device=S.device), index] = points.length**2
        return Pooled(o, shares, o)

    return pool


def _power(S: Tensor, q: float) -> Tensor:
    if q == 2.0:
        return S
    return S.sqrt() if q == 1.0 else S ** (0.5 * q)


def _shared(delta: Tensor, S: Tensor, o: Tensor) -> Pooled:
    """Δ_j / s_j, and 0 where a row is that point."""
    attributed = delta.sum(dim=1)
    return Pooled(o, delta.div_(S).masked_fill_(S == 0, 0.0), attributed)


def base_values(score: Any, skip: Tensor) -> Any:
    """Least score there is of each row."""
    if isinstance(score, KernelScore):
        return score.base_values(skip.cpu().numpy())
    return np.zeros(len(skip))
