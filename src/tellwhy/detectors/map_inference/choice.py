"""Which algorithm labels which graph."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tellwhy.core.errors import InvalidParameter
from tellwhy.detectors.map_inference.field import Field, Labelling
from tellwhy.detectors.map_inference.icm import icm
from tellwhy.detectors.map_inference.loopy_bp import loopy_bp
from tellwhy.detectors.map_inference.min_cut import is_attractive, min_cut
from tellwhy.detectors.map_inference.trw_s import trw_s
from tellwhy.detectors.map_inference.viterbi import viterbi

METHODS = ("auto", "exact", "trws", "lbp", "icm")
MOST_NODES_TO_CUT = 5_000  # beyond, TRW-S finds the same cut sooner


def best_labelling(
    field: Field, method: str = "auto", *, max_sweeps: int = 50, messages: NDArray[Any] | None = None
) -> Labelling:
    """Label the nodes at least cost.

    Parameters
    ----------
    field
        The energy.
    method
        'auto': dynamic programming on forests, a minimum cut for two attractive labels on small graphs, else
        TRW-S. 'exact': one of the first two, whatever the size. 'trws', 'lbp' and 'icm' by name.
    max_sweeps
        The most sweeps of 'trws' and 'lbp'.
    messages
        Messages for 'trws' and 'lbp' to start from, changed in place.
    """
    if method in ("auto", "exact"):
        if not field.pair.any():  # neighbours do not matter: each node by itself is exact
            found = field.cheapest_alone()
            energy = field.energy(found)
            return Labelling(found, energy, energy)
        if field.graph.is_forest:
            return viterbi(field)
        if is_attractive(field) and (method == "exact" or field.graph.n_nodes <= MOST_NODES_TO_CUT):
            return min_cut(field)
        if method == "exact":
            raise InvalidParameter(
                "inference='exact' labels chains and trees, and two classes that attract each other on any "
                f"graph; this graph has cycles and there are {field.n_classes} classes. Use inference='auto' "
                "or 'trws', whose gap_ says how far from optimal the labels may be."
            )
    if method == "icm":
        return icm(field)
    return (loopy_bp if method == "lbp" else trw_s)(field, max_sweeps=max_sweeps, messages=messages)
