"""What kernel_bases_options.py has to do, in units that are finished one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SETS = ("letter", "usps", "adult", "mnist", "covtype", "madelon", "cifar10")
KERNELS = ("gaussian", "arccos")
Unit = dict[str, Any]


def _errors() -> Iterator[Unit]:
    for name in SETS:
        for kernel in KERNELS:
            own = {"set": name, "kernel": kernel, "rate": 0.02}
            few, many = [10, 30, 100], [10, 30, 100, 300, 1000]
            points = {"sizes": few, "structure": "landmarks", "epochs": 3, "batches": 700}
            yield {**own, "trial": "trained errors", **points}
            yield {**own, "trial": "trained errors", "sizes": many, "epochs": 15}
            if kernel == "gaussian":
                yield {**own, "trial": "trained errors", "sizes": many, "epochs": 15, "amplitudes": True}
            yield {**own, "trial": "random errors"}


def _fixed() -> Iterator[Unit]:
    for name in ("letter", "usps", "adult"):
        for kernel in KERNELS:
            own = {"trial": "fixed accuracy", "set": name, "kernel": kernel}
            yield {**own, "basis": "random", "sizes": [3_000, 10_000], "epochs": 0}


_OWN = {"trial": "own accuracy", "basis": "discriminative", "bias": True}
_USPS = {**_OWN, "set": "usps", "kernel": "arccos", "epochs": 15, "dropouts": [0.2, 0.5, 0.8], "repeats": 3}
_LETTER = {**_OWN, "set": "letter", "kernel": "arccos", "epochs": 30, "dropouts": [0.2, 0.5], "repeats": 2}

_DRAWN = {**_LETTER, "sizes": [3_000], "rate": 0.02, "drawn_bias": 1.0}
_FEWER = {**_DRAWN, "repeats": 1, "heads": [5.0, 25.0]}


def _own() -> Iterator[Unit]:
    """End to end with a bias, dropout and all rows: wider and longer; the classifier's steps longer than the basis'."""
    yield {**_USPS, "sizes": [10_000], "rate": 0.001}
    yield {**_USPS, "sizes": [3_000], "rate": 0.001, "heads": [1.0, 20.0], "dropouts": [0.2, 0.5]}
    yield {**_USPS, "sizes": [3_000], "rate": 0.004, "heads": [1.0, 5.0], "dropouts": [0.2, 0.5]}
    yield from _letter()


def _letter() -> Iterator[Unit]:
    """Letter, the one set that stays behind: with a drawn bias, by width, steps and rate."""
    yield {**_DRAWN, "heads": [5.0, 25.0]}
    yield {**_DRAWN, "heads": [25.0], "epochs": 100, "repeats": 1}
    yield {**_DRAWN, "heads": [5.0], "sizes": [10_000]}
    yield {**_DRAWN, "heads": [5.0, 25.0, 100.0], "rate": 0.005, "repeats": 1}


def _letter_dropout() -> Iterator[Unit]:
    """Letter with more dropout, and with longer steps."""
    yield {**_DRAWN, "heads": [5.0], "dropouts": [0.65, 0.8], "sizes": [10_000]}
    yield {**_DRAWN, "heads": [1.0, 5.0], "dropouts": [0.5, 0.65, 0.8]}
    yield {**_DRAWN, "heads": [1.0, 5.0], "dropouts": [0.5, 0.65, 0.8], "rate": 0.05}


def _letter_causes() -> Iterator[Unit]:
    """What Letter lacks: rows (the same from fewer, and from more), layers, or a drawn bias."""
    for fold in range(5):
        more = {**_DRAWN, "heads": [25.0], "repeats": 1, "epochs": 20}
        yield {**more, "rows": 19_000, "fold": fold}
    yield {**_FEWER, "rows": 7_500}
    deep = {**_LETTER, "kernel": "arccos3", "dropouts": [0.0, 0.1, 0.2], "repeats": 1, "epochs": 20}
    yield {**deep, "sizes": [1_000], "rate": 0.01, "heads": [1.0, 5.0]}
    yield {**_FEWER, "rows": 3_750}
    yield {**_LETTER, "sizes": [3_000], "rate": 0.02, "heads": [1.0, 5.0, 25.0], "repeats": 1}


def _learners() -> Iterator[Unit]:
    yield {"trial": "other learners", "set": "letter", "kernel": "none"}


def _adult() -> Iterator[Unit]:
    yield from _adapted(("adult",))


def _adapted(names: tuple[str, ...] = ("letter", "usps")) -> Iterator[Unit]:
    """Bases trained without the classifier, with a softmax that is fitted once more on all rows."""
    for name in names:
        for kernel in KERNELS:
            own = {"trial": "fixed accuracy", "set": name, "kernel": kernel, "sizes": [3_000]}
            yield {**own, "basis": "unsupervised", "epochs": 10, "rate": 0.02}
            yield {**own, "basis": "supervised", "epochs": 20, "rate": 0.001}


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


def _covtype_wide() -> Iterator[Unit]:
    """The wider bandwidth once more: smaller ridges, and rounds until they are solved."""
    own = {"set": "covtype", "kernel": "gaussian", "basis": "random", "epochs": 0, "bandwidth": 1.42}
    for size in (30_000, 10_000):
        fixed = {"trial": "fixed accuracy", "ridges": [1e-7, 1e-8, 1e-9], "rounds": 3_000}
        yield {**own, **fixed, "sizes": [size]}


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


def _small() -> Iterator[Unit]:
    """What a busy pair of cores can do: some questions of the other parts with fewer steps, features and rows."""
    for name in SETS:
        own = {"trial": "trained errors", "set": name, "kernel": "gaussian", "rate": 0.02, "sizes": [10, 30]}
        yield {**own, "epochs": 5, "batches": 400, "amplitudes": True}
    for name in ("mnist", "cifar10", "madelon"):
        own = {"trial": "trained errors", "set": name, "kernel": "gaussian", "rate": 0.02, "sizes": [100]}
        yield {**own, "structure": "landmarks", "epochs": 3, "batches": 250}
    own = {
        "trial": "trained errors",
        "set": "madelon",
        "rate": 0.02,
        "sizes": [1_000],
        "epochs": 2,
        "batches": 100,
    }
    yield from ({**own, "kernel": kernel} for kernel in KERNELS)


def _small_accuracies() -> Iterator[Unit]:
    """End to end with a bias, dropout and all rows, as far as two cores go."""
    own = {
        "trial": "own accuracy",
        "kernel": "arccos",
        "basis": "discriminative",
        "sizes": [1_000],
        "rate": 0.004,
    }
    yield {**own, "set": "letter", "epochs": 20, "batches": 1_000, "bias": True, "dropout": 0.5}
    yield {**own, "set": "usps", "epochs": 8, "batches": 500, "bias": True, "dropout": 0.5}
    yield {**own, "set": "usps", "sizes": [2_000], "epochs": 6, "batches": 300, "bias": True, "dropout": 0.2}
    yield {**own, "set": "letter", "epochs": 14, "batches": 1_000, "bias": True, "dropout": 0.2, "rate": 0.02}


def _small_own() -> Iterator[Unit]:
    """Letter end to end with longer steps of the classifier and a drawn bias; the same, learned from fewer rows."""
    own = {**_OWN, "set": "letter", "kernel": "arccos", "rate": 0.02, "drawn_bias": 1.0, "batches": 1_000}
    narrow = {**own, "sizes": [1_000], "epochs": 6, "heads": [25.0], "dropout": 0.2}
    yield narrow
    yield {**narrow, "rows": 7_500}
    yield {**narrow, "heads": [1.0], "drawn_bias": 0.0}
    yield {**narrow, "rows": 3_750}


def _small_biases() -> Iterator[Unit]:
    """Biases from 0 and drawn ones, short and long steps of the classifier, on sets that did not choose them."""
    for name in ("usps", "adult", "covtype", "mnist"):
        for bias in (True, "drawn"):
            own = {**_OWN, "set": name, "kernel": "arccos", "bias": bias, "sizes": [300], "rate": 0.02}
            yield {
                **own,
                "rows": 6_000,
                "epochs": 5,
                "batches": 300,
                "heads": [1.0, 5.0, 25.0],
                "refit": False,
            }


def _small_blocks() -> Iterator[Unit]:
    """Hadamard blocks with 10,000 features in few steps: kernel errors, and accuracies end to end."""
    for n_blocks in (3, 1, 2):
        own = {"set": "mnist", "kernel": "gaussian", "structure": "hadamard", "n_blocks": n_blocks}
        own |= {"sizes": [10_000], "epochs": 3, "refit": False, "rate": 0.02}
        yield {**own, "trial": "own accuracy", "basis": "discriminative", "batches": 300}
        yield {**own, "trial": "trained errors", "basis": "unsupervised", "batches": 100}


def _small_adapted() -> Iterator[Unit]:
    """UAB and SAB with a softmax that is fitted once more on all rows, as far as two cores go."""
    for name in ("letter", "usps"):
        for kernel in KERNELS:
            own = {"trial": "fixed accuracy", "set": name, "kernel": kernel, "sizes": [1_000], "batches": 400}
            yield {**own, "basis": "supervised", "epochs": 5, "rate": 0.001}
            yield {**own, "basis": "unsupervised", "epochs": 5, "rate": 0.02}


def _small_transfer() -> Iterator[Unit]:
    """Figure IV.2 on 6,000 rows."""
    own = {"trial": "transfer", "set": "mnist", "kernel": "gaussian", "sizes": [30, 100], "rows": 6_000}
    for split in range(5):
        own |= {"split": split, "rate": 0.02}
        yield {**own, "basis": "random", "epochs": 0}
        for batches in (3, 300, 30):
            yield {**own, "basis": "supervised", "epochs": 10, "batches": batches}
        yield {**own, "basis": "unsupervised", "epochs": 10, "batches": 300}
    for split in range(5):
        yield {**own, "split": split, "basis": "supervised", "epochs": 10, "batches": 300, "half": True}


def _small_times() -> Iterator[Unit]:
    for kernel in KERNELS:
        yield {"trial": "times", "set": "mnist", "kernel": kernel, "sizes": [100, 1_000], "batches": 110}


def _blocks() -> Iterator[Unit]:
    """Figure IV.4 to 10,000 features; 0 blocks are dense directions."""
    for name in ("covtype", "mnist"):
        for n_blocks in (3, 1, 0, 2):
            own = {"set": name, "kernel": "gaussian", "structure": "hadamard", "n_blocks": n_blocks}
            own |= {"structure": "orthogonal"} if n_blocks == 0 else {}
            own |= {"epochs": 3, "sizes": [10_000], "refit": False}
            # Long steps of alignment cost accuracy where there are many features.
            for basis, rate in (("unsupervised", 0.02), ("supervised", 0.001)):
                fixed = {"trial": "fixed accuracy", "ridges": [1e-6, 1e-7]}
                yield {**own, **fixed, "basis": basis, "rate": rate}
            yield {**own, "trial": "own accuracy", "basis": "discriminative", "rate": 0.02}


def _times() -> Iterator[Unit]:
    for kernel in KERNELS:
        yield {
            "trial": "times",
            "set": "mnist",
            "kernel": kernel,
            "sizes": [100, 1_000, 10_000],
            "batches": 500,
        }


PARTS = {
    "covtype": _covtype,
    "covtype-wide": _covtype_wide,
    "errors": _errors,
    "fixed": _fixed,
    "own": _own,
    "letter": _letter,
    "letter-dropout": _letter_dropout,
    "letter-causes": _letter_causes,
    "learners": _learners,
    "adult": _adult,
    "adapted": _adapted,
    "transfer": _transfer,
    "blocks": _blocks,
    "times": _times,
    "small": _small,
    "small accuracies": _small_accuracies,
    "small own": _small_own,
    "small biases": _small_biases,
    "small blocks": _small_blocks,
    "small adapted": _small_adapted,
    "small transfer": _small_transfer,
    "small times": _small_times,
}
