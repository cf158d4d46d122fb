"""Data sets for kernel bases, centred and scaled column by column into [−1, 1] by their training rows.

`prepare` reads the public files and needs all of tellwhy; what it writes is read by `load`, which needs NumPy alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rows:
    """Rows and classes 0, 1, … to learn from (the first `n_held` are held out) and to test on."""

    name: str
    X: np.ndarray
    y: np.ndarray
    n_held: int
    X_test: np.ndarray
    y_test: np.ndarray
    bandwidth: float

    @property
    def held(self) -> np.ndarray:
        return np.arange(self.n_held)

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def only(self, classes: np.ndarray) -> Rows:
        """The rows of some classes, numbered from 0."""
        place = np.full(self.n_classes, -1)
        place[classes] = np.arange(len(classes))
        keep, keep_test = np.isin(self.y, classes), np.isin(self.y_test, classes)
        n_held = int(keep[: self.n_held].sum())
        return Rows(
            self.name,
            self.X[keep],
            place[self.y[keep]],
            n_held,
            self.X_test[keep_test],
            place[self.y_test[keep_test]],
            self.bandwidth,
        )

    def first(self, n: int) -> Rows:
        """Fewer rows to learn from, a fifth of them held out; their order is random."""
        return replace(self, X=self.X[:n], y=self.y[:n], n_held=n // 5)

    def with_test_rows(self, fold: int) -> Rows:
        """More rows to learn from: four fifths of the test rows too; the last fifth, one of five, is tested on."""
        is_tested = np.arange(len(self.y_test)) % 5 == fold
        X = np.concatenate([self.X, self.X_test[~is_tested]])
        y = np.concatenate([self.y, self.y_test[~is_tested]])
        return replace(self, X=X, y=y, X_test=self.X_test[is_tested], y_test=self.y_test[is_tested])


def prepare(name: str, folder: Path) -> None:
    """Write the rows of a set as they are, with the numbers that scale them and the kernel's bandwidth."""
    from tellwhy.bases import KernelBasis

    X, y, is_train, n_held = READERS[name]()
    X = X.reshape(len(X), -1)
    _, y = np.unique(y, return_inverse=True)
    order = np.random.default_rng(0).permutation(int(is_train.sum()))
    train = X[is_train][order]
    centre = train.mean(axis=0, dtype=np.float64)
    reach = np.abs(train - centre).max(axis=0)
    reach[reach == 0] = 1.0
    bandwidth = KernelBasis(n_features=2, random_state=0).fit((train - centre) / reach).bandwidth_
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"X": train, "y": y[is_train][order], "X_test": X[~is_train], "y_test": y[~is_train]}
    numbers = {"centre": centre, "reach": reach, "bandwidth": bandwidth, "n_held": n_held}
    np.savez_compressed(folder / f"{name}.npz", **arrays, **numbers)


def load(name: str, folder: Path) -> Rows:
    """Read a prepared set."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as a:
        centre, reach = a["centre"], a["reach"]
        X, X_test = (((a[key] - centre) / reach).astype(np.float32) for key in ("X", "X_test"))
        return Rows(name, X, a["y"], int(a["n_held"]), X_test, a["y_test"], float(a["bandwidth"]))


def fetch(name: str) -> dict[str, np.ndarray]:
    from tellwhy.data import fetch as fetch_arrays

    return fetch_arrays(name)


def _drawn_test(n: int, share: float) -> np.ndarray:
    is_train = np.ones(n, dtype=bool)
    is_train[np.random.default_rng(1).permutation(n)[: round(share * n)]] = False
    return is_train


def _given(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> tuple:
    is_train = np.arange(len(X) + len(X_test)) < len(X)
    return np.concatenate([X, X_test]), np.concatenate([y, y_test]), is_train


def _mnist() -> tuple:
    m = fetch("mnist")
    return *_given(m["X_train"], m["y_train"], m["X_test"], m["y_test"]), 10_000


def _split(name: str, n_held: int) -> tuple:
    m = fetch(name)
    return m["X"], m["y"], m["is_train"], n_held


def _covtype() -> tuple:
    m = fetch("covtype_93k")
    X = np.hstack([m["X_num"], m["X_bin"]])
    return X, m["y"], _drawn_test(len(X), 0.2), 10_000


def _madelon() -> tuple:
    m = fetch("fs_madelon")
    return m["X"], m["y"], _drawn_test(len(m["X"]), 0.25), 400


def _adult() -> tuple:
    m = fetch("adult")
    cells = np.concatenate([m["train"], m["test"]])
    columns = []
    for column in cells[:, :-1].T:
        try:
            columns.append(column.astype(np.float64)[:, None])
        except ValueError:
            columns.append((column[:, None] == np.unique(column)[None, :]).astype(np.float64))
    return np.hstack(columns), cells[:, -1], np.arange(len(cells)) < len(m["train"]), 3_560


def _cifar(n_centres: int = 200, side: int = 6) -> tuple:
    """Coates, Lee and Ng (2011): whitened patches, distances to k-means centres, summed over four quadrants.

    Every second place of an image, and 256 levels a feature, keep it small.
    """
    import torch

    from tellwhy.core.progress import track

    m, rng = fetch("cifar10_12k"), np.random.default_rng(0)
    images = torch.tensor(np.concatenate([m["X_train"], m["X_test"]])).permute(0, 3, 1, 2)
    n_train = len(m["X_train"])
    patches = _normalised(images[:n_train:20].float(), side, stride=3)
    patches = patches[torch.tensor(rng.choice(len(patches), 30_000, replace=False))]
    mean = patches.mean(0)
    values, vectors = torch.linalg.eigh((patches - mean).T @ (patches - mean) / len(patches))
    whiten = vectors @ torch.diag((values + 0.1).rsqrt()) @ vectors.T
    centres = _k_means((patches - mean) @ whiten, n_centres)
    parts = images.split(200)
    sums = torch.cat(
        [_pooled(p.float(), side, mean, whiten, centres) for p in track(parts, len(parts), "patches")]
    )
    levels = (255 * sums / sums[:n_train].amax(0)).clamp(0, 255).round().byte().numpy()
    return levels, np.concatenate([m["y_train"], m["y_test"]]), np.arange(len(images)) < n_train, 1_000


def _normalised(images: Any, side: int, stride: int = 1) -> Any:
    """Patches of each image, shape (n · places, 3 · side²), with mean 0 and variance 1."""
    import torch

    patches = torch.nn.functional.unfold(images, side, stride=stride).mT.reshape(-1, 3 * side * side)
    patches = patches - patches.mean(1, keepdim=True)
    return patches / (patches.var(1, keepdim=True) + 10.0).sqrt()


def _k_means(P: Any, k: int, rounds: int = 15) -> Any:
    import torch

    centres = P[:k].clone()
    for _ in range(rounds):
        nearest = (centres.square().sum(1) - 2 * P @ centres.T).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, P)
        counts = torch.bincount(nearest, minlength=k)[:, None]
        centres = torch.where(counts > 0, sums / counts.clamp_min(1), centres)
    return centres


def _pooled(images: Any, side: int, mean: Any, whiten: Any, centres: Any) -> Any:
    import torch

    places = (images.shape[-1] - side) // 2 + 1
    distances = torch.cdist((_normalised(images, side, stride=2) - mean) @ whiten, centres)
    near = (distances.mean(1, keepdim=True) - distances).relu().reshape(len(images), places, places, -1)
    half = places // 2
    quadrants = [
        near[:, a, b].sum((1, 2))
        for a in (slice(half), slice(half, None))
        for b in (slice(half), slice(half, None))
    ]
    return torch.cat(quadrants, dim=1)


READERS: dict[str, Any] = {
    "mnist": _mnist,
    "letter": lambda: _split("mc_letter", 4_500),
    "usps": lambda: _split("mc_usps", 1_290),
    "adult": _adult,
    "covtype": _covtype,
    "madelon": _madelon,
    "cifar10": _cifar,
}
