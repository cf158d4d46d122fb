"""What a deep autoencoding Gaussian mixture is trained for, and the mixture that follows from rows.

Several networks are trained side by side, so that tensors have a first axis E: one entry per network. Smaller
networks are padded, and masks say which units are in use (see `torch_networks`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tellwhy.core.parallel import row_batches
from tellwhy.detectors.networks.dagmm_score import TINY
from tellwhy.detectors.networks.torch_networks import Stack, Tensor

MIXTURE_ROWS = 2_048  # training rows that the mixture is estimated from after each pass


@dataclass(frozen=True)
class Settings:
    """How the summary r(x) of a row, and its covariances, are computed."""

    anchor: float  # a constant coordinate that rows and their reconstructions both get
    regularisation: float  # added to variances


@dataclass(frozen=True)
class LatentMixture:
    """Mixtures of K Gaussians over s numbers, one for each of E networks."""

    log_weights: Tensor  # (E, K)
    means: Tensor  # (E, K, s)
    factors: Tensor  # (E, K, s, s), W with Σ⁻¹ = W Wᵀ
    variances: Tensor  # (E, K, s)


def summarised(stack: Stack, x: Tensor, anchor: float) -> tuple[Tensor, Tensor]:
    """Return the reconstruction of rows (E, n, d), and r(x): relative distance, cosine, code."""
    import torch

    code = stack.linear("code", stack.hidden("encode", x))
    rebuilt = stack.linear("output", stack.hidden("refine", stack.hidden("decode", code)))
    extra = anchor**2 + TINY  # TINY keeps roots and quotients smooth at 0
    size = (x.square().sum(-1) + extra).sqrt()
    distance = ((x - rebuilt).square().sum(-1) + TINY).sqrt() / size
    cosine = ((x * rebuilt).sum(-1) + anchor**2) / (size * (rebuilt.square().sum(-1) + extra).sqrt())
    return rebuilt, torch.cat([distance[..., None], cosine[..., None], code], dim=-1)


def shares_of(stack: Stack, summary: Tensor) -> Tensor:
    """Share of each component in each row, shape (E, n, K); 0 for components that are padding."""
    logits = stack.linear("share", stack.hidden("estimate", summary))
    return logits.masked_fill(stack.masks["component"] == 0, -math.inf).softmax(-1)


def mixture_from(stack: Stack, summary: Tensor, shares: Tensor, regularisation: float) -> LatentMixture:
    """Return the mixture that the shares of some rows imply."""
    import torch

    # In float64: the covariances of wide codes are too close to singular for single precision.
    summary = summary.double()
    shares = shares.double()
    counts = shares.sum(1) + TINY  # (E, K)
    means = shares.transpose(1, 2) @ summary / counts[..., None]
    deviations = summary[:, None] - means[:, :, None]  # (E, K, n, s)
    weighted = deviations * (shares.transpose(1, 2) / counts[..., None])[..., None]
    covariances = weighted.transpose(2, 3) @ deviations
    used = stack.masks["summary"][:, :, None]  # padding has variance 1, which adds nothing
    diagonal = regularisation * used + (1.0 - used)
    covariances = covariances + torch.diag_embed(diagonal.expand(*covariances.shape[:2], 1, -1)[:, :, 0])
    lower = torch.linalg.cholesky_ex(covariances).L
    identity = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device).expand_as(lower)
    factors = torch.linalg.solve_triangular(lower, identity, upper=False).transpose(2, 3)
    weights = (counts / summary.shape[1]).clamp_min(TINY)
    hidden = stack.masks["component"][:, 0] == 0
    log_weights = weights.log().masked_fill(hidden, -math.inf)
    return LatentMixture(log_weights, means, factors, torch.diagonal(covariances, dim1=2, dim2=3))


def mixture_of(stack: Stack, rows: Tensor, settings: Settings) -> LatentMixture:
    """Return the mixture that rows (n, d) imply."""
    summary = summarised(stack, rows.expand(len(stack), -1, -1), settings.anchor)[1]
    return mixture_from(stack, summary, shares_of(stack, summary), settings.regularisation)


def energy_of(summary: Tensor, log_weights: Tensor, means: Tensor, factors: Tensor, n_used: Tensor) -> Tensor:
    """−log Σ_k φ_k N(r; μ_k, Σ_k), shape (E, n); `n_used` is how many numbers of r are not padding."""
    import torch

    whitened = (summary.to(factors.dtype)[:, None] - means[:, :, None]) @ factors  # (E, K, n, s)
    peaks = log_weights + torch.diagonal(factors, dim1=2, dim2=3).log().sum(-1)
    terms = peaks[..., None] - 0.5 * whitened.square().sum(-1)
    return 0.5 * math.log(2.0 * math.pi) * n_used - terms.logsumexp(1)


class JointLoss:
    """Mean ‖x − x̂‖² + energy_weight · mean energy + covariance_weight · Σ 1/variance.

    The last sum keeps components from shrinking onto single rows, whose energy would fall without end.
    """

    def __init__(self, energy_weight: float, covariance_weight: float, settings: Settings):
        self.energy_weight = energy_weight
        self.covariance_weight = covariance_weight
        self.settings = settings

    def _loss(self, stack: Stack, x: Tensor, mixture: LatentMixture | None) -> Tensor:
        """Return the loss under a mixture, or under the one of these very rows."""
        rows = x.expand(len(stack), -1, -1)
        rebuilt, summary = summarised(stack, rows, self.settings.anchor)
        if mixture is None:
            mixture = mixture_from(stack, summary, shares_of(stack, summary), self.settings.regularisation)
        used = stack.masks["summary"]
        energy = energy_of(summary, mixture.log_weights, mixture.means, mixture.factors, used.sum(-1))
        real = used * stack.masks["component"].transpose(1, 2)
        penalty = (real / mixture.variances).sum((1, 2))
        errors = (rows - rebuilt).square().sum(-1)
        return errors.mean(1) + self.energy_weight * energy.mean(1) + self.covariance_weight * penalty

    def batch_loss(self, stack: Stack, batch: Tensor, rng: np.random.Generator) -> Tensor:  # noqa: ARG002
        """Loss with the mixture of the batch itself, shape (E,)."""
        return self._loss(stack, batch, None)

    def held_loss(self, stack: Stack, kept: Tensor, held: Tensor) -> Tensor:
        """Loss of the rows held out under the mixture of the others, shape (E,)."""
        mixture = mixture_of(stack, kept[:MIXTURE_ROWS], self.settings)
        row_bytes = 8 * 4 * stack.n_weights // max(stack.widths["hidden"], 1)
        total = 0.0
        for part in row_batches(len(held), row_bytes, 64 * 2**20):
            total = total + self._loss(stack, held[part], mixture) * len(held[part])
        return total / len(held)
