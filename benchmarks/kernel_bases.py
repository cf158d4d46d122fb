"""Claim: adapted bases need far fewer features than random ones; the experiments of the thesis' chapter IV, run again.

Three steps, which may happen on three machines: `--prepare` writes the sets into a folder, a plain run trains (it needs
NumPy and PyTorch only, can be cut off and goes on where it was), `--tables` publishes what there is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from _kernel_basis_sets import Rows, load, prepare
from tellwhy.bases.adaptation import objective_of
from tellwhy.bases.feature_map import FeatureMap
from tellwhy.bases.objectives import KernelValues, SoftmaxLoss
from tellwhy.bases.projections import draw_projection
from tellwhy.bases.torch_stack import BasisStack
from tellwhy.bases.training import Plan, TrainingRows, train

KINDS = ("random", "unsupervised", "supervised", "discriminative")
GROUPS = ((10, 30, 100, 300, 1000), (3000,))
WIDE = ((10_000,), (30_000,))
ERROR_SIZES = (3_000, 10_000, 30_000)
DEPTHS = {"gaussian": 1, "arccos": 1, "arccos2": 2, "arccos3": 3}


def drawn_maps(rows: Rows, kernel: str, structure: str, n_blocks: int, sizes: tuple[int, ...]) -> list[FeatureMap]:
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


class Task:
    """A set on the device, in the coordinates of its bases."""

    def __init__(self, rows: Rows, maps: list[FeatureMap], plan: Plan, device: str):
        self.plan, self.device, self.n_classes = plan, device, rows.n_classes
        width = maps[0].bandwidth
        self.rows = TrainingRows.of(rows.X / width, rows.y, rows.held, device)
        self.test = torch.tensor(rows.X_test / width, dtype=torch.float32, device=device)
        self.labels = torch.tensor(rows.y_test, device=device)

    def adapted(self, kind: str, maps: list[FeatureMap], plan: Plan) -> tuple[BasisStack, Any, np.ndarray]:
        stack = BasisStack.of(maps, self.device)
        objective = objective_of(kind, stack, self.n_classes, self.device)
        _, ends = train(stack, objective, self.rows, plan, np.random.default_rng(0))
        return stack, objective, ends

    @torch.no_grad()
    def kernel_errors(self, stack: BasisStack) -> list[float]:
        """Mean of ½(k − φ·φ')² over 64,000 pairs of test rows."""
        objective = KernelValues(stack.maps[0].kernel, len(stack.layers))
        pairs = objective.draw(np.random.default_rng(5), len(self.test), 32, 2_000)
        index = [torch.tensor(p, device=self.device) for p in pairs]
        return torch.stack([objective.losses(stack, self.test, self.labels, i) for i in index]).mean(0).tolist()

    @torch.no_grad()
    def accuracies(self, stack: BasisStack, softmax: SoftmaxLoss) -> list[float]:
        parts = zip(self.test.split(1_000), self.labels.split(1_000), strict=True)
        right = sum((softmax.logits(stack, Z).argmax(-1) == own).sum(-1) for Z, own in parts)
        return (right / len(self.test)).tolist()


def measured(rows: Rows, kinds: tuple[str, ...], maps: list[FeatureMap], plan: Plan, device: str) -> list[dict]:
    """Errors, accuracies and epochs of every kind of basis, one record per kind and number of features."""
    task, found, fixed = Task(rows, maps, plan, device), [], []
    for kind in kinds:
        started, stack, softmax, ends = time.perf_counter(), BasisStack.of(maps, device), None, np.zeros(len(maps))
        if kind != "random":
            stack, softmax, ends = task.adapted(kind, maps, plan)
        members = [stack.member(i) for i in range(len(maps))]
        lines = [
            {"basis": kind, "error": e, "epochs": int(n), "seconds": time.perf_counter() - started, "map": m}
            for e, n, m in zip(task.kernel_errors(stack), ends, members, strict=True)
        ]
        if kind == "discriminative":
            for line, accuracy in zip(lines, task.accuracies(stack, softmax), strict=True):
                line["accuracy"] = accuracy
        else:
            fixed += lines
        found += lines
    classify(task, fixed)
    return found


def classify(task: Task, lines: list[dict]) -> None:
    """Train classifiers on fixed bases, all at once, and note their accuracies."""
    if not lines:
        return
    plan = Plan(**{**vars(task.plan), "train_basis": False, "label": "training classifiers"})
    stack, softmax, ends = task.adapted("discriminative", [line["map"] for line in lines], plan)
    for line, accuracy, n in zip(lines, task.accuracies(stack, softmax), ends, strict=True):
        line.update(accuracy=accuracy, classifier_epochs=int(n))


def transferred(rows: Rows, split: int, maps: list[FeatureMap], plan: Plan, device: str) -> list[dict]:
    """Bases trained on five classes, and classifiers of the other five on top of them."""
    classes = np.random.default_rng(split).permutation(rows.n_classes)
    found = measured(rows.only(np.sort(classes[:5])), KINDS, maps, plan, device)
    other = [{"map": line["map"]} for line in found]
    classify(Task(rows.only(np.sort(classes[5:])), maps, plan, device), other)
    for line, second in zip(found, other, strict=True):
        line["transferred"] = second["accuracy"]
    return found


def random_errors(rows: Rows, maps: list[FeatureMap]) -> list[dict]:
    """Kernel errors of wide random bases, without a classifier; computed by compiled code on the processor."""
    from tellwhy.bases.kernel_errors import mean_pair_error

    nothing = {"basis": "random", "epochs": 0, "accuracy": None}
    return [{**nothing, "error": mean_pair_error(one, rows.X_test), "map": one} for one in maps]


def units(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What there is to do, the most valuable first."""
    groups = [tuple(d for d in group if d <= args.max_features) for group in GROUPS]
    figures = [name for name in args.sets if name in ("mnist", "covtype")]  # the sets of figures IV.3 and IV.4
    base = {"structure": "orthogonal", "n_blocks": 3, "kinds": KINDS, "split": -1}
    for part in args.parts:
        if part == "main":
            for group, name, kernel in itertools.product(groups, args.sets, ("gaussian", "arccos")):
                yield {**base, "part": part, "set": name, "kernel": kernel, "sizes": group}
        if part == "errors":
            for name, kernel in itertools.product(args.sets, ("gaussian", "arccos")):
                yield {**base, "part": part, "set": name, "kernel": kernel, "sizes": ERROR_SIZES, "kinds": ("random",)}
        if part == "wide":
            for group, name, kernel in itertools.product(WIDE, args.sets, ("gaussian", "arccos")):
                if name != "mnist" or group[0] <= 10_000:
                    yield {**base, "part": part, "set": name, "kernel": kernel, "sizes": group, "kinds": ("random",)}
        if part == "blocks":
            for n_blocks, name in itertools.product((1, 2, 3), figures):
                sizes = {"structure": "hadamard", "n_blocks": n_blocks, "sizes": groups[0]}
                yield {**base, **sizes, "part": part, "set": name, "kernel": "gaussian"}
        if part == "transfer":
            for split in range(5):
                yield {**base, "part": part, "set": "mnist", "kernel": "gaussian", "sizes": groups[0], "split": split}
        if part == "deep":
            for kernel, name in itertools.product(("arccos2", "arccos3"), figures):
                yield {**base, "part": part, "set": name, "kernel": kernel, "sizes": groups[0]}


def key_of(unit: dict[str, Any]) -> str:
    words = [unit["part"], unit["set"], unit["kernel"], f"{unit['structure']}{unit['n_blocks']}", unit["split"]]
    return " ".join(str(w) for w in [*words, *unit["sizes"]])


def run(unit: dict[str, Any], args: argparse.Namespace, loaded: dict[str, Rows]) -> dict[str, Any]:
    """Do one unit of work."""
    if unit["set"] not in loaded:
        loaded[unit["set"]] = load(unit["set"], args.prepared)
    rows = loaded[unit["set"]]
    patience = 20 if unit["structure"] == "hadamard" else 10
    plan = Plan(n_batches=args.batches, max_epochs=args.epochs, patience=patience, record=not args.eager)
    maps = drawn_maps(rows, unit["kernel"], unit["structure"], unit["n_blocks"], unit["sizes"])
    started = time.perf_counter()
    if unit["part"] == "errors":
        found = random_errors(rows, maps)
    elif unit["split"] >= 0:
        found = transferred(rows, unit["split"], maps, plan, args.device)
    else:
        found = measured(rows, unit["kinds"], maps, plan, args.device)
    for line, size in zip(found, itertools.cycle(unit["sizes"]), strict=False):
        line["features"] = size
        del line["map"]
    device = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
    about = {"device": device, "batches": args.batches, "max_epochs": args.epochs}
    return {**unit, **about, "seconds": time.perf_counter() - started, "found": found}


def results(cache: Path) -> dict[str, dict[str, Any]]:
    """What the cache holds, by unit; the last line of a unit counts."""
    lines = cache.read_text().splitlines() if cache.exists() else []
    return {key_of(unit): unit for unit in map(json.loads, lines)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="file of the results so far, one unit a line")
    parser.add_argument("--prepared", type=Path, required=True, help="folder of the sets, as `--prepare` writes them")
    parser.add_argument("--sets", nargs="+", default=["mnist", "letter", "usps", "adult"])
    parser.add_argument("--parts", nargs="+", default=["main"], help="main, wide, errors, blocks, transfer, deep")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--max-features", type=int, default=3_000)
    parser.add_argument("--batches", type=int, default=1_000, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=50, help="at most")
    parser.add_argument("--minutes", type=float, default=1e9, help="start nothing new after this time")
    parser.add_argument("--eager", action="store_true", help="launch each operation instead of playing recorded steps")
    parser.add_argument("--prepare", action="store_true", help="only write the sets into the folder")
    parser.add_argument("--tables", action="store_true", help="only publish what the cache holds")
    return parser.parse_args()


def work(args: argparse.Namespace) -> None:
    """Do what the cache does not hold yet, until the time is up."""
    started, done, loaded = time.perf_counter(), results(args.cache), {}
    for unit in units(args):
        if time.perf_counter() - started > 60 * args.minutes:
            break
        if not unit["sizes"] or key_of(unit) in done:
            continue
        found = run(unit, args, loaded)
        with args.cache.open("a") as file:
            file.write(json.dumps(found) + "\n")
        if unit["part"] == "errors":
            continue
        best = ", ".join(
            f"{k} {max(f['accuracy'] for f in found['found'] if f['basis'] == k):.4f}" for k in unit["kinds"]
        )
        print(f"{key_of(unit)}: {found['seconds']:.1f} s; best accuracies {best}", flush=True)


if __name__ == "__main__":
    options = arguments()
    if options.prepare:
        for set_name in options.sets:
            prepare(set_name, options.prepared)
    elif options.tables:
        from _kernel_basis_tables import publish_all

        publish_all(list(results(options.cache).values()))
    else:
        work(options)
