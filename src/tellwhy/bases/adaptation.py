"""Training a drawn basis on the kernel's values, on labels, or together with a classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tellwhy.bases.feature_map import FeatureMap
from tellwhy.bases.objectives import Alignment, KernelValues, Objective, SoftmaxLoss
from tellwhy.bases.torch_stack import BasisStack
from tellwhy.bases.training import Plan, TrainingRows, train
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.torch_devices import actual_device

MOST_HELD = 10_000


@dataclass(frozen=True)
class SoftmaxWeights:
    """Class scores φ(x) W + b."""

    weights: Floats
    bias: Floats


@dataclass(frozen=True)
class Adapted:
    """A trained basis, its losses on the rows held out, and the classifier trained with it, if any."""

    feature_map: FeatureMap
    losses: Floats
    softmax: SoftmaxWeights | None


def adapt(
    basis: str,
    feature_map: FeatureMap,
    X: Any,
    labels: Integers,
    *,
    plan: Plan,
    validation_share: float,
    device: str,
    rng: np.random.Generator,
    n_classes: int = 1,
    start: SoftmaxWeights | None = None,
) -> Adapted:
    """Train a basis.

    Parameters
    ----------
    basis
        What to train it for, as `KernelBasis` names it.
    feature_map
        The basis to start from.
    X, labels
        Rows, and the numbers 0, 1, … of their classes.
    plan
        How long and in which steps to train.
    validation_share
        Share of the rows held out.
    device
        Where to train.
    rng
        Source of all draws.
    n_classes
        Number of classes.
    start
        Classifier whose training goes on; a new one by default.
    """
    place = actual_device(device, f"KernelBasis(basis={basis!r})")
    Z = (np.asarray(X, dtype=np.float64) - feature_map.centre) / feature_map.bandwidth
    held = held_rows(len(Z), validation_share, rng)
    rows = TrainingRows.of(Z, labels, held, place)
    stack = BasisStack.of([feature_map], place)
    objective = objective_of(basis, stack, n_classes, place)
    if isinstance(objective, SoftmaxLoss) and start is not None:
        objective.set(start.weights, start.bias)
    losses, _ = train(stack, objective, rows, replace(plan, label=f"training the {basis} basis"), rng)
    return Adapted(stack.member(0), losses[:, 0], _softmax(objective))


def objective_of(basis: str, stack: BasisStack, n_classes: int, device: str) -> Objective:
    """Return what a kind of basis is trained for."""
    if basis == "unsupervised":
        return KernelValues(stack.maps[0].kernel, len(stack.layers))
    if basis == "supervised":
        return Alignment()
    return SoftmaxLoss(len(stack), max(m.n_features for m in stack.maps), n_classes, device)


def held_rows(n: int, share: float, rng: np.random.Generator) -> Integers:
    """Places of the rows held out: at least one, at most 10,000, and never all."""
    # 10,000 rows tell the loss well enough to stop by it; more would only cost time in each epoch.
    n_held = min(max(1, round(share * n)), MOST_HELD, n - 1)
    return np.sort(rng.permutation(n)[:n_held])


def _softmax(objective: Objective) -> SoftmaxWeights | None:
    if not isinstance(objective, SoftmaxLoss):
        return None
    weights = objective.weights[0].detach().cpu().double().numpy()
    bias = objective.bias[0, 0].detach().cpu().double().numpy()
    return SoftmaxWeights(weights, bias)
