"""What it costs to put a node into a class, from the ball of the class.

The excess of a node is ‖c_k − φ_i‖² − t_k: by how much its squared distance from the centre c_k of class k is
larger than the squared radius t_k. A loss ℓ says what an excess costs. φ_i are the features of node i: its
row, or what a transformer makes of it.

Squared distances have no limit: a node that is far from the centre of the class that its neighbours are in
would be cheaper as a class of its own, or as a lone member of another class, and would then look ordinary
there. What is odd about it would be explained away by the very thing that should tell it. So the costs of a
node differ between classes by no more than its neighbours can outweigh if they agree, and a node that is so
restrained does not move the centre of the class it is held in. A few neighbours that are odd in the same way
may be in a class together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaincinv

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidInput
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.detectors.kernel.smallest_ball import fit_linear_ball
from tellwhy.detectors.map_inference.field import Labels
from tellwhy.kernels.distances import centre_and_unit

Loss = Callable[[Any], Any]
_BALL_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Balls:
    """Centres, shape (K, D), and squared radii, shape (K,)."""

    centres: Floats
    squared_radii: Floats


def hinge(excess: Any) -> Any:
    """ℓ(z) = max(0, z)."""
    return np.maximum(excess, 0.0)


def squared(excess: Any) -> Any:
    """ℓ(z) = max(0, z)²."""
    return np.maximum(excess, 0.0) ** 2


def find_loss(loss: str | Loss) -> Loss:
    """Return a loss by its name, or the function itself after trying it out."""
    if isinstance(loss, str):
        return {"hinge": hinge, "squared": squared}[loss]
    tried = np.asarray(loss(np.array([-1.0, 0.0, 1.0, 2.0])))
    if tried.shape != (4,) or not np.isfinite(tried).all() or (np.diff(tried) < 0).any():
        raise InvalidInput(
            "A loss takes an array of excesses ‖c − φ‖² − t and returns finite numbers that never fall as "
            f"the excess grows, in the same shape. For [-1, 0, 1, 2] it gave {tried.tolist()}."
        )
    return loss


def squared_distances(features: NDArray[Any], centres: Floats) -> NDArray[Any]:
    """‖c_k − φ_i‖², shape (n, K), in the precision of the features."""
    found = np.empty((len(features), len(centres)), dtype=features.dtype)
    # Differences rather than the product formula: there are few classes, and no digits cancel.
    for rows in cut_batches(len(features), 16 * features.shape[1]):
        part = features[rows]
        for k, centre in enumerate(centres.astype(features.dtype)):
            difference = part - centre
            found[rows, k] = np.einsum("ij,ij->i", difference, difference)
    return found


def compute_class_means(features: NDArray[Any], labels: Labels, n_classes: int) -> tuple[Floats, Integers]:
    """Mean of each class and its size; a class without members has mean 0."""
    sums = np.zeros((n_classes, features.shape[1]))  # float64: single precision loses digits over many nodes
    sizes = np.zeros(n_classes, dtype=np.int64)
    for rows in cut_batches(len(features), 16 * features.shape[1]):
        for k in range(n_classes):
            members = features[rows][labels[rows] == k]
            sums[k] += members.sum(axis=0, dtype=np.float64)
            sizes[k] += len(members)
    return sums / np.maximum(sizes, 1)[:, None], sizes


def fit_balls(features: NDArray[Any], labels: Labels, old: Balls, *, nu: float, loss: str | Loss) -> Balls:
    """Return the best ball of each class for its members; a class without any keeps the ball it had.

    With the hinge and ν = 1 the radius is 0 and the centre the mean of the class. With the hinge and ν < 1
    each ball is an ordinary SVDD of its class. Other losses are minimised by L-BFGS-B.
    """
    n_classes = len(old.centres)
    if loss == "hinge" and nu == 1:
        means, sizes = compute_class_means(features, labels, n_classes)
        return Balls(np.where(sizes[:, None] > 0, means, old.centres), np.zeros(n_classes))
    centres = old.centres.copy()
    radii = old.squared_radii.copy()
    for k in range(n_classes):
        members = features[labels == k].astype(np.float64)
        if len(members):
            centres[k], radii[k] = _fit_ball(members, nu, loss)
    return Balls(centres, radii)


def _fit_ball(members: Floats, nu: float, loss: str | Loss) -> tuple[Floats, float]:
    if loss == "hinge":
        ball = fit_linear_ball(members, nu=nu, tol=_BALL_TOLERANCE)
        return ball.centre, ball.squared_radius
    return smooth_ball(members, nu, find_loss(loss))


def smooth_ball(members: Floats, nu: float, loss: Loss) -> tuple[Floats, float]:
    """Return centre c and squared radius t ≥ 0 that minimise ν n t + Σ_i ℓ(‖c − φ_i‖² − t).

    The problem is convex for a convex loss that never falls.
    """
    # Solved for members centred and divided by their reach, in which steps of length 1 are sensible.
    middle, unit = centre_and_unit(members)
    centred = (members - middle) / unit

    def cost(place: Floats) -> tuple[float, Floats]:
        difference = place[:-1] - centred
        excess = unit**2 * (np.einsum("ij,ij->i", difference, difference) - place[-1])
        slopes = _slopes(loss, excess)
        pull = 2 * unit**2 * (slopes @ difference)
        value = nu * unit**2 * place[-1] + float(np.mean(loss(excess)))
        return value / unit**2, np.append(pull / len(excess), unit**2 * (nu - slopes.mean())) / unit**2

    start = np.zeros(centred.shape[1] + 1)
    bounds = [(None, None)] * centred.shape[1] + [(0.0, None)]
    found = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x
    return found[:-1] * unit + middle, float(found[-1] * unit**2)


def _slopes(loss: Loss, excess: Floats) -> Floats:
    """ℓ′ by central differences: a loss of the user's has no formula for it."""
    step = 1e-6 * np.maximum(np.abs(excess), 1.0)
    return np.asarray((loss(excess + step) - loss(excess - step)) / (2 * step), dtype=np.float64)


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
    always = costs.dtype.type(LEAST * estimate_variance_of_costs(costs, n_columns))
    advantage = 0.0 if pair is None else (1 - theta) * _measure_advantage(pair)
    # Part by part: of a large grid, one more number for each node is much memory.
    for rows in cut_batches(len(costs), 32 * costs.shape[1]):
        part = costs[rows]
        limit = np.maximum(advantage * _find_below(degrees[rows]), always).astype(costs.dtype)
        np.minimum(part, (part.min(axis=1) + limit)[:, None], out=part)


def _find_below(degrees: NDArray[np.int8]) -> NDArray[np.float32]:
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
        Cost of one standard deviation in one column: see `estimate_variance_of_costs`.
    n_columns
        Number of columns that distances are made of.
    """
    least = costs.min(axis=1)
    own = np.take_along_axis(costs, np.maximum(labels, 0)[:, None].astype(np.int64), axis=1)[:, 0]
    far = FAR * _find_middle_of(n_columns) * variance
    return np.asarray((own - least <= LEAST * variance) & ((least <= far) | (far <= 0)))


def _measure_advantage(pair: Floats) -> float:
    """How much better the neighbours of a node go with their own class than with any other, at least."""
    others = np.where(np.eye(len(pair), dtype=bool), -np.inf, pair)
    return max(float((np.diag(pair) - others.max(axis=1)).min()), 0.0)


def estimate_variance_of_costs(costs: NDArray[Any], n_columns: int) -> float:
    """Cost of one standard deviation in one column, by the median of (some of) the nodes' least costs."""
    least = costs[spread_evenly(len(costs), SAMPLE)].min(axis=1)
    return float(np.median(least)) / _find_middle_of(n_columns)


def _find_middle_of(n_columns: int) -> float:
    """Median of the squared distance of so many normal variables from their middle."""
    return 2 * float(gammaincinv(n_columns / 2, 0.5))


def find_least_size(n_nodes: int) -> int:
    """How many nodes a class needs: a share of all, and never a single one."""
    return max(int(np.ceil(LEAST_SHARE * n_nodes)), FEWEST) if n_nodes >= ENOUGH else 1


def find_too_small(sizes: Integers, n_nodes: int) -> NDArray[np.bool_]:
    """Classes that have nodes, but too few of them."""
    return np.asarray((sizes > 0) & (sizes < find_least_size(n_nodes)))
