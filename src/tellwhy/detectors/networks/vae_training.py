"""What a variational autoencoder is trained for, and how rows held out judge it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tellwhy.core.parallel import row_batches
from tellwhy.core.score_function import Floats
from tellwhy.detectors.networks.moved_cells import TINY, MovedCells
from tellwhy.detectors.networks.torch_networks import Stack, Tensor
from tellwhy.detectors.networks.vae_scores import LEAST_VARIANCE

LEAST_NOISE = 1e-4  # variance of standardised columns around their reconstruction


def encoded(stack: Stack, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the code, shape (E, n, latent)."""
    from torch.nn.functional import softplus

    hidden = stack.hidden("encode", x)
    # softplus keeps the variance positive, and lets it grow no faster than the rows do; exp would overflow.
    mean = stack.linear("mean", hidden) + stack.bypass("bypass_mean", x)
    return mean, softplus(stack.linear("variance", hidden)) + LEAST_VARIANCE


def decoded(stack: Stack, code: Tensor) -> Tensor:
    """Reconstruction of the rows from their code; logits where the likelihood is Bernoulli's."""
    bent = stack.linear("output", stack.hidden("refine", stack.hidden("decode", code)))
    return bent + stack.bypass("bypass_output", code)


def misfit(likelihood: str, x: Tensor, output: Tensor) -> Tensor:
    """Sum over columns of (x − x̂)² for 'gaussian', of the cross-entropy for 'bernoulli'."""
    from torch.nn.functional import softplus

    if likelihood == "bernoulli":
        return (softplus(output) - x * output).sum(-1)
    return (x - output).square().sum(-1)


def minus_log_likelihood(likelihood: str, misfit: Tensor, d: int, variance: Any) -> Tensor:
    """−log p(x|z) of d columns: N(x̂, variance) for 'gaussian', with one variance for all columns."""
    import torch

    if likelihood == "bernoulli":
        return misfit
    return 0.5 * misfit / variance + 0.5 * d * torch.log(
        2.0 * math.pi * torch.as_tensor(variance, dtype=misfit.dtype)
    )


def divergence(mean: Tensor, variance: Tensor, mask: Tensor) -> Tensor:
    """KL(N(mean, variance) ‖ N(0, 1)), summed over the units of the code that are in use."""
    return 0.5 * ((mean.square() + variance - 1.0 - variance.log()) * mask).sum(-1)


def _batches(stack: Stack, n: int) -> list[slice]:
    """Parts of n rows that go through all networks at once."""
    row_bytes = 32 * len(stack) * (stack.widths["hidden"] + stack.widths["column"])
    return row_batches(n, row_bytes, 64 * 2**20)


class EvidenceBound:
    """The negative evidence lower bound, with one draw of noise a row.

    The Gaussian's variance is the one that makes the bound tightest, the mean squared error of the rows at
    hand (Rybkin, Daniilidis and Levine, International Conference on Machine Learning, 2021): with a variance
    fixed at 1 a network learns no direction in which standardised rows vary less than that.
    """

    def __init__(self, likelihood: str, held_noise: Floats):
        self.likelihood = likelihood
        self.held_noise = held_noise

    def _sums(self, stack: Stack, x: Tensor, noise: Floats) -> tuple[Tensor, Tensor]:
        """Misfit and divergence, each summed over the rows, shape (E,)."""
        import torch

        rows = x.expand(len(stack), -1, -1)  # the same rows for every network, without copies
        mean, variance = encoded(stack, rows)
        drawn = torch.tensor(noise[:, : mean.shape[-1]], dtype=x.dtype, device=x.device)
        mask = stack.masks["latent"]
        code = (mean + variance.sqrt() * drawn) * mask
        misfits = misfit(self.likelihood, rows, decoded(stack, code))
        return misfits.sum(1), divergence(mean, variance, mask).sum(1)

    def _mean(self, misfits: Tensor, divergences: Tensor, n: int, d: int) -> Tensor:
        variance = (misfits / (n * d)).clamp(min=LEAST_NOISE)  # perfect copies would have none at all
        return minus_log_likelihood(self.likelihood, misfits / n, d, variance) + divergences / n

    def batch_loss(self, stack: Stack, batch: Tensor, rng: np.random.Generator) -> Tensor:
        """Mean over a batch, shape (E,)."""
        noise = rng.standard_normal((len(batch), self.held_noise.shape[1]))
        return self._mean(*self._sums(stack, batch, noise), *batch.shape)

    def held_loss(self, stack: Stack, kept: Tensor, held: Tensor) -> Tensor:  # noqa: ARG002
        """Mean over the rows held out, shape (E,), always with the same noise."""
        sums = [self._sums(stack, held[part], self.held_noise[part]) for part in _batches(stack, len(held))]
        return self._mean(sum(m for m, _ in sums), sum(k for _, k in sums), *held.shape)


class LocatingBound(EvidenceBound):
    """The bound to descend on; the rows held out say how much of the error falls on cells that were moved."""

    def __init__(self, likelihood: str, held_noise: Floats, cells: MovedCells):
        super().__init__(likelihood, held_noise)
        self.cells = cells

    def held_loss(self, stack: Stack, kept: Tensor, held: Tensor) -> Tensor:  # noqa: ARG002
        """Return the mean −log share of moved cells in their row's squared error, shape (E,)."""
        n = len(self.cells.rows)
        return sum(self._surprises(stack, held, part).sum(1) for part in _batches(stack, n)) / n

    def _surprises(self, stack: Stack, held: Tensor, part: slice) -> Tensor:
        """−log share of the moved cell of some rows, shape (E, n)."""
        import torch

        rows = torch.as_tensor(self.cells.rows[part], device=held.device)
        columns = torch.as_tensor(self.cells.columns[part], device=held.device)
        moved = held[rows]
        each = torch.arange(len(rows), device=held.device)
        before = moved[each, columns]
        shifts = torch.as_tensor(self.cells.shifts[part], device=held.device, dtype=held.dtype)
        moved[each, columns] = 1.0 - before if self.likelihood == "bernoulli" else before + shifts
        mean, _ = encoded(stack, moved.expand(len(stack), -1, -1))
        output = decoded(stack, mean * stack.masks["latent"])
        rebuilt = output.sigmoid() if self.likelihood == "bernoulli" else output
        errors = (moved - rebuilt).square() + TINY
        return errors.sum(-1).log() - errors[:, each, columns].log()
