"""What a basis is trained for: the kernel's values, alignment with labels, or a softmax classifier on top.

Each objective says which rows a step looks at, and gives one loss per basis of a stack.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from tellwhy.bases.torch_features import BasisStack, Tensor
from tellwhy.core.score import Floats, Integers

HELD_BATCHES = 200


class Objective(Protocol):
    """What a stack of E bases is trained for: losses, shape (E,), on the rows that an index names."""

    parameters: list[Tensor]  # to train besides the basis
    sources: tuple[Tensor, ...] = ()  # of random numbers that its losses draw

    def draw(self, rng: np.random.Generator, n: int, n_batches: int, size: int) -> Integers:
        """Return the rows, of n, that each step of an epoch looks at; the first axis runs over steps."""
        ...

    def held_parts(self, rng: np.random.Generator, n: int, size: int) -> list[Integers]:
        """Return the rows, of n held out, that decide when to stop, in parts of equal weight."""
        ...

    def losses(self, stack: BasisStack, Z: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of each basis."""
        ...

    def held_losses(self, stack: BasisStack, Z: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return what decides when to stop, of rows held out: the losses themselves unless said otherwise."""
        return self.losses(stack, Z, labels, index)


class KernelValues(Objective):
    """½(k(x, x') − φ(x)·φ(x'))², averaged over pairs of rows."""

    def __init__(self, kernel: str, depth: int):
        self.kernel, self.depth = kernel, depth
        self.parameters: list[Tensor] = []

    def draw(self, rng: np.random.Generator, n: int, n_batches: int, size: int) -> Integers:
        """Pairs of rows, shape (steps, 2, size)."""
        return rng.integers(0, n, size=(n_batches, 2, size))

    def held_parts(self, rng: np.random.Generator, n: int, size: int) -> list[Integers]:
        """Pairs that stay the same, many at a time."""
        return list(self.draw(rng, n, HELD_BATCHES // 50, 50 * size))

    def losses(self, stack: BasisStack, Z: Tensor, labels: Tensor, index: Tensor) -> Tensor:  # noqa: ARG002
        """Mean over the pairs."""
        rows = Z[index.reshape(-1)]
        a, b = rows.chunk(2)
        left, right = stack.features(rows).chunk(2, dim=1)
        found = (left * right).sum(-1)
        return 0.5 * (compute_kernel_of_pairs(a, b, self.kernel, self.depth) - found).square().mean(-1)


def compute_kernel_of_pairs(a: Tensor, b: Tensor, kernel: str, depth: int) -> Tensor:
    """k(a_i, b_i) for rows divided by the bandwidth."""
    if kernel == "gaussian":
        return (-0.5 * (a - b).square().sum(-1)).exp()
    scale = a.norm(dim=-1) * b.norm(dim=-1)
    cosine = (a * b).sum(-1) / scale.clamp_min(1e-30)  # a row of zeros: the kernel is 0 · cosine
    for _ in range(depth):
        cosine = cosine.clamp(-1.0, 1.0)  # rounding leads a little beyond ±1
        angle = cosine.acos()
        cosine = (angle.sin() + (math.pi - angle) * cosine) / math.pi
    return scale * cosine


class Alignment(Objective):
    """−⟨K, K_Y⟩/√(⟨K, K⟩⟨K_Y, K_Y⟩) of a batch; K_Y is 1 for two rows of the same class and 0 otherwise."""

    def __init__(self) -> None:
        self.parameters: list[Tensor] = []

    def draw(self, rng: np.random.Generator, n: int, n_batches: int, size: int) -> Integers:
        """Rows, shape (steps, size)."""
        return rng.integers(0, n, size=(n_batches, size))

    def held_parts(self, rng: np.random.Generator, n: int, size: int) -> list[Integers]:
        """Batches that stay the same, twenty at a time: enough to see each row a few times."""
        n_batches = min(HELD_BATCHES, 4 + 4 * n // size)
        drawn = self.draw(rng, n, -(-n_batches // 20) * 20, size)
        return list(drawn.reshape(-1, 20, size))

    def losses(self, stack: BasisStack, Z: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Minus the alignment, averaged over the batches where the index has shape (batches, size)."""
        own = labels[index].reshape(-1, index.shape[-1])
        features = stack.features(Z[index.reshape(-1)]).unflatten(1, own.shape)  # (E, batches, size, D)
        K = features @ features.mT
        same = (own[:, :, None] == own[:, None, :]).to(K.dtype)
        squares = K.square().sum((2, 3)) * same.sum((1, 2))
        return (-(K * same).sum((2, 3)) / squares.sqrt().clamp_min(1e-30)).mean(1)


class SoftmaxLoss(Objective):
    """Cross-entropy of a softmax classifier W φ(x) + b, trained with the basis, or on a fixed one.

    `dropout` is the share of features that each row of a step does without, drawn anew each time; the others
    are scaled up to make up for them. Rows held out keep all of theirs. `steps` makes the steps of W so many
    times as long as those of the basis: W is what is trained, times `steps`.
    """

    def __init__(
        self,
        n_bases: int,
        n_features: int,
        n_classes: int,
        device: str,
        *,
        dropout: float = 0.0,
        steps: float = 1.0,
        seed: int = 0,
    ):
        import torch

        self.steps = steps
        self.weights = torch.zeros((n_bases, n_features, n_classes), device=device, requires_grad=True)
        self.bias = torch.zeros((n_bases, 1, n_classes), device=device, requires_grad=True)
        self.parameters: list[Tensor] = [self.weights, self.bias]
        self.dropout = dropout
        # A source of its own: PyTorch's, which belongs to the user, is left as it is.
        self.sources = (torch.Generator(device).manual_seed(seed),) if dropout else ()

    def set(self, weights: Floats, bias: Floats) -> None:
        """Start every classifier from given weights."""
        import torch

        with torch.no_grad():
            for tensor, array in ((self.weights, weights / self.steps), (self.bias, bias)):
                tensor.copy_(torch.tensor(array, dtype=tensor.dtype, device=tensor.device).expand_as(tensor))

    def draw(self, rng: np.random.Generator, n: int, n_batches: int, size: int) -> Integers:
        """Every row in random order, again and again, shape (steps, size)."""
        passes = -(-n_batches * size // n)
        order = np.concatenate([rng.permutation(n) for _ in range(passes)])
        return order[: n_batches * size].reshape(n_batches, size)

    def held_parts(self, rng: np.random.Generator, n: int, size: int) -> list[Integers]:  # noqa: ARG002
        """All rows held out."""
        return np.array_split(np.arange(n), -(-n // 2048))  # parts whose features fit in memory

    def logits(self, stack: BasisStack, Z: Tensor) -> Tensor:
        """Shape (E, rows, classes)."""
        return self._scores(stack.features(Z))

    def _scores(self, features: Tensor) -> Tensor:
        # A product with 1 would be two more operations in each step.
        weights = self.weights if self.steps == 1.0 else self.weights * self.steps
        return self.bias.baddbmm(features, weights)

    def losses(self, stack: BasisStack, Z: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Mean cross-entropy, without some features where there is dropout."""
        import torch

        features = stack.features(Z[index])
        if self.dropout:
            drawn = torch.rand(features.shape, generator=self.sources[0], device=features.device)
            features = features * (drawn >= self.dropout) / (1 - self.dropout)
        return _cross_entropy(self._scores(features), labels[index])

    def held_losses(self, stack: BasisStack, Z: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Mean cross-entropy with all features."""
        return _cross_entropy(self.logits(stack, Z[index]), labels[index])


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    own: Any = labels.expand(len(scores), -1)[..., None]
    return -scores.log_softmax(-1).gather(-1, own)[..., 0].mean(-1)
