"""Energies on small graphs by enumeration, and samples of Potts fields by Swendsen and Wang's clusters."""

import itertools

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components


def energy(unary, pair, edges, labels):
    there = [i for i, k in enumerate(labels) if k >= 0]
    return sum(unary[i][labels[i]] for i in there) + sum(pair[labels[i]][labels[j]] for i, j in edges)


def all_labellings(n, n_classes, mask=None):
    options = [range(n_classes) if mask is None or mask[i] else (-1,) for i in range(n)]
    return itertools.product(*options)


def least_energy(unary, pair, edges, mask=None):
    return min(energy(unary, pair, edges, h) for h in all_labellings(len(unary), len(pair), mask))


def log_partition(unary, pair, edges, mask=None):
    terms = np.array([-energy(unary, pair, edges, h) for h in all_labellings(len(unary), len(pair), mask)])
    return float(terms.max() + np.log(np.exp(terms - terms.max()).sum()))


def node_marginals(unary, pair, edges):
    n, n_classes = np.shape(unary)
    found = np.zeros((n, n_classes))
    for h in all_labellings(n, n_classes):
        weight = np.exp(-energy(unary, pair, edges, h))
        for i, k in enumerate(h):
            found[i, k] += weight
    return found / found.sum(axis=1, keepdims=True)


def pair_marginals(unary, pair, edges):
    n, n_classes = np.shape(unary)
    found, mass = np.zeros((n_classes, n_classes)), 0.0
    for h in all_labellings(n, n_classes):
        weight = np.exp(-energy(unary, pair, edges, h))
        mass += weight
        for i, j in edges:
            found[h[i], h[j]] += weight / 2
            found[h[j], h[i]] += weight / 2
    return found / mass


def potts_sample(edges, n, n_classes, coupling, rng, n_steps=100):
    """Draw from p(h) ∝ exp(coupling · #edges with equal labels)."""
    labels = rng.integers(n_classes, size=n)
    i, j = np.asarray(edges).T
    for _ in range(n_steps):
        bond = (labels[i] == labels[j]) & (rng.random(len(i)) < 1 - np.exp(-coupling))
        matrix = csr_array((np.ones(bond.sum()), (i[bond], j[bond])), shape=(n, n))
        n_clusters, cluster = connected_components(matrix, directed=False)
        labels = rng.integers(n_classes, size=n_clusters)[cluster]
    return labels
