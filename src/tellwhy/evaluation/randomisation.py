"""Parameter randomisation: an explanation of a network must change when what the network learned is lost.

How similar two explanations of the same rows are is one number per row, 1 for the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.ndimage import uniform_filter
from scipy.stats import rankdata

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.optional import require
from tellwhy.core.params import Rules, function, generator, integer, one_of, seed, validate_value
from tellwhy.core.progress import track
from tellwhy.core.score import Floats

if TYPE_CHECKING:
    import pandas as pd


_WINDOW = 7  # pixels along each side of the window that means are taken over
# Small constants that keep the quotients finite where windows are even; the paper's, for values that span 1.
_C1 = 0.01**2
_C2 = 0.03**2


def rank_correlation(a: Floats, b: Floats) -> Floats:
    """Spearman's correlation of the values of each row; NaN where all values of a row are the same.

    Examples
    --------
    >>> rank_correlation(np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 4.0, 9.0]]))
    array([1.])
    """
    ranks = [rankdata(values.reshape(len(values), -1), axis=1) for values in (a, b)]
    centred = [rank - rank.mean(axis=1, keepdims=True) for rank in ranks]
    lengths = np.sqrt((centred[0] ** 2).sum(axis=1) * (centred[1] ** 2).sum(axis=1))
    products = (centred[0] * centred[1]).sum(axis=1)
    return np.where(lengths > 0, products / np.where(lengths > 0, lengths, 1.0), np.nan)


def correlate_absolute_ranks(a: Floats, b: Floats) -> Floats:
    """Spearman's correlation of the absolute values of each row."""
    return rank_correlation(np.abs(a), np.abs(b))


def measure_structural_similarity(a: Floats, b: Floats) -> Floats:
    """Mean structural similarity of images (n, height, width) or (n, channels, height, width).

    Channels are summed. Each image is scaled to a largest absolute value of ½, so that values span 1. Windows
    have 7 × 7 pixels, or the whole of smaller images. Wang, Bovik, Sheikh, Simoncelli, IEEE TIP 13 (2004).
    """
    if a.ndim not in (3, 4):
        raise InvalidInput(
            "'ssim' compares images of shape (height, width) or (channels, height, width). Got "
            f"{a.shape[1:]}; 'rank' compares values of any shape."
        )
    a = _scaled(a)
    b = _scaled(b)
    window = (1, min(_WINDOW, a.shape[1]), min(_WINDOW, a.shape[2]))

    def mean(values: Floats) -> Floats:
        return np.asarray(uniform_filter(values, window, mode="reflect"))

    mean_a = mean(a)
    mean_b = mean(b)
    variance_a = mean(a * a) - mean_a**2
    variance_b = mean(b * b) - mean_b**2
    covariance = mean(a * b) - mean_a * mean_b
    nearness = (2 * mean_a * mean_b + _C1) / (mean_a**2 + mean_b**2 + _C1)
    structure = (2 * covariance + _C2) / (variance_a + variance_b + _C2)
    return np.asarray((nearness * structure).mean(axis=(1, 2)))


def _scaled(images: Floats) -> Floats:
    """Images with their channels summed and a largest absolute value of ½; an even one stays as it is."""
    images = images.sum(axis=1) if images.ndim == 4 else images
    largest = np.abs(images).max(axis=(1, 2), keepdims=True)
    return np.asarray(images / np.where(largest > 0, 2 * largest, 1.0))


SIMILARITIES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "rank": rank_correlation,
    "rank_abs": correlate_absolute_ranks,
    "ssim": measure_structural_similarity,
}


Similarity = Callable[[Floats, Floats], Floats]
_ACCEPTED: dict[str, Rules] = {
    "mode": one_of("cascading", "independent"),
    "similarity": (one_of(*SIMILARITIES), function),
    "n_stages": integer(1),
    "random_state": seed,
}


@dataclass(frozen=True, eq=False)
class Randomisation:
    """How similar explanations stay as the parameters of a network become random, layer after layer.

    Attributes
    ----------
    layers
        Names of the layers that became random at each stage, from the output to the input.
    similarities
        Similarity between the explanation of the network as it is and of the one with random layers, shape
        (n_stages, n_rows). NaN where one of the two explanations is the same everywhere.
    method
        Name of the explainer.
    mode
        'cascading' (each stage keeps the random layers of those before it) or 'independent' (only its own).
    similarity
        How two explanations were compared.
    """

    layers: tuple[tuple[str, ...], ...]
    similarities: Floats
    method: str
    mode: str
    similarity: str

    def mean_curve(self) -> Floats:
        """Mean similarity over the rows at each stage, shape (n_stages,)."""
        known = np.isfinite(self.similarities)
        sums = np.where(known, self.similarities, 0.0).sum(axis=1)
        return np.where(known.any(axis=1), sums / np.maximum(known.sum(axis=1), 1), np.nan)

    @property
    def final(self) -> float:
        """Mean similarity at the last stage: near 0 if the explanation depends on what was learned."""
        return float(self.mean_curve()[-1])

    def to_frame(self) -> pd.DataFrame:
        """One line per stage: its layers, the mean similarity and its standard deviation over the rows."""
        import pandas as pd

        names = [_listed(stage) for stage in self.layers]
        spread = [
            float(np.std(row[np.isfinite(row)])) if np.isfinite(row).any() else np.nan
            for row in self.similarities
        ]
        return pd.DataFrame({"layers": names, "similarity": self.mean_curve(), "spread": spread})


def parameter_randomisation(
    explainer: Any,
    x: Any,
    *,
    mode: str = "cascading",
    similarity: str | Similarity = "rank",
    layers: Sequence[str] | None = None,
    n_stages: int = 12,
    random_state: Any = 0,
) -> Randomisation:
    """Make the parameters of a network random, and compare the explanations before and after.

    Every parameter of a layer is replaced by normal numbers with its mean and standard deviation. A copy of
    the network is changed, never the network itself. The explained output of each row is the one of the
    network as it is.

    Parameters
    ----------
    explainer
        An explainer of a network, such as `LRP(model)`.
    x
        The inputs to explain.
    mode
        'cascading': from the output down, each stage in addition to those before it; 'independent': each
        stage alone.
    similarity
        'rank' (Spearman's correlation of the values), 'rank_abs' (of their absolute values), 'ssim'
        (structural similarity of the images, channels summed), or a function of two arrays of values (n,
        *shape) that gives n numbers.
    layers
        Names of the modules that become random, in this order; by default all that have parameters of their
        own, the last one registered first.
    n_stages
        The most explanations to compute; consecutive layers share a stage where there are more.
    random_state
        Seed of the parameters.

    Returns
    -------
    Randomisation
        How similar the explanations stay, layer after layer.

    References
    ----------
    Adebayo, Gilmer, Muelly, Goodfellow, Hardt, Kim, NeurIPS (2018).

    Examples
    --------
    >>> import torch
    >>> from tellwhy.explainers import Gradient
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2)).eval()
    >>> result = parameter_randomisation(Gradient(model), torch.randn(8, 20))
    >>> result.layers
    (('2',), ('0',))
    >>> bool(abs(result.final) < 0.3)
    True
    """
    require("torch", "parameter_randomisation")
    _check(mode=mode, similarity=similarity, n_stages=n_stages, random_state=random_state)
    model = _find_model_of(explainer)
    stages = _list_stages(model, layers, n_stages)
    compare = SIMILARITIES[similarity] if isinstance(similarity, str) else similarity
    fixed = _fixed(explainer, model, x)
    before = _explained(fixed, model, x)
    found = []
    rng = generator(random_state)
    changed = copy.deepcopy(model)
    for stage in track(stages, len(stages), "randomising parameters"):
        if mode == "independent":
            changed = copy.deepcopy(model)
        _randomise(changed, stage, rng)
        found.append(_checked(compare(before, _explained(fixed, changed, x)), len(before)))
    name = similarity if isinstance(similarity, str) else getattr(similarity, "__name__", "a function")
    return Randomisation(tuple(stages), np.stack(found), type(explainer).__name__, mode, name)


def _check(**given: Any) -> None:
    for name, value in given.items():
        validate_value("parameter_randomisation", name, value, _ACCEPTED[name])


def _find_model_of(explainer: Any) -> Any:
    from torch.nn import Module

    model = getattr(explainer, "model", None)
    if not isinstance(model, Module) or not hasattr(explainer, "explain"):
        raise UnsupportedModel(
            "parameter_randomisation needs an explainer of a network, such as LRP(model). Got "
            f"{type(explainer).__name__} instead."
        )
    return model


def _list_stages(model: Any, layers: Sequence[str] | None, n_stages: int) -> list[tuple[str, ...]]:
    """Return the layers of each stage, in the order in which they become random."""
    own = [name for name, module in model.named_modules() if _has_own_parameters(module)]
    if layers is not None:
        unknown = [name for name in layers if name not in own]
        if unknown or not len(layers):
            raise InvalidParameter(
                "The 'layers' parameter of parameter_randomisation must name modules that have parameters "
                f"of their own: {', '.join(map(repr, own))}. Got {list(layers)!r} instead."
            )
    # Modules are registered from the input to the output as a rule; the cascade starts at the output.
    chosen = list(layers) if layers is not None else own[::-1]
    if not chosen:
        raise UnsupportedModel(f"{type(model).__name__} has no parameters that could become random.")
    parts = np.array_split(np.arange(len(chosen)), min(n_stages, len(chosen)))
    return [tuple(chosen[i] for i in part) for part in parts]


def _has_own_parameters(module: Any) -> bool:
    """Whether a module has parameters that are not those of a module inside it."""
    return next(module.parameters(recurse=False), None) is not None


def _fixed(explainer: Any, model: Any, x: Any) -> Any:
    """Return a copy of the explainer whose target is the output that each row has in the network as it is."""
    from tellwhy.scoring import NetworkOutput

    fixed = copy.copy(explainer)
    if isinstance(getattr(explainer, "target", None), str):
        batch_size = getattr(explainer, "batch_size", None) or 32  # None leaves it to the explainer
        device = getattr(explainer, "device", None)
        score = NetworkOutput(model, explainer.target, batch_size=batch_size, device=device)
        fixed.target = score.fixed(x.detach().cpu() if hasattr(x, "detach") else x)[0]
    return fixed


def _explained(explainer: Any, model: Any, x: Any) -> Floats:
    """Values of the explanation of another model by the same method."""
    own = copy.copy(explainer)
    own.__dict__.pop("score", None)  # made from the model it had
    own.model = model
    return np.asarray(own.explain(x).values)


def _randomise(model: Any, layers: Sequence[str], rng: np.random.Generator) -> None:
    """Replace the layers' parameters by normal numbers with their mean and standard deviation."""
    import torch

    with torch.no_grad():
        for name in layers:
            for parameter in model.get_submodule(name).parameters(recurse=False):
                if parameter.is_floating_point():
                    drawn = torch.from_numpy(rng.standard_normal(tuple(parameter.shape))).to(parameter)
                    # A single number has no standard deviation: its size stands for it.
                    spread = parameter.std() if parameter.numel() > 1 else parameter.abs()
                    parameter.copy_(parameter.mean() + spread * drawn)


def _checked(found: Any, n_rows: int) -> Floats:
    similarities = np.asarray(found, dtype=np.float64)
    if similarities.shape != (n_rows,):
        raise InvalidInput(
            f"similarity(a, b) must give one number per row: ({n_rows},). Got {similarities.shape}."
        )
    return similarities


def _listed(stage: tuple[str, ...]) -> str:
    """Names of a stage, as short as can be."""
    shown = [name or "(the model's own)" for name in stage]
    return ", ".join(shown) if len(shown) < 4 else f"{shown[0]} … {shown[-1]} ({len(shown)} layers)"
