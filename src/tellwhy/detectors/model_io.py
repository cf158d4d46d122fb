"""What a saved detector is made of, and how its parts must fit together.

The folder holds `detector.json` (class, parameters, what was learned) and `arrays.npz`. Only classes of the
catalogue, `LCCAD`, `PatchModel`, and the few parts that are declared here are ever made from what a file
says. A model of patches holds detectors of patches, so that a detector may also be a part of another one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.bases.basis_io import BASIS_PARTS
from tellwhy.core.errors import InvalidInput, MissingExtra
from tellwhy.core.registry import card, cards
from tellwhy.core.rows.scaling import Scaling
from tellwhy.core.score_function import CentreDistance, KernelExpansion, NeighbourDistance
from tellwhy.detectors.base import Detector
from tellwhy.detectors.committee.saving import COMMITTEE_PARTS
from tellwhy.detectors.lccad.saving import LCCAD_PART, LCCAD_PARTS
from tellwhy.detectors.mixed_columns import MixedColumns
from tellwhy.detectors.mixed_marginals import GaussianCopula
from tellwhy.detectors.patches.saving import PATCH_PART, PATCH_PARTS
from tellwhy.kernels import Exponential, StudentT
from tellwhy.scoring import Projection, ScaledMixture
from tellwhy.scoring.observed import Observed
from tellwhy.storage.codec import Fit, Part, by_name
from tellwhy.storage.saved_models import SavedKind

_ROUNDING = 1e-6  # of sums of weights, whose solver stops at about this


def load(folder: str | Path) -> Any:
    """Read a detector that its `save` wrote: it gives the same scores, bit for bit.

    Raises `UnreadableFile` for a folder that is damaged, of another version, or made up.

    Examples
    --------
    >>> import tempfile
    >>> from tellwhy.detectors import KernelDensity
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> detector = KernelDensity().fit(X)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(detector.save(place + "/density"))
    >>> bool((again.outlierness(X) == detector.outlierness(X)).all())
    True
    """
    return KIND.load(folder)


def _models() -> dict[str, Part]:
    registered = (Part(card.cls, _detector) for card in cards("detector"))
    return by_name(*registered, LCCAD_PART, PATCH_PART)


class _WithDetectors(Mapping[str, Part]):
    """Parts, and the detectors of the catalogue as parts of others; the catalogue is read when one is met."""

    def __init__(self, parts: Mapping[str, Part]):
        self._own = parts

    def __getitem__(self, name: str) -> Part:
        if name in self._own:
            return self._own[name]
        if name not in _detector_names():
            raise KeyError(name)
        return Part(card("detector", name).cls, _held_detector)

    def __iter__(self) -> Iterator[str]:
        return iter((*self._own, *_detector_names()))

    def __len__(self) -> int:
        return len(self._own) + len(_detector_names())


def _detector_names() -> list[str]:
    return [entry.name for entry in cards("detector")]


def _held_detector(detector: Detector) -> Iterator[Fit]:
    """A detector of patches; the one that a model of patches was given is not fitted, and has no parts."""
    return _detector(detector) if hasattr(detector, "n_features_in_") else iter(())


def _detector(detector: Detector) -> Iterator[Fit]:
    """Score one row, so that arrays that do not fit together are noticed now."""
    n_columns = detector.n_features_in_
    if not isinstance(n_columns, int) or n_columns < 1:
        raise ValueError(f"it has {n_columns!r} columns.")
    # An infinite threshold says that no row, or every one, is anomalous; none is above one that is no number.
    yield "threshold_", math.isnan(float(detector.threshold_)), False
    score = detector.set_threshold(value=detector.threshold_).to_score()
    if score.feature_shape != (n_columns,):
        raise ValueError(
            f"it was fitted on {n_columns} columns, but scores rows of shape {score.feature_shape}."
        )
    names = detector._names
    yield "feature_names_in_", n_columns if names is None else len(names), n_columns
    try:
        found = score.value(np.zeros((1, n_columns)))
    except (InvalidInput, MissingExtra):
        # Zeros may be too far from the data to have a score; a network may be loaded where it cannot run.
        return
    yield "score of one row", found.shape, (1,)


def _is_one(total: float) -> bool:
    """Whether weights add up to 1, but for rounding."""
    return bool(abs(total - 1.0) <= _ROUNDING)


def _is_matrix(points: NDArray[Any]) -> bool:
    return bool(points.ndim == 2 and points.dtype == np.float64 and points.size)


def _training_rows(expansion: KernelExpansion | NeighbourDistance) -> Iterator[Fit]:
    rows = expansion.training_rows
    if rows is None:
        return
    yield "training_rows", (rows.shape, rows.dtype), ((len(expansion.points),), np.dtype(np.int64))
    yield "training_rows", bool((rows >= 0).all()), True
    yield "n_training", bool(rows.max() < expansion.n_training), True


def _kernel_expansion(expansion: KernelExpansion) -> Iterator[Fit]:
    weights = expansion.weights
    yield "points", _is_matrix(expansion.points), True
    yield "weights", (weights.shape, weights.dtype), ((len(expansion.points),), np.dtype(np.float64))
    yield "weights", bool((weights >= 0).all() and _is_one(weights.sum())), True
    yield from _training_rows(expansion)


def _neighbours(expansion: NeighbourDistance) -> Iterator[Fit]:
    yield "points", _is_matrix(expansion.points), True
    yield "n_neighbours", 1 <= expansion.n_neighbours <= len(expansion.points), True
    yield from _training_rows(expansion)


def _centres(distance: CentreDistance) -> Iterator[Fit]:
    yield "centres", _is_matrix(distance.centres), True


def _kernel(kernel: Exponential | StudentT) -> Iterator[Fit]:
    # Every number of a kernel is a length, a power or an offset above 0.
    yield "bandwidth", all(isinstance(value, float) and 0 < value < np.inf for value in astuple(kernel)), True


def _mixture(mixture: ScaledMixture) -> Iterator[Fit]:
    n, d = mixture.means.shape
    yield "log_weights", mixture.log_weights.shape, (n,)
    yield "log_weights", _is_one(np.exp(mixture.log_weights).sum()), True
    yield "centre", mixture.centre.shape, (d,)
    yield "scale", mixture.scale.shape, (d,)
    yield "scale", bool((mixture.scale > 0).all()), True
    # Diagonal covariances have one factor per column, full ones a matrix.
    yield "factors", mixture.factors.shape in ((n, d), (n, d, d)), True


def _projection(projection: Projection) -> Iterator[Fit]:
    yield "components", projection.components.ndim, 2
    yield "mean", projection.mean.shape, projection.components.shape[1:]


def _mixed_columns(columns: MixedColumns) -> Iterator[Fit]:
    d = len(columns.scales)
    yield "starts", (columns.starts.shape, columns.starts.dtype), ((d + 1,), np.dtype(np.int64))
    steps = np.diff(columns.starts)
    yield "starts", bool((steps >= 0).all() and columns.starts[0] == 0), True
    yield "atoms", len(columns.atoms), int(columns.starts[-1])
    for name in ("masses", "levels"):
        yield name, getattr(columns, name).shape, columns.atoms.shape
    for name in ("rest", "widths"):
        yield name, getattr(columns, name).shape, (d,)
    yield "widths", bool((columns.widths > 0).all() and (columns.scales > 0).all()), True
    for name in ("centres", "quantiles"):
        yield name, len(getattr(columns, name)), d


def _dependence(dependence: GaussianCopula) -> Iterator[Fit]:
    d = len(dependence.centre)
    yield "excess", dependence.excess.shape, (d, d)
    yield "scale", dependence.scale.shape, (d,)
    yield "scale", bool((dependence.scale > 0).all()), True
    yield "means", dependence.means.shape, (d,)


def _observed(observed: Observed) -> Iterator[Fit]:
    yield "rows", _is_matrix(observed.rows), True
    for name, array in (("low", observed.low), ("high", observed.high), ("whole", observed.whole)):
        yield name, array.shape, observed.rows.shape[1:]


def _scaling(scaling: Scaling) -> Iterator[Fit]:
    yield "scale", scaling.scale.shape, scaling.centre.shape
    yield "scale", bool((scaling.scale > 0).all()), True


_PARTS = by_name(
    Part(KernelExpansion, _kernel_expansion),
    Part(NeighbourDistance, _neighbours),
    Part(CentreDistance, _centres),
    Part(Exponential, _kernel),
    Part(StudentT, _kernel),
    Part(ScaledMixture, _mixture),
    Part(Projection, _projection),
    Part(MixedColumns, _mixed_columns),
    Part(GaussianCopula, _dependence),
    Part(Observed, _observed),
    Part(Scaling, _scaling),
)
_ALL_PARTS = {**BASIS_PARTS, **COMMITTEE_PARTS, **LCCAD_PARTS, **PATCH_PARTS, **_PARTS}
KIND = SavedKind("detector", _models, _WithDetectors(_ALL_PARTS))
