"""One-Class DTD of sequences and images, through a model of their windows or patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import Rule, Rules, integer, validate_parameters
from tellwhy.core.progress import track
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import as_floats
from tellwhy.data.patches import cut_patches, put_back
from tellwhy.explainers.decomposition.one_class_dtd import OneClassDTD


def _are_sizes(value: Any) -> bool:
    return np.ndim(value) == 1 and len(value) > 0 and all(int(p) == p and p > 0 for p in value)


@register(
    "patch explainer",
    family="decomposition",
    needs="a one-class model of patches, made of distances to support points (kernel, neighbours or centres)",
    cost="OneClassDTD of every patch",
    exactness="closed form; what is not attributed is stated",
    citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020) 107198, section 7",
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

    kind: ClassVar[str] = "attribution"
    _parameters: ClassVar[dict[str, Rules]] = {
        "patch": Rule("a sequence of whole numbers above 0", _are_sizes),
        "stride": integer(1),
        "training_rows": OneClassDTD._parameters["training_rows"],
    }

    def __init__(
        self,
        model: object,
        *,
        patch: Sequence[int],
        stride: int = 1,
        training_rows: ArrayLike | str | None = "auto",
    ):
        self.model = model
        self.patch = patch
        self.stride = stride
        self.training_rows = training_rows

    def explain(self, X: ArrayLike) -> Explanation:
        """Explain inputs of shape (n, *axes[, channels])."""
        validate_parameters(self)
        inputs = _checked(X)
        values = np.empty_like(inputs)
        scores = np.empty(len(inputs))
        base = np.empty(len(inputs))
        explainer = OneClassDTD(self.model, training_rows=self.training_rows)
        for i, one in track(enumerate(inputs), len(inputs), "explaining patches"):
            found = explainer.explain(cut_patches(one, self.patch, self.stride))
            # a pixel gets what every patch that covers it gives: those at the rim are covered less often
            values[i] = put_back(found.values, one.shape, self.patch, self.stride)
            scores[i] = found.scores.sum()
            base[i] = found.base_values.sum()
        return Explanation(
            values=values,
            scores=scores,
            base_values=base,
            data=X,
            method=type(self).__name__,
            params={
                "explains": f"sum over patches of the {explainer.score.describes}",
                "patch": tuple(self.patch),
                "stride": self.stride,
            },
            kind=self.kind,
        )


def _checked(X: ArrayLike) -> Floats:
    """Return inputs as finite numbers, or say what is wrong with them."""
    shape = np.shape(X)
    # as_floats names the bad cell of a table, so inputs of more axes are laid flat for it
    if len(shape) < 2 or 0 in shape:
        raise InvalidInput(f"Expected inputs of shape (n, *axes), at least one. Got shape {shape}.")
    rows = X if len(shape) == 2 else np.asarray(X).reshape(shape[0], -1)
    return as_floats(rows).reshape(shape)
