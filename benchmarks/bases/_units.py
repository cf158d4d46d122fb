"""What kernel_bases.py has to do, in units that are finished one by one."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from typing import Any

KINDS = ("random", "unsupervised", "supervised", "discriminative")
KERNELS = ("gaussian", "arccos")
SMALL, LARGE, WIDE = (10, 30, 100, 300, 1000), (3000,), ((10_000,), (30_000,))
RATES = {"random": 0.0, "unsupervised": 0.02, "supervised": 0.02, "discriminative": 0.02}


def units(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The units of the parts and sets that are asked for, the most valuable first."""
    found, stages = [], [(part, args.sets) for part in args.parts]
    if args.parts == ["all"]:
        stages = [(part, [name for name in names if name in args.sets]) for part, names in ALL]
    for unit in itertools.chain.from_iterable(PARTS[part](names) for part, names in stages):
        sizes = tuple(size for size in unit["sizes"] if size <= args.max_features)
        rate, epochs = RATES[unit["basis"]] * args.faster, args.epochs
        if unit["part"] == "optimisation":
            rate, epochs = 1e-3, 2 * epochs
        if sizes and unit["basis"] in args.bases:
            plan = {"rate": rate, "epochs": epochs if rate else 0, "batches": args.batches}
            found.append({**unit, "sizes": sizes, **plan})
    return found


def key_of(unit: dict[str, Any]) -> str:
    """Name of a unit."""
    words = [
        unit["part"],
        unit["set"],
        unit["kernel"],
        unit["basis"],
        f"{unit['structure']}{unit['n_blocks']}",
    ]
    words += [unit["split"], f"rate {unit['rate']:g}", f"epochs {unit['epochs']} of {unit['batches']}", "D"]
    return " ".join(str(w) for w in [*words, *unit["sizes"]])


def _unit(
    part: str, name: str, kernel: str, basis: str, sizes: tuple[int, ...], **other: Any
) -> dict[str, Any]:
    base = {"structure": "orthogonal", "n_blocks": 3, "split": -1}
    return {**base, "part": part, "set": name, "kernel": kernel, "basis": basis, "sizes": sizes, **other}


def _main(sets: list[str]) -> Iterator[dict[str, Any]]:
    for sizes, name, kernel, basis in itertools.product((SMALL, LARGE), sets, KERNELS, KINDS):
        yield _unit("main", name, kernel, basis, sizes)


def _wide(sets: list[str]) -> Iterator[dict[str, Any]]:
    for sizes, name, kernel in itertools.product(WIDE, sets, KERNELS):
        yield _unit("wide", name, kernel, "random", sizes)


def _wider(sets: list[str]) -> Iterator[dict[str, Any]]:
    """Trained bases beyond the main experiment."""
    for sizes, name, kernel, basis in itertools.product(WIDE, sets, KERNELS, KINDS[1:]):
        yield _unit("wide", name, kernel, basis, sizes)


def _transfer(sets: list[str]) -> Iterator[dict[str, Any]]:
    """Figure IV.2: MNIST only."""
    for split, basis in itertools.product(range(5), KINDS):
        if "mnist" in sets:
            yield _unit("transfer", "mnist", "gaussian", basis, SMALL, split=split)


def _optimisation(sets: list[str]) -> Iterator[dict[str, Any]]:
    """Figure IV.5, which is about MNIST; other sets with many features only."""
    for sizes, name, kernel in itertools.product((SMALL, LARGE), sets, KERNELS):
        if name == "mnist" or sizes == LARGE:
            yield _unit("optimisation", name, kernel, "discriminative", sizes)


def _rows(sets: list[str]) -> Iterator[dict[str, Any]]:
    """Fewer rows held out, and so more to learn from, where the main experiment holds out many."""
    for sizes, name, kernel in itertools.product((SMALL[-1:], LARGE), sets, KERNELS):
        yield _unit("rows", name, kernel, "discriminative", sizes, held=500)


def _blocks(sets: list[str]) -> Iterator[dict[str, Any]]:
    """Figure IV.4: MNIST and CoverType."""
    names = [name for name in sets if name in ("mnist", "covtype")]
    for name, basis, n_blocks in itertools.product(names, KINDS, (1, 2, 3)):
        yield _unit("blocks", name, "gaussian", basis, SMALL, structure="hadamard", n_blocks=n_blocks)
    for name, sizes, n_blocks in itertools.product(names, (LARGE, *WIDE), (1, 2, 3)):
        yield _unit("blocks", name, "gaussian", "random", sizes, structure="hadamard", n_blocks=n_blocks)


def _deep(sets: list[str]) -> Iterator[dict[str, Any]]:
    """Figures IV.3 and A.2: MNIST and CoverType."""
    names = [name for name in sets if name in ("mnist", "covtype")]
    for name, kernel, basis in itertools.product(names, ("arccos2", "arccos3"), KINDS):
        yield _unit("deep", name, kernel, basis, SMALL)


def _printed(sets: list[str]) -> Iterator[dict[str, Any]]:
    """Random and unsupervised bases with the thesis' printed factor √(1/D), which gives half the kernel."""
    for name, kernel, basis in itertools.product(sets, KERNELS, KINDS[:2]):
        yield _unit("printed", name, kernel, basis, SMALL)


def _limits(sets: list[str]) -> Iterator[dict[str, Any]]:
    """The best that few features can do; on the processor."""
    for name, kernel in itertools.product(sets, KERNELS):
        yield _unit("limits", name, kernel, "random", SMALL[:3])


def _exact(sets: list[str]) -> Iterator[dict[str, Any]]:
    """The kernel itself, where there are few enough rows."""
    for name in sets:
        if name in ("letter", "usps"):
            yield _unit("exact", name, "gaussian", "random", SMALL[:1])


PARTS = {
    "main": _main,
    "wide": _wide,
    "wider": _wider,
    "transfer": _transfer,
    "optimisation": _optimisation,
    "rows": _rows,
    "blocks": _blocks,
    "deep": _deep,
    "printed": _printed,
    "limits": _limits,
    "exact": _exact,
}
FIRST = ("letter", "usps", "adult", "mnist")
ALL = (
    *((part, FIRST) for part in ("main", "wide", "transfer")),
    ("optimisation", ("mnist",)),
    *((part, FIRST) for part in ("blocks", "deep", "printed")),
    *(("main", (name,)) for name in ("covtype", "madelon", "cifar10")),
    *((part, ("covtype", "madelon", "cifar10")) for part in ("wide", "deep", "blocks")),
)
