"""Dynamic programming on chains and trees: the exact optimum."""

from __future__ import annotations

import numpy as np

from tellwhy.detectors.map_inference.field import Field, Labelling, in_tree_order


def viterbi(field: Field) -> Labelling:
    """Return the best labelling of a forest: one pass of messages to the roots, and backtracking.

    Ties are broken by backtracking: each node is labelled given its parent's label, never on its own. The
    costs are taken in float64, whatever the field's, so that the optimum is exact.

    Examples
    --------
    >>> from tellwhy.data.graphs import chain
    >>> costs = np.array([[0.0, 1.0], [0.6, 0.0], [0.0, 1.0]])
    >>> viterbi(Field(costs, 0.5 - 0.5 * np.eye(2), chain(3))).labels
    array([0, 0, 0], dtype=int32)
    """
    ordered, order = in_tree_order(field)
    exact = Field(ordered.unary.astype(np.float64, copy=False), field.pair, ordered.graph)
    arriving = exact.no_messages()
    exact.sweep(arriving, backward=True)
    labels = exact.decode(arriving)
    if order is not None:
        back = np.empty_like(labels)
        back[order] = labels
        labels = back
    energy = field.energy(labels)
    return Labelling(labels, energy, energy)
