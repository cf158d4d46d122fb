"""What a saved basis is made of, and how its parts must fit together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tellwhy.bases.adaptation import SoftmaxWeights
from tellwhy.bases.kernel_basis import KernelBasis
from tellwhy.bases.projections import (
    DEPTHS,
    DenseProjection,
    FeatureMap,
    HadamardProjection,
    LandmarkProjection,
)
from tellwhy.storage.codec import Fit, Part, by_name
from tellwhy.storage.saved_models import SavedKind


def _dense(projection: DenseProjection) -> Iterator[Fit]:
    matrix = projection.matrix
    yield "matrix", (matrix.ndim, matrix.dtype), (2, np.dtype(np.float64))
    yield "matrix", matrix.size > 0, True


def _hadamard(projection: HadamardProjection) -> Iterator[Fit]:
    diagonals = projection.diagonals
    yield "diagonals", (diagonals.ndim, diagonals.dtype), (3, np.dtype(np.float64))
    length = diagonals.shape[2]
    # The fast transform halves its rows until one number is left.
    is_power_of_two = length & (length - 1) == 0
    yield "diagonals", diagonals.shape[1] >= 1 and is_power_of_two, True
    yield "n_inputs", 1 <= projection.n_inputs <= length, True
    yield "n_directions", 1 <= projection.n_directions <= len(diagonals) * length, True


def _landmarks(projection: LandmarkProjection) -> Iterator[Fit]:
    points, whitening = projection.points, projection.whitening
    yield "points", (points.ndim, points.dtype), (2, np.dtype(np.float64))
    yield "points", points.size > 0, True
    yield "whitening", (whitening.shape, whitening.dtype), ((len(points),) * 2, points.dtype)


def _map(feature_map: FeatureMap) -> Iterator[Fit]:
    yield "centre", feature_map.centre.ndim, 1
    yield "bandwidth", feature_map.bandwidth > 0, True
    yield "layers", len(feature_map.layers) > 0, True
    width = len(feature_map.centre)
    for i, layer in enumerate(feature_map.layers):
        yield f"layers.{i}", layer.n_inputs, width
        width = layer.n_directions
    sizes = [layer.n_directions for layer in feature_map.layers]
    if feature_map.amplitudes is not None:
        yield "amplitudes", feature_map.has_waves, True
        yield "amplitudes", feature_map.amplitudes.shape, (sizes[-1],)
    if feature_map.biases:
        yield "biases", feature_map.kernel != "gaussian" and not feature_map.has_landmarks, True
        yield "biases", [bias.shape for bias in feature_map.biases], [(size,) for size in sizes]


def _softmax(softmax: SoftmaxWeights) -> Iterator[Fit]:
    yield "weights", softmax.weights.ndim, 2
    yield "bias", softmax.bias.shape, softmax.weights.shape[1:]


def _basis(basis: KernelBasis) -> Iterator[Fit]:
    if not hasattr(basis, "map_"):  # a parameter of another model, which fits a copy of it
        return
    fitted = basis.map_
    yield "map_", fitted.kernel, basis.kernel
    yield "map_", len(fitted.layers), 1 if fitted.has_landmarks else DEPTHS[fitted.kernel]
    yield "map_", fitted.n_features, basis.n_features
    yield "n_features_in_", basis.n_features_in_, fitted.layers[0].n_inputs
    if hasattr(basis, "softmax_") and basis.softmax_ is not None:
        yield "softmax_", basis.softmax_.weights.shape, (fitted.n_features, len(basis.classes_))
    features = fitted.apply(np.zeros((1, basis.n_features_in_)))
    yield "map_", features.shape, (1, fitted.n_features)


BASIS_PARTS = by_name(
    Part(DenseProjection, _dense),
    Part(HadamardProjection, _hadamard),
    Part(LandmarkProjection, _landmarks),
    Part(FeatureMap, _map),
    Part(SoftmaxWeights, _softmax),
    Part(KernelBasis, _basis),
)
KIND = SavedKind("basis", lambda: by_name(Part(KernelBasis, _basis)), BASIS_PARTS)
