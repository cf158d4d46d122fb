"""Softmax classifiers on fixed features: a convex problem, solved to a tolerance; rows held out choose the ridge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tellwhy.classifiers.softmax import Solved, minimise

Tensor = Any
Rows = tuple[Tensor, Tensor]  # features and classes 0, 1, …
TOLERANCE = 1e-3  # duality gap, as a share of the objective
RIDGES = (
    1e-3,
    1e-4,
    1e-5,
    1e-6,
    1e-7,
    1e-8,
)  # of ½ ridge ‖W‖², as shares of the mean squared norm of features
MOST_ROUNDS = 400


def accuracies(
    train: Rows,
    held: Rows,
    test: Rows,
    *,
    refit: bool = False,
    ridges: Sequence[float] = RIDGES,
    rounds: int = MOST_ROUNDS,
) -> dict[str, float]:
    """Test accuracy of the classifier with the ridge that has most right rows held out.

    Each argument is features, which are changed: centred and divided by their spread. With `refit`, a second accuracy
    is that of the same ridge with the rows held out among those learned from.
    """
    centre, spread = train[0].mean(0), train[0].std(0)
    spread[spread <= 1e-6 * spread.max()] = 1.0
    for features, _ in (train, held, test):
        features.sub_(centre).div_(spread)
    unit, n_classes = 1.0 + float(train[0].square().sum(1).mean()), int(train[1].max()) + 1
    weights = torch.zeros((train[0].shape[1] + 1, n_classes), device=train[0].device)
    path: list[tuple[float, float, Solved]] = []
    for share in ridges:
        solved = solve(train, weights, share * unit, rounds)
        weights = solved.weights
        wrong, loss = _wrong_and_loss(weights, *held)
        path.append((wrong + 1e-6 * loss, share, solved))
        if len(path) - 1 - min(range(len(path)), key=lambda i: path[i][0]) >= 2:
            break
    judged, share, best = min(path, key=lambda found: found[0])
    line = {
        "accuracy": 1 - _wrong_and_loss(best.weights, *test)[0],
        "held_accuracy": 1 - judged,
        "ridge": share,
        "gap": best.gap,
        "largest_gap": max(found[2].gap for found in path),
        "rounds": sum(found[2].n_rounds for found in path),
    }
    if refit:
        whole = torch.cat([train[0], held[0]]), torch.cat([train[1], held[1]])
        again = solve(whole, best.weights, share * unit, rounds)
        line |= {"refitted": 1 - _wrong_and_loss(again.weights, *test)[0], "refitted_gap": again.gap}
    return line


def solve(rows: Rows, start: Tensor, ridge: float, rounds: int = MOST_ROUNDS) -> Solved:
    """Minimise the mean cross-entropy plus ½ ridge ‖W‖², in so many rounds at most."""
    features, labels = rows
    own = labels[:, None]

    def evaluate(W: Tensor) -> tuple[Tensor, Tensor]:
        logs = _scores(W, features).log_softmax(1)
        loss = 0.5 * ridge * W.square().sum() - logs.gather(1, own).mean()
        errors = logs.exp_().scatter_add_(1, own, torch.full_like(logs[:, :1], -1.0)).div_(len(labels))
        return loss, torch.vstack([features.T @ errors, errors.sum(0)]) + ridge * W

    return minimise(
        evaluate,
        start,
        ridge=ridge,
        precondition=_preconditioner(features, start, ridge),
        tolerance=TOLERANCE,
        max_rounds=rounds,
    )


def _preconditioner(features: Tensor, W: Tensor, ridge: float) -> Callable[[Tensor], Tensor]:
    """What divides by the curvature at W, averaged over classes."""
    size = len(W)
    curvature = torch.zeros((size, size), device=W.device)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = size > 12_000  # an approximation is enough, and much faster
    for part in features.split(8_192):
        p = _scores(W, part).softmax(1)
        weights = ((p * (1 - p)).mean(1) / len(features)).sqrt()
        scaled = torch.cat([part, torch.ones_like(part[:, :1])], dim=1) * weights[:, None]
        curvature.addmm_(scaled.T, scaled)
    torch.backends.cuda.matmul.allow_tf32 = before
    lower, failed, share = curvature, 1, 1e-6
    while failed:  # what TF32 rounds off may make the matrix indefinite
        wide = curvature.double()
        wide.diagonal().add_(ridge + share * float(wide.diagonal().mean()))
        lower, info = torch.linalg.cholesky_ex(wide)
        failed, share = int(info), 10 * share
    del wide, curvature
    return lambda slope: torch.cholesky_solve(slope.double(), lower).to(slope.dtype)


def _scores(W: Tensor, features: Tensor) -> Tensor:
    return torch.addmm(W[-1], features, W[:-1])


def _wrong_and_loss(W: Tensor, features: Tensor, labels: Tensor) -> list[float]:
    """Share of wrong rows, and mean cross-entropy."""
    scores = _scores(W, features)
    wrong = (scores.argmax(1) != labels).to(scores.dtype).mean()
    found: list[float] = torch.stack([wrong, torch.nn.functional.cross_entropy(scores, labels)]).tolist()
    return found
