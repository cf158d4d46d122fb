"""Softmax classifiers on fixed features: a convex problem, solved by limited-memory BFGS, stopped by rows held out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

Tensor = Any
MEMORY, ROUNDS, PATIENCE = 10, 600, 40


def accuracies(train: tuple[Tensor, Tensor], held: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> dict:
    """Test accuracy of the classifier with most right rows held out, and of the one with the smallest loss there.

    Each argument is features and classes 0, 1, …; the features are changed.
    """
    centre, spread = train[0].mean(0), train[0].std(0)
    spread[spread <= 1e-6 * spread.max()] = 1.0
    for features, _ in (train, held, test):
        features.sub_(centre).div_(spread)
    classes = int(train[1].max()) + 1
    best: dict[str, tuple[float, int, Tensor]] = {}
    for n, weights in enumerate(descent(*train, classes)):
        for name, value in zip(("accuracy", "accuracy_at_least_loss"), _wrong_and_loss(weights, *held), strict=True):
            if name not in best or value < best[name][0]:
                best[name] = value, n, weights
        if n - max(at for _, at, _ in best.values()) >= PATIENCE:
            break
    right = {name: 1 - _wrong_and_loss(kept, *test)[0] for name, (_, _, kept) in best.items()}
    return {**right, "held_accuracy": 1 - best["accuracy"][0], "rounds": n + 1}


class Linear:
    """Weights, shape (features + 1, classes), the intercepts last."""

    def __init__(self, values: Tensor):
        self.values = values

    def scores(self, features: Tensor) -> Tensor:
        return torch.addmm(self.values[-1], features, self.values[:-1])


def _wrong_and_loss(weights: Linear, features: Tensor, labels: Tensor) -> list[float]:
    """Share of wrong rows, and mean cross-entropy."""
    scores = weights.scores(features)
    wrong = (scores.argmax(1) != labels).to(scores.dtype).mean()
    found: list[float] = torch.stack([wrong, torch.nn.functional.cross_entropy(scores, labels)]).tolist()
    return found


def descent(features: Tensor, labels: Tensor, classes: int) -> Iterator[Linear]:
    """Weights after each round of limited-memory BFGS on the mean cross-entropy, from 0."""
    own = labels[:, None]

    def loss_and_slope(W: Tensor) -> tuple[Tensor, Tensor]:
        logs = Linear(W).scores(features).log_softmax(1)
        loss, errors = -logs.gather(1, own).mean(), logs.exp_()
        errors.scatter_add_(1, own, torch.full_like(errors[:, :1], -1.0)).div_(len(labels))
        return loss, torch.vstack([features.T @ errors, errors.sum(0)])

    W = torch.zeros((features.shape[1] + 1, classes), device=features.device)
    (loss, slope), pairs = loss_and_slope(W), []
    for _ in range(ROUNDS):
        step, size = _direction(slope, pairs), 1.0
        while True:
            new = W - size * step
            new_loss, new_slope = loss_and_slope(new)
            moved, turned = new - W, new_slope - slope
            # one question to the device: has the loss fallen enough, and is the curvature positive?
            too_high, curvature = torch.stack(
                [new_loss - loss - 1e-4 * (slope * moved).sum(), (moved * turned).sum()]
            ).tolist()
            if too_high <= 0:
                break
            size /= 2
            if size < 1e-4:
                return
        pairs = [*pairs, (moved, turned)][-MEMORY:] if curvature > 0 else pairs
        W, loss, slope = new, new_loss, new_slope
        yield Linear(W)


def _direction(slope: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The slope times an approximate inverse of the curvature, from the latest steps and changes of slope."""
    if not pairs:
        return slope / slope.norm()
    q, shares = slope.clone(), []
    for s, y in reversed(pairs):
        shares.append((s * q).sum() / (s * y).sum())
        q -= shares[-1] * y
    s, y = pairs[-1]
    q *= (s * y).sum() / (y * y).sum()
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        q += s * (share - (y * q).sum() / (s * y).sum())
    return q
