"""What a saved `PatchModel` is made of, and how its parts must fit together."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tellwhy.data.patch_rows import PatchRows
from tellwhy.data.patches import Windows
from tellwhy.detectors.base import Detector
from tellwhy.detectors.patches.features import KeptNetwork, kept_network
from tellwhy.detectors.patches.patch_model import PatchModel
from tellwhy.storage.codec import Fit, Part, by_name


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


def _model(model: PatchModel) -> Iterator[Fit]:
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
    written = copy.copy(model)
    written.network_ = kept_network(model.features)
    written.features = None
    return written


PATCH_PART = Part(PatchModel, _model, _with_weights)
PATCH_PARTS = by_name(Part(Windows, _windows), Part(PatchRows, _patch_rows), Part(KeptNetwork, _kept))
