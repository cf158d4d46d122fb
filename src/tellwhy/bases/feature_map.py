"""A fitted basis as a record: the kernel, its bandwidth, and the directions that rows are projected on.

Gaussian   φ(x) = √(2/D) [sin(Gᵀ(x − c)/σ), cos(Gᵀ(x − c)/σ)], D/2 directions; c cancels in the kernel
ArcCos     φ(x) = √(2/D) max(0, Gᵀx), D directions; deeper kernels apply it again to φ
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tellwhy.bases.projections import Projection
from tellwhy.core.score_function import Floats


@dataclass(frozen=True)
class FeatureMap:
    """The kernel's name, its bandwidth, the centre of the data, and one projection per layer."""

    kernel: str
    bandwidth: float
    centre: Floats
    layers: tuple[Projection, ...]

    @property
    def n_features(self) -> int:
        """Columns of φ(x)."""
        return self.layers[-1].n_directions * (2 if self.kernel == "gaussian" else 1)

    def apply(self, X: Any, out: Any = None) -> Any:
        """Return φ of checked rows, in their precision, in new memory or in the rows of `out`."""
        from tellwhy.bases.map_rows import map_rows  # compiled code is loaded when it is first needed

        return map_rows(self, X, out)
