"""Pictures with planted defects: a part under a camera that is never quite in the same place, and textures."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

SIDE = 256
CROP = 128
PART_DEFECTS = ("missing", "turned", "moved", "scratch", "stain")
TEXTURE_DEFECTS = ("stain", "scratch", "foreign")
SCREWS = ((66, 58), (66, 198), (190, 58), (190, 198))
ROWS, COLUMNS = np.mgrid[:SIDE, :SIDE]


def _disc(row: float, column: float, radius: float) -> np.ndarray:
    return (ROWS - row) ** 2 + (COLUMNS - column) ** 2 <= radius**2


def part(rng: np.random.Generator, defect: str = "") -> tuple[np.ndarray, np.ndarray]:
    """A plate with four screws, a hole and a label, moved by up to 8 pixels and 4 degrees; and where it is odd."""
    pixels = np.full((SIDE, SIDE, 3), 70.0) + rng.normal(0, 2, size=3)
    mask = np.zeros((SIDE, SIDE), dtype=bool)
    pixels[47:210, 37:220] = (150, 152, 158)
    missing = rng.integers(4) if defect == "missing" else -1
    for k, (row, column) in enumerate(SCREWS):
        if k == missing:
            mask |= _disc(row, column, 10)
            continue
        pixels[_disc(row, column, 10)] = (205, 205, 200)
        turn = rng.uniform(0, np.pi)
        slot = np.abs((ROWS - row) * np.cos(turn) - (COLUMNS - column) * np.sin(turn)) < 1.6
        pixels[slot & _disc(row, column, 8)] = (90, 90, 90)
    _label(pixels, mask, is_turned=defect == "turned")
    pixels[_disc(80, 128, 8)] = 25
    _spoil(pixels, mask, rng, defect)
    return _photographed(pixels, mask, rng)


def _label(pixels: np.ndarray, mask: np.ndarray, *, is_turned: bool) -> None:
    pixels[101:156, 81:176] = (225, 215, 120)
    for k in range(5):
        pixels[109 + 9 * k : 112 + 9 * k, 89 : 168 if k % 2 else 140] = (50, 50, 60)
    if is_turned:
        pixels[101:156, 81:176] = pixels[101:156, 81:176][::-1, ::-1].copy()
        mask[101:156, 81:176] = True


def _spoil(pixels: np.ndarray, mask: np.ndarray, rng: np.random.Generator, defect: str) -> None:
    if defect == "moved":
        place = _disc(66 + rng.integers(-4, 5), 90 + rng.integers(0, 20), 10)
        pixels[place] = (205, 205, 200)
        mask |= place
    if defect == "scratch":
        row, column, turn = rng.integers(60, 180), rng.integers(50, 160), rng.uniform(0, np.pi)
        for k in range(40):
            place = (slice(int(row + k * np.sin(turn)), None), slice(int(column + k * np.cos(turn)), None))
            pixels[place][:2, :2] += 60
            mask[place][:2, :2] = True
    if defect == "stain":
        row, column, size = rng.integers(70, 190), rng.integers(60, 200), rng.uniform(6, 12)
        depth = np.exp(-((ROWS - row) ** 2 + (COLUMNS - column) ** 2) / (2 * size**2))
        pixels *= 1 - 0.35 * depth[..., None]
        mask |= depth > 0.3


def _photographed(
    pixels: np.ndarray, mask: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Blurred, moved, turned, lit, and with noise."""
    turn = np.radians(rng.uniform(-4, 4))
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    middle = np.full(2, SIDE / 2)
    offset = middle - matrix @ (middle + rng.uniform(-8, 8, size=2))
    soft = ndimage.gaussian_filter(pixels, (0.8, 0.8, 0))
    layers = [
        ndimage.affine_transform(layer, matrix, offset, order=1, mode="nearest")
        for layer in np.moveaxis(soft, 2, 0)
    ]
    seen = np.stack(layers, axis=2) * rng.uniform(0.95, 1.05) + rng.normal(0, 3, size=soft.shape)
    there = ndimage.affine_transform(mask.astype(float), matrix, offset, order=1) > 0.5
    return np.clip(seen, 0, 255).astype(np.uint8), there


def crop(
    rng: np.random.Generator, texture: np.ndarray, other: np.ndarray, defect: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """A square of a texture, with a stain, a scratch, or a disc of another texture; and where it is odd."""
    top, left = (int(rng.integers(0, length - CROP)) for length in texture.shape)
    pixels = texture[top : top + CROP, left : left + CROP].astype(float)
    rows, columns = np.mgrid[:CROP, :CROP]
    row, column = rng.integers(20, CROP - 20, size=2)
    away = np.hypot(rows - row, columns - column)
    mask = np.zeros(pixels.shape, dtype=bool)
    if defect == "stain":
        radius = rng.uniform(8, 13)
        depth = 0.75 / (1 + np.exp(away - radius))
        pixels = pixels * (1 - depth) + depth * rng.uniform(40, 200)
        mask = away <= radius
    if defect == "scratch":
        turn = rng.uniform(0, np.pi)
        for k in range(-18, 18):
            place = np.clip([row + k * np.sin(turn), column + k * np.cos(turn)], 0, CROP - 2).astype(int)
            square = (slice(place[0], place[0] + 2), slice(place[1], place[1] + 2))
            pixels[square] += 70
            mask[square] = True
    if defect == "foreign":
        mask = away <= 10
        start = int(rng.integers(0, len(other) - CROP))
        pixels[mask] = other[start : start + CROP, :CROP][mask]
    return np.clip(pixels, 0, 255).astype(np.uint8), mask
