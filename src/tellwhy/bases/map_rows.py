"""Features of rows, in batches and in threads."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np

from tellwhy.bases._compiled import RAW, RECTIFIED, TABLE_32, TABLE_64, WAVES, structured_rows, wave_rows
from tellwhy.bases.feature_map import FeatureMap
from tellwhy.bases.projections import HadamardProjection, Projection
from tellwhy.core.errors import InvalidInput
from tellwhy.core.parallel import row_batches, thread_map
from tellwhy.core.progress import track

_BLOCK = 128  # rows of one task of a thread
_BATCH_BYTES = 64 * 2**20


def map_rows(feature_map: FeatureMap, X: Any, out: Any = None) -> Any:
    """Return φ of checked rows, in their precision; beyond the result, memory stays O(batch).

    `out` may hold room for as many rows or more, which saves asking for fresh memory again and again.
    """
    out = np.empty((len(X), feature_map.n_features), dtype=X.dtype) if out is None else out[: len(X)]
    widest = X.shape[1] + max(_width_between(layer) for layer in feature_map.layers)
    batches = row_batches(len(X), X.itemsize * widest, _BATCH_BYTES)
    for rows in track(batches, len(batches), "computing kernel features"):
        _map_batch(feature_map, X[rows], out[rows], rows.start)
    return out


def _map_batch(feature_map: FeatureMap, X: Any, out: Any, first: int) -> None:
    gaussian = feature_map.kernel == "gaussian"
    Z = np.ascontiguousarray(_rescaled(feature_map, X) if gaussian else X)
    _check_reach(Z, first)
    kind = WAVES if gaussian else RECTIFIED
    for layer in feature_map.layers[:-1]:
        hidden = np.empty((len(Z), layer.n_directions), dtype=X.dtype)
        _project(Z, layer, kind, hidden)
        Z = hidden
    _project(Z, feature_map.layers[-1], kind, out)


def _rescaled(feature_map: FeatureMap, X: Any) -> Any:
    return (X - feature_map.centre.astype(X.dtype)) / X.dtype.type(feature_map.bandwidth)


def _width_between(layer: Projection) -> int:
    """Numbers per row that are held between the projection and its features: none where the two are one loop."""
    return 0 if isinstance(layer, HadamardProjection) else layer.n_directions


def projected(X: Any, layer: Projection) -> Any:
    """Return Gᵀx of each row."""
    out = np.empty((len(X), layer.n_directions), dtype=X.dtype)
    _project(np.ascontiguousarray(X), layer, RAW, out)
    return out


def _check_reach(Z: Any, first: int) -> None:
    """Refuse rows so far away that their projections overflow; `first` is the number of the first of them."""
    limit = np.finfo(Z.dtype).max ** 0.5
    if len(Z) and not np.abs(Z).max() < limit:
        row, column = (int(i) for i in np.argwhere(~(np.abs(Z) < limit))[0])
        raise InvalidInput(
            f"Row {first + row} is too far away in column {column} for features of type {Z.dtype}: divided by the "
            f"bandwidth it reaches {Z[row, column]:.1e}. Scale the columns, or use a larger bandwidth."
        )


def _project(Z: Any, layer: Projection, kind: int, out: Any) -> None:
    if isinstance(layer, HadamardProjection):
        _in_blocks(lambda rows: _structured(Z[rows], layer, kind, out[rows]), len(Z))
        return
    matrix = layer.matrix.astype(Z.dtype, copy=False)
    amplitude = _amplitude(out)
    if kind == WAVES:
        products = Z @ matrix
        table = _table(out)
        _in_blocks(lambda rows: wave_rows(products[rows], amplitude, table, out[rows]), len(Z))
        return
    np.matmul(Z, matrix, out=out)
    if kind == RECTIFIED:
        np.maximum(out, 0, out=out)
        out *= amplitude[0]


def _structured(Z: Any, layer: HadamardProjection, kind: int, out: Any) -> None:
    diagonals = layer.diagonals.astype(Z.dtype, copy=False)
    factor = np.array([layer.factor], dtype=Z.dtype)
    structured_rows(Z, diagonals, factor, layer.n_directions, kind, _amplitude(out), _table(out), out)


def _in_blocks(task: Any, n: int) -> None:
    """Share rows out among threads, in blocks small enough to keep them all busy."""
    workers = joblib.effective_n_jobs(-1)
    size = min(_BLOCK * max(1, n // (4 * workers * _BLOCK)), n) or 1
    thread_map(task, [slice(start, min(start + size, n)) for start in range(0, n, size)])


def _amplitude(out: Any) -> Any:
    return np.array([np.sqrt(2.0 / out.shape[1])], dtype=out.dtype)


def _table(out: Any) -> Any:
    return TABLE_32 if out.dtype == np.float32 else TABLE_64
