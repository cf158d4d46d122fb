"""Fitted detectors on disk: `detector.json` (class, parameters, what was learned) and `arrays.npz`; never pickle.

Only classes of the registry, `LCCAD`, and the few records that they learn, are ever made from what a file
says.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.bases.basis_io import BASIS_RECORDS
from tellwhy.core.errors import InvalidInput, MissingExtra
from tellwhy.core.registry import cards
from tellwhy.core.score_function import CentreDistance, Floats, KernelExpansion, NeighbourDistance
from tellwhy.core.storage.saved_models import Records, Shelf, load_model, save_model
from tellwhy.detectors.base import Detector
from tellwhy.detectors.lccad import saving as lccad_io
from tellwhy.detectors.lccad.lccad import LCCAD
from tellwhy.detectors.scaling import Scaling
from tellwhy.kernels import Exponential, StudentT
from tellwhy.scoring import Projection, ScaledMixture
from tellwhy.scoring.observed import Observed


def save(detector: Any, folder: str | Path) -> Path:
    """Write a fitted detector, whole or not at all; `load` reads it.

    Examples
    --------
    >>> import tempfile
    >>> from tellwhy.detectors import KernelDensity
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> detector = KernelDensity().fit(X)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(save(detector, place + "/density"))
    >>> bool((again.outlierness(X) == detector.outlierness(X)).all())
    True
    """
    kept = lccad_io.without_missing(detector) if isinstance(detector, LCCAD) else detector
    return save_model(_SHELF, kept, folder)


def load(folder: str | Path) -> Any:
    """Read a detector that `save` wrote: it gives the same scores, bit for bit.

    Raises `UnreadableFile` for a folder that is damaged, of another version, or made up.
    """
    return load_model(_SHELF, folder)


def _known() -> dict[str, Any]:
    return {card.name: card.cls for card in cards("detector")} | {"LCCAD": LCCAD}


def _try_out(detector: Any) -> None:
    """Score one row, so that arrays that do not fit together are noticed now."""
    if isinstance(detector, LCCAD):
        lccad_io.try_out(detector)
    else:
        _try_out_on_rows(detector)


def _try_out_on_rows(detector: Detector) -> None:
    n_columns = detector.n_features_in_
    if not isinstance(n_columns, int) or n_columns < 1:
        raise ValueError(f"it has {n_columns!r} columns.")
    names = detector._names
    score = detector.set_threshold(value=detector.threshold_).to_score()
    if score.feature_shape != (n_columns,) or (names is not None and len(names) != n_columns):
        raise ValueError(
            f"it was fitted on {n_columns} columns, but scores rows of shape {score.feature_shape}."
        )
    try:
        found = score.value(np.zeros((1, n_columns)))
    except (
        InvalidInput,
        MissingExtra,
    ):  # zeros may be too far away; a network may be loaded where it cannot run
        return
    if found.shape != (1,):
        raise ValueError(f"its score of one row has shape {found.shape}.")


def _is_matrix(points: Floats) -> bool:
    return bool(points.ndim == 2 and points.dtype == np.float64 and points.size)


def _is_expansion(record: Any) -> bool:
    n = len(record.points)
    weights = getattr(record, "weights", np.ones(n))
    rows = record.training_rows
    return (
        _is_matrix(record.points)
        and weights.shape == (n,)
        and weights.dtype == np.float64
        and (rows is None or (rows.shape == (n,) and rows.dtype == np.int64 and bool((rows >= 0).all())))
        and (rows is None or bool(rows.max() < record.n_training))
    )


def _is_neighbourhood(record: NeighbourDistance) -> bool:
    return _is_expansion(record) and 1 <= record.n_neighbours <= len(record.points)


def _is_kernel(record: Any) -> bool:
    return all(isinstance(value, float) and value > 0 for value in dataclasses.astuple(record))


def _is_mixture(record: ScaledMixture) -> bool:
    n, d = record.means.shape
    lines = record.log_weights.shape == (n,) and record.centre.shape == record.scale.shape == (d,)
    return lines and record.factors.shape in ((n, d), (n, d, d)) and bool((record.scale > 0).all())


def _is_observed(record: Observed) -> bool:
    d = record.rows.shape[1:]
    return _is_matrix(record.rows) and record.low.shape == record.high.shape == record.whole.shape == d


_RECORDS: Records = {
    **BASIS_RECORDS,
    **lccad_io.RECORDS,
    "KernelExpansion": (KernelExpansion, _is_expansion),
    "NeighbourDistance": (NeighbourDistance, _is_neighbourhood),
    "CentreDistance": (CentreDistance, lambda record: _is_matrix(record.centres)),
    "Exponential": (Exponential, _is_kernel),
    "StudentT": (StudentT, _is_kernel),
    "ScaledMixture": (ScaledMixture, _is_mixture),
    "Projection": (Projection, lambda r: r.components.ndim == 2 and r.components.shape[1:] == r.mean.shape),
    "Observed": (Observed, _is_observed),
    "Scaling": (Scaling, lambda r: r.centre.shape == r.scale.shape and bool((r.scale > 0).all())),
}
_SHELF = Shelf("detector", _known, _RECORDS, _try_out)
