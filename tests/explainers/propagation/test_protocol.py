"""Explainers of networks are explainers like all others."""

import inspect

import pytest

torch = pytest.importorskip("torch")

from tellwhy.core.errors import InvalidParameter  # noqa: E402
from tellwhy.core.explainer import Explainer  # noqa: E402
from tellwhy.core.explanation import KINDS  # noqa: E402
from tellwhy.core.registry import cards  # noqa: E402
from tellwhy.explainers import GradCAM, GuidedGradCAM, LayerAttribution  # noqa: E402

METHODS = [card.cls for card in cards("network explainer")]
MODEL = torch.nn.Linear(2, 1).eval()
MAPS = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.Flatten()).eval(), torch.rand(2, 1, 3, 3)


OF_MAPS = (GradCAM, GuidedGradCAM, LayerAttribution)


def required(method):
    """Settings that a method cannot do without."""
    return {"layer": "0"} if method is LayerAttribution else {}


def test_all_of_them_are_in_the_catalogue():
    names = {method.__name__ for method in METHODS}
    assert names >= {"DeconvNet", "DeepTaylor", "ExcitationBackprop", "Gradient", "GuidedBackprop"}
    assert names >= {"InputTimesGradient", "LRP", "SmoothGrad"}


@pytest.mark.parametrize("method", METHODS)
def test_they_have_the_members_of_an_explainer(method):
    model, x = MAPS if method in OF_MAPS else (MODEL, torch.tensor([[1.0, 2.0], [3.0, 1.0]]))
    explainer = method(model, **required(method))
    assert isinstance(explainer, Explainer)
    assert explainer.model is model
    assert explainer.kind in KINDS
    if hasattr(explainer, "fit"):
        explainer.fit(x)
    assert explainer.explain(x).kind == explainer.kind
    wanted = ["X", "progress", "output", "differentiable", "compile"]
    if method is LayerAttribution:  # units have another shape than rows: it goes its own way
        wanted = wanted[:2]
    assert list(inspect.signature(explainer.explain).parameters) == wanted


@pytest.mark.parametrize("method", METHODS)
def test_every_parameter_is_declared_stored_and_checked(method):
    parameters = inspect.signature(method).parameters
    assert set(method._parameters) == set(parameters) - {"model"}
    model, x = MAPS if method in OF_MAPS else (MODEL, [[1.0, 2.0]])
    needed = required(method)
    explainer = method(model, **needed)
    for name in method._parameters:
        assert getattr(explainer, name) == needed.get(name, parameters[name].default)
        with pytest.raises(InvalidParameter, match=name):
            method(model, **needed | {name: object()}).explain(x)
