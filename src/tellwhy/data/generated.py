"""Synthetic data and graphs.

Generated data with known anomalies.

Generated nodes with latent classes, for which the truth is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Seed, generator, integer, one_of, real, validate_value
from tellwhy.core.score import Floats, Integers
from tellwhy.data.graphs import Graph, Grid

_LOCAL_SPREAD = 3.0
ANOMALIES = ("scattered", "local", "dependency")


def gaussian_mixture(
    n: int,
    d: int,
    n_clusters: int = 3,
    *,
    contamination: float = 0.05,
    anomalies: str = "scattered",
    random_state: Seed = 0,
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
    odd = _draw_odd_rows(anomalies, n_odd, normal, (centres, shapes), rng)
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


def _draw_odd_rows(
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


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """Rows, the class of each, and how far each is from its class: o = ‖x − μ_c‖² / 2σ²."""

    X: Floats
    classes: Integers
    distortion: Floats

    def anomalies(self, contamination: float) -> NDArray[np.bool_]:
        """Mark the given share of nodes, those most distorted: nothing is injected."""
        return np.asarray(self.distortion > np.quantile(self.distortion, 1 - contamination))


def latent_classes(
    graph: Graph,
    distance: float = 2.0,
    *,
    n_features: int = 2,
    run_length: float = 50.0,
    random_state: Seed = 0,
) -> LatentClasses:
    """Draw two classes on a chain or grid, and rows x ~ N(μ_c, I) with ‖μ_1 − μ_2‖ = distance.

    On a chain the class changes with probability 1/run_length at each step; on a grid it is where a smoothed
    random field (standard deviation √run_length/2 nodes, 3.5 by default) exceeds its median.

    Examples
    --------
    >>> from tellwhy.data.graphs import chain
    >>> toy = latent_classes(chain(1000), random_state=0)
    >>> toy.X.shape, int(toy.anomalies(0.05).sum())
    ((1000, 2), 50)
    """
    validate_value("latent_classes", "distance", distance, real(0, np.inf, closed="left"))
    validate_value("latent_classes", "run_length", run_length, real(1, np.inf, closed="left"))
    if not isinstance(graph, Grid):
        raise InvalidInput("latent_classes draws on chain(n) or grid(shape).")
    rng = generator(random_state)
    if len(graph.shape) == 1:
        classes = np.cumsum(rng.random(graph.n_nodes) < 1 / run_length) % 2
    else:
        smooth = gaussian_filter(rng.normal(size=graph.shape), np.sqrt(run_length) / 2, mode="wrap")
        classes = (smooth > np.median(smooth)).ravel().astype(np.int64)
    noise = rng.normal(size=(graph.n_nodes, n_features))
    shift = distance / np.sqrt(n_features) * classes[:, None]  # the same along every feature
    return LatentClasses(noise + shift, classes, 0.5 * (noise**2).sum(axis=1))
