"""Feature maps φ with φ(x)·φ(x') ≈ k(x, x'), and the directions that rows are projected on.

Gaussian   φ(x) = √(2/D) [sin(Gᵀ(x − c)/σ), cos(Gᵀ(x − c)/σ)], D/2 directions; c cancels in the kernel
ArcCos     φ(x) = √(2/D) max(0, Gᵀx), D directions; deeper kernels apply it again to φ
Landmarks  φ(x) = L⁻¹ k(z, x) of D points z, with L Lᵀ = k(z, z): for every kernel, in a single layer

G has (nearly) standard normal entries, whose columns are the directions: independent, orthogonal, or products
of structured matrices. With landmarks (Williams and Seeger, "Using the Nyström method to speed up kernel
machines", Advances in Neural Information Processing Systems 13, 2001), φ(x)·φ(x') is the kernel after x and
x' are projected on the span of the points in the kernel's own space: the best that combinations of these
points can do. Training moves the points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.arrays import draw_sample
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Fit
from tellwhy.core.score import Floats
from tellwhy.kernels import ArcCosine, Exponential
from tellwhy.kernels.distances import ScaledPoints

# Fewer padded columns make entries that are far from normal: a single one gives cos(Δ/σ) whatever the kernel.
LEAST_PADDED = 64


@dataclass(frozen=True)
class DenseProjection:
    """G itself, shape (inputs, directions)."""

    matrix: Floats

    @property
    def n_inputs(self) -> int:
        """Columns of the rows that are projected."""
        return int(self.matrix.shape[0])

    @property
    def n_directions(self) -> int:
        """Number of projections."""
        return int(self.matrix.shape[1])

    @property
    def n_parameters(self) -> int:
        """Numbers that a trained projection learns."""
        return int(self.matrix.size)

    def _require(self) -> Iterator[Fit]:
        matrix = self.matrix
        yield "matrix", (matrix.ndim, matrix.dtype), (2, np.dtype(np.float64))
        yield "matrix", matrix.size > 0, True


@dataclass(frozen=True)
class HadamardProjection:
    """Gᵀ = √p · H D_1 … H D_k per copy, with H normalised, D diagonal, and rows padded with zeros to p = 2^m.

    Attributes
    ----------
    diagonals
        Shape (copies, k, p); ±1 before training.
    n_inputs
        Columns of the rows that are projected, at most p.
    n_directions
        Number of projections: the first ones of copies · p.
    """

    diagonals: Floats
    n_inputs: int
    n_directions: int

    @property
    def factor(self) -> float:
        """What to multiply rows by when the transform is not normalised: p^((1−k)/2)."""
        k, p = self.diagonals.shape[1:]
        return float(p) ** ((1 - k) / 2)

    @property
    def n_parameters(self) -> int:
        """Numbers that a trained projection learns."""
        return int(self.diagonals.size)

    def _require(self) -> Iterator[Fit]:
        diagonals = self.diagonals
        yield "diagonals", (diagonals.ndim, diagonals.dtype), (3, np.dtype(np.float64))
        length = diagonals.shape[2]
        # The fast transform halves its rows until one number is left.
        is_power_of_two = length & (length - 1) == 0
        yield "diagonals", diagonals.shape[1] >= 1 and is_power_of_two, True
        yield "n_inputs", 1 <= self.n_inputs <= length, True
        yield "n_directions", 1 <= self.n_directions <= len(diagonals) * length, True


@dataclass(frozen=True)
class LandmarkProjection:
    """Points that rows are compared with, and what makes their similarities orthonormal.

    Attributes
    ----------
    points
        Shape (points, inputs), in the coordinates of rows that were centred and divided by the bandwidth.
    whitening
        L⁻ᵀ where L Lᵀ = k(points, points): features are k(x, points) L⁻ᵀ.
    """

    points: Floats
    whitening: Floats

    @property
    def n_inputs(self) -> int:
        """Columns of the rows that are compared."""
        return int(self.points.shape[1])

    @property
    def n_directions(self) -> int:
        """Number of features."""
        return len(self.points)

    @property
    def n_parameters(self) -> int:
        """Numbers that a trained projection learns."""
        return int(self.points.size)

    def _require(self) -> Iterator[Fit]:
        points, whitening = self.points, self.whitening
        yield "points", (points.ndim, points.dtype), (2, np.dtype(np.float64))
        yield "points", points.size > 0, True
        yield "whitening", (whitening.shape, whitening.dtype), ((len(points),) * 2, points.dtype)


Projection = DenseProjection | HadamardProjection | LandmarkProjection


def draw_projection(
    structure: str, n_inputs: int, n_directions: int, rng: np.random.Generator, *, n_blocks: int = 3
) -> Projection:
    """Draw a projection: 'dense', 'orthogonal' or 'hadamard'."""
    if structure == "hadamard":
        p = find_padded_size(n_inputs)
        copies = -(-n_directions // p)
        signs = rng.choice(np.array([-1.0, 1.0]), size=(copies, n_blocks, p))
        return HadamardProjection(signs, n_inputs, n_directions)
    if structure == "orthogonal":
        return DenseProjection(_draw_orthogonal_directions(n_inputs, n_directions, rng))
    return DenseProjection(rng.standard_normal((n_inputs, n_directions)))


def find_padded_size(n_inputs: int) -> int:
    """Smallest power of two that holds the columns, at least 64.

    Examples
    --------
    >>> find_padded_size(3), find_padded_size(784), find_padded_size(1024)
    (64, 1024, 1024)
    """
    return max(LEAST_PADDED, 1 << (n_inputs - 1).bit_length())


def _draw_orthogonal_directions(d: int, m: int, rng: np.random.Generator) -> Floats:
    """Draw groups of at most d orthogonal directions, uniformly turned, with lengths χ_d as if independent.

    Normal entries have directions that are uniform and lengths that are χ_d. Only the directions are made
    orthogonal, so that each column keeps its distribution and the features stay unbiased.
    """
    groups = [_draw_orthonormal(d, min(d, m - start), rng) for start in range(0, m, d)]
    lengths = np.sqrt(rng.chisquare(d, size=m))
    return np.hstack(groups) * lengths


def _draw_orthonormal(d: int, m: int, rng: np.random.Generator) -> Floats:
    Q, R = np.linalg.qr(rng.standard_normal((d, m)))
    return np.asarray(Q * np.where(np.diagonal(R) < 0, -1.0, 1.0))  # without the signs, Q is not uniform


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

    def _require(self) -> Iterator[Fit]:
        yield "centre", self.centre.ndim, 1
        yield "bandwidth", self.bandwidth > 0, True
        yield "layers", len(self.layers) > 0, True
        width = len(self.centre)
        for i, layer in enumerate(self.layers):
            yield f"layers.{i}", layer.n_inputs, width
            width = layer.n_directions
        sizes = [layer.n_directions for layer in self.layers]
        if self.amplitudes is not None:
            yield "amplitudes", self.has_waves, True
            yield "amplitudes", self.amplitudes.shape, (sizes[-1],)
        if self.biases:
            yield "biases", self.kernel != "gaussian" and not self.has_landmarks, True
            yield "biases", [bias.shape for bias in self.biases], [(size,) for size in sizes]


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
            if self.width > len(Z):
                raise InvalidParameter(
                    "The 'n_features' parameter of KernelBasis must be at most the number of rows for "
                    f"structure='landmarks', which are rows. Got {self.width} for {len(Z)} rows instead."
                )
            points = np.asarray(Z[np.sort(rng.permutation(len(Z))[: self.width])], dtype=np.float64)
            return (place_landmarks(points, self.kernel, DEPTHS[self.kernel]),)
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


def compute_exact_kernel(feature_map: FeatureMap, X: Floats, Y: Floats) -> Floats:
    """Return the kernel matrix that the features of X and Y approximate."""
    if feature_map.kernel == "gaussian":
        points = ScaledPoints.of(Y, feature_map.bandwidth)
        return Exponential(feature_map.bandwidth).of_squared(points.squared_distances(points.rescale(X)))
    return ArcCosine(DEPTHS[feature_map.kernel]).between(X, Y)


def measure_pair_error(feature_map: FeatureMap, X: Floats) -> float:
    """Mean of ½(k(x, x') − φ(x)·φ(x'))² over pairs of different rows, of at most 1,000 drawn rows."""
    rows = X[draw_sample(len(X), MOST_ROWS, np.random.default_rng(0))]
    features = feature_map.apply(rows)
    errors = compute_exact_kernel(feature_map, rows, rows) - features @ features.T
    return float(0.5 * (errors[np.triu_indices(len(rows), k=1)] ** 2).mean())


Tensor = Any
# Points that lie close together make k(z, z) singular. This share of its mean diagonal keeps it invertible.
JITTER = 1e-6
_EDGE = 1e-10  # a cosine stays this far from ±1, where the slope of its angle is infinite
_TINY = 1e-60  # under a root: the norm of a row of zeros has a slope then


def place_landmarks(points: Floats, kernel: str, depth: int) -> LandmarkProjection:
    """Return the projection of given points, which are in the coordinates of rescaled rows."""
    within = compute_kernel_with(points, points, kernel, depth)
    within[np.diag_indices(len(points))] += JITTER * max(float(np.diagonal(within).mean()), _TINY)
    inverse = np.linalg.inv(np.linalg.cholesky(within))
    return LandmarkProjection(points, inverse.T.copy())


def compute_kernel_with(Z: Floats, points: Floats, kernel: str, depth: int) -> Floats:
    """Return k of rescaled rows and points, in double precision."""
    rows = np.asarray(Z, dtype=np.float64)
    products = rows @ points.T
    squares = (rows**2).sum(axis=1)[:, None], (points**2).sum(axis=1)[None, :]
    if kernel == "gaussian":
        # Rows are centred and divided by the bandwidth: distances of interest are not small differences.
        return np.exp(-0.5 * np.maximum(squares[0] + squares[1] - 2 * products, 0.0))
    return ArcCosine(depth).of_products(products, np.sqrt(squares[0]), np.sqrt(squares[1]))


def compute_landmark_features(x: Tensor, points: Tensor, live: Tensor, kernel: str, depth: int) -> Tensor:
    """φ of E bases in PyTorch, with gradients for the points.

    Parameters
    ----------
    x
        Rescaled rows, shape (E, n, d).
    points
        Shape (E, m, d).
    live
        1 for a point, 0 for padding, shape (E, 1, m).
    kernel, depth
        Name of the kernel, and how often it is composed with itself.
    """
    import torch

    # Double precision: the inverse of k(z, z) has large entries, which would blow up rounding errors.
    places = points.double()
    mask = live.double()
    within = _make_torch_kernel(places, places, kernel, depth) * (mask.mT * mask)
    sizes = within.diagonal(dim1=1, dim2=2).sum(1, keepdim=True) / mask.sum(2)
    within = within + torch.diag_embed(1 - mask[:, 0] + JITTER * sizes.clamp_min(_TINY))
    across = _make_torch_kernel(x.double(), places, kernel, depth) * mask
    lower = torch.linalg.cholesky_ex(within)[0]  # a failure shows in the loss, without waiting for the device
    return torch.linalg.solve_triangular(lower, across.mT, upper=False).mT.to(x.dtype)


def _make_torch_kernel(x: Tensor, y: Tensor, kernel: str, depth: int) -> Tensor:
    products = x @ y.mT
    left = x.square().sum(-1)[:, :, None]
    right = y.square().sum(-1)[:, None, :]
    if kernel == "gaussian":
        return (-0.5 * (left + right - 2 * products).clamp_min(0.0)).exp()
    scale = (left + _TINY).sqrt() * (right + _TINY).sqrt()
    cosine = products / scale
    for _ in range(depth):
        cosine = cosine.clamp(-1 + _EDGE, 1 - _EDGE)
        angle = cosine.acos()
        cosine = (angle.sin() + (math.pi - angle) * cosine) / math.pi
    return scale * cosine
