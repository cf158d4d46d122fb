"""Treatments of batch norm and rules of residual additions and average pools, next to their algebra."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from oracles.propagation_oracles import layer_relevance  # noqa: E402
from torch import nn  # noqa: E402
from zoo.networks import Function, build, matrix_of  # noqa: E402

from tellwhy.explainers import (  # noqa: E402
    LRP,
    DeepTaylor,
    ExcitationBackprop,
    InputTimesGradient,
    coverage,
)
from tellwhy.explainers.propagation import Rule  # noqa: E402

# Small random networks lose relevance; that is told, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:.* promises that its values add up")


def batch_norm(d=4):
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(d, eps=0.1).double()
    for tensor in (norm.running_mean, norm.weight, norm.bias):
        nn.init.normal_(tensor)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    return norm.requires_grad_(False)


def lines(norm):
    """w and b of z = w x + b."""
    s = np.sqrt(norm.running_var.numpy() + norm.eps)
    w = norm.weight.numpy() / s
    return w, norm.bias.numpy() - w * norm.running_mean.numpy(), s


class Normalised(nn.Module):
    """Batch norm whose outputs are weighted: relevance arrives at all of them."""

    def __init__(self):
        super().__init__()
        self.norm = batch_norm()

    def forward(self, x):
        return self.norm(x) * torch.linspace(-1, 1, 4, dtype=x.dtype)


@pytest.mark.parametrize(
    ("rule", "params"),
    [
        ("z", {}),
        ("epsilon", {"epsilon": 0.2}),
        ("alpha_beta", {"alpha": 2.0, "beta": 1.0}),
        ("z_plus", {}),
        ("gamma", {"gamma": 0.5}),
        ("flat", {}),
        ("w_square", {}),
    ],
)
def test_one_and_two_linear_layers_are_their_algebra(rule, params):
    model, x = Normalised().eval(), torch.randn(5, 4, dtype=torch.float64)
    w, b, s = lines(model.norm)
    v = np.linspace(-1, 1, 4)
    explain = {
        treatment: LRP(model, target=lambda y: y.sum(1), rule=rule, rule_params=params, batch_norm=treatment)
        .explain(x)
        .values
        for treatment in ("one_linear", "two_linear")
    }
    for k, row in enumerate(x.numpy()):
        R = v * (w * row + b)
        one = layer_relevance(rule, row, np.diag(w), b, R, **params)
        np.testing.assert_allclose(explain["one_linear"][k], one, atol=1e-10)
        mean = model.norm.running_mean.numpy()
        inner = layer_relevance(
            rule, (row - mean) / s, np.diag(model.norm.weight.numpy()), model.norm.bias.numpy(), R, **params
        )
        two = layer_relevance(rule, row, np.diag(1 / s), -mean / s, inner, **params)
        np.testing.assert_allclose(explain["two_linear"][k], two, atol=1e-10)


@pytest.mark.parametrize("treatment", ["one_linear", "two_linear"])
def test_batch_norm_without_factors_has_no_shift(treatment):
    """alpha_beta shares with biases: there is only −μ/s here, which the first of two layers absorbs."""
    norm = nn.BatchNorm1d(4, affine=False).double().eval()
    nn.init.normal_(norm.running_mean, generator=torch.Generator().manual_seed(0))
    x = torch.randn(5, 4, dtype=torch.float64)
    found = LRP(norm, target=lambda y: y.sum(1), rule="alpha_beta", batch_norm=treatment).explain(x).values
    params = {"alpha": 2.0, "beta": 1.0}
    s = np.sqrt(1 + norm.eps)
    mean = norm.running_mean.numpy()
    for row, values in zip(x.numpy(), found, strict=True):
        R = (row - mean) / s
        R = (
            layer_relevance("alpha_beta", R, np.eye(4), np.zeros(4), R, **params)
            if treatment == "two_linear"
            else R
        )
        expected = layer_relevance("alpha_beta", row, np.eye(4) / s, -mean / s, R, **params)
        np.testing.assert_allclose(values, expected, atol=1e-12)


class RawBatchNorm(nn.Module):
    """torch.batch_norm takes the arguments of torch.nn.functional.batch_norm in another order."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 4)
        self.norm = batch_norm()

    def forward(self, x):
        norm = self.norm
        constants = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        return torch.batch_norm(self.layer(x), *constants, False, 0.1, norm.eps, False)


@pytest.mark.parametrize("treatment", ["merged", "one_linear", "two_linear"])
def test_both_functions_of_batch_norm_are_read(treatment):
    raw = RawBatchNorm().double().eval()
    model = nn.Sequential(raw.layer, raw.norm).eval()
    x = torch.randn(5, 3, dtype=torch.float64)
    expected = LRP(model, target=1, rule="gamma", batch_norm=treatment).explain(x)
    found = LRP(raw, target=1, rule="gamma", batch_norm=treatment).explain(x)
    np.testing.assert_allclose(found.scores, expected.scores)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-12)


def test_treatments_are_the_same_under_lrp_0_and_differ_under_epsilon():
    model, x = build("residual")
    found = {
        (rule, treatment): LRP(
            model, rule=rule, batch_norm=treatment, rule_params=None if rule == "z" else {"epsilon": 0.3}
        )
        .explain(x)
        .values
        for rule in ("z", "epsilon")
        for treatment in ("merged", "one_linear", "two_linear")
    }
    for treatment in ("one_linear", "two_linear"):
        np.testing.assert_allclose(found["z", treatment], found["z", "merged"], atol=1e-10)
        assert np.abs(found["epsilon", treatment] - found["epsilon", "merged"]).max() > 1e-4
    assert np.abs(found["epsilon", "one_linear"] - found["epsilon", "two_linear"]).max() > 1e-4


def test_four_coefficients_are_equation_a3():
    """R_i = (2 x⁺w⁺/(x⁺w⁺ + b⁺) − x⁺w⁻/(x⁺w⁻ + b⁻)) R_j, zero where a numerator is."""
    model, x = Normalised().eval(), torch.randn(9, 4, dtype=torch.float64)
    w, b, _ = lines(model.norm)
    explainer = LRP(model, target=lambda y: y.sum(1), rule="epsilon", batch_norm="four_coefficients")
    found = explainer.explain(x)
    for row, values in zip(x.numpy(), found.values, strict=True):
        R = np.linspace(-1, 1, 4) * (w * row + b)
        for i in range(4):
            xp, up, down = max(row[i], 0), max(w[i], 0), min(w[i], 0)
            first = 2 * xp * up / (xp * up + max(b[i], 0)) if xp * up > 0 else 0
            second = xp * down / (xp * down + min(b[i], 0)) if xp * down < 0 else 0
            np.testing.assert_allclose(values[i], (first - second) * R[i], atol=1e-12)
    assert np.abs(found.residual).max() > 0.1  # it does not conserve
    assert explainer.ledger(x)["rule"][0] == "four_coefficients"


def test_other_coefficients_pair_each_bias_with_its_sign():
    from tellwhy.explainers.propagation.engine.layers import ChannelScale
    from tellwhy.explainers.propagation.rules import four_coefficients

    x = torch.tensor([[-2.0, -2.0]], dtype=torch.float64)
    w, b = torch.tensor([3.0, -3.0], dtype=torch.float64), torch.tensor([-1.0, 1.0], dtype=torch.float64)
    layer, z = ChannelScale("batch_norm", w, b, {}), x * w + b
    c = four_coefficients((0, 0, 1, 1)).function(layer, x, z, torch.ones_like(x))
    np.testing.assert_allclose((x * c).numpy(), [[6 / 7 * -7, 6 / 7 * 7]])


MERGEABLE = {
    "linear": (lambda: nn.Linear(5, 4), lambda: nn.BatchNorm1d(4, eps=0.1), (5,)),
    "conv1d": (lambda: nn.Conv1d(2, 4, 2), lambda: nn.BatchNorm1d(4), (2, 4)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2, bias=False), lambda: nn.BatchNorm3d(2), (1, 2, 3, 2)),
    "depthwise": (lambda: nn.Conv2d(2, 2, 2, groups=2), lambda: nn.BatchNorm2d(2), (2, 3, 3)),
    "transposed": (lambda: nn.ConvTranspose2d(2, 3, 2), lambda: nn.BatchNorm2d(3), (2, 2, 2)),
    "no_affine": (lambda: nn.Linear(5, 4), lambda: nn.BatchNorm1d(4, affine=False), (5,)),
}


@pytest.mark.parametrize("name", MERGEABLE)
@pytest.mark.parametrize(("rule", "params"), [("z_plus", {}), ("alpha_beta", {"alpha": 2.0, "beta": 1.0})])
def test_merged_is_the_rule_of_both_as_one_matrix(name, rule, params):
    torch.manual_seed(0)
    make, normalise, shape = MERGEABLE[name]
    layer, norm = make(), normalise()
    for tensor in (norm.running_mean, norm.weight, norm.bias):
        if tensor is not None:
            nn.init.normal_(tensor)
    model = nn.Sequential(layer, norm, nn.Flatten()).double().eval()
    x = torch.randn(2, *shape, dtype=torch.float64)
    found = LRP(model, target=1, rule=rule, rule_params=params).explain(x)
    W, b = matrix_of(model, shape)
    for row, values, score in zip(
        x.flatten(1).numpy(), found.values.reshape(2, -1), found.scores, strict=True
    ):
        R = np.where(np.arange(len(b)) == 1, score, 0.0)
        np.testing.assert_allclose(values, layer_relevance(rule, row, W, b, R, **params), atol=1e-10)


def test_layers_that_cannot_be_merged_keep_their_rule():
    """Weights of grouped transposed convolutions do not show the output channels: batch norm takes LRP-0."""
    torch.manual_seed(0)
    layer, norm = nn.ConvTranspose2d(2, 4, 2, groups=2), nn.BatchNorm2d(4)
    nn.init.normal_(norm.weight)
    model = nn.Sequential(layer, norm, nn.Flatten()).double().eval()
    x = torch.randn(2, 2, 2, 2, dtype=torch.float64)
    found = LRP(model, target=0, rule="z_plus")
    assert list(coverage(model, x, explainer=found)["operation"]) == [
        "conv_transpose2d",
        "batch_norm",
        "flatten",
    ]
    W, b = matrix_of(nn.Sequential(layer, nn.Flatten()), (2, 2, 2))
    w = float(norm.weight[0].detach() / np.sqrt(1 + norm.eps))
    for row, values in zip(x.flatten(1).numpy(), found.explain(x).values.reshape(2, -1), strict=True):
        R = np.where(np.arange(len(b)) == 0, w * (W @ row + b), 0.0)
        np.testing.assert_allclose(values, layer_relevance("z_plus", row, W, b, R), atol=1e-10)


def test_channels_of_batch_norm_are_not_those_of_a_linear_layer_on_sequences():
    """A linear layer has its outputs on the last axis, batch norm takes the second: they are not one layer."""
    torch.manual_seed(0)
    layer, norm = nn.Linear(3, 4), nn.BatchNorm1d(4)  # as many channels as outputs
    nn.init.normal_(norm.weight)
    model = nn.Sequential(layer, norm, nn.Flatten()).double().eval()
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    operations = coverage(model, x)["operation"]
    assert list(operations) == ["linear", "batch_norm", "flatten"]
    found = LRP(model, target=5, rule="z").explain(x).values
    np.testing.assert_allclose(found, InputTimesGradient(model, target=5).explain(x).values, atol=1e-12)


def test_only_the_first_of_two_linear_layers_sees_the_input():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()
    explainer = LRP(model, composite="preset_a_flat", batch_norm="two_linear")
    rules = coverage(model, torch.randn(2, 4), explainer=explainer)["rule"]
    assert list(rules) == ["flat", "epsilon(epsilon=0.1)", "epsilon(epsilon=0.1)"]


def test_composites_have_a_rule_for_batch_norm_of_its_own():
    model, x = build("residual")
    listed = coverage(model, x, explainer=LRP(model, composite="preset_a", batch_norm="two_linear"))
    rules = listed[listed["operation"] == "batch_norm"]["rule"]
    assert list(rules) == ["epsilon(epsilon=0.1)"] * 2


class Sum(nn.Module):
    """A sum of a long and a short way."""

    def __init__(self, combine):
        super().__init__()
        torch.manual_seed(0)
        self.long = nn.Sequential(nn.Linear(3, 5, bias=False), nn.Tanh(), nn.Linear(5, 4, bias=False))
        self.short = nn.Linear(3, 4, bias=False)
        self.combine = combine

    def forward(self, x):
        return self.combine(self.long(x), self.short(x)) * torch.linspace(-1, 1, 4, dtype=x.dtype)


SUMS = {
    "add": (lambda a, b: a + b, (1, 1)),
    "sub": (lambda a, b: a - b, (1, -1)),
    "alpha": (lambda a, b: torch.add(a, b, alpha=-2), (1, -2)),
    "rsub": (torch.rsub, (-1, 1)),
    "in_place": (lambda a, b: a.add_(b), (1, 1)),
}
RESIDUAL = {
    "z": ("z", {}),
    "epsilon": ("epsilon", {"epsilon": 1e-6}),
    "gamma": ("gamma", {"gamma": 0.25}),
    "alpha_beta": ("alpha_beta", {"alpha": 2.0, "beta": 1.0}),
    "z_plus": ("z_plus", {}),
    "equal": ("flat", {}),
}


@pytest.mark.parametrize("sum_", SUMS)
@pytest.mark.parametrize("rule", RESIDUAL)
def test_additions_are_their_algebra(rule, sum_):
    """What arrives at the two ways is what the rule gives to the inputs of a layer with weights (1, 1)."""
    combine, weights = SUMS[sum_]
    model, x = Sum(combine).double().eval(), torch.randn(1, 3, dtype=torch.float64)
    book = LRP(model, target=lambda y: y.sum(1), rule="z", residual=rule).ledger(x).set_index("path")
    long, short = model.long(x).detach().numpy()[0], model.short(x).detach().numpy()[0]
    expected = np.zeros(2)
    for j, v in enumerate(np.linspace(-1, 1, 4)):
        parts, w = np.array([long[j], short[j]]), np.array(weights, dtype=float)
        name, params = RESIDUAL[rule]
        expected += layer_relevance(name, parts, w[None], np.zeros(1), [v * (w @ parts)], **params)
    np.testing.assert_allclose([book.arrived["long.2"], book.arrived["short"]], expected, atol=1e-9)


@pytest.mark.parametrize(
    ("rule", "shares"), [("shortcut", (0, 1)), ("branch", (1, 0)), ("equal", (0.5, 0.5))]
)
def test_one_way_takes_all(rule, shares):
    model, x = Sum(SUMS["add"][0]).double().eval(), torch.randn(3, 3, dtype=torch.float64)
    explainer = LRP(model, target=2, rule="z", residual=rule)
    book, scores = explainer.ledger(x).set_index("path"), explainer.explain(x).scores
    np.testing.assert_allclose(
        [book.arrived["long.2"], book.arrived["short"]], np.array(shares) * scores.sum(), atol=1e-10
    )
    np.testing.assert_allclose(explainer.explain(x).residual, 0, atol=1e-9)


def test_broadcast_additions_conserve():
    x = torch.rand(4, 3, dtype=torch.float64)
    for rule in (*RESIDUAL, "shortcut"):
        found = LRP(
            Function(lambda x: (x + x.mean(dim=1, keepdim=True)).sum(dim=1, keepdim=True)).eval(),
            rule="z",
            residual=rule,
        ).explain(x)
        expected = (
            found.scores if rule == "alpha_beta" else 0
        )  # twice the relevance, where there is no negative part
        np.testing.assert_allclose(-found.residual, expected, atol=1e-5)


def test_a_rule_of_your_own_for_additions():
    model, x = Sum(SUMS["add"][0]).double().eval(), torch.randn(2, 3, dtype=torch.float64)
    squares = Rule("z", lambda layer, x, z, R: R * x**2 / (x**2).sum(0), maps_relevance=True)
    found = LRP(model, target=0, rule="z", residual=squares)
    np.testing.assert_allclose(found.explain(x).residual, 0, atol=1e-10)
    proportional = LRP(model, target=0, rule="z").explain(x).values  # a rule's name does not matter
    assert np.abs(found.explain(x).values - proportional).max() > 1e-3
    assert list(coverage(model, x, explainer=found)["rule"]).count("z") == 4


@pytest.mark.parametrize("rule", ["epsilon", "z_plus", "equal", "shortcut"])
def test_residual_networks_keep_the_books(rule):
    model, x = build("residual")
    explainer = LRP(model, composite="epsilon_plus", residual=rule)
    residual = explainer.explain(x).residual
    np.testing.assert_allclose(explainer.ledger(x)["absorbed"].sum(), residual.sum(), rtol=1e-8, atol=1e-9)
    default = LRP(model, composite="epsilon_plus").explain(x).values
    assert rule == "epsilon" or np.abs(explainer.explain(x).values - default).max() > 1e-3


@pytest.mark.parametrize("treatment", ["one_linear", "two_linear", "four_coefficients"])
@pytest.mark.parametrize("composite", ["preset_a", "preset_b_flat"])
def test_batch_norm_layers_keep_the_books(treatment, composite):
    model, x = build("residual")
    explainer = LRP(model, composite=composite, batch_norm=treatment)
    residual = explainer.explain(x).residual
    np.testing.assert_allclose(explainer.ledger(x)["absorbed"].sum(), residual.sum(), rtol=1e-8, atol=1e-9)


def test_x_plus_x_is_one_activation():
    class Double(nn.Module):
        def forward(self, x):
            return x + x

    x = torch.randn(2, 3, dtype=torch.float64)
    found = LRP(Double().eval(), target=1, rule="z", residual="equal").explain(x).values
    np.testing.assert_allclose(found, InputTimesGradient(Double().eval(), target=1).explain(x).values)


POOLS = {
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, stride=2, padding=1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
    "mean": lambda x: x.mean((2, 3)),
}


@pytest.mark.parametrize("pool", POOLS)
def test_flat_pooling_spreads_evenly(pool):
    model, x = (
        Function(lambda x: POOLS[pool](x).flatten(1)).eval(),
        torch.rand(2, 1, 5, 5, dtype=torch.float64),
    )
    for explainer in (
        LRP(model, target=0, rule="z", pooling="flat"),
        DeepTaylor(model, target=0, low=0, pooling="flat"),
    ):
        found = explainer.explain(x)
        np.testing.assert_allclose(found.residual, 0, atol=1e-12)
        for values, score in zip(found.values, found.scores, strict=True):
            taken = values != 0
            np.testing.assert_allclose(values[taken], score / taken.sum(), atol=1e-12)
    uneven = DeepTaylor(model, target=0, low=0).explain(x)
    np.testing.assert_allclose(
        uneven.values, InputTimesGradient(model, target=0).explain(x).values, atol=1e-12
    )


class Deep(nn.Module):
    """Residual blocks whose branches are negative in places."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 16)
        self.branches = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        x = self.stem(x).relu()
        for branch in self.branches:
            x = x - 2 * branch(x)
        return self.head(x)


@pytest.mark.parametrize("method", [DeepTaylor, ExcitationBackprop])
def test_walks_and_deep_taylor_are_not_negative_in_residual_networks(method):
    torch.manual_seed(0)
    model = Deep().double().eval()
    x = torch.rand(40, 6, dtype=torch.float64)
    settings = {"low": 0.0, "high": 1.0} if method is DeepTaylor else {}
    values = method(model, target=lambda y: y.amax(dim=1).clamp(min=0.1), **settings).explain(x).values
    assert values.min() >= 0
    assert values.max() > 0


def test_ignored_biases_leave_nothing_unexplained():
    """R_i = x_i w_ij / sum_i(x_i w_ij) R_j, without the biases, in every layer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).double().eval()
    x = torch.randn(20, 5, dtype=torch.float64)
    found = LRP(model, target=1, rule="z", ignore_biases=True).explain(x)
    hidden = model[1](model[0](x)).detach().numpy()
    W = [model[k].weight.detach().numpy() for k in (0, 2)]
    above = hidden * W[1][1]
    R = above / above.sum(axis=1, keepdims=True) * found.scores[:, None]
    below = x.numpy()[:, None] * W[0]
    wanted = (below / below.sum(axis=2, keepdims=True) * R[:, :, None]).sum(axis=1)
    np.testing.assert_allclose(found.values, wanted, rtol=1e-9, atol=1e-9)
    assert abs(LRP(model, target=1, rule="z").explain(x).residual).max() > 0.01
    np.testing.assert_allclose(found.residual, 0, atol=1e-9)
    assert found.params["ignore_biases"] is True


@pytest.mark.parametrize("rule", ["epsilon", "gamma", "alpha_beta", "z_plus", "w_square"])
def test_ignored_biases_are_those_of_a_layer_without_any(rule):
    """One layer with a merged batch norm: relevance as that of the same weights without biases."""
    torch.manual_seed(0)
    layer, norm = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    nn.init.normal_(norm.running_mean)
    model = nn.Sequential(layer, norm, nn.Flatten()).double().eval()
    x = torch.randn(3, 2, 4, 4, dtype=torch.float64)
    plain = nn.Conv2d(2, 3, 3, bias=False).double()
    factor = norm.weight / (norm.running_var + norm.eps).sqrt()
    plain.weight.data = layer.weight.data * factor.data[:, None, None, None]
    weights = torch.linspace(-1, 1, 12, dtype=torch.float64)
    with_biases = LRP(model, target=lambda y: (y * weights).sum(1), rule=rule, ignore_biases=True).explain(x)
    R = (model(x) * weights).detach().numpy()
    found = LRP(nn.Sequential(plain, nn.Flatten()).eval(), rule=rule).from_outputs(x, R)
    np.testing.assert_allclose(with_biases.values, found, rtol=1e-8, atol=1e-8)
