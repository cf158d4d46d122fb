"""Claim: trained bases never end worse than they start, and with amplitudes or landmarks need ten times fewer features.

`--prepared` names the folder of sets that `kernel_bases.py --prepare` writes. A run appends one line per unit to
`--results` and needs NumPy, SciPy and PyTorch only; `--from FILE` writes the page from such a file.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from _kernel_basis_pool import finished
from _kernel_basis_sets import load
from _kernel_basis_trials import TRIALS

SETS = ("letter", "usps", "adult", "mnist", "covtype", "madelon", "cifar10")
KERNELS = ("gaussian", "arccos")
Unit = dict[str, Any]


def _errors() -> Iterator[Unit]:
    for name in SETS:
        for kernel in KERNELS:
            own = {"set": name, "kernel": kernel, "rate": 0.02}
            few, many = [10, 30, 100], [10, 30, 100, 300, 1000]
            yield {**own, "trial": "trained errors", "sizes": few, "structure": "landmarks", "epochs": 4}
            yield {**own, "trial": "trained errors", "sizes": many, "epochs": 15}
            if kernel == "gaussian":
                yield {**own, "trial": "trained errors", "sizes": many, "epochs": 15, "amplitudes": True}
            yield {**own, "trial": "random errors"}


def _fixed() -> Iterator[Unit]:
    for name in ("letter", "usps", "adult"):
        for kernel in KERNELS:
            own = {"trial": "fixed accuracy", "set": name, "kernel": kernel}
            yield {**own, "basis": "random", "sizes": [3_000, 10_000], "epochs": 0}


def _own() -> Iterator[Unit]:
    for size, rate in ((3_000, 0.004), (1_000, 0.02), (1_000, 0.004), (3_000, 0.02)):
        for name in ("letter", "usps"):
            own = {"trial": "own accuracy", "set": name, "kernel": "arccos", "basis": "discriminative"}
            plan = {"sizes": [size], "epochs": 30, "rate": rate}
            for dropout in (0.5, 0.0):
                yield {**own, **plan, "dropout": dropout, "bias": True}
            if size == 3_000 and rate == 0.004:
                yield {**own, **plan, "dropout": 0.0, "bias": False}


def _adapted() -> Iterator[Unit]:
    """Bases trained without the classifier, with a softmax that is fitted once more on all rows."""
    for name in ("letter", "usps", "adult"):
        for kernel in KERNELS:
            own = {"trial": "fixed accuracy", "set": name, "kernel": kernel, "sizes": [3_000]}
            yield {**own, "basis": "unsupervised", "epochs": 10, "rate": 0.02}
            yield {**own, "basis": "supervised", "epochs": 20, "rate": 0.001}
    own = {"trial": "fixed accuracy", "set": "mnist", "kernel": "arccos", "basis": "supervised"}
    yield {**own, "sizes": [30_000], "epochs": 20, "rate": 2e-4}


def _covtype() -> Iterator[Unit]:
    own = {"set": "covtype", "kernel": "gaussian", "basis": "random", "epochs": 0}
    yield {**own, "trial": "bandwidths"}
    for width in (0.35, 1.42):
        for size in (30_000, 10_000):
            yield {**own, "trial": "fixed accuracy", "bandwidth": width, "sizes": [size]}
    for width, rate in ((0.35, 0.02), (1.42, 0.05)):
        trained = {
            "trial": "own accuracy",
            "basis": "discriminative",
            "sizes": [3_000],
            "epochs": 30,
            "rate": rate,
        }
        yield {**own, **trained, "bandwidth": width}


def _transfer() -> Iterator[Unit]:
    own = {"trial": "transfer", "set": "mnist", "kernel": "gaussian", "sizes": [30, 100, 300]}
    for split in range(3):
        for basis in ("random", "unsupervised", "discriminative"):
            yield {
                **own,
                "split": split,
                "basis": basis,
                "epochs": 15,
                "rate": 0.004 if basis[0] == "d" else 0.02,
            }
        # Among all rows, the 50th neighbour is nearer than among a sample.
        for basis in ("random", "supervised"):
            yield {**own, "split": split, "basis": basis, "epochs": 10, "rate": 0.02, "bandwidth": 8.5}
        for batches in (3, 10, 30, 100, 1000):
            yield {
                **own,
                "split": split,
                "basis": "supervised",
                "epochs": 10,
                "batches": batches,
                "rate": 0.02,
            }


def _blocks() -> Iterator[Unit]:
    for name in ("mnist", "covtype"):
        for n_blocks in (1, 2, 3):
            own = {
                "set": name,
                "kernel": "gaussian",
                "structure": "hadamard",
                "n_blocks": n_blocks,
                "epochs": 6,
            }
            for size in (10_000, 3_000):
                for basis in ("unsupervised", "supervised"):
                    yield {"trial": "fixed accuracy", **own, "basis": basis, "sizes": [size]}
                yield {"trial": "own accuracy", **own, "basis": "discriminative", "sizes": [size]}


def _times() -> Iterator[Unit]:
    for kernel in KERNELS:
        yield {
            "trial": "times",
            "set": "mnist",
            "kernel": kernel,
            "sizes": [100, 1000, 10_000],
            "batches": 300,
        }


PARTS = {
    "covtype": _covtype,
    "errors": _errors,
    "fixed": _fixed,
    "own": _own,
    "adapted": _adapted,
    "transfer": _transfer,
    "blocks": _blocks,
    "times": _times,
}


def key_of(unit: Unit) -> str:
    """Everything a unit says, in order."""
    return json.dumps(
        {k: v for k, v in unit.items() if k not in ("found", "device", "seconds")}, sort_keys=True
    )


class Work:
    """Does units one after the other; the sets stay in memory."""

    def __init__(self, args: argparse.Namespace):
        self.args, self.loaded = args, {}

    def __call__(self, unit: Unit) -> Unit:
        device, name = self.args.device, unit["set"]
        if name not in self.loaded:
            self.loaded[name] = load(name, self.args.prepared)
        small = (
            {"sizes": [s for s in unit["sizes"] if s <= self.args.max_features]} if "sizes" in unit else {}
        )
        short = {"epochs": min(unit["epochs"], self.args.max_epochs)} if "epochs" in unit else {}
        started = time.perf_counter()
        found = TRIALS[unit["trial"]]({**unit, **small, **short}, self.loaded[name], device)
        about = {"device": torch.cuda.get_device_name() if device == "cuda" else "CPU"}
        if device == "cuda":
            torch.cuda.empty_cache()  # several processes share the card
        return {**unit, **about, "seconds": time.perf_counter() - started, "found": found}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("kernel_bases_options.jsonl"))
    parser.add_argument("--prepared", type=Path, default=Path("sets"))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cores", nargs="+", type=int, default=[], help="one process on each")
    parser.add_argument("--minutes", type=float, default=1e9, help="start nothing new after this time")
    parser.add_argument("--max-features", type=int, default=30_000)
    parser.add_argument("--max-epochs", type=int, default=1_000)
    parser.add_argument("--from", dest="source", type=Path, help="only write the page from a file of results")
    return parser.parse_args()


def run(args: argparse.Namespace) -> None:
    """Do what the file of results does not hold yet, until the time is up."""
    lines = args.results.read_text().splitlines() if args.results.exists() else []
    done = {key_of(json.loads(line)) for line in lines}
    units = [
        u for part in args.parts for u in PARTS[part]() if u["set"] in args.sets and key_of(u) not in done
    ]
    for unit in finished(Work(args), units, args.cores, 60 * args.minutes):
        with args.results.open("a") as file:
            file.write(json.dumps(unit) + "\n")
        print(f"{unit['seconds']:.1f} s {key_of(unit)} {json.dumps(unit['found'])[:300]}", flush=True)


if __name__ == "__main__":
    options = arguments()
    if options.source is not None:
        from _kernel_basis_options_page import publish_page

        publish_page([json.loads(line) for line in options.source.read_text().splitlines()])
    else:
        run(options)
