"""Generated nodes with latent classes, for which the truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Seed, generator, real, validate_value
from tellwhy.core.score_function import Floats, Integers
from tellwhy.data.graphs.kinds import Graph, Grid


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
    random_state: Seed = None,
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
