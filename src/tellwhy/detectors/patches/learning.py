"""How a model of patches learns: which patches are drawn, and what is fitted to them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from tellwhy.core.capabilities import LeavesRowsOut
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import random_sample
from tellwhy.data.patch_rows import PatchRows
from tellwhy.detectors.kernel.one_class_svm import OneClassSVM
from tellwhy.detectors.patches.bandwidth import nearest_patch_distance
from tellwhy.scoring import as_score

MOST_PLACES = 2_500  # models of positions="separate": a grid of 50 × 50


class LearnsPatches:
    """What `PatchModel` learns from inputs in groups of one size, whose channels have been scaled."""

    detector: Any
    n_train_patches: int
    positions: str
    position_weight: float
    trim: float
    patch_rows_: PatchRows

    def _fit_shared(self, groups: list[Floats], rng: np.random.Generator) -> Any:
        counts = [len(X) * int(np.prod(self.patch_rows_.windows.grid(X.shape[1:]))) for X in groups]
        ends = np.cumsum(counts)
        chosen = random_sample(int(ends[-1]), int(self.n_train_patches), rng)
        owner = np.searchsorted(ends, chosen, side="right")
        own = [chosen[owner == k] - (ends[k] - counts[k]) for k in range(len(groups))]
        rows = self._sampled(groups, own)
        if self.positions == "feature":
            # the lengths of a picture's axes are compared with how far apart patches are
            weight = float(self.position_weight) * nearest_patch_distance(rows, 0.5)
            rules = self.patch_rows_
            self.patch_rows_ = PatchRows(rules.windows, rules.scale, weight)
            rows = self._sampled(groups, own)
        return self._fitted(rows)

    def _sampled(self, groups: list[Floats], chosen: list[Integers]) -> Floats:
        parts = [
            self.patch_rows_.sample(X, some) for X, some in zip(groups, chosen, strict=True) if len(some)
        ]
        return np.vstack(parts)

    def _fitted(self, rows: Floats) -> Any:
        """Fit a detector to patches; a second time without the oddest ones where that is asked for."""
        fitted = self._detector(rows).fit(rows)
        if not self.trim:
            return fitted
        score: Any = as_score(fitted)
        left_out = (score.match(rows),) if isinstance(score, LeavesRowsOut) else ()
        scores = score.value(rows, *left_out)
        kept = rows[scores <= np.quantile(scores, 1 - self.trim)]
        return self._detector(kept).fit(kept)

    def _fit_places(self, X: Floats, grid: tuple[int, ...], rng: np.random.Generator) -> list[Any]:
        n_places = int(np.prod(grid))
        if n_places > MOST_PLACES or len(X) < 2:
            raise InvalidInput(
                f'positions="separate" learns one model for each of the {n_places:,} positions from '
                f"{len(X):,} inputs; it needs 2 inputs or more, and at most {MOST_PLACES:,} positions. "
                'Take a larger stride, or positions="feature".'
            )
        chosen = random_sample(len(X), int(self.n_train_patches), rng)
        rows = [self.patch_rows_.cut(X[chosen], piece) for piece in self.patch_rows_.windows.places(X.shape)]
        return [self._fitted(some) for some in rows]

    def _detector(self, rows: Floats) -> Any:
        if self.detector is not None:
            return clone(self.detector)
        # A channel may rest while others move: its patches then count in units of its own spread, if any.
        unit = 1.0 if (self.patch_rows_.scale != 1.0).any() else None
        return OneClassSVM(bandwidth=nearest_patch_distance(rows, 0.1, otherwise=unit), nu=0.1)
