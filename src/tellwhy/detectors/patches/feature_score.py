"""Outlierness of images and series by the activations of a network's layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats
from tellwhy.detectors.patches.features import LayerFeatures
from tellwhy.detectors.patches.patch_score import PatchScore
from tellwhy.scoring.scores.flat_score import array_rows

MOST_CELLS = 2**24  # activations that are held at once


class FeatureScore:
    """O(x) = Σ_t o(patch t of the activations a(x)).

    Parameters
    ----------
    patches
        The score of activations.
    features
        From inputs to activations.
    shape
        Shape of the inputs of the fit.
    """

    feature_names = None
    feature_shape = None
    any_shape = True

    def __init__(self, patches: PatchScore, features: LayerFeatures, shape: tuple[int, ...]):
        self.patches = patches
        self.features = features
        self.shape = shape
        self.threshold = patches.threshold

    @property
    def describes(self) -> str:
        """Which scalar it is."""
        return f"{self.patches.describes}, of the activations of layer {self.features.layer}"

    def value(self, X: Any) -> Floats:
        """Return the sum over the patches of each input's activations."""
        maps = self.positions(X)
        return np.asarray(maps.reshape(len(maps), -1).sum(axis=1))

    def positions(self, X: Any, *, unseen: bool = False) -> Floats:
        """Return the score of each patch of activations."""
        return np.concatenate(
            [self.patches.positions(a, unseen=unseen) for a in self.in_parts(self.checked(X))]
        )

    def in_parts(self, inputs: Floats) -> Iterator[Floats]:
        """Yield the activations of as many inputs as memory allows."""
        size = max(1, MOST_CELLS // int(np.prod(self.patches.shape)))
        for start in range(0, len(inputs), size):
            yield self.features.activations(inputs[start : start + size])

    def checked(self, X: Any) -> Floats:
        """Return inputs as finite numbers of a shape that the network takes."""
        inputs = array_rows(X)
        n_axes = self.features.n_axes
        if inputs.ndim != 1 + len(self.shape) or inputs.shape[1 + n_axes :] != self.shape[n_axes:]:
            raise InvalidInput(
                f"X holds inputs of shape {inputs.shape[1:]}; the model was fitted on {self.shape}, any size "
                "of the axes that the network takes."
            )
        return inputs
