"""Softmax classifiers on fixed features: a convex problem, solved by limited-memory BFGS, chosen by rows held out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

Tensor = Any
MEMORY, ROUNDS, PATIENCE = 10, 250, 40
RIDGES = (
    1e-2,
    1e-3,
    1e-4,
    1e-5,
    1e-6,
)  # of ½ ridge ‖W‖², for features of spread 1; each starts from the one before


def accuracies(
    train: tuple[Tensor, Tensor], held: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]
) -> dict:
    """Test accuracy of the classifier with most right rows held out, and of the one with the smallest loss there.

    The choice is among all rounds of all ridges. Each argument is features, which are changed, and classes 0, 1, ….
    """
    centre, spread = train[0].mean(0), train[0].std(0)
    spread[spread <= 1e-6 * spread.max()] = 1.0
    for features, _ in (train, held, test):
        features.sub_(centre).div_(spread)
    weights = Linear(torch.zeros((train[0].shape[1] + 1, int(train[1].max()) + 1), device=train[0].device))
    best: dict[str, tuple[float, Linear, float]] = {}
    for ridge in RIDGES:
        since, start = 0, weights.values
        for weights in descent(*train, start, ridge):
            since += 1
            values = _wrong_and_loss(weights, *held)
            for name, value in zip(("accuracy", "accuracy_at_least_loss"), values, strict=True):
                if name not in best or value < best[name][0]:
                    best[name], since = (value, weights, ridge), 0
            if since >= PATIENCE:
                break
    right = {name: 1 - _wrong_and_loss(kept, *test)[0] for name, (_, kept, _) in best.items()}
    return {**right, "held_accuracy": 1 - best["accuracy"][0], "ridge": best["accuracy"][2]}


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


def descent(features: Tensor, labels: Tensor, W: Tensor, ridge: float) -> Iterator[Linear]:
    """Weights after each round of limited-memory BFGS on the mean cross-entropy plus ½ ridge ‖W‖²."""
    own = labels[:, None]

    def loss_and_slope(W: Tensor) -> tuple[Tensor, Tensor]:
        logs = Linear(W).scores(features).log_softmax(1)
        loss = 0.5 * ridge * W[:-1].square().sum() - logs.gather(1, own).mean()
        errors = logs.exp_().scatter_add_(1, own, torch.full_like(logs[:, :1], -1.0)).div_(len(labels))
        return loss, torch.vstack([features.T @ errors + ridge * W[:-1], errors.sum(0)])

    (loss, slope), pairs = loss_and_slope(W), []
    for _ in range(ROUNDS):
        step, size, too_high = _direction(slope, pairs), 1.0, 1.0
        while too_high > 0 and size > 1e-4:
            new = W - size * step
            new_loss, new_slope = loss_and_slope(new)
            moved, turned = new - W, new_slope - slope
            # one question to the device: has the loss fallen enough, is the curvature positive, how much was gained?
            answers = (
                new_loss - loss - 1e-4 * (slope * moved).sum(),
                (moved * turned).sum(),
                1 - new_loss / loss,
            )
            too_high, curvature, gained = torch.stack(answers).tolist()
            size /= 2
        if too_high > 0:
            return
        pairs = [*pairs, (moved, turned)][-MEMORY:] if curvature > 0 else pairs
        W, loss, slope = new, new_loss, new_slope
        yield Linear(W)
        if gained < 1e-5:
            return


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
