"""What a single node may say about its class against all of its neighbours, and how small a class may be.

Squared distances have no limit: a node that is far from the centre of the class that its neighbours are in
would be cheaper as a class of its own, or as a lone member of another class, and would then look ordinary
there. What is odd about it would be explained away by the very thing that should tell it. So the costs of a
node differ between classes by no more than its neighbours can outweigh if they agree, and a node that is so
restrained does not move the centre of the class it is held in. A few neighbours that are odd in the same way
may be in a class together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from tellwhy.core.parallel import row_batches
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import evenly_spread

# Of what all neighbours say when they agree. Below a half, three of four neighbours on a grid are enough to
# hold a node, and small clusters of odd nodes are held too. In a sequence, where a node has two neighbours, a
# second one in a row makes a visit of another class.
BELOW_NEIGHBOURS = 0.45
BELOW_TWO_NEIGHBOURS = 0.6
LEAST = 6.0  # times the variance of a class in each column: what a node may say where neighbours say little
FAR = 25.0  # times the median distance from the nearest centre: from there on, a node moves none
SAMPLE = 100_000  # nodes by which the variance is estimated
LEAST_SHARE = 0.01  # of the nodes, that a class must have
FEWEST = 2  # nodes of a class, where there are enough to tell
ENOUGH = 20


def restrain(
    costs: NDArray[Any], pair: Floats | None, degrees: NDArray[np.int8], theta: float, *, n_columns: int
) -> None:
    """Limit, in place, how much the costs of a node differ between classes.

    Parameters
    ----------
    costs
        θ times the squared distances, or what a loss makes of them; shape (n, K).
    pair
        How well classes go together, shape (K, K); None for the limit that holds whatever neighbours say.
    degrees
        Number of neighbours of each node.
    theta
        Weight of distances against couplings.
    n_columns
        Number of columns that distances are made of.
    """
    if costs.shape[1] < 2:
        return
    always = costs.dtype.type(LEAST * variance_of_costs(costs, n_columns))
    advantage = 0.0 if pair is None else (1 - theta) * _advantage(pair)
    # Part by part: of a large grid, one more number for each node is much memory.
    for rows in row_batches(len(costs), 32 * costs.shape[1]):
        part = costs[rows]
        limit = np.maximum(advantage * _below(degrees[rows]), always).astype(costs.dtype)
        np.minimum(part, (part.min(axis=1) + limit)[:, None], out=part)


def _below(degrees: NDArray[np.int8]) -> NDArray[np.float32]:
    """Neighbours of each node, less what makes them outweigh it."""
    parts = np.where(degrees > 2, np.float32(BELOW_NEIGHBOURS), np.float32(BELOW_TWO_NEIGHBOURS))
    return np.asarray(parts * degrees, dtype=np.float32)


def is_ordinary(
    costs: NDArray[Any], labels: NDArray[Any], variance: float, *, n_columns: int
) -> NDArray[np.bool_]:
    """Nodes that tell where their class is: neither held there against their values, nor far out.

    Parameters
    ----------
    costs
        Of each class, shape (n, K); they are not restrained.
    labels
        Class of each node; one of −1 is no matter.
    variance
        Cost of one standard deviation in one column: see `variance_of_costs`.
    n_columns
        Number of columns that distances are made of.
    """
    least = costs.min(axis=1)
    own = np.take_along_axis(costs, np.maximum(labels, 0)[:, None].astype(np.int64), axis=1)[:, 0]
    far = FAR * _middle_of(n_columns) * variance
    return np.asarray((own - least <= LEAST * variance) & ((least <= far) | (far <= 0)))


def _advantage(pair: Floats) -> float:
    """How much better the neighbours of a node go with their own class than with any other, at least."""
    others = np.where(np.eye(len(pair), dtype=bool), -np.inf, pair)
    return max(float((np.diag(pair) - others.max(axis=1)).min()), 0.0)


def variance_of_costs(costs: NDArray[Any], n_columns: int) -> float:
    """Cost of one standard deviation in one column, by the median of (some of) the nodes' least costs."""
    least = costs[evenly_spread(len(costs), SAMPLE)].min(axis=1)
    return float(np.median(least)) / _middle_of(n_columns)


def _middle_of(n_columns: int) -> float:
    """Median of the squared distance of so many normal variables from their middle."""
    return 2 * float(gammaincinv(n_columns / 2, 0.5))


def least_size(n_nodes: int) -> int:
    """How many nodes a class needs: a share of all, and never a single one."""
    return max(int(np.ceil(LEAST_SHARE * n_nodes)), FEWEST) if n_nodes >= ENOUGH else 1


def too_small(sizes: Integers, n_nodes: int) -> NDArray[np.bool_]:
    """Classes that have nodes, but too few of them."""
    return np.asarray((sizes > 0) & (sizes < least_size(n_nodes)))
