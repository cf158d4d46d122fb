"""Features of rows, in batches and in threads."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np

from tellwhy.bases._compiled import (
    CONSTANTS_32,
    CONSTANTS_64,
    RAW,
    RECTIFIED,
    WAVES,
    Recipe,
    make_structured_rows,
    write_wave_rows,
)
from tellwhy.bases.projections import (
    DEPTHS,
    FeatureMap,
    HadamardProjection,
    LandmarkProjection,
    Projection,
    compute_kernel_with,
)
from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import track
from tellwhy.core.running import cut_batches, map_in_threads

_BLOCK = 128  # rows of one task of a thread
_BATCH_BYTES = 64 * 2**20


def map_rows(feature_map: FeatureMap, X: Any, out: Any = None) -> Any:
    """Return φ of checked rows, in their precision; beyond the result, memory stays O(batch).

    `out` may hold room for as many rows or more, which saves asking for fresh memory again and again.
    """
    out = np.empty((len(X), feature_map.n_features), dtype=X.dtype) if out is None else out[: len(X)]
    widest = X.shape[1] + max(_find_width_between(layer) for layer in feature_map.layers)
    batches = cut_batches(len(X), X.itemsize * widest, _BATCH_BYTES)
    for rows in track(batches, len(batches), "computing kernel features"):
        _map_batch(feature_map, X[rows], out[rows], rows.start)
    return out


def _map_batch(feature_map: FeatureMap, X: Any, out: Any, first: int) -> None:
    gaussian = feature_map.kernel == "gaussian"
    Z = np.ascontiguousarray(_rescale(feature_map, X) if gaussian else X)
    _check_reach(Z, first)
    if feature_map.has_landmarks:
        _compare(feature_map, Z, out)
        return
    kind = WAVES if gaussian else RECTIFIED
    biases = feature_map.biases or [None] * len(feature_map.layers)
    for layer, bias in zip(feature_map.layers[:-1], biases[:-1], strict=True):
        hidden = np.empty((len(Z), layer.n_directions), dtype=X.dtype)
        _project(Z, layer, kind, hidden, bias)
        Z = hidden
    _project(Z, feature_map.layers[-1], kind, out, biases[-1])
    if feature_map.amplitudes is not None:
        out *= np.tile(feature_map.amplitudes.astype(X.dtype), 2)


def _compare(feature_map: FeatureMap, Z: Any, out: Any) -> None:
    """Write the similarities to landmarks, made orthonormal."""
    layer: Any = feature_map.layers[0]
    kernel = feature_map.kernel
    np.copyto(
        out,
        compute_kernel_with(Z, layer.points, kernel, DEPTHS[kernel]) @ layer.whitening,
        casting="same_kind",
    )


def _rescale(feature_map: FeatureMap, X: Any) -> Any:
    return (X - feature_map.centre.astype(X.dtype)) / X.dtype.type(feature_map.bandwidth)


def _find_width_between(layer: Projection) -> int:
    """Numbers per row that are held between a projection and its features: none where both are one loop."""
    if isinstance(layer, LandmarkProjection):
        return 4 * layer.n_directions  # several matrices of similarities, in double precision
    return 0 if isinstance(layer, HadamardProjection) else layer.n_directions


def project_rows(X: Any, layer: Projection) -> Any:
    """Return Gᵀx of each row."""
    out = np.empty((len(X), layer.n_directions), dtype=X.dtype)
    _project(np.ascontiguousarray(X), layer, RAW, out)
    return out


def _check_reach(Z: Any, first: int) -> None:
    """Refuse rows so far away that their projections overflow; `first` is the number of the first of them."""
    limit = np.finfo(Z.dtype).max ** 0.5
    if len(Z) and not np.abs(Z).max() < limit:  # written so that NaN is refused too
        row, column = (int(i) for i in np.argwhere(~(np.abs(Z) < limit))[0])
        raise InvalidInput(
            f"Row {first + row} is too far away in column {column} for features of type {Z.dtype}: divided "
            f"by the bandwidth it reaches {Z[row, column]:.1e}. Scale the columns, or use a larger bandwidth."
        )


def _project(Z: Any, layer: Projection, kind: int, out: Any, bias: Any = None) -> None:
    if bias is not None:  # one more addition between the projection and its features
        _project(Z, layer, RAW, out)
        out += bias.astype(out.dtype)
        np.maximum(out, 0, out=out)
        out *= _choose_recipe(layer, kind, out).amplitude
        return
    if isinstance(layer, HadamardProjection):
        diagonals = layer.diagonals.astype(Z.dtype, copy=False)
        recipe = _choose_recipe(layer, kind, out)
        _run_in_blocks(lambda rows: make_structured_rows(Z[rows], diagonals, recipe, out[rows]), len(Z))
        return
    dense: Any = layer  # landmarks never come here
    matrix = dense.matrix.astype(Z.dtype, copy=False)
    recipe = _choose_recipe(layer, kind, out)
    if kind == WAVES:
        products = Z @ matrix
        _run_in_blocks(lambda rows: write_wave_rows(products[rows], recipe, out[rows]), len(Z))
        return
    np.matmul(Z, matrix, out=out)
    if kind == RECTIFIED:
        np.maximum(out, 0, out=out)
        out *= recipe.amplitude


def _choose_recipe(layer: Projection, kind: int, out: Any) -> Recipe:
    """Return how projections become features, in the precision of the features."""
    number = out.dtype.type
    return Recipe(
        kind=kind,
        width=layer.n_directions,
        factor=number(layer.factor if isinstance(layer, HadamardProjection) else 1.0),
        amplitude=number(np.sqrt(2.0 / out.shape[1])),
        constants=CONSTANTS_32 if out.dtype == np.float32 else CONSTANTS_64,
    )


def _run_in_blocks(task: Any, n: int) -> None:
    """Share rows out among threads, in blocks small enough to keep them all busy."""
    workers = joblib.effective_n_jobs(-1)
    # About four blocks a thread: a thread that is held up leaves its last blocks to the others.
    size = min(_BLOCK * max(1, n // (4 * workers * _BLOCK)), n) or 1
    map_in_threads(task, [slice(start, min(start + size, n)) for start in range(0, n, size)])
