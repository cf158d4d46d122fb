"""LRP-0 is input times gradient on unmodified torchvision models with random weights."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tellwhy.explainers import LRP, InputTimesGradient, coverage  # noqa: E402


def torchvision_models():
    """The models' module; without torchvision's compiled operators, which the models do not need."""
    try:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name, schema in {
            "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
            "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        }.items():
            if not hasattr(torch.ops.torchvision, name):
                library.define(schema)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torchvision.models as models
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision cannot be loaded: {error}")
    torchvision_models.library = library  # the definitions live as long as this object
    return models


CASES = {
    "vgg11_bn": ({}, 32),
    "vgg16": ({}, 32),
    "resnet18": ({}, 32),
    "resnet50": ({}, 32),
    "densenet121": ({}, 32),
    "inception_v3": ({"init_weights": False, "aux_logits": True}, 75),
    "googlenet": ({"init_weights": False}, 32),
    "mobilenet_v2": ({}, 32),
    "shufflenet_v2_x1_0": ({}, 32),
    "mnasnet1_0": ({}, 32),
}
FAST = ("resnet18", "mobilenet_v2", "shufflenet_v2_x1_0")


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_lrp_0_is_input_times_gradient(name):
    models = torchvision_models()
    torch.manual_seed(0)
    settings, size = CASES[name]
    model = getattr(models, name)(weights=None, num_classes=10, **settings).double().eval()
    x = 0.5 * torch.randn(1, 3, size, size, dtype=torch.float64)
    expected = InputTimesGradient(model).explain(x)
    found = LRP(model, rule="z").explain(x)
    largest = np.abs(expected.values).max()
    assert largest > 0
    np.testing.assert_allclose(found.values / largest, expected.values / largest, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.scores, model(x).max(dim=1).values.detach().numpy(), rtol=1e-10)
    assert not (coverage(model, x)["kind"] == "unknown").any()
