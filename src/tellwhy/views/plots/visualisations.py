"""Six ways to show relevance as a picture (thesis, figure V.6).

Grey values, colours, the picture scaled, masked or blended, and values projected to pixels.

Each takes values and the picture, channels first or last, and gives pixels (height, width, 3) from 0 to 255.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import one_of, real, validate_value
from tellwhy.core.score import Floats
from tellwhy.views.plots.colors import DIVERGING, SCORE_COLORS

Pixels = NDArray[np.uint8]
BLUR = 1.5  # pixels, of a blended map
BEHIND = 0.15  # brightness of what a mask hides


def visualise(
    values: ArrayLike,
    picture: ArrayLike | None = None,
    how: str = "heatmap",
    *,
    keep: float = 0.1,
    root: bool = False,
) -> Pixels:
    """Show the relevance of one picture as pixels.

    Parameters
    ----------
    values
        Relevance, of shape (h, w), (h, w, channels) or (channels, h, w).
    picture
        The picture, of the same shape; "scale", "mask" and "blend" need it.
    how
        "graymap": absolute values, bright is much. "heatmap": orange raises, blue lowers, white is zero.
        "scale": the picture, as bright as its pixels are relevant. "mask": the most relevant part of the
        picture, the rest dark. "blend": the picture below a map of its relevance. "projection": values
        brought into the range of pixels, for methods that extract signals.
    keep
        Of "mask": share of the pixels that stay.
    root
        Take the signed square root of values first: small ones are seen better.

    Returns
    -------
    ndarray
        Red, green and blue of each pixel, (h, w, 3), from 0 to 255.

    Examples
    --------
    >>> visualise(np.array([[0.0, 1.0], [-1.0, 0.5]]), how="graymap")[:, :, 0]
    array([[  0, 255],
           [255, 128]], dtype=uint8)
    """
    validate_value("plot.visualise", "how", how, one_of(*VISUALISATIONS))
    validate_value("plot.visualise", "keep", keep, real(0, 1, closed="right"))
    relevance = _put_channels_last(values, "values")
    if root:
        relevance = np.sign(relevance) * np.sqrt(np.abs(relevance))
    if how in _WITHOUT_PICTURE:
        return _WITHOUT_PICTURE[how](relevance)
    if picture is None:
        raise InvalidInput(f'plot.visualise with how="{how}" draws on the picture. Pass picture=….')
    seen = _scale_to_unit(_put_channels_last(picture, "picture"))
    if seen.shape[:2] != relevance.shape[:2]:
        raise InvalidInput(
            f"The picture has {seen.shape[:2]} pixels; expected {relevance.shape[:2]}, as the values have."
        )
    if how == "mask":
        return _mask(relevance, seen, keep)
    return _scale(relevance, seen) if how == "scale" else _draw_blend(relevance, seen)


def find_channel_axis(shape: Sequence[int]) -> int:
    """Axis of the channels of an image: the first if only that one has 1, 3 or 4 entries, else the last.

    Examples
    --------
    >>> find_channel_axis((3, 32, 32)), find_channel_axis((32, 32, 3))
    (0, 2)
    """
    return 0 if shape[0] in (1, 3, 4) and shape[-1] not in (1, 3, 4) else len(shape) - 1


def _put_channels_last(values: Any, what: str) -> Floats:
    """Values as (h, w, channels)."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 2:
        return array[..., None]
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidInput(
            f"plot.visualise takes {what} of shape (h, w), (h, w, channels) or (channels, h, w); got "
            f"{array.shape}."
        )
    return np.moveaxis(array, find_channel_axis(array.shape), 2)


def make_pixels(picture: ArrayLike) -> Pixels:
    """Return a picture as pixels (height, width, 3) from 0 to 255."""
    return _make_bytes(_scale_to_unit(_put_channels_last(picture, "a picture")))


def _scale_to_unit(picture: Floats) -> Floats:
    """Three channels between 0 and 1: of pixels up to 255, of shares, or of whatever else a picture holds."""
    low, high = float(picture.min()), float(picture.max())
    if low >= 0 and 1 < high <= 255:
        scaled = picture / 255.0
    elif low >= 0 and high <= 1:
        scaled = picture
    else:
        scaled = (picture - low) / ((high - low) or 1.0)
    return scaled if scaled.shape[2] == 3 else np.repeat(scaled.mean(axis=2, keepdims=True), 3, axis=2)


def _measure_strength(relevance: Floats) -> Floats:
    """Sum of absolute values over the channels, as a share of the largest."""
    total = np.abs(relevance).sum(axis=2)
    return total / (total.max() or 1.0)


def _make_bytes(unit: Floats) -> Pixels:
    return (np.clip(unit, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)


def _paint_levels(levels: Floats, scale: Sequence[Sequence[Any]]) -> Floats:
    """Colours of levels between 0 and 1 on a scale of (place, "#rrggbb")."""
    places = [stop[0] for stop in scale]
    colors = np.array([[int(stop[1][k : k + 2], 16) for k in (1, 3, 5)] for stop in scale]) / 255.0
    return np.stack([np.interp(levels, places, colors[:, k]) for k in range(3)], axis=2)


def _draw_graymap(relevance: Floats) -> Pixels:
    return _make_bytes(np.repeat(_measure_strength(relevance)[..., None], 3, axis=2))


def _draw_heatmap(relevance: Floats) -> Pixels:
    total = relevance.sum(axis=2)
    return _make_bytes(_paint_levels(total / (np.abs(total).max() or 1.0) / 2 + 0.5, DIVERGING))


def _draw_projection(relevance: Floats) -> Pixels:
    shown = relevance if relevance.shape[2] == 3 else relevance.sum(axis=2, keepdims=True).repeat(3, axis=2)
    return _make_bytes(shown / (2.0 * (np.abs(shown).max() or 1.0)) + 0.5)


def _scale(relevance: Floats, seen: Floats) -> Pixels:
    return _make_bytes(seen * _measure_strength(relevance)[..., None])


def _mask(relevance: Floats, seen: Floats, keep: float) -> Pixels:
    strength = _measure_strength(relevance)
    is_kept = (strength >= np.quantile(strength, 1.0 - keep)) & (strength > 0)
    return _make_bytes(np.where(is_kept[..., None], seen, BEHIND * seen))


def _draw_blend(relevance: Floats, seen: Floats) -> Pixels:
    from scipy.ndimage import gaussian_filter

    level = gaussian_filter(_measure_strength(relevance), BLUR)
    level = (level - level.min()) / ((level.max() - level.min()) or 1.0)
    return _make_bytes(
        (1.0 - level[..., None]) * seen + level[..., None] * _paint_levels(level, SCORE_COLORS)
    )


_WITHOUT_PICTURE: dict[str, Callable[[Floats], Pixels]] = {
    "graymap": _draw_graymap,
    "heatmap": _draw_heatmap,
    "projection": _draw_projection,
}
VISUALISATIONS = ("graymap", "heatmap", "scale", "mask", "blend", "projection")
