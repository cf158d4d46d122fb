"""Training a drawn basis on the kernel's values, on labels, or together with a classifier."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tellwhy.bases.objectives import Alignment, KernelValues, Objective, SoftmaxLoss
from tellwhy.bases.projections import DEPTHS, FeatureMap
from tellwhy.bases.torch_features import BasisStack
from tellwhy.bases.training import Plan, Trained, TrainingRows, train, train_for
from tellwhy.core.params import Fit
from tellwhy.core.running import choose_device
from tellwhy.core.score import Floats, Integers

MOST_HELD = 10_000


@dataclass(frozen=True)
class SoftmaxWeights:
    """Class scores φ(x) W + b."""

    weights: Floats
    bias: Floats

    def _require(self) -> Iterator[Fit]:
        yield "weights", self.weights.ndim, 2
        yield "bias", self.bias.shape, self.weights.shape[1:]


@dataclass(frozen=True)
class Adapted:
    """A trained basis, and the classifier trained with it, if any.

    Attributes
    ----------
    losses
        On the rows held out, after each epoch.
    start_loss
        That of the basis as it was drawn. Where it is smaller than all losses, the drawn basis was kept.
    """

    feature_map: FeatureMap
    losses: Floats
    softmax: SoftmaxWeights | None
    start_loss: float = math.inf


@dataclass(frozen=True)
class Task:
    """What to train, for what, and where.

    Attributes
    ----------
    basis
        What to train it for, as `KernelBasis` names it.
    feature_map
        The basis to start from.
    n_classes
        Number of classes.
    device
        Where to train.
    dropout
        Share of features that a row of a step does without.
    start
        Classifier whose training goes on; a new one by default.
    classifier_steps
        How many times as long as those of the basis the steps of the classifier are.
    """

    basis: str
    feature_map: FeatureMap
    n_classes: int
    device: str
    dropout: float = 0.0
    start: SoftmaxWeights | None = None
    classifier_steps: float = 1.0

    def fresh(self, rng: np.random.Generator) -> tuple[BasisStack, Objective]:
        """Return the basis as it starts, and what it is trained for."""
        stack = BasisStack.of([self.feature_map], self.device)
        seed = int(rng.integers(2**31)) if self.dropout else 0
        options = {"dropout": self.dropout, "steps": self.classifier_steps, "seed": seed}
        objective = make_objective(self.basis, stack, self.n_classes, self.device, **options)
        if isinstance(objective, SoftmaxLoss) and self.start is not None:
            objective.set(self.start.weights, self.start.bias)
        return stack, objective


def adapt(
    task: Task,
    X: Any,
    labels: Integers,
    *,
    plan: Plan,
    validation_share: float,
    rng: np.random.Generator,
    refit: bool = False,
) -> Adapted:
    """Train a basis, and keep it only if it does better on rows held out than the one it started from.

    Better means a smaller loss of what it is trained for: the error of the kernel's values, minus the
    alignment, or the cross-entropy. A basis that is trained with a classifier is compared with a classifier
    that was trained, by the same plan, on the basis as it was drawn.

    Parameters
    ----------
    task
        What to train.
    X, labels
        Rows, and the numbers 0, 1, … of their classes.
    plan
        How long and in which steps to train.
    validation_share
        Share of the rows held out.
    rng
        Source of all draws.
    refit
        Train once more, on all rows, for as many epochs as did best.
    """
    task = replace(task, device=choose_device(task.device, f"KernelBasis(basis={task.basis!r})"))
    plan = replace(plan, label=f"training the {task.basis} basis")
    Z = (np.asarray(X, dtype=np.float64) - task.feature_map.centre) / task.feature_map.bandwidth
    rows = TrainingRows.of(Z, labels, choose_held_rows(len(Z), validation_share, rng), task.device)
    moved = Candidate.trained(task, rows, plan, rng)
    kept, start_loss = moved, float(moved.done.start[0])
    if task.basis == "discriminative" and task.start is None:
        still = replace(plan, train_basis=False, label="training a classifier on the drawn basis")
        own = Candidate.trained(task, rows, still, rng.spawn(1)[0])
        start_loss = own.loss
        kept = own if own.loss <= moved.loss else moved
    if refit:
        kept = kept.refitted(task, rows.joined(), rng)
    return Adapted(kept.stack.member(0), moved.done.losses[:, 0], _softmax(kept.objective), start_loss)


@dataclass(frozen=True)
class Candidate:
    """A basis and classifier that were trained by a plan."""

    stack: BasisStack
    objective: Objective
    plan: Plan
    done: Trained

    @classmethod
    def trained(cls, task: Task, rows: TrainingRows, plan: Plan, rng: np.random.Generator) -> Candidate:
        """Train what the task starts from."""
        stack, objective = task.fresh(rng)
        return cls(stack, objective, plan, train(stack, objective, rows, plan, rng))

    @property
    def loss(self) -> float:
        """On the rows held out."""
        return float(self.done.best[0])

    def refitted(self, task: Task, rows: TrainingRows, rng: np.random.Generator) -> Candidate:
        """Train afresh, on all rows, for as many epochs as did best; what did best untrained stays so."""
        n_epochs = self.done.best_epochs()
        if n_epochs == 0:
            return self
        stack, objective = task.fresh(rng)
        train_for(stack, objective, rows, self.plan, rng, n_epochs=n_epochs)
        return replace(self, stack=stack, objective=objective)


def make_objective(basis: str, stack: BasisStack, n_classes: int, device: str, **options: Any) -> Objective:
    """Return what a kind of basis is trained for; options are those of `SoftmaxLoss`."""
    kernel = stack.maps[0].kernel
    if basis == "unsupervised":
        return KernelValues(kernel, DEPTHS[kernel])
    if basis == "supervised":
        return Alignment()
    width = max(m.n_features for m in stack.maps)
    return SoftmaxLoss(len(stack), width, n_classes, device, **options)


def choose_held_rows(n: int, share: float, rng: np.random.Generator) -> Integers:
    """Places of the rows held out: at least one, at most 10,000, and never all."""
    # 10,000 rows tell the loss well enough to stop by it; more would only cost time in each epoch.
    n_held = min(max(1, round(share * n)), MOST_HELD, n - 1)
    return np.sort(rng.permutation(n)[:n_held])


def _softmax(objective: Objective) -> SoftmaxWeights | None:
    if not isinstance(objective, SoftmaxLoss):
        return None
    weights = objective.weights[0].detach().cpu().double().numpy() * objective.steps
    bias = objective.bias[0, 0].detach().cpu().double().numpy()
    return SoftmaxWeights(weights, bias)
