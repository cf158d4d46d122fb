"""A fitted basis as a record: the kernel, its bandwidth, and the directions that rows are projected on.

Gaussian   φ(x) = √(2/D) [sin(Gᵀ(x − c)/σ), cos(Gᵀ(x − c)/σ)], D/2 directions; c cancels in the kernel
ArcCos     φ(x) = √(2/D) max(0, Gᵀx), D directions; deeper kernels apply it again to φ
Landmarks  φ(x) = L⁻¹ k(z, x) of D points z, with L Lᵀ = k(z, z): for every kernel, in a single layer
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.bases.projections import LandmarkProjection, Projection, draw_projection
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import random_sample
from tellwhy.kernels import ArcCosine, Exponential
from tellwhy.kernels.distances import ScaledPoints

MOST_ROWS = 1_000  # whose pairs tell the error of a basis
DEPTHS = {"gaussian": 1, "arccos": 1, "arccos2": 2, "arccos3": 3}
_PAIRS = "even for kernel='gaussian', whose features are pairs of a sine and a cosine"
_NO_AMPLITUDES = (
    "False but for the sines and cosines of kernel='gaussian' (the lengths of other directions do the same)"
)
_NO_BIAS = "False but for the directions of arc-cosine kernels (a phase of sine and cosine changes nothing)"


@dataclass(frozen=True)
class FeatureMap:
    """The kernel's name, its bandwidth, the centre of the data, and one projection per layer.

    Attributes
    ----------
    amplitudes
        Of sines and cosines: a factor for each direction, which multiplies both; None stands for ones.
    biases
        Of rectified features: for each layer, what is added to the projections; empty for none.
    """

    kernel: str
    bandwidth: float
    centre: Floats
    layers: tuple[Projection, ...]
    amplitudes: Floats | None = None
    biases: tuple[Floats, ...] = ()

    @property
    def n_features(self) -> int:
        """Columns of φ(x)."""
        return self.layers[-1].n_directions * (2 if self.has_waves else 1)

    @property
    def has_waves(self) -> bool:
        """Whether features are sines and cosines."""
        return self.kernel == "gaussian" and not self.has_landmarks

    @property
    def has_landmarks(self) -> bool:
        """Whether features are similarities to points."""
        return isinstance(self.layers[0], LandmarkProjection)

    def apply(self, X: Any, out: Any = None) -> Any:
        """Return φ of checked rows, in their precision, in new memory or in the rows of `out`."""
        from tellwhy.bases.map_rows import map_rows  # compiled code is loaded when it is first needed

        return map_rows(self, X, out)


@dataclass(frozen=True)
class Shape:
    """What a basis is drawn as; the names are those of `KernelBasis`."""

    kernel: str
    structure: str
    n_features: int
    n_blocks: int = 3
    amplitudes: bool = False
    bias: bool | str = False

    def check(self) -> None:
        """Refuse what does not go together."""
        for name, is_wrong, why in (
            ("n_features", self._has_pairs and self.n_features % 2 == 1, _PAIRS),
            ("amplitudes", self.amplitudes and not self._has_pairs, _NO_AMPLITUDES),
            ("bias", self.bias and (self.kernel == "gaussian" or self.structure == "landmarks"), _NO_BIAS),
        ):
            if is_wrong:
                got = getattr(self, name)
                raise InvalidParameter(
                    f"The {name!r} parameter of KernelBasis must be {why}. Got {got!r} instead."
                )

    def drawn(self, Z: Any, bandwidth: float, centre: Floats, rng: np.random.Generator) -> FeatureMap:
        """Draw a basis for rows that are centred and divided by the bandwidth."""
        layers = self._layers(Z, rng)
        return FeatureMap(self.kernel, bandwidth, centre, layers, **self._extras(Z, rng))

    @property
    def width(self) -> int:
        """Directions of a layer."""
        return self.n_features // 2 if self._has_pairs else self.n_features

    @property
    def _has_pairs(self) -> bool:
        return self.kernel == "gaussian" and self.structure != "landmarks"

    def _layers(self, Z: Any, rng: np.random.Generator) -> tuple[Projection, ...]:
        if self.structure == "landmarks":
            from tellwhy.bases.landmarks import landmarks_at

            if self.width > len(Z):
                raise InvalidParameter(
                    "The 'n_features' parameter of KernelBasis must be at most the number of rows for "
                    f"structure='landmarks', which are rows. Got {self.width} for {len(Z)} rows instead."
                )
            points = np.asarray(Z[np.sort(rng.permutation(len(Z))[: self.width])], dtype=np.float64)
            return (landmarks_at(points, self.kernel, DEPTHS[self.kernel]),)
        inputs = [Z.shape[1], *[self.width] * (DEPTHS[self.kernel] - 1)]
        return tuple(
            draw_projection(self.structure, n, self.width, rng, n_blocks=self.n_blocks) for n in inputs
        )

    def _extras(self, Z: Any, rng: np.random.Generator) -> dict[str, Any]:
        """Amplitudes, and biases, that change nothing before they are trained; or biases that are drawn."""
        biases = (np.zeros(self.width),) * DEPTHS[self.kernel] if self.bias else ()
        if self.bias == "drawn":
            # Projections of rows, and of features (whose lengths are about those of rows), spread by the
            # length of rows: biases that spread as far put kinks wherever there are rows.
            length = float(np.sqrt(np.einsum("ij,ij->i", Z, Z, dtype=np.float64).mean()))
            biases = tuple(length * rng.normal(size=self.width) for _ in biases)
        return {"amplitudes": np.ones(self.width) if self.amplitudes else None, "biases": biases}


def exact_kernel(feature_map: FeatureMap, X: Floats, Y: Floats) -> Floats:
    """Return the kernel matrix that the features of X and Y approximate."""
    if feature_map.kernel == "gaussian":
        points = ScaledPoints.of(Y, feature_map.bandwidth)
        return Exponential(feature_map.bandwidth).of_squared(points.squared_distances(points.rescale(X)))
    return ArcCosine(DEPTHS[feature_map.kernel]).between(X, Y)


def mean_pair_error(feature_map: FeatureMap, X: Floats) -> float:
    """Mean of ½(k(x, x') − φ(x)·φ(x'))² over pairs of different rows, of at most 1,000 drawn rows."""
    rows = X[random_sample(len(X), MOST_ROWS, np.random.default_rng(0))]
    features = feature_map.apply(rows)
    errors = exact_kernel(feature_map, rows, rows) - features @ features.T
    return float(0.5 * (errors[np.triu_indices(len(rows), k=1)] ** 2).mean())
