"""Guided backprop and DeconvNet: every rectifier, in every spelling, or a refusal."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from tellwhy.core.errors import UnsupportedModel  # noqa: E402
from tellwhy.explainers import DeconvNet, Gradient, GuidedBackprop  # noqa: E402


class Two(nn.Module):
    """Two layers with a function after each."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.function = function
        self.double().eval()

    def forward(self, x):
        return self.head(self.function(self.second(self.function(self.first(x)))))


def _set(z):
    z = z.clone()
    z[z < 0] = 0
    return z


RECTIFIERS = {
    "F.relu": F.relu,
    "in place": lambda z: F.relu(z, inplace=True),
    "clamp": lambda z: z.clamp(min=0),
    "clamp_min": lambda z: torch.clamp_min(z, 0.0),
    "clip": lambda z: torch.clip(z, 0, None),
    "threshold": lambda z: F.threshold(z, 0, 0),
    "maximum": lambda z: torch.maximum(z, torch.zeros_like(z)),
    "max of two": lambda z: torch.max(z, torch.zeros(())),
    "times a mask": lambda z: z * (z > 0),
    "where": lambda z: torch.where(z > 0, z, torch.zeros_like(z)),
    "masked_fill": lambda z: z.masked_fill(z < 0, 0.0),
    "filled in": _set,
}
BOUNDED = {
    "clamp": lambda z: z.clamp(0, 1),
    "hardtanh": lambda z: F.hardtanh(z, 0.0, 1.0),
}
X = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def by_algebra(guided, bound=np.inf):
    model = Two(F.relu)
    W1, W2, W3 = (layer.weight.detach().numpy() for layer in (model.first, model.second, model.head))
    b1, b2, b3 = (layer.bias.detach().numpy() for layer in (model.first, model.second, model.head))
    z1 = X.numpy() @ W1.T + b1
    z2 = np.clip(z1, 0, bound) @ W2.T + b2
    chosen = (np.clip(z2, 0, bound) @ W3.T + b3).argmax(axis=1)
    c = np.maximum(W3[chosen], 0) * (((z2 > 0) & (z2 <= bound)) if guided else 1)
    return np.maximum(c @ W2, 0) * (((z1 > 0) & (z1 <= bound)) if guided else 1) @ W1


@pytest.mark.parametrize("method", [DeconvNet, GuidedBackprop])
@pytest.mark.parametrize("name", RECTIFIERS)
def test_every_spelling_of_relu_is_replaced(name, method):
    found = method(Two(RECTIFIERS[name])).explain(X).values
    np.testing.assert_allclose(found, by_algebra(method is GuidedBackprop), atol=1e-12)


@pytest.mark.parametrize("method", [DeconvNet, GuidedBackprop])
@pytest.mark.parametrize("name", ["clamp", "hardtanh"])
def test_a_rectifier_may_have_an_upper_bound(name, method):
    model = Two(BOUNDED[name])
    assert float(model.first(X).detach().max()) > 1
    np.testing.assert_allclose(
        method(model).explain(X).values, by_algebra(method is GuidedBackprop, 1.0), atol=1e-12
    )


@pytest.mark.parametrize("method", [DeconvNet, GuidedBackprop])
def test_relu6_is_a_rectifier(method):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU6(), nn.Linear(8, 2)).double().eval()
    twin = nn.Sequential(model[0], nn.Hardtanh(0.0, 6.0), model[2]).eval()
    found = method(model).explain(5 * X).values
    np.testing.assert_array_equal(found, method(twin).explain(5 * X).values)
    assert np.abs(found - Gradient(model).explain(5 * X).values).max() > 1e-3


@pytest.mark.parametrize("method", [DeconvNet, GuidedBackprop])
@pytest.mark.parametrize(
    "function",
    [
        *(F.gelu, F.silu, F.leaky_relu, F.elu, torch.tanh, F.hardswish, F.softplus, F.hardtanh),
        lambda z: z * torch.sigmoid(z),
        lambda z: 0.5 * z * (1 + torch.tanh(z)),
        lambda z: 0.5 * z * (1 + torch.erf(z / 2**0.5)),
        lambda z: torch.log1p(z.exp()),
        lambda z: (z + z.abs()) / 2,
        lambda z: torch.where(z > 0, z, 0.1 * z),
        lambda z: torch.maximum(0.1 * z, z),
    ],
)
def test_other_activation_functions_are_refused(function, method):
    with pytest.raises(UnsupportedModel, match="would give the plain gradient"):
        method(Two(function)).explain(X)


def test_a_function_at_the_end_is_not_in_the_way():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid()).double().eval()
    slopes = torch.sigmoid(model[:3](X)).detach().numpy()
    found = GuidedBackprop(model).explain(X).values
    plain = GuidedBackprop(model[:3].eval()).explain(X).values
    np.testing.assert_allclose(found, plain * slopes * (1 - slopes), atol=1e-12)


def test_recurrent_layers_with_relu_are_rectified_step_by_step():
    class Sum(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x)[0].sum((1, 2))[:, None]

    torch.manual_seed(0)
    model = Sum(nn.RNN(3, 4, nonlinearity="relu", batch_first=True)).double().eval()
    x = torch.randn(3, 5, 3, dtype=torch.float64)
    W, U, b, c = (p.detach().numpy() for p in model.layer.all_weights[0])
    expected = np.zeros(x.shape)
    for row, out in zip(x.numpy(), expected, strict=True):
        h, z = np.zeros(4), []
        for step in row:
            z.append(W @ step + U @ h + b + c)
            h = np.maximum(z[-1], 0)
        down = np.zeros(4)
        for t in range(4, -1, -1):
            active = np.maximum(1 + down, 0) * (z[t] > 0)
            out[t], down = W.T @ active, U.T @ active
    np.testing.assert_allclose(GuidedBackprop(model).explain(x).values, expected, atol=1e-12)


@pytest.mark.parametrize("method", [DeconvNet, GuidedBackprop])
@pytest.mark.parametrize("place", ["inside", "whole"])
def test_rectifiers_out_of_sight_are_no_plain_gradient(place, method):
    plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).double().eval()
    with pytest.warns(DeprecationWarning, match="deprecated"):
        traced = torch.jit.trace(plain[:2] if place == "inside" else plain, X)
    model = nn.Sequential(traced, plain[2]).eval() if place == "inside" else traced
    with pytest.raises(UnsupportedModel, match="cannot be seen"):
        method(model).explain(X)


def test_a_softmax_by_hand_is_no_activation_function():
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.head = nn.Linear(6, 8), nn.Linear(8, 2)
            self.double().eval()

        def forward(self, x):
            z = F.relu(self.first(x))
            return self.head(self.weights(z) * z)

        def weights(self, z):
            powers = (z - z.amax(dim=1, keepdim=True)).exp()
            return powers / powers.sum(dim=1, keepdim=True)

    class Short(Attends):
        def weights(self, z):
            return z.softmax(dim=1)

    by_hand, short = (GuidedBackprop(model()).explain(X).values for model in (Attends, Short))
    np.testing.assert_allclose(by_hand, short, atol=1e-12)
