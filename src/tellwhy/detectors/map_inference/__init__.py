"""Labels and marginals of pairwise energies on graphs: exact where possible, else with a bound."""

from tellwhy.detectors.map_inference.choice import METHODS, best_labelling
from tellwhy.detectors.map_inference.field import (
    Field,
    Labelling,
    neighbour_counts,
    received_by,
    received_in_all,
)
from tellwhy.detectors.map_inference.icm import icm
from tellwhy.detectors.map_inference.loopy_bp import loopy_bp, max_marginals
from tellwhy.detectors.map_inference.min_cut import is_attractive, min_cut
from tellwhy.detectors.map_inference.sum_product import Marginals, marginals
from tellwhy.detectors.map_inference.trw_s import trw_s
from tellwhy.detectors.map_inference.viterbi import viterbi

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
