"""What kernel_bases_options.py measures: one function per question, one record per answer."""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.bases._limits import other_learners
from benchmarks.bases._sets import Rows
from benchmarks.bases._watched import Watched
from benchmarks.bases.kernel_bases import Task, transfer_splits, whole_features
from tellwhy.bases.adaptation import make_objective
from tellwhy.bases.objectives import SoftmaxLoss
from tellwhy.bases.projections import DenseProjection, FeatureMap, Shape
from tellwhy.bases.torch_features import BasisStack
from tellwhy.bases.training import Epochs, Plan, train

DRAWS = 5
RANDOM = (10, 30, 100, 300, 1_000, 3_000, 10_000)
Unit = dict[str, Any]


def maps_of(rows: Rows, unit: Unit, sizes: tuple[int, ...], seed: int = 0) -> list[FeatureMap]:
    """One basis per number of features."""
    kernel = unit["kernel"]
    bandwidth = unit.get("bandwidth") or (rows.bandwidth if kernel == "gaussian" else 1.0)
    options = {name: unit.get(name, False) for name in ("amplitudes", "bias")}
    learned = rows.X[rows.n_held :] / bandwidth
    maps = []
    for size in sizes:
        shape = Shape(kernel, unit.get("structure", "orthogonal"), size, unit.get("n_blocks", 3), **options)
        rng = np.random.default_rng([seed, size])
        maps.append(shape.drawn(learned, bandwidth, np.zeros(rows.X.shape[1]), rng))
    return maps


def plan_of(unit: Unit) -> Plan:
    return Plan(
        learning_rate=unit.get("rate", 0.02),
        n_batches=unit.get("batches", 1_000),
        max_epochs=unit["epochs"],
        patience=unit["epochs"],
        decay=True,
        record=not os.environ.get("KERNEL_BASES_EAGER"),
    )


def random_errors(unit: Unit, rows: Rows, device: str) -> list[dict]:
    """Kernel errors of drawn bases, the mean of five draws."""
    found = []
    for structure in ("dense", "orthogonal"):
        own = {**unit, "structure": structure}
        task = Task(rows, maps_of(rows, own, (10,))[0].bandwidth, device)
        for size in RANDOM:
            draws = [maps_of(rows, own, (size,), seed)[0] for seed in range(DRAWS)]
            errors = [task.kernel_errors(BasisStack.of([one], device))[0] for one in draws]
            found.append({"structure": structure, "features": size, "error": float(np.mean(errors))})
    return found


def trained_errors(unit: Unit, rows: Rows, device: str) -> list[dict]:
    """Kernel errors before and after training on the kernel's values."""
    maps = maps_of(rows, unit, tuple(unit["sizes"]))
    task = Task(rows, maps[0].bandwidth, device)
    before = task.kernel_errors(BasisStack.of(maps, device))
    stack = BasisStack.of(maps, device)
    done = train(stack, make_objective("unsupervised", stack, 1, device), task.rows, plan_of(unit), _rng())
    after = task.kernel_errors(stack)
    return [
        {
            "features": size,
            "start_error": before[i],
            "error": after[i],
            "held_start": float(done.start[i]),
            "held": float(done.best[i]),
            "best_epoch": done.best_epochs(i),
        }
        for i, size in enumerate(unit["sizes"])
    ]


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def fixed_accuracy(unit: Unit, rows: Rows, device: str) -> list[dict]:
    """Accuracy of a softmax on a drawn basis, or on one trained without it."""
    found = []
    for size in unit["sizes"]:
        maps = maps_of(rows, unit, (size,))
        task = Task(rows, maps[0].bandwidth, device)
        line: dict[str, Any] = {
            "features": size,
            "start_error": task.kernel_errors(BasisStack.of(maps, device))[0],
        }
        if unit["basis"] != "random":
            stack = BasisStack.of(maps, device)
            objective = make_objective(unit["basis"], stack, rows.n_classes, device)
            done = train(stack, objective, task.rows, plan_of(unit), _rng())
            line |= {"held": float(done.best[0]), "best_epoch": done.best_epochs()}
            maps = [stack.member(0)]
        line["error"] = task.kernel_errors(BasisStack.of(maps, device))[0]
        options = {name: unit[name] for name in ("ridges", "rounds") if name in unit}
        found.append({**line, **task.fixed_accuracies(maps[0], refit=unit.get("refit", True), **options)})
    return found


def own_accuracy(unit: Unit, rows: Rows, device: str) -> list[dict]:
    """Accuracy of bases trained end to end, and after training for as many epochs on all rows.

    Repeats are further draws. `peak` is the best accuracy on test rows after any epoch: what choosing by them would give.
    """
    dropouts = unit.get("dropouts", [unit.get("dropout", 0.0)])
    kinds = list(
        itertools.product(unit["sizes"], dropouts, unit.get("heads", [1.0]), range(unit.get("repeats", 1)))
    )
    maps = [
        _with_drawn_biases(maps_of(rows, unit, (kind[0],), kind[-1])[0], unit, kind[-1]) for kind in kinds
    ]
    task = Task(rows, maps[0].bandwidth, device)

    def fresh() -> tuple[BasisStack, Watched]:
        watched = Watched(task, maps, [kind[1] for kind in kinds], [kind[2] for kind in kinds])
        return BasisStack.of(maps, device), watched

    stack, objective = fresh()
    done = train(stack, objective, task.rows, plan_of(unit), _rng())
    before, peaks = task.own_accuracies(stack, objective), np.max(objective.on_test[1:], axis=0)
    best = [done.best_epochs(i) for i in range(len(kinds))]
    # One training for all: each basis is judged after the number of epochs that was best for it.
    refits: list[float | None] = [None] * len(kinds)
    if unit.get("refit", True):
        refits = _accuracies_after(*fresh(), task, plan_of(unit), np.maximum(best, 1))
    return [
        {
            **dict(zip(("features", "dropout", "head", "repeat"), kind, strict=True)),
            "accuracy": before[i],
            "held_accuracy": 1 - float(done.best[i]),
            "refitted": refits[i],
            "peak": float(peaks[i]),
            "best_epoch": best[i],
        }
        for i, kind in enumerate(kinds)
    ]


def _with_drawn_biases(one: FeatureMap, unit: Unit, seed: int) -> FeatureMap:
    """Biases that start from normal numbers of some size in place of 0, so that not all kinks meet at the origin."""
    rng, size = np.random.default_rng([7, seed]), unit.get("drawn_bias", 0.0)
    return replace(one, biases=tuple(size * rng.normal(size=b.shape) for b in one.biases)) if size else one


def _accuracies_after(
    stack: BasisStack, own: SoftmaxLoss, task: Task, plan: Plan, epochs: np.ndarray
) -> list[float]:
    """Accuracies of bases that learn from all rows, each after its own number of epochs."""
    steps, found = Epochs(stack, own, task.rows.joined(), plan, _rng()), [0.0] * len(epochs)
    for epoch in range(int(epochs.max())):
        steps.run(epoch)
        if epoch + 1 in epochs:
            now = task.own_accuracies(stack, own)
            found = [new if n == epoch + 1 else old for new, old, n in zip(now, found, epochs, strict=True)]
    return found


def bandwidths(unit: Unit, rows: Rows, device: str) -> list[dict]:  # noqa: ARG001
    """Mean distance of 1,000 rows to their 50th neighbour: among these rows, and among all."""
    learned = torch.tensor(rows.X, device=device)
    sample = learned[torch.tensor(_rng().permutation(len(rows.X))[:1_000], device=device)]
    return [
        {
            "among": name,
            "bandwidth": float(torch.cdist(sample, others).topk(51, largest=False)[0][:, 50].mean()),
        }
        for name, others in (("the sample", sample), ("all rows", learned))
    ]


def transfer(unit: Unit, rows: Rows, device: str) -> list[dict]:
    """Bases of five classes of MNIST, and what a softmax does with them on the other five."""
    first, other = transfer_splits(rows, unit["split"])
    maps = maps_of(rows, unit, tuple(unit["sizes"]))
    tasks = [Task(half, maps[0].bandwidth, device) for half in (first, other)]
    stack, line = BasisStack.of(maps, device), {}
    if unit["basis"] != "random":
        objective = make_objective(unit["basis"], stack, 5, device)
        done = train(stack, objective, tasks[0].rows, plan_of(unit), _rng())
        line = {"held": done.best.tolist()}
    found = []
    for i, size in enumerate(unit["sizes"]):
        one = half_drawn(stack.member(i), maps[i]) if unit.get("half") else stack.member(i)
        accuracies = [task.fixed_accuracies(one)["accuracy"] for task in tasks]
        found.append(
            {
                "features": size,
                "accuracy": accuracies[0],
                "transferred": accuracies[1],
                "short": _short_training(tasks[1], one),
                "ranks": [effective_rank(one, task) for task in tasks],
                **{key: values[i] for key, values in line.items()},
            }
        )
    return found


def half_drawn(trained: FeatureMap, drawn: FeatureMap) -> FeatureMap:
    """A basis whose second half of directions is as it was drawn: does that give back what training took away?"""
    half = trained.layers[0].n_directions // 2
    both = np.hstack([trained.layers[0].matrix[:, :half], drawn.layers[0].matrix[:, half:]])
    return replace(trained, layers=(DenseProjection(both),))


def _short_training(task: Task, one: FeatureMap) -> float:
    """Accuracy of a softmax that takes 5 epochs of Adam, at the rate 0.001, in place of the solution."""
    stack = BasisStack.of([one], task.device)
    softmax = SoftmaxLoss(1, one.n_features, 5, task.device)
    plan = Plan(learning_rate=1e-3, n_batches=400, max_epochs=5, train_basis=False)
    train(stack, softmax, task.rows, plan, _rng())
    return task.own_accuracies(stack, softmax)[0]


@torch.no_grad()
def effective_rank(one: FeatureMap, task: Task) -> float:
    """(Σλ)²/Σλ² of the covariance of features on test rows: how many directions they fill."""
    features = whole_features(BasisStack.of([one], task.device), task.test[:2_000])
    features = (features - features.mean(0)).double()
    squares = torch.linalg.svdvals(features).square()
    return float(squares.sum().square() / squares.square().sum())


def times(unit: Unit, rows: Rows, device: str) -> list[dict]:
    """Milliseconds of a step of training, by kind of basis and number of features; the card must be free."""
    found, task = [], Task(rows, maps_of(rows, unit, (10,))[0].bandwidth, device)
    for size in unit["sizes"]:
        maps = maps_of(rows, unit, (size,))
        for basis in ("random", "unsupervised", "supervised", "discriminative"):
            stack = BasisStack.of(maps, device)
            kind = "discriminative" if basis == "random" else basis
            objective = make_objective(kind, stack, rows.n_classes, device)
            plan = plan_of({"epochs": 1, "batches": unit["batches"]})
            steps = Epochs(stack, objective, task.rows, replace(plan, train_basis=basis != "random"), _rng())
            steps.run(0)  # allocations, choices of algorithms, and the recording on a card
            started = _now(device)
            steps.run(0)
            ms = 1_000 * (_now(device) - started) / unit["batches"]
            found.append({"features": size, "basis": basis, "milliseconds": ms})
    return found


def _now(device: str) -> float:
    """Seconds on the card; on processors, those that this process was given: others may be at work there."""
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


TRIALS = {
    "random errors": random_errors,
    "trained errors": trained_errors,
    "fixed accuracy": fixed_accuracy,
    "own accuracy": own_accuracy,
    "bandwidths": bandwidths,
    "transfer": transfer,
    "times": times,
    "other learners": lambda _, rows, __: other_learners(rows),
}
