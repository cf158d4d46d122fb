"""Labels and marginals of pairwise energies on graphs: exact where possible, else with a bound.

- `field`: the energy, a labelling of it, and the passes that every algorithm is made of.
- `best_labelling`: which algorithm suits; Viterbi on chains and trees, a minimal cut, ICM; TRW-S with its
  lower bound, loopy belief propagation, sums for marginals.
"""

from tellwhy.detectors.map_inference.best_labelling import (
    METHODS,
    Marginals,
    best_labelling,
    icm,
    is_attractive,
    loopy_bp,
    marginals,
    max_marginals,
    min_cut,
    trw_s,
    viterbi,
)
from tellwhy.detectors.map_inference.field import (
    Field,
    Labelling,
    neighbour_counts,
    received_by,
    received_in_all,
)

__all__ = [
    "METHODS",
    "Field",
    "Labelling",
    "Marginals",
    "best_labelling",
    "icm",
    "is_attractive",
    "loopy_bp",
    "marginals",
    "max_marginals",
    "min_cut",
    "neighbour_counts",
    "received_by",
    "received_in_all",
    "trw_s",
    "viterbi",
]
