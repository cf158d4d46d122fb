"""Patches of inputs as the rows of a table: what a model of patches is fitted to and asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tellwhy.core.capabilities import Capability
from tellwhy.core.score_function import Floats, Integers, ScoreFunction
from tellwhy.data.patches import Piece, Windows


@dataclass(frozen=True)
class PatchRows:
    """How inputs (n, *axes[, channels]) become rows.

    Attributes
    ----------
    windows
        Size and step of the patches.
    scale
        Length that each channel is divided by, or one for all.
    position_weight
        What the place of a patch counts beside its cells: 0 for nothing. Rows then end with one column per
        axis, the first cell's place as a share of the axis times this weight.
    """

    windows: Windows
    scale: Floats
    position_weight: float = 0.0

    def prepared(self, X: Floats) -> Floats:
        """Return inputs with their channels divided by their lengths."""
        return X if (self.scale == 1.0).all() else X / self.scale

    def cut(self, X: Floats, piece: Piece) -> Floats:
        """Return the rows of a piece of prepared inputs."""
        rows = self.windows.cut(X, piece)
        return self._with_places(rows, self.windows.corners(X.shape, piece), X.shape)

    def sample(self, X: Floats, chosen: Integers) -> Floats:
        """Return rows of prepared inputs by their numbers, counted over all inputs and positions."""
        place = np.unravel_index(chosen, (len(X), *self.windows.grid(X.shape[1:])))
        corners = np.stack(place[1:], axis=-1) * self.windows.stride
        return self._with_places(self.windows.sample(X, chosen), corners, X.shape)

    def fold(self, total: Floats, values: Floats, piece: Piece) -> None:
        """Add what each row has for its cells to `total`; what the place of a patch has belongs to none."""
        n_places = len(self.windows.size) if self.position_weight else 0
        self.windows.fold(total, values[:, : values.shape[1] - n_places], piece)

    def _with_places(self, rows: Floats, corners: Integers, shape: tuple[int, ...]) -> Floats:
        return np.hstack([rows, self.places(corners, shape)]) if self.position_weight else rows

    def places(self, corners: Integers, shape: tuple[int, ...]) -> Floats:
        """Return the columns that tell where patches are, from their first cells."""
        room = np.maximum(np.array(shape[1 : 1 + corners.shape[1]]) - self.windows.size, 1)
        return np.asarray(self.position_weight * corners / room)


@runtime_checkable
class HasPatches(ScoreFunction, Protocol, metaclass=Capability):
    """A score of inputs that is the sum of the scores of their patches."""

    @property
    def patch_rows(self) -> PatchRows:
        """How inputs become rows."""
        ...

    def checked(self, X: Any) -> Floats:
        """Return inputs as finite numbers of a shape that the model can be asked about."""
        ...

    def pieces_and_scores(self, shape: tuple[int, ...]) -> list[tuple[Piece, Any]]:
        """Return the pieces that inputs of a shape are cut into, each with the score of its patches."""
        ...


@runtime_checkable
class OnDevice(Protocol, metaclass=Capability):
    """A score of patches that are computed on a device."""

    @property
    def on_device(self) -> Any:
        """What cuts, scores and explains patches there; None where threads do."""
        ...


@runtime_checkable
class HasFeatures(ScoreFunction, Protocol, metaclass=Capability):
    """A score of inputs through the activations of a layer of a network."""

    @property
    def patches(self) -> Any:
        """The score of activations, a sum of the scores of their patches."""
        ...

    @property
    def features(self) -> Any:
        """From inputs to activations, and the network up to the layer."""
        ...

    def checked(self, X: Any) -> Floats:
        """Return inputs as finite numbers of a shape that the network takes."""
        ...
