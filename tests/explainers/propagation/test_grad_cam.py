"""Grad-CAM against its formula."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tellwhy.explainers import GradCAM  # noqa: E402

X = torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def network(last=nn.Identity):
    torch.manual_seed(0)
    body = (
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, padding=1),
    )
    return nn.Sequential(*body, nn.ReLU(), nn.Flatten(), nn.Linear(96, 3), last()).double().eval()


@pytest.mark.parametrize("layer", [None, "3", "4", "2"])
def test_values_are_the_enlarged_weighted_sum(layer):
    model = network()
    stop = {None: 4, "3": 4, "4": 5, "2": 3}[layer]
    maps = model[:stop].eval()(X).detach().requires_grad_()
    outputs = model[stop:].eval()(maps)
    chosen = outputs.argmax(1)
    slopes = torch.autograd.grad(outputs.gather(1, chosen[:, None]).sum(), maps)[0].numpy()
    weighted = (slopes.mean((2, 3), keepdims=True) * maps.detach().numpy()).sum(1, keepdims=True)
    large = nn.functional.interpolate(torch.as_tensor(np.maximum(weighted, 0)), size=(8, 8), mode="bilinear")
    found = GradCAM(model, layer=layer, batch_size=2).explain(X)
    np.testing.assert_allclose(found.values.sum(1), large[:, 0].numpy(), atol=1e-12)
    np.testing.assert_array_equal(found.extras["output"], chosen.numpy())
    assert found.kind == "signal"
    assert (found.values >= 0).all()


def test_a_trailing_softmax_is_left_out():
    found = GradCAM(network(lambda: nn.Softmax(dim=1)), target=1).explain(X)
    np.testing.assert_array_equal(found.values, GradCAM(network(), target=1).explain(X).values)
    assert "softmax" in found.params["explains"]


def test_the_model_keeps_no_trace():
    model = network()
    GradCAM(model).explain(X)
    assert not any(module._forward_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
