"""Edges of a picture: a baseline that knows nothing of the model."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.data.patch_rows import HasPatches
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer
from tellwhy.scoring.scores.flat_score import FlatScore

CHANNELS = (1, 3, 4)


@register(
    "explainer",
    family="gradients",
    needs="pictures (n, h, w[, channels]) or series (n, t[, channels])",
    cost="one filter per axis; the model is asked for its scores only",
    exactness="a baseline: it shows edges, whatever the model says",
    citation="Sobel, Feldman (1968); as a baseline: Kauffmann, Müller, Montavon (2020)",
    applies=lambda score: isinstance(score, HasPatches),
)
class Sobel(ScoreExplainer):
    """R_p = Σ over the axes of (Sobel filter along the axis at p)², for each channel.

    Parameters
    ----------
    model
        A model of pictures or series, such as a `PatchModel`.

    Examples
    --------
    >>> from tellwhy.detectors import PatchModel
    >>> rng = np.random.default_rng(0)
    >>> model = PatchModel(patch_size=(3, 3)).fit(rng.normal(size=(3, 8, 8)))
    >>> step = np.zeros((1, 8, 8))
    >>> step[0, :, 4:] = 1.0
    >>> Sobel(model).explain(step).values[0, 4]
    array([ 0.,  0.,  0., 16., 16.,  0.,  0.,  0.])
    """

    kind = "ranking"

    def _attribute(self, rows: Rows) -> Attribution:
        shape = rows.X.shape[1:] if rows.shape is None else rows.shape
        n_axes = _n_axes(rows.score, shape)
        inputs = rows.X.reshape(len(rows.X), *shape)
        edges = np.stack([_edges(one, n_axes) for one in inputs])
        return Attribution(edges.reshape(rows.X.shape), rows.scores())


def _n_axes(score: object, shape: tuple[int, ...]) -> int:
    """Axes of a picture or series, without that of its channels."""
    inner = score.inner if isinstance(score, FlatScore) else score
    if isinstance(inner, HasPatches):
        return len(inner.patch_rows.windows.size)
    if len(shape) == 2 or (len(shape) == 3 and shape[-1] in CHANNELS):
        return 2
    raise UnsupportedModel(f"Sobel needs pictures (h, w) or (h, w, channels); rows have the shape {shape}.")


def _edges(one: Floats, n_axes: int) -> Floats:
    if n_axes == 1:
        slope = ndimage.convolve1d(one, [1.0, 0.0, -1.0], axis=0, mode="nearest")
        return np.asarray(slope**2)
    channels = one[..., None] if one.ndim == 2 else one
    found = np.empty_like(channels)
    for c in range(channels.shape[2]):
        picture = channels[..., c]
        found[..., c] = sum(ndimage.sobel(picture, axis=axis, mode="nearest") ** 2 for axis in (0, 1))
    return found.reshape(one.shape)
