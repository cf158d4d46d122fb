"""What a saved basis may be made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from tellwhy.bases.adaptation import SoftmaxWeights
from tellwhy.bases.feature_map import FeatureMap
from tellwhy.bases.kernel_basis import DEPTHS, KernelBasis
from tellwhy.bases.projections import DenseProjection, HadamardProjection
from tellwhy.core.storage.saved_models import Records, Shelf


def _is_dense(record: DenseProjection) -> bool:
    return record.matrix.ndim == 2 and record.matrix.dtype == np.float64 and bool(record.matrix.size)


def _is_hadamard(record: HadamardProjection) -> bool:
    if record.diagonals.ndim != 3 or record.diagonals.dtype != np.float64:
        return False
    copies, k, p = record.diagonals.shape
    return (
        k >= 1 and p & (p - 1) == 0 and 1 <= record.n_inputs <= p and 1 <= record.n_directions <= copies * p
    )


def _is_map(record: FeatureMap) -> bool:
    widths = [record.centre.shape[0], *(layer.n_directions for layer in record.layers)]
    inputs = [layer.n_inputs for layer in record.layers]
    return record.centre.ndim == 1 and record.bandwidth > 0 and inputs == widths[:-1] and bool(inputs)


def _is_softmax(record: SoftmaxWeights) -> bool:
    return record.weights.ndim == 2 and record.bias.shape == record.weights.shape[1:]


def is_working(basis: Any) -> bool:
    """Whether the parts of a basis fit together (one that is not fitted has none)."""
    fitted = getattr(basis, "map_", None)
    if fitted is None:
        return True
    n_columns, softmax = basis.n_features_in_, getattr(basis, "softmax_", None)
    return (
        len(fitted.layers) == DEPTHS[fitted.kernel]
        and fitted.kernel == basis.kernel
        and fitted.layers[0].n_inputs == n_columns
        and fitted.n_features == basis.n_features
        and (softmax is None or softmax.weights.shape == (fitted.n_features, len(basis.classes_)))
    )


def _try_out(basis: Any) -> None:
    if not is_working(basis):
        raise ValueError("the shapes of its parts do not fit together.")
    basis.map_.apply(np.zeros((1, basis.n_features_in_)))


BASIS_RECORDS: Records = {
    "DenseProjection": (DenseProjection, _is_dense),
    "HadamardProjection": (HadamardProjection, _is_hadamard),
    "FeatureMap": (FeatureMap, _is_map),
    "SoftmaxWeights": (SoftmaxWeights, _is_softmax),
    "KernelBasis": (KernelBasis, is_working),
}
SHELF = Shelf("basis", lambda: {"KernelBasis": KernelBasis}, BASIS_RECORDS, _try_out)
