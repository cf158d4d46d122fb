"""The segments of one row, and what a model says of the row when only some of them are kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.surrogate.local.segments import neighbours

if TYPE_CHECKING:
    from tellwhy.explainers.surrogate.local.local_fit import LocalPlan

CELLS = 2**23  # of neighbours that are asked about at once: 64 MiB


@dataclass(frozen=True, eq=False)
class RowSegments:
    """The segments of one row that a model can be asked about: those that a replacement would change."""

    x: Floats
    label: Integers
    differing: Integers
    n_segments: int
    how: LocalPlan

    @classmethod
    def of(cls, x: Floats, label: Integers, how: LocalPlan) -> RowSegments:
        """Find the segments that differ from their replacement."""
        n_segments = int(label.max()) + 1
        # Segments that already show the replacement cannot matter: they stay, and get no coefficient.
        changed = np.bincount(label, x != how.where.replacement, minlength=n_segments)
        return cls(x, label, np.flatnonzero(changed), n_segments, how)

    def whole(self, masks: Floats) -> Floats:
        """Masks of all segments from those of the differing ones."""
        found = np.ones((len(masks), self.n_segments))
        found[:, self.differing] = masks
        return found

    def outputs(self, masks: Floats) -> Floats:
        """All outputs of the model for masks of the differing segments, in batches that fit into memory."""
        size = max(1, CELLS // self.x.size)
        parts = [self.whole(masks[i : i + size]) for i in range(0, len(masks), size)]
        return np.concatenate([self.how.outputs(self._neighbours(part)) for part in parts])

    def _neighbours(self, masks: Floats) -> Any:
        """Inputs that keep the segments of each mask: an array or, of a network, a tensor."""
        if self._there is None:
            return neighbours(self.x, self.how.where.replacement, self.label, masks)
        return self._there.neighbours(masks)

    @cached_property
    def _there(self) -> PlacedRow | None:
        """The row where a network computes; None for other models."""
        place = self.how.place
        if place is None:
            return None
        x, replacement = place(np.stack([self.x, self.how.where.replacement]))
        return PlacedRow(x, replacement, place(self.label))


class PlacedRow(NamedTuple):
    """A row, what replaces its cells, and the segment of each cell, as tensors where a network computes.

    Only masks travel there: to make neighbours of a large image and to copy them would take longer than the
    network's answer.
    """

    x: Any
    replacement: Any
    label: Any

    def neighbours(self, masks: Floats) -> Any:
        """Return the row with the lost segments of each mask replaced."""
        import torch

        keep = torch.as_tensor(masks > 0, device=self.label.device)[:, self.label]
        return torch.where(keep, self.x, self.replacement)
