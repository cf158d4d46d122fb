"""Iterated conditional modes: each node in turn takes the label that suits its neighbours. A baseline."""

from __future__ import annotations

from tellwhy.detectors.map_inference.field import Field, Labelling, Labels


def icm(field: Field, *, start: Labels | None = None, max_sweeps: int = 1000) -> Labelling:
    """Descend to a labelling that no change of a single node improves.

    It starts from `start`, or from the labelling that ignores neighbours.

    Besag, "On the statistical analysis of dirty pictures", Journal of the Royal Statistical Society B 48
    (1986).

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.data.graphs import chain
    >>> icm(Field(np.array([[0.0, 1.0], [0.6, 0.0], [0.0, 1.0]]), 0.5 - 0.5 * np.eye(2), chain(3))).labels
    array([0, 0, 0], dtype=int32)
    """
    labels = field.cheapest_alone() if start is None else start.copy()
    for _ in range(max_sweeps):
        if field.improve(labels) == 0:
            break
    return Labelling(labels, field.energy(labels))
