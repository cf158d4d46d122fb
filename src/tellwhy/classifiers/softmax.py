"""Softmax regression by mini-batches, on features that are computed when needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers

CHUNK = 4_096  # rows whose features are held at once
LEAST_GAIN = 1e-4  # a smaller relative gain on the rows held out does not count as one
# As Kingma and Ba recommend for Adam.
_DECAY = 0.9
_DECAY_SQUARES = 0.999
_TINY = 1e-8

Features = Callable[[Integers], Any]  # rows, by their places -> their features


@dataclass(frozen=True)
class SoftmaxState:
    """Weights, shape (features + 1, classes) with the intercepts last, and the state of Adam.

    That is the running means of the gradient and of its squares, and the number of steps so far.
    """

    weights: Floats
    first: Floats
    second: Floats
    n_steps: int = 0

    @classmethod
    def zero(cls, n_features: int, n_classes: int) -> SoftmaxState:
        """All classes alike."""
        nothing = np.zeros((n_features + 1, n_classes))
        return cls(nothing, nothing, nothing)


@dataclass(frozen=True)
class SoftmaxPlan:
    """Steps of training, and when to stop."""

    learning_rate: float
    batch_size: int
    max_epochs: int
    patience: int


@dataclass
class _Best:
    state: SoftmaxState
    loss: float = np.inf
    epoch: int = 0
    losses: list[float] = field(default_factory=list)


def train_softmax(
    features: Features,
    labels: Integers,
    held: Integers,
    *,
    start: SoftmaxState,
    plan: SoftmaxPlan,
    rng: np.random.Generator,
    refit: bool = False,
) -> tuple[SoftmaxState, Floats]:
    """Return the weights that did best on the rows held out, and the losses there after each epoch.

    With `refit`, as many epochs as did best are then taken over all rows, from the start.
    """
    rest = np.setdiff1d(np.arange(len(labels)), held)
    best = _Best(start)
    state = start
    for epoch in track(range(plan.max_epochs), plan.max_epochs, "training the classifier"):
        state = one_pass(features, labels, rng.permutation(rest), state, plan)
        best.losses.append(mean_loss(features, labels, held, state.weights))
        if best.losses[-1] < best.loss * (1 - LEAST_GAIN):
            best.state = state
            best.loss = best.losses[-1]
            best.epoch = epoch
        if epoch - best.epoch >= plan.patience:
            break
    if refit:
        best.state = start
        for _ in range(best.epoch + 1):
            best.state = one_pass(features, labels, rng.permutation(len(labels)), best.state, plan)
    return best.state, np.array(best.losses)


def one_pass(
    features: Features, labels: Integers, order: Integers, state: SoftmaxState, plan: SoftmaxPlan
) -> SoftmaxState:
    """Take a step of Adam per batch of rows, in the given order."""
    for start in range(0, len(order), CHUNK):
        rows = order[start : start + CHUNK]
        block = features(rows)
        for first in range(0, len(rows), plan.batch_size):
            part = slice(first, first + plan.batch_size)
            gradient = loss_gradient(block[part], labels[rows[part]], state.weights)
            state = adam_step(state, gradient, plan.learning_rate)
    return state


def adam_step(state: SoftmaxState, gradient: Floats, learning_rate: float) -> SoftmaxState:
    """One step of Adam (Kingma and Ba, 2015)."""
    n = state.n_steps + 1
    # The means start at zero: dividing by 1 − decayⁿ makes up for that in the first steps.
    first = _DECAY * state.first + (1 - _DECAY) * gradient
    second = _DECAY_SQUARES * state.second + (1 - _DECAY_SQUARES) * gradient**2
    spread = np.sqrt(second / (1 - _DECAY_SQUARES**n)) + _TINY
    weights = state.weights - learning_rate * (first / (1 - _DECAY**n)) / spread
    return replace(state, weights=weights, first=first, second=second, n_steps=n)


def class_scores(features: Any, weights: Floats) -> Floats:
    """φ W + b."""
    return np.asarray(features @ weights[:-1] + weights[-1])


def log_probabilities(scores: Floats) -> Floats:
    """Return log softmax of each row."""
    shifted = scores - scores.max(axis=1, keepdims=True)  # exp of a large score would overflow
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def loss_gradient(features: Any, labels: Integers, weights: Floats) -> Floats:
    """Gradient of the mean cross-entropy."""
    errors = np.exp(log_probabilities(class_scores(features, weights)))
    errors[np.arange(len(labels)), labels] -= 1.0
    errors /= len(labels)
    return np.vstack([features.T @ errors, errors.sum(axis=0)])


def mean_loss(features: Features, labels: Integers, rows: Integers, weights: Floats) -> float:
    """Mean cross-entropy of some rows."""
    total = 0.0
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        scores = log_probabilities(class_scores(features(part), weights))
        total -= float(scores[np.arange(len(part)), labels[part]].sum())
    return total / len(rows)
