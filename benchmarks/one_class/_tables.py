"""Generated tables of different kinds, split into training rows and rows with one shifted column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tellwhy.evaluation import inject_anomalies

NEW_ROWS = 150
Draw = Callable[[int, int, np.random.Generator], np.ndarray]


def scaled(X: np.ndarray) -> np.ndarray:
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def smooth(n: int, d: int, rng: np.random.Generator, per_factor: int = 8) -> np.ndarray:
    """Columns that follow few factors."""
    k = max(2, d // per_factor)
    return rng.normal(size=(n, k)) @ rng.normal(size=(k, d))


def normal(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(n, d))


def factors(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return smooth(n, d, rng) + 0.4 * rng.normal(size=(n, d))


def half_noise(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    half = d // 2
    told = scaled(smooth(n, half, rng) + 0.2 * rng.normal(size=(n, half)))
    return np.hstack([told, rng.normal(size=(n, d - half))])


def uneven_noise(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return scaled(smooth(n, d, rng)) + rng.uniform(0.05, 1.5, d) * rng.normal(size=(n, d))


def clusters(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    centres = 2.0 * rng.normal(size=(5, d))
    return centres[rng.integers(0, 5, n)] + rng.uniform(0.2, 2.0, d) * rng.normal(size=(n, d))


def heavy_tails(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return (smooth(n, d, rng) + rng.normal(size=(n, d))) / np.sqrt(rng.chisquare(3, (n, 1)) / 3)


def lognormal(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return np.exp(0.8 * rng.normal(size=(n, d)) * rng.uniform(0.2, 1.3, d))


def spikes(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Most rows of a column share one value."""
    is_zero = rng.random((n, d)) < rng.uniform(0, 0.97, d)
    return np.where(is_zero, 0.0, np.abs(rng.normal(size=(n, d))) * rng.uniform(0.5, 2.0, d))


def binary(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return (smooth(n, d, rng) + rng.normal(size=(n, d)) > 2.5 * rng.normal(size=d)).astype(float)


def one_hot(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    hidden = rng.normal(size=n)
    blocks: list[np.ndarray] = []
    while sum(block.shape[1] for block in blocks) < d:
        levels = int(rng.integers(2, 6))
        taste = 1.2 * rng.normal(size=levels) + np.outer(hidden, rng.normal(size=levels))
        blocks.append(np.eye(levels)[(taste + rng.gumbel(size=(n, levels))).argmax(axis=1)])
    return np.hstack(blocks)[:, :d]


def mixed(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    some = d // 4
    parts = [half_noise(n, d // 2, rng), scaled(spikes(n, some, rng)), binary(n, d - d // 2 - some, rng)]
    return np.hstack(parts)


FAMILIES: dict[str, Draw] = {
    f.__name__: f
    for f in (
        normal, factors, half_noise, uneven_noise, clusters, heavy_tails, lognormal, spikes, binary, one_hot, mixed,
    )
}  # fmt: skip
AS_THEY_ARE = ("binary", "one_hot", "mixed")


def generated(family: str, n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows, new rows with one column shifted, and which it is."""
    rng = np.random.default_rng([seed, n, d, list(FAMILIES).index(family)])
    X = FAMILIES[family](n + NEW_ROWS, d, rng)
    X = X if family in AS_THEY_ARE else scaled(X)
    train = X[:n]
    spread = train.std(axis=0)
    found = inject_anomalies(X[n:], 1, random_state=seed, scale=np.where(spread > 0, spread, 1.0))
    return train, found.X, found.truth
