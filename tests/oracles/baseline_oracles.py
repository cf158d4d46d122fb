"""Marginal energies, sequential features, contributions, integrated gradients and rank averages by plain loops."""

import itertools

import numpy as np
from scipy.stats import rankdata, spearmanr


def log_sum(terms):
    top = max(terms)
    return top + np.log(sum(np.exp(t - top) for t in terms))


def mixture_energy(x, chosen, weights, means, covariances):
    """−log Σ_k π_k N(x_S; μ_kS, Σ_kSS): the sub-block of the covariance, then its inverse and determinant."""
    terms = []
    for weight, mean, covariance in zip(weights, means, covariances, strict=True):
        block = np.array([[covariance[i, j] for j in chosen] for i in chosen])
        difference = np.array([x[i] - mean[i] for i in chosen])
        square = difference @ np.linalg.solve(block, difference)
        log_volume = len(chosen) * np.log(2 * np.pi) + np.linalg.slogdet(block)[1]
        terms.append(np.log(weight) - 0.5 * (square + log_volume))
    return -log_sum(terms)


def precision_block_energy(x, chosen, weights, means, covariances):
    """The same with a block of the precision: wrong, it is the energy given all other features at their means."""
    inverses = [np.linalg.inv(np.linalg.inv(c)[np.ix_(chosen, chosen)]) for c in covariances]
    padded = [c.copy() for c in covariances]
    for whole, block in zip(padded, inverses, strict=True):
        whole[np.ix_(chosen, chosen)] = block
    return mixture_energy(x, chosen, weights, means, padded)


def kernel_energy(x, chosen, points, weights, bandwidth):
    """−log Σ_j α_j Π_{i in S} exp(−(x_i − u_ji)²/2σ²)."""
    return -log_sum(
        [
            np.log(weight) - sum((x[i] - u[i]) ** 2 for i in chosen) / (2 * bandwidth**2)
            for weight, u in zip(weights, points, strict=True)
        ]
    )


def sequence(energy, d, n_picked=None):
    """Features in the order of picking and the energy each adds; those not picked follow by what they would add."""
    order, added, level = [], np.zeros(d), 0.0
    for _ in range(d if n_picked is None else n_picked):
        joint = {i: energy([*order, i]) for i in range(d) if i not in order}
        best = max(joint, key=joint.get)
        added[best], level = joint[best] - level, joint[best]
        order.append(best)
    rest = [i for i in range(d) if i not in order]
    for i in rest:
        added[i] = energy([*order, i]) - level
    return order + sorted(rest, key=lambda i: -added[i]), added


def riemann_integrated_gradients(gradient, x, reference, steps=20_000):
    """Mean gradient at the middles of many equal steps, times the way."""
    total = np.zeros_like(x)
    for t in (np.arange(steps) + 0.5) / steps:
        total += gradient((reference + t * (x - reference))[None])[0]
    return total / steps * (x - reference)


def quadratic_integrated_gradients(A, centre, x, reference):
    """(x_i − r_i) [A((x + r)/2 − c)]_i for ½(x − c)ᵀA(x − c): the gradient is linear along the line."""
    return (x - reference) * (A @ ((x + reference) / 2 - centre))


def contribution(function, x, mean, scale, base, noise, weights):
    """Weighted least squares without an intercept, over the list of all neighbours."""
    rows, heights, roots = [], [], []
    for delta, weight in zip(noise, weights, strict=True):
        for sign in (1, -1):
            z = x + sign * scale * delta
            rows.append((z - mean) / scale)
            heights.append(function(z[None])[0] - base)
            roots.append(np.sqrt(weight))
    roots = np.array(roots)
    slopes = np.linalg.lstsq(np.array(rows) * roots[:, None], np.array(heights) * roots, rcond=None)[0]
    return slopes * (x - mean) / scale


def rank_average(values_of_members):
    """Mean normalised rank, spread of ranks and disagreement of one row, from each member's values."""
    ranks = [(rankdata(values) - 1) / (len(values) - 1) for values in values_of_members]
    pairs = [spearmanr(a, b).statistic for a, b in itertools.combinations(values_of_members, 2)]
    return np.mean(ranks, axis=0), np.max(ranks, axis=0) - np.min(ranks, axis=0), 1 - np.mean(pairs)
