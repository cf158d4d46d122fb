"""What was read of a model is compared with what its library says, on some of the rows to explain."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import Frame, PandasRows, evenly_spread, take_rows
from tellwhy.explainers.trees.model import Trees
from tellwhy.explainers.trees.shares import outputs

_ROWS = 32
_SOURCE = re.compile(r"^\[[\d:]+\] \S+:\d+: ")
_TOLERANCE = 1e-4  # XGBoost adds in single precision


def check_reading(trees: Trees, X: Any, Z: Floats) -> None:
    """Raise unless the outputs of some rows X, as numbers Z, are those that the library gives.

    Libraries add kinds of trees that are stored as others are. Values of a model that was misread would look
    right, add up, and be wrong.
    """
    if trees.own is None:
        return
    rows = evenly_spread(len(Z), _ROWS)
    ours = np.column_stack(
        [outputs(trees.nodes, trees.chosen(k), Z[rows], 1) for k in range(trees.n_outputs)]
    )
    theirs = _own(trees, take_rows(X, rows)).reshape(len(rows), -1)
    if theirs.shape[1] != ours.shape[1]:
        raise _misread(trees, f"{theirs.shape[1]} outputs, where {ours.shape[1]} were read")
    gaps = np.abs(ours - theirs) > _TOLERANCE * (1.0 + np.abs(theirs))
    if gaps.any():
        at = tuple(np.argwhere(gaps)[0])
        raise _misread(
            trees, f"{theirs[at]:.6g} for row {rows[at[0]]}, where its trees sum to {ours[at]:.6g}"
        )


def _own(trees: Trees, X: Any) -> Floats:
    assert trees.own is not None
    is_polars = isinstance(X, Frame) and not isinstance(X, PandasRows)  # which not all libraries take
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as that an array has no names of columns
            return np.asarray(trees.own(X.to_pandas() if is_polars else X), dtype=np.float64)
    except Exception as error:  # libraries raise errors of their own, some with the places in their source
        said = _SOURCE.sub("", str(error).strip().partition("\n")[0])
        raise InvalidInput(f"The model itself does not take these rows: {said}") from error


def _misread(trees: Trees, what: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"TreeShapley cannot explain {trees.explains}: the library gives {what}. The model does more than to "
        "add up its trees; explain it as a function of its rows with KernelShap."
    )
