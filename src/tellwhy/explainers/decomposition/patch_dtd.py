"""One-Class DTD of sequences and images, through a model of their windows or patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import Rule, integer, validate_value
from tellwhy.core.progress import track
from tellwhy.data.patches import cut_patches, put_back
from tellwhy.explainers.decomposition.one_class_dtd import OneClassDTD

_SIZES = Rule(
    "a sequence of whole numbers above 0", lambda v: len(v) > 0 and all(int(p) == p and p > 0 for p in v)
)


class PatchDTD:
    """Explain O(x) = Σ_t o(patch t) pixel by pixel, or sample by sample (section 7 of the paper).

    The score of an input is the sum over its patches; each patch's score is its relevance (R_t = o_t), which
    One-Class DTD spreads over the patch's pixels; pixels add up what all patches that cover them give.

    Parameters
    ----------
    model
        A one-class model of patches, as `tellwhy.data.patches.cut_patches` gives them.
    patch
        Size along each axis: (7, 7) for images (height, width[, channels]), (16,) for sequences (time[,
        channels]).
    stride
        Step between patches.
    training_rows
        As in `OneClassDTD`: patches that the model was trained on are explained without themselves.

    Examples
    --------
    >>> from tellwhy.detectors import OneClassSVM
    >>> wave = np.sin(np.arange(200) / 3)
    >>> model = OneClassSVM(nu=0.2).fit(cut_patches(wave, (8,)))
    >>> broken = wave.copy()
    >>> broken[100] += 2.0
    >>> int(PatchDTD(model, patch=(8,)).explain(broken[None]).values[0].argmax())
    100
    """

    def __init__(self, model: Any, *, patch: Sequence[int], stride: int = 1, training_rows: Any = "auto"):
        self.model = model
        self.patch = patch
        self.stride = stride
        self.training_rows = training_rows

    def explain(self, X: Any) -> Explanation:
        """Explain inputs of shape (n, *axes[, channels])."""
        validate_value("PatchDTD", "patch", self.patch, _SIZES)
        validate_value("PatchDTD", "stride", self.stride, integer(1))
        inputs = np.asarray(X, dtype=np.float64)
        if inputs.ndim < 2 or len(inputs) == 0:
            raise InvalidInput(
                f"Expected inputs of shape (n, *axes), at least one. Got shape {inputs.shape}."
            )
        values, scores, base = np.empty_like(inputs), np.empty(len(inputs)), np.empty(len(inputs))
        explainer = OneClassDTD(self.model, training_rows=self.training_rows)
        for i, one in track(enumerate(inputs), len(inputs), "explaining patches"):
            found = explainer.explain(cut_patches(one, self.patch, self.stride))
            values[i] = put_back(found.values, one.shape, self.patch, self.stride)
            scores[i], base[i] = found.scores.sum(), found.base_values.sum()
        return Explanation(
            values=values,
            scores=scores,
            base_values=base,
            data=X,
            method="PatchDTD",
            params={
                "explains": f"sum over patches of the {explainer.score.describes}",
                "patch": tuple(self.patch),
                "stride": self.stride,
            },
        )
