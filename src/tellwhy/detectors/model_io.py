"""What saved detectors are made of: rules declared on the parts, one checker.

What a saved detector is made of, and how its parts must fit together.

The folder holds `detector.json` (class, parameters, what was learned) and `arrays.npz`. Only classes of the
catalogue, `LCCAD`, `PatchModel`, and the few parts that are declared here are ever made from what a file
says. A model of patches holds detectors of patches, so that a detector may also be a part of another one.

What a saved committee is made of, and how its parts must fit together.

What a saved `LCCAD` is made of: its graph, the scores of its classes, and how they must fit together.

What a saved `PatchModel` is made of, and how its parts must fit together.
"""

from __future__ import annotations

import copy as copy_of_copy
import math
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.bases.basis_io import BASIS_PARTS
from tellwhy.core.arrays import Scaling
from tellwhy.core.errors import InvalidInput, MissingExtra
from tellwhy.core.registry import card, cards
from tellwhy.core.score import CentreDistance, Floats, KernelExpansion, NeighbourDistance
from tellwhy.data.graphs import EdgeGraph, Grid, chain, grid
from tellwhy.data.pieces import PatchRows, Windows
from tellwhy.detectors.base import Detector
from tellwhy.detectors.committee.column_law import ColumnLaw, SpikedLaw, Straight
from tellwhy.detectors.committee.committee import Panel
from tellwhy.detectors.committee.members import (
    ColumnScales,
    Dependence,
    Gaussian,
    Neighbours,
    RarePairs,
    Tails,
    Units,
)
from tellwhy.detectors.lccad.class_scores import ClassScores
from tellwhy.detectors.lccad.lccad import LCCAD
from tellwhy.detectors.mixed_marginals import GaussianCopula, MixedColumns
from tellwhy.detectors.patches.layer_features import KeptNetwork, kept_network
from tellwhy.detectors.patches.patch_model import PatchModel
from tellwhy.kernels import Exponential, StudentT
from tellwhy.scoring import Projection, ScaledMixture
from tellwhy.scoring.ordinary_rows import Observed
from tellwhy.scoring.surprise import Surprise
from tellwhy.storage.codec import Fit, Part, by_name
from tellwhy.storage.saved_models import SavedKind


def _is_increasing(values: Floats) -> bool:
    return bool(np.isfinite(values).all() and (np.diff(values) >= 0).all())


def _surprise(law: Surprise) -> Iterator[Fit]:
    yield "knots", law.knots.ndim == 1 and len(law.knots) > 0 and _is_increasing(law.knots), True
    yield "levels", law.levels.shape, law.knots.shape
    yield "levels", _is_increasing(law.levels), True
    yield "scale", bool(np.isfinite(law.scale) and law.scale > 0), True
    yield "shape", bool(-1 < law.shape <= 1), True


def _spiked_law(law: SpikedLaw) -> Iterator[Fit]:
    yield "spike", isinstance(law.spike, float) and bool(np.isfinite(law.spike)), True
    yield "sides", len(law.sides) == 2 and all(isinstance(side, Surprise) for side in law.sides), True


def _column_law(law: ColumnLaw) -> Iterator[Fit]:
    yield "values", law.values.ndim == 1 and len(law.values) > 0 and _is_increasing(law.values), True
    yield "surprises", len(law.surprises) in (0, len(law.values)), True
    for name, array in (("starts", law.starts), ("scales", law.scales), ("shapes", law.shapes)):
        yield name, array.shape, (2,)
    yield "scales", bool((law.scales > 0).all()), True
    yield "shapes", bool((law.shapes > -1).all()), True


def _scales(scales: ColumnScales | Units) -> Iterator[Fit]:
    yield "scale", scales.scale.shape, scales.centre.shape
    yield "scale", bool((scales.scale > 0).all()), True


def _straight(straight: Straight) -> Iterator[Fit]:
    yield "starts", straight.starts.ndim == 2 and len(straight.starts) == 2, True
    yield "scales", straight.scales.shape, straight.starts.shape
    yield "scales", bool((straight.scales > 0).all()), True
    yield "shapes", straight.shapes.shape, straight.starts.shape
    yield "shapes", bool((straight.shapes > -1).all()), True
    n_columns = straight.starts.shape[1]
    yield "spiked", all(isinstance(j, int) and 0 <= j < n_columns for j in straight.spiked), True
    yield "spikes", len(straight.spikes), len(straight.spiked)
    yield "spikes", all(isinstance(law, SpikedLaw) for law in straight.spikes), True


def _units(units: Units) -> Iterator[Fit]:
    yield from _scales(units)
    yield "straight", isinstance(units.straight, Straight), True
    yield "straight", units.straight.starts.shape[1:], units.centre.shape
    yield "has_two_values", units.has_two_values.shape, units.centre.shape


def _laws(member: Tails | Dependence) -> Iterator[Fit]:
    yield "laws", all(isinstance(law, (ColumnLaw, SpikedLaw)) for law in member.laws), True


def _tails(member: Tails) -> Iterator[Fit]:
    yield from _laws(member)
    yield "alike", member.alike.shape, (len(member.laws), len(member.laws))
    yield "alike", bool(((member.alike >= 0) & (member.alike <= 1)).all()), True


def _neighbours_member(member: Neighbours) -> Iterator[Fit]:
    yield "expansion", member.expansion.points.shape[1:], member.units.centre.shape


def _gaussian(member: Gaussian) -> Iterator[Fit]:
    d = len(member.units.centre)
    yield "precision", member.precision.shape in ((d, d), (d,)), True


def _dependence_member(member: Dependence) -> Iterator[Fit]:
    d = len(member.units.centre)
    yield "weights", member.weights.shape, (d, len(member.judged))
    yield "judged", bool(((member.judged >= 0) & (member.judged < d)).all()), True
    yield from _laws(member)
    yield "laws", len(member.laws), len(member.judged)


def _pairs(member: RarePairs) -> Iterator[Fit]:
    n = len(member.labels)
    yield "high", member.high.shape, (n,)
    yield "labels", bool((member.labels >= 0).all()), True
    yield "surprises", member.surprises.shape, (n, n)


def _panel(panel: Panel) -> Iterator[Fit]:
    yield "weights", len(panel.weights), len(panel.members)
    yield "surprises", len(panel.surprises), len(panel.members)
    yield "voices", len(panel.voices), len(panel.members)
    yield "voices", all(isinstance(voice, float) and 0 < voice < 1 for voice in panel.voices), True
    laws = (*panel.surprises, panel.summed, panel.together)
    yield "surprises", all(isinstance(law, Surprise) for law in laws), True
    yield "weights", all(isinstance(weight, float) and weight > 0 for weight in panel.weights), True


COMMITTEE_PARTS = by_name(
    Part(Surprise, _surprise),
    Part(ColumnLaw, _column_law),
    Part(SpikedLaw, _spiked_law),
    Part(ColumnScales, _scales),
    Part(Units, _units),
    Part(Straight, _straight),
    Part(Tails, _tails),
    Part(Neighbours, _neighbours_member),
    Part(Gaussian, _gaussian),
    Part(Dependence, _dependence_member),
    Part(RarePairs, _pairs),
    Part(Panel, _panel),
)


def _without_missing(model: LCCAD) -> LCCAD:
    """Return the model with zeros for rows of missing nodes, which may hold anything and are never read."""
    mask = model.graph_.mask
    if mask is None:
        return model
    kept = copy(model)
    kept.training_X_ = np.where(mask[:, None], model.training_X_, 0)
    return kept


def _lccad(model: LCCAD) -> Iterator[Fit]:
    """Check everything that compiled code walks along, then label and score one node."""
    n, d = model.training_X_.shape
    K = int(model.n_classes)
    there = np.ones(n, dtype=bool) if model.graph_.mask is None else model.graph_.mask
    width = d if model.transformer_ is None else model.transformer_.map_.n_features
    n_emissions = width if model.model == "crf" else 0
    yield "n_features_in_", model.n_features_in_, d
    yield "graph_", model.graph_.n_nodes, n
    yield "labels_", model.labels_.shape, (n,)
    yield "labels_", _are_labels(model.labels_, there, K), True
    yield "centres_", model.centres_.shape, (K, width)
    yield "scores_.centres", model.scores_.centres.shape, (K, width)
    yield "scores_.expansions", len(model.scores_.expansions or range(K)), K
    yield "squared_radii_", model.squared_radii_.shape, (K,)
    yield "class_sizes_", model.class_sizes_.shape, (K,)
    yield "couplings_", model.couplings_.shape, (K, K)
    yield "emissions_", model.emissions_.shape, (K, n_emissions + 1)
    yield "middle_", np.shape(model.middle_), (d,) if model.transformer_ is None else ()
    first = model.training_X_[there][:1]  # a node that is there, with a row that is close to the data
    yield "predict", model.predict(first).shape, (1,)
    own = model.scores_.own(first, model.labels_[there][:1], is_training=False)
    yield "scores_", own.shape, (1,)


def _are_labels(labels: NDArray[Any], there: NDArray[np.bool_], n_classes: int) -> bool:
    """Whether exactly the nodes that are there have a class, and one that exists."""
    return bool(((labels >= 0) == there).all() and (labels < n_classes).all())


def _grid(graph: Grid) -> Iterator[Fit]:
    # Made anew from what the file says: its own checks then hold, and the two must agree.
    made: Any = chain(graph.shape[0]) if len(graph.shape) == 1 else grid(graph.shape, graph.neighbours)
    yield "neighbours", graph.neighbours, made.neighbours
    yield "mask", _is_mask(graph.mask, made.n_nodes), True


def _edge_graph(graph: EdgeGraph) -> Iterator[Fit]:
    n_nodes = graph.n_nodes
    for name, array in (("indptr", graph.indptr), ("indices", graph.indices), ("reverse", graph.reverse)):
        yield name, (array.ndim, array.dtype), (1, np.dtype(np.int64))
    n_entries = len(graph.indices)
    sizes = np.diff(graph.indptr)
    yield "indptr", len(graph.indptr), n_nodes + 1
    yield "indptr", (graph.indptr[0], graph.indptr[-1]), (0, n_entries)
    yield "indptr", bool((sizes >= 0).all()), True
    yield "reverse", len(graph.reverse), n_entries
    yield "indices", _are_places(graph.indices, n_nodes), True
    yield "reverse", _are_places(graph.reverse, n_entries), True
    # Each edge is listed at both of its ends, and `reverse` says where its other entry is.
    owners = np.repeat(np.arange(n_nodes), sizes)
    yield "reverse", bool((owners[graph.reverse] == graph.indices).all()), True
    yield "indices", bool((graph.indices[graph.reverse] == owners).all()), True
    yield "mask", _is_mask(graph.mask, n_nodes), True


def _are_places(numbers: NDArray[np.int64], n: int) -> bool:
    return bool(((numbers >= 0) & (numbers < n)).all())


def _is_mask(mask: NDArray[Any] | None, n: int) -> bool:
    return mask is None or (mask.shape == (n,) and mask.dtype == np.bool_ and bool(mask.any()))


def _class_scores(scores: ClassScores) -> Iterator[Fit]:
    yield "centres", scores.centres.ndim, 2


LCCAD_PART = Part(LCCAD, _lccad, written=_without_missing)
LCCAD_PARTS = by_name(
    Part(Grid, _grid),
    Part(EdgeGraph, _edge_graph),
    Part(ClassScores, _class_scores),
)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _windows(windows: Windows) -> Iterator[Fit]:
    sizes = windows.size
    yield "size", isinstance(sizes, tuple) and len(sizes) in (1, 2) and all(map(_is_whole, sizes)), True
    yield "stride", _is_whole(windows.stride), True


def _patch_rows(rules: PatchRows) -> Iterator[Fit]:
    yield "windows", isinstance(rules.windows, Windows), True
    yield "scale", isinstance(rules.scale, np.ndarray) and rules.scale.ndim == 1, True
    yield "scale", bool((rules.scale > 0).all()), True
    yield "position_weight", isinstance(rules.position_weight, float) and rules.position_weight >= 0, True


def _patch_model(model: PatchModel) -> Iterator[Fit]:
    """Check what pieces are cut by, then score one input."""
    shape = model.shape_
    yield "shape_", isinstance(shape, tuple) and all(map(_is_whole, shape)), True
    yield "patch_rows_", isinstance(model.patch_rows_, PatchRows), True
    windows = model.patch_rows_.windows
    n_axes = len(windows.size)
    yield "shape_", len(shape) - n_axes in (0, 1), True
    n_channels = shape[-1] if len(shape) > n_axes else 1
    yield "patch_rows_", len(model.patch_rows_.scale) in (1, n_channels), True
    n_places = int(np.prod(windows.grid(shape)))
    counts = {"position": n_places, "channel": n_channels}
    yield "detectors_", len(model.detectors_), counts.get(model._by, 1)
    yield "detectors_", all(isinstance(detector, Detector) for detector in model.detectors_), True
    together = 1 if model._by == "channel" else n_channels
    width = int(np.prod(windows.size)) * together + (n_axes if model.patch_rows_.position_weight else 0)
    yield "detectors_", {detector.n_features_in_ for detector in model.detectors_}, {width}
    yield "threshold_", bool(np.isnan(float(model.threshold_))), False
    if model.layer is not None:
        yield "network_", isinstance(model.network_, KeptNetwork), True
        given = model.input_shape_
        yield "input_shape_", isinstance(given, tuple) and all(map(_is_whole, given)), True
        yield "input_shape_", len(given) - n_axes in (0, 1), True


def _kept(network: KeptNetwork) -> Iterator[Fit]:
    yield "class_name", isinstance(network.class_name, str), True
    weights = network.weights
    yield "weights", isinstance(weights, Mapping) and all(isinstance(name, str) for name in weights), True
    yield "weights", all(isinstance(value, np.ndarray) for value in weights.values()), True


def _with_weights(model: PatchModel) -> Any:
    """The model with the weights of its network in the place of the network: no code is ever saved."""
    if model.features is None:
        return model
    written = copy_of_copy.copy(model)
    written.network_ = kept_network(model.features)
    written.features = None
    return written


PATCH_PART = Part(PatchModel, _patch_model, _with_weights)
PATCH_PARTS = by_name(Part(Windows, _windows), Part(PatchRows, _patch_rows), Part(KeptNetwork, _kept))


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
