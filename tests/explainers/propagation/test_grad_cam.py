"""Grad-CAM against its formula."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tellwhy.core.errors import InvalidInput  # noqa: E402
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


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.looks = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.own = nn.Linear(width, width)

    def forward(self, x):
        seen = self.norm1(x)
        x = x + self.looks(seen, seen, seen)[0]
        return x + self.own(self.norm2(x)).relu()


class Transformer(nn.Module):
    """Patches of 2 × 2 and a token for the class, from which alone the output is read."""

    def __init__(self, pools=False):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 2, stride=2)
        self.first = nn.Parameter(torch.randn(1, 1, 8))
        self.blocks = nn.Sequential(Block(8), Block(8))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)
        self.pools = pools

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.first.expand(len(x), -1, -1), tokens], dim=1)
        tokens = self.norm(self.blocks(tokens))
        return self.head(tokens[:, 1:].mean(dim=1) if self.pools else tokens[:, 0])


@pytest.mark.parametrize(("pools", "layer"), [(False, "blocks.1.norm1"), (True, "norm")])
def test_a_vision_transformer_is_seen_at_the_tokens_of_its_last_norm(pools, layer):
    torch.manual_seed(0)
    model = Transformer(pools).double().eval()
    x = X[:, :, :6]  # 3 × 4 patches
    tokens = []
    handle = model.get_submodule(layer).register_forward_hook(lambda m, i, out: tokens.append(out))
    scores = model(x)[:, 1]
    handle.remove()
    slopes = torch.autograd.grad(scores.sum(), tokens[0])[0][:, 1:]
    weighted = (slopes.mean(dim=1, keepdim=True) * tokens[0][:, 1:].detach()).sum(dim=2).relu()
    maps = weighted.reshape(len(x), 1, 3, 4)
    large = nn.functional.interpolate(maps, size=(6, 8), mode="bilinear")
    found = GradCAM(model, target=1).explain(x)
    np.testing.assert_allclose(found.values.sum(1), large[:, 0].numpy(), atol=1e-12)
    assert found.values.any()
    same = GradCAM(model, target=1, layer=layer).explain(x)
    np.testing.assert_array_equal(found.values, same.values)
    patches = GradCAM(model, target=1, layer="patches").explain(x)
    assert not np.allclose(found.values, patches.values)


def test_a_module_without_maps_is_refused():
    with pytest.raises(InvalidInput, match="not one tensor of maps"):
        GradCAM(network(), layer="6").explain(X)
    with pytest.raises(InvalidInput, match="no module"):
        GradCAM(network(), layer="nowhere").explain(X)
