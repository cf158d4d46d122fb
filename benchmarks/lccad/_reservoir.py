"""Reservoirs whose truth is known: impedances computed from public facies, with the echo of a deeper body planted.

Porosity follows the facies and varies smoothly. Speeds and density follow from it by published relations: Raymer's for
the P wave, Castagna's for the S wave, a mix of grains and brine for the density. Impedances are smoothed along depth, as
a seismic wave does, and get the noise of an inversion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from tellwhy.data import fetch

NAMES = ["AI", "SI"]
POROSITY = {
    0: (0.12, 0.010),
    1: (0.27, 0.012),
    2: (0.25, 0.012),
    3: (0.26, 0.012),
}  # mean and spread of each facies
DEPTHS = (10, 30, 50, 70)  # of 120
DEEPER = 25  # how far below a slice the body lies that its echo comes from
RADIUS = 14  # of the arc, in voxels
SEEN = 0.6  # part of the full echo from which on a voxel counts as one


@dataclass(frozen=True, eq=False)
class Reservoir:
    """Impedances of horizontal slices, shape (slices, height, width, 2), the facies, and where the echo is."""

    X: np.ndarray
    sand: np.ndarray
    echo: np.ndarray


def impedances(facies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """AI and SI in 10⁶ kg/(m² s), without noise; facies 0 is shale, the others are sand. Depth is the second axis."""
    smooth = gaussian_filter(rng.normal(size=facies.shape), (5, 2, 5), mode="wrap")
    smooth /= smooth.std()
    mean, spread = np.array([POROSITY[k] for k in range(4)]).T
    porosity = mean[facies] + spread[facies] * smooth
    shale = facies == 0
    fast = (1 - porosity) ** 2 * np.where(shale, 4600.0, 5500.0) + 1600.0 * porosity
    slow = np.where(shale, 0.862 * fast - 1172.0, 0.804 * fast - 856.0)
    density = (1 - porosity) * np.where(shale, 2600.0, 2650.0) + 1050.0 * porosity
    return gaussian_filter1d(np.stack([fast * density, slow * density], axis=-1) / 1e6, 1.5, axis=1)


def arc_of(shale: np.ndarray, deep: np.ndarray, width: float, rng: np.random.Generator) -> np.ndarray:
    """Strength, 0 to 1, of an arc around a body below: a diffraction spreads, a slice cuts it in a circle."""
    rows, columns = np.indices(shale.shape)
    best = np.zeros(shale.shape)
    for row, column in rng.permutation(np.argwhere(deep))[:200]:
        distance = np.hypot(rows - row, columns - column)
        strength = np.exp(-0.5 * ((distance - RADIUS) / width) ** 2) * shale
        best = max(best, strength, key=np.sum)  # the body with the most shale around it
    return best


def volume(
    noise: float, *, width: float = 0.6, strength: tuple[float, float] = (0.6, 1.0), seed: int = 0
) -> Reservoir:
    """Slices of the fluvial facies model; an echo of sand below is laid over the shale of each.

    `noise` is that of AI, SI has three fifths of it; `strength` says how much of the difference between sand and shale
    the echo adds to AI and to SI, and `width` how wide the arc is, in voxels.
    """
    rng = np.random.default_rng(seed)
    facies = fetch("seismic_facies_crosslines")["facies"]
    clean = impedances(facies, rng)
    noisy = clean + noise * np.array([1.0, 0.6]) * rng.normal(size=clean.shape)
    parts = [_slice(facies, noisy, z, width, strength, rng) for z in DEPTHS]
    return Reservoir(*(np.stack(part) for part in zip(*parts, strict=True)))


def _slice(
    facies: np.ndarray,
    values: np.ndarray,
    depth: int,
    width: float,
    strength: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sand, deep = facies[:, depth] > 0, facies[:, depth + DEEPER] > 0
    arc = arc_of(~sand, deep, width, rng)
    below = np.median(values[:, depth + DEEPER][deep], axis=0)
    step = below - np.median(values[:, depth][~sand], axis=0)
    return values[:, depth] + arc[..., None] * np.array(strength) * step, sand, arc > SEEN


def surface(
    noise: float, *, width: float = 0.6, strength: tuple[float, float] = (0.6, 1.0), seed: int = 0
) -> Reservoir:
    """The two-dimensional impedance map: its own AI, and SI by ratios of speeds of 2.0 in shale and 1.7 in sand."""
    rng = np.random.default_rng(seed)
    data = fetch("geo_impedance_facies")
    sand = data["facies"] == 1
    AI = data["AI"] / 1000.0
    clean = np.stack([AI, AI / np.where(sand, 1.7, 2.0)], axis=-1)
    noisy = clean + noise * np.array([1.0, 0.6]) * rng.normal(size=clean.shape)
    arc = arc_of(~sand, sand, width, rng)
    step = np.median(noisy[sand], axis=0) - np.median(noisy[~sand], axis=0)
    X = noisy + arc[..., None] * np.array(strength) * step
    return Reservoir(X[None], sand[None], (arc > SEEN)[None])
