"""Every rule is its matrix algebra, on every kind of layer, biases and negative inputs included."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from oracles.propagation_oracles import layer_relevance, network_relevance  # noqa: E402
from torch import nn  # noqa: E402
from zoo.networks import matrix_of  # noqa: E402

from tellwhy.explainers.propagation import (  # noqa: E402
    LRP,
    RULES,
    Composite,
    rules,
    rules as parts,
)

CASES = [
    ("z", {}),
    ("epsilon", {"epsilon": 0.3}),
    ("gamma", {"gamma": 0.5}),
    ("alpha_beta", {"alpha": 2.0, "beta": 1.0}),
    ("alpha_beta", {"alpha": 1.0, "beta": 0.0}),
    ("alpha_beta", {"alpha": 2.0, "beta": 1.0, "conserve": True}),
    ("alpha_beta", {"alpha": 1.0, "beta": 0.0, "conserve": True}),
    ("z_plus", {}),
    ("w_square", {}),
    ("flat", {}),
    ("z_box", {"low": -1.5, "high": 2.0}),
]


class Functional(nn.Module):
    """A layer as a function of torch.nn.functional, which is given its weights only."""

    def __init__(self, function, *shape):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(shape))

    def forward(self, x):
        return self.function(x, self.weight)


LAYERS = {
    "linear": (lambda: nn.Linear(6, 4), (6,)),
    "conv1d": (lambda: nn.Conv1d(2, 3, 3, padding=1, stride=2), (2, 5)),
    "conv2d": (lambda: nn.Conv2d(2, 4, (3, 2), padding=(1, 0), dilation=(1, 2), groups=2), (2, 4, 4)),
    "conv2d_same": (lambda: nn.Conv2d(2, 2, 3, padding="same"), (2, 3, 3)),
    "conv2d_no_bias": (lambda: nn.Conv2d(1, 2, 2, bias=False), (1, 3, 3)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), (1, 3, 2, 3)),
    "conv_transpose1d": (lambda: nn.ConvTranspose1d(2, 2, 3, stride=2, output_padding=1), (2, 3)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(2, 4, 2, stride=2, groups=2), (2, 2, 2)),
    "functional linear": (lambda: Functional(F.linear, 3, 6), (6,)),
    "functional conv2d": (lambda: Functional(F.conv2d, 3, 2, 2, 2), (2, 4, 3)),
    "functional conv_transpose1d": (lambda: Functional(F.conv_transpose1d, 2, 3, 2), (2, 3)),
    "conv_transpose3d": (lambda: nn.ConvTranspose3d(1, 2, 2), (1, 2, 2, 2)),
}


class Weighted(nn.Module):
    """A layer whose outputs are summed with fixed weights: relevance arrives at all of them."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        y = self.layer(x).flatten(1)
        return y * torch.linspace(-1, 1, y.shape[1], dtype=y.dtype)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(("rule", "params"), CASES)
def test_rule_is_its_matrix_algebra(rule, params, kind):
    torch.manual_seed(0)
    make, shape = LAYERS[kind]
    layer = make().double().eval()
    x = torch.randn(2, *shape, dtype=torch.float64)
    x[1] = x[1].abs()
    x[0, 0].flatten()[0] = 0
    explanation = LRP(
        Weighted(layer).eval(), target=lambda y: y.sum(dim=1), rule=rule, rule_params=params
    ).explain(x)
    W, b = matrix_of(layer, shape)
    v = np.linspace(-1, 1, len(b))
    for row, values in zip(x.flatten(1).numpy(), explanation.values.reshape(2, -1), strict=True):
        R = v * (W @ row + b)
        np.testing.assert_allclose(
            values, layer_relevance(rule, row, W, b, R, **params), rtol=1e-10, atol=1e-10
        )


@pytest.mark.parametrize(("rule", "params"), CASES)
def test_large_layers_are_done_in_blocks(rule, params, monkeypatch):
    torch.manual_seed(0)
    layer, x = nn.Linear(6, 7).double().eval(), torch.randn(3, 6, dtype=torch.float64)
    explainer = LRP(Weighted(layer).eval(), target=lambda y: y.sum(dim=1), rule=rule, rule_params=params)
    expected = explainer.explain(x).values
    monkeypatch.setattr(parts, "_BLOCK", 13)  # two outputs at a time
    np.testing.assert_allclose(explainer.explain(x).values, expected, atol=1e-12)


def small_network():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 6), nn.ReLU(inplace=True), nn.Linear(6, 3))
    model = model.double().eval()
    layers = [(m.weight.detach().numpy(), m.bias.detach().numpy()) for m in model if isinstance(m, nn.Linear)]
    return model, layers


@pytest.mark.parametrize(("rule", "params"), CASES)
def test_whole_network(rule, params):
    model, layers = small_network()
    x = np.random.default_rng(0).normal(size=(4, 5))
    explanation = LRP(model, target=1, rule=rule, rule_params=params).explain(x)
    for row, values in zip(x, explanation.values, strict=True):
        expected = network_relevance([(rule, params)] * 3, layers, row, 1)
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-10)


def test_relevance_at_dead_units_is_handed_down():
    """Flat gives relevance to dead units; the rules below it share that too."""
    model, layers = small_network()
    x = np.random.default_rng(1).normal(size=(4, 5))
    chosen = [("z", {}), ("epsilon", {"epsilon": 0.1}), ("flat", {})]
    by_index = {0: RULES["z"](), 2: RULES["epsilon"](0.1), 4: RULES["flat"]()}
    composite = Composite(
        [(lambda op, path=str(path): op.path == path, rule) for path, rule in by_index.items()]
    )
    explanation = LRP(model, target=0, composite=composite).explain(x)
    hidden = np.maximum(np.maximum(x @ layers[0][0].T + layers[0][1], 0) @ layers[1][0].T + layers[1][1], 0)
    assert (hidden == 0).any()
    for row, values in zip(x, explanation.values, strict=True):
        np.testing.assert_allclose(values, network_relevance(chosen, layers, row, 0), rtol=1e-9, atol=1e-10)


BUILT_IN = ("alpha_beta", "epsilon", "flat", "gamma", "w_square", "z", "z_box", "z_plus")


def test_every_rule_has_an_oracle_is_exported_and_documented():
    """What is easily forgotten when one is added."""
    page = Path(__file__).parents[3] / "docs" / "explanation" / "networks.md"
    documented = page.read_text(encoding="utf-8")
    built_in = [name for name, rule in RULES.items() if rule.__module__.startswith("tellwhy.")]
    assert set(built_in) >= set(BUILT_IN)
    assert set(built_in) <= {name for name, _ in CASES}
    for name in built_in:
        assert f"`{name}`" in documented
        assert getattr(rules, RULES[name].__name__) is RULES[name]
