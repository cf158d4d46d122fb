"""Components that overlap, merged into modes; and labels of components made to agree between draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from scipy.special import softmax

from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import evenly_spread
from tellwhy.explainers.surrogate.conditionals.state import Data
from tellwhy.explainers.surrogate.sampler import Posterior

OVERLAP = 0.25  # components confused this often are one mode
MOST_ROWS = 500  # that overlaps are estimated from


def confusion(probabilities: Floats) -> Floats:
    """Estimated probability that a row of component j would be given to k, from probabilities (n, J).

    The directly estimated misclassification probabilities of Hennig (2010).

    Examples
    --------
    >>> confusion(np.array([[0.9, 0.1], [0.2, 0.8]])).round(2)
    array([[0.82, 0.18],
           [0.11, 0.89]])
    """
    given = probabilities == probabilities.max(axis=1, keepdims=True)
    total = probabilities.sum(axis=0)
    return np.asarray((probabilities.T @ given) / np.where(total > 0, total, 1.0)[:, None])


def mode_coefficients(posterior: Posterior, data: Data) -> Floats:
    """Coefficients of each component's mode: in every draw, the average of the components that overlap.

    A mode is a set of components that rows are often confused between. Its members count by their shares π.
    """
    some = evenly_spread(len(data.y), MOST_ROWS)
    X = data.X[some]
    y = data.y[some]
    merged = posterior.coef.copy()
    for d, coef in enumerate(posterior.coef):
        logits = posterior.log_pi[d] - 0.5 * np.log(posterior.sigma2[d])
        probabilities = softmax(logits - 0.5 * (y[:, None] - X @ coef.T) ** 2 / posterior.sigma2[d], axis=1)
        confused = confusion(probabilities)
        occupied = probabilities.max(axis=0) > 0.5  # a component that no row belongs to joins nothing
        linked = (np.maximum(confused, confused.T) > OVERLAP) & occupied[:, None] & occupied
        # Overlap is handed on: components that overlap with a third one are one mode with it.
        _, mode = connected_components(linked, directed=False)
        for m in np.unique(mode):
            members = np.flatnonzero(mode == m)
            weights = softmax(posterior.log_pi[d, members])
            merged[d, members] = weights @ coef[members]
    return merged


def relabel(z: NDArray[np.integer], n_components: int, *, n_rounds: int = 5) -> Integers:
    """Return new numbers for the components of each draw, by which draws agree (Cron and West, 2011).

    A sampler may swap the numbers of components from draw to draw. Every draw's rows are matched with a
    reference, which then becomes the commonest label of each row; and again, until the reference stays.

    Examples
    --------
    >>> relabel(np.array([[0, 0, 1], [1, 1, 0], [0, 0, 1]]), 2)
    array([[0, 1],
           [1, 0],
           [0, 1]])
    """
    reference = z[-1].astype(np.int64)  # the newest draw is the one furthest from the start
    permutations = np.tile(np.arange(n_components), (len(z), 1))
    for _ in range(n_rounds):
        before = reference
        for d, labels in enumerate(z):
            counts = np.bincount(
                labels.astype(np.int64) * n_components + reference, minlength=n_components**2
            )
            table = counts.reshape(n_components, n_components)
            # The little on the diagonal lets components that share no row keep their numbers.
            permutations[d] = linear_sum_assignment(-table - 1e-9 * np.eye(n_components))[1]
        agreed = permutations[np.arange(len(z))[:, None], z]
        votes = np.array([(agreed == j).sum(axis=0) for j in range(n_components)])
        reference = votes.argmax(axis=0)
        if np.array_equal(reference, before):
            break
    return permutations
