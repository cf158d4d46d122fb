"""Methods that the command line knows by name, and how far their values are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import nearest

PARTS = 14  # patches of occlusion along the shorter side
Box = tuple[Any, Any]  # least and largest value of an input, per channel


@dataclass(frozen=True)
class Named:
    """A method: its title, and how an explainer is made of a network, a target and the range of inputs."""

    title: str
    make: Callable[..., Any]


def _of(name: str, **settings: Any) -> Callable[..., Any]:
    def make(model: Any, target: Any, box: Box, **how: Any) -> Any:  # noqa: ARG001
        from tellwhy import explainers

        return getattr(explainers, name)(model, target, **settings, **how)

    return make


def _deep_taylor(model: Any, target: Any, box: Box, **how: Any) -> Any:
    from tellwhy.explainers import DeepTaylor

    low, high = box
    inside = low is not None and bool((np.asarray(low) <= 0).all() and (np.asarray(high) >= 0).all())
    return (
        DeepTaylor(model, target, low=low, high=high, **how) if inside else DeepTaylor(model, target, **how)
    )


def _integrated(model: Any, target: Any, box: Box, **how: Any) -> Any:  # noqa: ARG001
    from tellwhy.explainers import IntegratedGradients

    return IntegratedGradients(model, target=target, **how)


class _OfPictures:
    """A method of scores that changes parts of pictures, of a size that goes with theirs."""

    def __init__(self, name: str, model: Any, target: Any, batch_size: int):
        self.name = name
        self.model = model
        self.target = target
        self.batch_size = batch_size

    def explain(self, X: Any) -> Any:
        """Explain pictures (n, channels, height, width): parts become the mean colour of all of them."""
        from tellwhy import explainers
        from tellwhy.scoring import NetworkOutput

        rows = np.asarray(X)
        if rows.ndim != 4 or rows.dtype.kind != "f":
            raise InvalidParameter(
                f"--method {self.name.lower()} takes pictures. Use another method for texts."
            )
        mean = np.broadcast_to(rows.mean(axis=(0, 2, 3), keepdims=True)[0], rows.shape[1:])
        score = NetworkOutput(self.model, self.target, batch_size=self.batch_size)
        if self.name == "Lime":
            return explainers.Lime(score, baseline=mean).explain(rows)
        patch = max(1, round(min(rows.shape[2:]) / PARTS))
        return explainers.Occlusion(score, patch=patch, baseline=mean).explain(rows)


def _of_pictures(name: str) -> Callable[..., Any]:
    def make(model: Any, target: Any, box: Box, *, batch_size: int = 32) -> Any:  # noqa: ARG001
        return _OfPictures(name, model, target, batch_size)

    return make


METHODS: dict[str, Named] = {
    "lrp": Named("LRP (ε, z+)", _of("LRP", composite="epsilon_plus")),
    "lrp-detached": Named(
        "LRP, attention detached", _of("LRP", composite="epsilon_plus", attention="detached")
    ),
    "lrp-epsilon": Named("LRP ε", _of("LRP")),
    "lrp-gamma": Named("LRP γ", _of("LRP", rule="gamma")),
    "lrp-alpha2beta1": Named("LRP α2β1", _of("LRP", rule="alpha_beta")),
    "lrp-preset-a": Named("LRP preset A", _of("LRP", composite="preset_a")),
    "lrp-preset-a-flat": Named("LRP preset A, flat", _of("LRP", composite="preset_a_flat")),
    "lrp-preset-b": Named("LRP preset B", _of("LRP", composite="preset_b")),
    "lrp-preset-b-flat": Named("LRP preset B, flat", _of("LRP", composite="preset_b_flat")),
    "deep-taylor": Named("Deep Taylor", _deep_taylor),
    "gradient": Named("Gradient", _of("Gradient")),
    "smoothgrad": Named("SmoothGrad", _of("SmoothGrad", postprocess="square")),
    "input-gradient": Named("Input × gradient", _of("InputTimesGradient")),
    "integrated-gradients": Named("Integrated gradients", _integrated),
    "deconvnet": Named("DeconvNet", _of("DeconvNet")),
    "guided-backprop": Named("Guided backprop", _of("GuidedBackprop")),
    "occlusion": Named("Occlusion", _of_pictures("Occlusion")),
    "lime": Named("LIME", _of_pictures("Lime")),
    "excitation-backprop": Named("Excitation backprop", _of("ExcitationBackprop")),
}


def named_methods(asked: str) -> dict[str, Named]:
    """The methods of a list such as "lrp,gradient".

    Examples
    --------
    >>> list(named_methods("lrp, Gradient"))
    ['lrp', 'gradient']
    >>> named_methods("lpr")
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: Networks have no method 'lpr'; did you mean 'lrp'? There are: ...
    """
    found = {}
    for word in asked.split(","):
        name = word.strip().lower().replace("_", "-")
        if name not in METHODS:
            hint = nearest(name, METHODS)
            raise InvalidParameter(
                f"Networks have no method {word.strip()!r}{hint} There are: {', '.join(METHODS)}."
            )
        found[name] = METHODS[name]
    return found
