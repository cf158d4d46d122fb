"""Claim: adapted bases need far fewer features than random ones; the experiments of the thesis' chapter IV, run again.

Three steps, which may happen on three machines: `--prepare` writes the sets into a folder, a plain run trains (it needs
NumPy and PyTorch only, can be cut off and goes on where it was), `--only-page` publishes what there is.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.bases._limits import exact_accuracy, least_errors
from benchmarks.bases._sets import READERS, Rows, load, prepare
from benchmarks.bases._softmax import accuracies
from benchmarks.bases._units import KINDS, key_of, units
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.units import finished
from tellwhy.bases.adaptation import make_objective
from tellwhy.bases.objectives import KernelValues, SoftmaxLoss
from tellwhy.bases.projections import DEPTHS, FeatureMap, draw_projection
from tellwhy.bases.torch_features import BasisStack
from tellwhy.bases.training import Plan, TrainingRows, train


def drawn_maps(
    rows: Rows, kernel: str, structure: str, n_blocks: int, sizes: tuple[int, ...]
) -> list[FeatureMap]:
    """One basis per number of features; the features of deep kernels are shared out among their layers."""
    maps = []
    for size in sizes:
        rng, d, depth = np.random.default_rng(size), rows.X.shape[1], DEPTHS[kernel]
        width = size // 2 if kernel == "gaussian" else size // depth
        inputs = [d, *[width] * (depth - 1)]
        layers = tuple(draw_projection(structure, n, width, rng, n_blocks=n_blocks) for n in inputs)
        bandwidth = rows.bandwidth if kernel == "gaussian" else 1.0
        maps.append(FeatureMap(kernel, bandwidth, np.zeros(d), layers))
    return maps


class JudgedByErrors(SoftmaxLoss):
    """A softmax that keeps the weights with the fewest wrong rows held out; the loss decides between equals."""

    def held_losses(self, stack: BasisStack, Z: Any, labels: Any, index: Any) -> Any:
        scores = self.logits(stack, Z[index])
        wrong = (scores.argmax(-1) != labels[index]).float().mean(-1)
        return wrong + 1e-6 * super().held_losses(stack, Z, labels, index)


class Task:
    """A set on the device, in the coordinates of its bases."""

    def __init__(self, rows: Rows, bandwidth: float, device: str):
        self.device, self.n_classes = device, rows.n_classes
        scale = np.float32(1 / bandwidth)
        self.rows = TrainingRows.of(rows.X * scale, rows.y, rows.held, device)
        self.test = torch.tensor(rows.X_test * scale, dtype=torch.float32, device=device)
        self.labels = torch.tensor(rows.y_test, device=device)

    def adapted(
        self, unit: dict[str, Any], maps: list[FeatureMap], plan: Plan
    ) -> tuple[BasisStack, Any, list[dict]]:
        """Train bases; what is known of each: the value held out that was reached, and epochs until it stopped."""
        stack = BasisStack.of(maps, self.device)
        if unit["part"] == "printed":
            stack.gains = [gain * 0.5**0.5 for gain in stack.gains]
        if unit["basis"] == "random":
            return stack, None, [{"epochs": 0} for _ in maps]
        objective = make_objective(unit["basis"], stack, self.n_classes, self.device)
        if isinstance(objective, SoftmaxLoss) and unit["part"] != "optimisation":
            objective = JudgedByErrors(
                len(maps), max(m.n_features for m in maps), self.n_classes, self.device
            )
        done = train(stack, objective, self.rows, plan, np.random.default_rng(0))
        return (
            stack,
            objective,
            [{"epochs": int(n), "held": float(h)} for n, h in zip(done.ends, done.best, strict=True)],
        )

    @torch.no_grad()
    def kernel_errors(self, stack: BasisStack) -> list[float]:
        """Mean of ½(k − φ·φ')² over 64,000 pairs of test rows."""
        kernel = stack.maps[0].kernel
        objective = KernelValues(kernel, DEPTHS[kernel])
        pairs = objective.draw(np.random.default_rng(5), len(self.test), 32, 2_000)
        index = [torch.tensor(p, device=self.device) for p in pairs]
        return (
            torch.stack([objective.losses(stack, self.test, self.labels, i) for i in index]).mean(0).tolist()
        )

    @torch.no_grad()
    def own_accuracies(self, stack: BasisStack, softmax: SoftmaxLoss) -> list[float]:
        """Of the classifiers that were trained with their bases."""
        parts = zip(self.test.split(1_000), self.labels.split(1_000), strict=True)
        right = sum((softmax.logits(stack, Z).argmax(-1) == own).sum(-1) for Z, own in parts)
        return (right / len(self.test)).tolist()

    @torch.no_grad()
    def fixed_accuracies(self, one: FeatureMap, **options: Any) -> dict[str, float]:
        """Of classifiers that are trained on a finished basis."""
        stack, rows = BasisStack.of([one], self.device), self.rows
        sets = ((rows.Z, rows.labels), (rows.held_Z, rows.held_labels), (self.test, self.labels))
        return accuracies(*[(whole_features(stack, Z), own) for Z, own in sets], **options)


def whole_features(stack: BasisStack, Z: Any) -> Any:
    """φ of all rows, made in parts."""
    out = torch.empty((len(Z), stack.maps[0].n_features), device=Z.device)
    for into, part in zip(out.split(2_000), Z.split(2_000), strict=True):
        into.copy_(stack.features(part)[0])
    return out


def measured(
    unit: dict[str, Any], rows: Rows, plan: Plan, device: str, *, errors_only: bool = False
) -> list[dict]:
    """Errors, accuracies and epochs of a kind of basis, one record per number of features."""
    if unit["part"] == "limits":
        return least_errors(rows, unit["kernel"], unit["sizes"])
    if unit["part"] == "exact":
        return exact_accuracy(rows)
    splits = transfer_splits(rows, unit["split"]) if unit["part"] == "transfer" else [rows]
    maps = drawn_maps(rows, unit["kernel"], unit["structure"], unit["n_blocks"], unit["sizes"])
    tasks = [Task(split, maps[0].bandwidth, device) for split in splits]
    stack, softmax, found = tasks[0].adapted(unit, maps, plan)
    for line, size, error in zip(found, unit["sizes"], tasks[0].kernel_errors(stack), strict=True):
        line.update(features=size, error=error)
    if errors_only:
        return [{**line, "accuracy": math.nan} for line in found]
    if softmax is not None and unit["basis"] == "discriminative":
        for line, accuracy in zip(found, tasks[0].own_accuracies(stack, softmax), strict=True):
            line["accuracy"] = accuracy
    for i, line in enumerate(found):
        if "accuracy" not in line:
            line.update(tasks[0].fixed_accuracies(stack.member(i)))
        if len(tasks) > 1:
            line["transferred"] = tasks[1].fixed_accuracies(stack.member(i))["accuracy"]
    return found


def transfer_splits(rows: Rows, split: int) -> list[Rows]:
    """Five classes to train a basis on, and the other five."""
    classes = np.random.default_rng(split).permutation(rows.n_classes)
    return [rows.only(np.sort(half)) for half in (classes[:5], classes[5:])]


class Work:
    """Does units one after the other; the sets stay in memory."""

    def __init__(self, args: argparse.Namespace):
        self.args, self.loaded = args, {}

    def __call__(self, unit: dict[str, Any]) -> dict[str, Any]:
        args, name = self.args, unit["set"]
        if name not in self.loaded:
            self.loaded[name] = load(name, args.prepared)
        plan = Plan(
            learning_rate=unit["rate"],
            n_batches=unit["batches"],
            max_epochs=unit["epochs"],
            patience=10 if unit["part"] == "optimisation" else unit["epochs"],
            decay=unit["part"] != "optimisation",
            record=not args.eager,
        )
        started, rows = time.perf_counter(), self.loaded[name]
        rows = replace(rows, n_held=unit.get("held", rows.n_held))
        found = measured(unit, rows, plan, args.device, errors_only=args.errors_only)
        device = "CPU"
        if args.device == "cuda":
            device = torch.cuda.get_device_name()
            torch.cuda.empty_cache()  # several processes share the card
        about = {"device": device, "seconds": time.perf_counter() - started}
        return {**unit, **about, "found": found}


def results(cache: Path) -> dict[str, dict[str, Any]]:
    """What the cache holds, by unit; the last line of a unit counts."""
    lines = cache.read_text().splitlines() if cache.exists() else []
    return {key_of(unit): unit for unit in map(json.loads, lines)}


def command_line() -> argparse.Namespace:
    return arguments(
        __doc__,
        "minutes",
        "only_page",
        cache=option(Path, "file of the results so far, one unit a line", required=True),
        prepared=option(Path, "folder of the sets, as `--prepare` writes them", required=True),
        sets=list(READERS),
        parts=option(["main"], "main, wide, transfer, …, or all"),
        bases=list(KINDS),
        device="cuda" if torch.cuda.is_available() else "cpu",
        max_features=30_000,
        batches=option(1_000, "of an epoch"),
        epochs=30,
        faster=option(1.0, "what to multiply the learning rates by"),
        cores=option([], "processor cores, one process on each", type=int, nargs="+"),
        eager=option(False, "launch each operation instead of playing recorded steps"),
        errors_only=option(False, "leave out classifiers on fixed bases"),
        prepare=option(False, "only write the sets into the folder"),
    )


def run(args: argparse.Namespace) -> None:
    """Do what the cache does not hold yet, until the time is up."""
    done = results(args.cache)
    waiting = [u for u in units(args) if key_of(u) not in done]
    for unit in finished(Work(args), waiting, args.cores, 60 * args.minutes):
        with args.cache.open("a") as file:
            file.write(json.dumps(unit) + "\n")
        shown = ", ".join(f"{line['features']}: {100 * line['accuracy']:.1f}" for line in unit["found"])
        print(f"{key_of(unit)}: {unit['seconds']:.1f} s; accuracies {shown}", flush=True)


if __name__ == "__main__":
    options = command_line()
    if options.prepare:
        for set_name in options.sets:
            prepare(set_name, options.prepared)
    elif options.only_page:
        from benchmarks.bases._tables import publish_all

        publish_all(list(results(options.cache).values()))
    else:
        run(options)
