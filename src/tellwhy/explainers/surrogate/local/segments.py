"""Which pieces of an input its neighbours keep."""

from __future__ import annotations

import numpy as np

from tellwhy.core.score_function import Floats
from tellwhy.data.segments import neighbours, present_cells, segment

__all__ = ["neighbour_masks", "neighbours", "present_cells", "segment"]


def neighbour_masks(
    n_segments: int,
    n_neighbours: int,
    rng: np.random.Generator,
    *,
    kept: float = 0.75,
    with_input: bool = True,
) -> Floats:
    """Which segments each neighbour keeps (1) or loses (0); `with_input`, the first is the input itself.

    A share of the segments is kept, by a scrambled Sobol sequence: each segment, and nearly each pair, is
    lost equally often, so that coefficients depend little on the draw. Best with 2ᵐ neighbours and a share of
    ¼, ½ or ¾.

    Examples
    --------
    >>> masks = neighbour_masks(4, 64, np.random.default_rng(1))
    >>> (masks[1:] == 0).sum(axis=0)
    array([16, 16, 16, 16])
    """
    from scipy.stats import qmc

    shown = min(n_segments, qmc.Sobol.MAXDIM)
    power = max(0, int(n_neighbours - 1).bit_length())  # the sequence is balanced at powers of two only
    places = qmc.Sobol(shown, seed=rng).random_base2(power)[:n_neighbours]
    rest = rng.random((n_neighbours, n_segments - shown))
    masks = (np.hstack([places, rest]) < kept).astype(np.float64)
    if with_input:
        masks[0] = 1.0  # the input itself, whose output the mixture should match
    return masks
