"""Generated data with known anomalies."""

from __future__ import annotations

import numpy as np

from tellwhy.core.params import Seed, generator, integer, one_of, real, validate_value
from tellwhy.core.score_function import Floats, Integers

_LOCAL_SPREAD = 3.0
ANOMALIES = ("scattered", "local", "dependency")


def gaussian_mixture(
    n: int,
    d: int,
    n_clusters: int = 3,
    *,
    contamination: float = 0.05,
    anomalies: str = "scattered",
    random_state: Seed = None,
) -> tuple[Floats, Integers]:
    """Draw clusters of correlated normal rows and a share of anomalies.

    Parameters
    ----------
    n, d, n_clusters
        Rows (anomalies included), columns, clusters.
    contamination
        Share of anomalies; at least one unless it is 0.
    anomalies
        'scattered': uniform over the box around the normal rows, a tenth larger; 'local': from the clusters
        with threefold standard deviations; 'dependency': every column drawn on its own from the normal rows,
        so that single values are ordinary and their combination is not.
    random_state
        Seed.

    Returns
    -------
    X, y
        Shapes (n, d) and (n,), in random order; y is 1 for anomalies.

    Examples
    --------
    >>> X, y = gaussian_mixture(200, 4, random_state=0)
    >>> X.shape, int(y.sum())
    ((200, 4), 10)
    """
    for name, value, rule in (
        ("n", n, integer(1)),
        ("d", d, integer(1)),
        ("n_clusters", n_clusters, integer(1)),
        ("contamination", contamination, real(0, 1, closed="left")),
        ("anomalies", anomalies, one_of(*ANOMALIES)),
    ):
        validate_value("gaussian_mixture", name, value, rule)
    rng = generator(random_state)
    n_odd = min(max(round(contamination * n), 1), n - 1) if contamination > 0 else 0
    centres = rng.normal(scale=4.0, size=(n_clusters, d))
    shapes = [_shape(d, rng) for _ in range(n_clusters)]
    normal = _draw(n - n_odd, centres, shapes, rng)
    odd = _odd_rows(anomalies, n_odd, normal, (centres, shapes), rng)
    order = rng.permutation(n)
    y = np.repeat([0, 1], [n - n_odd, n_odd])
    return np.concatenate([normal, odd])[order], y[order]


def _shape(d: int, rng: np.random.Generator) -> Floats:
    """Return a factor L of a covariance LLᵀ: standard deviations from 0.2 to 1.5 along random directions."""
    directions, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return np.asarray(directions * np.exp(rng.uniform(np.log(0.2), np.log(1.5), size=d)))


def _draw(
    n: int, centres: Floats, shapes: list[Floats], rng: np.random.Generator, spread: float = 1.0
) -> Floats:
    cluster = rng.integers(len(centres), size=n)
    steps = rng.normal(scale=spread, size=(n, centres.shape[1]))
    rows = np.empty_like(steps)
    for k, shape in enumerate(shapes):
        rows[cluster == k] = centres[k] + steps[cluster == k] @ shape.T
    return rows


def _odd_rows(
    kind: str, n: int, normal: Floats, clusters: tuple[Floats, list[Floats]], rng: np.random.Generator
) -> Floats:
    if kind == "local":
        return _draw(n, *clusters, rng, spread=_LOCAL_SPREAD)
    if kind == "dependency":
        rows = rng.integers(len(normal), size=(n, normal.shape[1]))
        return np.take_along_axis(normal, rows, axis=0)
    low = normal.min(axis=0)
    high = normal.max(axis=0)
    margin = 0.1 * (high - low)
    return rng.uniform(low - margin, high + margin, size=(n, normal.shape[1]))
