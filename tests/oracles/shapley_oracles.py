"""Slow, obvious counterparts of Shapley values and of the local minima that coalitions are worth."""

from itertools import combinations, permutations
from math import comb, factorial

import numpy as np
from scipy.optimize import minimize


def subsets(players):
    players = list(players)
    for size in range(len(players) + 1):
        yield from (frozenset(chosen) for chosen in combinations(players, size))


def shapley_by_definition(worth, d):
    """Equation 1: weighted mean of the marginal contributions; `worth` takes a frozenset."""
    values = np.zeros(d)
    for i in range(d):
        for S in subsets(set(range(d)) - {i}):
            weight = factorial(len(S)) * factorial(d - len(S) - 1) / factorial(d)
            values[i] += weight * (worth(S | {i}) - worth(S))
    return values


def kernel_as_printed(d, size):
    """Line 5 of Algorithm 1 as it is printed, which is not the weight of a subset in least squares."""
    return (d - 1) * factorial(size) * factorial(d - size - 1) / factorial(d)


def kernel(d, size):
    return (d - 1) / (comb(d, size) * size * (d - size))


def weighted_fit(worth, d, weight):
    """Σφ-constrained least squares over all subsets, by eliminating the last player."""
    empty, full = worth(frozenset()), worth(frozenset(range(d)))
    rows, targets, weights = [], [], []
    for S in subsets(range(d)):
        if 0 < len(S) < d:
            z = np.array([float(i in S) for i in range(d)])
            rows.append(z[:-1] - z[-1])
            targets.append(worth(S) - empty - z[-1] * (full - empty))
            weights.append(weight(d, len(S)))
    root = np.sqrt(weights)
    first = np.linalg.lstsq(np.array(rows) * root[:, None], np.array(targets) * root, rcond=None)[0]
    return np.append(first, full - empty - first.sum())


def gaussian_minimum(x, mean, precision, *, free, gamma, scales):
    """Closed form for one Gaussian: δ_c = −(P_cc + 2γ/|c| diag(1/s²))⁻¹ [P(x − μ)]_c."""
    c = np.flatnonzero(free)
    ridge = 2.0 * gamma / len(c) * np.diag(1.0 / scales[c] ** 2)
    y = x.copy()
    y[c] -= np.linalg.solve(precision[np.ix_(c, c)] + ridge, (precision @ (x - mean))[c])
    return y


def relaxed_worth(score, x, minimum, S):
    """Equations 4 and 5 for one subset: `minimum(T)` is x̂*(T)."""
    mean = (minimum(frozenset()) + sum(minimum(frozenset({i})) for i in S)) / (len(S) + 1)
    z = np.array([x[i] if i in S else mean[i] for i in range(len(x))])
    return score(z)


def minimum_by_scipy(objective, start, bounds=None):
    """Minimise a function of a few numbers with general-purpose tools, to many digits."""
    found = minimize(
        objective, start, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-12}
    )
    again = minimize(
        objective,
        found.x,
        method="Nelder-Mead",
        bounds=bounds,
        options={"xatol": 1e-10, "fatol": 1e-14, "maxiter": 9999},
    )
    return again.x if again.fun < found.fun else found.x


def stays_together(order, tree):
    """Whether the players of each group stand one after the other in an order."""
    if isinstance(tree, int):
        return True
    for part in tree:
        places = sorted(order.index(player) for player in flat(part))
        if places[-1] - places[0] != len(places) - 1 or not stays_together(order, part):
            return False
    return True


def flat(tree):
    return [tree] if isinstance(tree, int) else [player for part in tree for player in flat(part)]


def owen_by_orders(worth, tree):
    """Mean of what a player adds, over all orders in which groups stay together."""
    players = sorted(flat(tree))
    kept = [order for order in permutations(players) if stays_together(order, tree)]
    values = np.zeros(len(players))
    for order in kept:
        for place, player in enumerate(order):
            before = frozenset(order[:place])
            values[player] += worth(before | {player}) - worth(before)
    return values / len(kept)
