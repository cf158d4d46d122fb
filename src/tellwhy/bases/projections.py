"""The directions that rows are projected on: independent, orthogonal, or products of structured matrices.

Each stands for a matrix G with (nearly) standard normal entries, whose columns are the directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats

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


Projection = DenseProjection | HadamardProjection | LandmarkProjection


def draw_projection(
    structure: str, n_inputs: int, n_directions: int, rng: np.random.Generator, *, n_blocks: int = 3
) -> Projection:
    """Draw a projection: 'dense', 'orthogonal' or 'hadamard'."""
    if structure == "hadamard":
        p = padded_size(n_inputs)
        copies = -(-n_directions // p)
        signs = rng.choice(np.array([-1.0, 1.0]), size=(copies, n_blocks, p))
        return HadamardProjection(signs, n_inputs, n_directions)
    if structure == "orthogonal":
        return DenseProjection(_orthogonal_directions(n_inputs, n_directions, rng))
    return DenseProjection(rng.standard_normal((n_inputs, n_directions)))


def padded_size(n_inputs: int) -> int:
    """Smallest power of two that holds the columns, at least 64.

    Examples
    --------
    >>> padded_size(3), padded_size(784), padded_size(1024)
    (64, 1024, 1024)
    """
    return max(LEAST_PADDED, 1 << (n_inputs - 1).bit_length())


def _orthogonal_directions(d: int, m: int, rng: np.random.Generator) -> Floats:
    """Draw groups of at most d orthogonal directions, uniformly turned, with lengths χ_d as if independent.

    Normal entries have directions that are uniform and lengths that are χ_d. Only the directions are made
    orthogonal, so that each column keeps its distribution and the features stay unbiased.
    """
    groups = [_orthonormal(d, min(d, m - start), rng) for start in range(0, m, d)]
    lengths = np.sqrt(rng.chisquare(d, size=m))
    return np.hstack(groups) * lengths


def _orthonormal(d: int, m: int, rng: np.random.Generator) -> Floats:
    Q, R = np.linalg.qr(rng.standard_normal((d, m)))
    return np.asarray(Q * np.where(np.diagonal(R) < 0, -1.0, 1.0))  # without the signs, Q is not uniform
