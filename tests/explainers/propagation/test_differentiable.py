"""Explanations that can be differentiated: their derivatives are those of finite differences."""

import gc
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from zoo.networks import MODELS, Joined, build  # noqa: E402

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel  # noqa: E402
from tellwhy.explainers import (  # noqa: E402
    LRP,
    DeepTaylor,
    ExcitationBackprop,
    GradCAM,
    Gradient,
    GuidedBackprop,
    InputTimesGradient,
    SmoothGrad,
)
from tellwhy.explainers.propagation import Handover, graphs  # noqa: E402

# Small random networks lose relevance; that is told, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:.* promises that its values add up")

EXPLAINERS = {
    "gradient": Gradient,
    "input_times_gradient": InputTimesGradient,
    "z": lambda m: LRP(m, rule="z"),
    "epsilon": lambda m: LRP(m, rule_params={"epsilon": 0.1}),
    "z_plus": lambda m: LRP(m, rule="z_plus"),
    "alpha_beta": lambda m: LRP(m, rule="alpha_beta", rule_params={"alpha": 2.0, "beta": 1.0}),
    "gamma": lambda m: LRP(m, rule="gamma", residual="gamma"),
    "w_square": lambda m: LRP(m, rule="w_square", pooling="flat"),
    "z_box": lambda m: LRP(m, rule="z_box", rule_params={"low": -4.0, "high": 4.0}),
    "preset_a_flat": lambda m: LRP(m, composite="preset_a_flat", batch_norm="two_linear"),
    "four_coefficients": lambda m: LRP(m, rule="gamma", batch_norm="four_coefficients", residual="equal"),
    "any_output": lambda m: LRP(m, target=lambda y: y.square().sum(dim=1), rule="gamma"),
    "deep_taylor": lambda m: DeepTaylor(m, low=-4.0, high=4.0),
    "excitation": lambda m: ExcitationBackprop(m, contrastive=True),
}


class Attention(nn.Module):
    """Embedded tokens, layer norm in two spellings, GELU, attention in one call and gated units."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 8)
        self.norm = nn.LayerNorm(8)
        self.looks = nn.Linear(8, 24)
        self.gate = nn.Linear(8, 16)
        self.own = nn.LSTM(8, 4, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, tokens):
        x = tokens if tokens.is_floating_point() else self.words(tokens)
        heads = [t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.looks(self.norm(x)).chunk(3, dim=-1)]
        # With an axis of heads PyTorch takes its fast kernel, which has no second derivative.
        x = x + F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)
        x = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-5)
        gate, signal = self.gate(x).chunk(2, dim=-1)
        x = x + F.silu(gate) * F.gelu(signal)
        return self.head(self.own(x)[0].amax(dim=1)).softmax(dim=1)


def tokens_and_model():
    torch.manual_seed(3)
    model = Attention().double().eval()
    return model, torch.randint(0, 9, (4, 5))


def weighted(explainer, x, weights, **choices):
    """Values' weighted sum, by the path that is asked for."""
    return (explainer.explain(x, output="torch", **choices).values * weights).sum()


def slope(function, tensor, direction, step=1e-6):
    """Derivative of a function of a tensor in a direction, by central differences."""
    found = []
    with torch.no_grad():
        before = tensor.clone()
        for sign in (1, -1):
            tensor.copy_(before + sign * step * direction)
            found.append(float(function()))
        tensor.copy_(before)
    return (found[0] - found[1]) / (2 * step)


def check_slopes(explainer, x, tensors):
    """Derivatives with respect to each tensor, against finite differences of the ordinary path."""
    generator = torch.Generator().manual_seed(1)
    draw = lambda t: torch.randn(t.shape, dtype=torch.float64, generator=generator)  # noqa: E731
    weights = draw(x)
    loss = weighted(explainer, x, weights, differentiable=True)
    found = torch.autograd.grad(loss, tensors)
    slopes = []
    for tensor, derivative in zip(tensors, found, strict=True):
        direction = draw(tensor)
        wanted = slope(lambda: weighted(explainer, x, weights), tensor, direction)
        assert abs(float((derivative * direction).sum()) - wanted) < 1e-5 * max(1.0, abs(wanted))
        slopes.append(wanted)
    assert any(slopes)  # that of a gradient with respect to x is 0 between the kinks of ReLUs


def parameters_of(model):
    """The first and the last weights, and all that belong to a norm."""
    named = dict(model.named_parameters())
    weights = [name for name in named if name.endswith("weight")]
    wanted = {weights[0], weights[-1], *(name for name in named if "norm" in name)}
    return [named[name] for name in wanted]


# Every method on one network, every network by two methods: derivatives are taken of one graph for all.
CASES = [(name, "residual") for name in EXPLAINERS]
CASES += [(name, model) for name in ("gradient", "gamma") for model in MODELS if model != "residual"]


@pytest.mark.parametrize(("name", "model"), CASES)
def test_derivatives_are_those_of_finite_differences(name, model):
    network, x = build(model)
    x = x[:2].requires_grad_()
    explainer = EXPLAINERS[name](network)
    found = explainer.explain(x, output="torch", differentiable=True)
    wanted = explainer.explain(x)
    np.testing.assert_allclose(found.values.detach(), wanted.values, atol=1e-12, rtol=1e-12)
    np.testing.assert_allclose(found.scores.detach(), wanted.scores, atol=1e-12)
    check_slopes(explainer, x, [x, *parameters_of(network)])


@pytest.mark.parametrize(
    "make",
    [
        Gradient,
        lambda m: LRP(m, rule="gamma"),
        lambda m: LRP(m, rule_params={"epsilon": 0.1}, attention="detached", gates="half"),
        lambda m: LRP(m, rule="z_plus", residual="equal"),
    ],
    ids=["gradient", "gamma", "detached", "relevance"],
)
def test_attention_norms_products_and_recurrence_on_tokens(make):
    model, tokens = tokens_and_model()
    explainer = make(model)
    found = explainer.explain(tokens, output="torch", differentiable=True)
    np.testing.assert_allclose(found.values.detach(), explainer.explain(tokens).values, atol=1e-12)
    parameters = [model.words.weight, model.looks.weight, model.norm.weight, model.own.weight_hh_l0]
    check_slopes(explainer, tokens, parameters)
    embedded = torch.randn(4, 5, 8, dtype=torch.float64).requires_grad_()
    check_slopes(explainer, embedded, [embedded, *parameters[1:]])


def test_batches_and_several_inputs():
    torch.manual_seed(0)
    model = Joined(nn.Linear(3, 4), nn.Linear(2, 4), nn.Linear(4, 2)).double().eval()
    given = {"right": torch.randn(5, 2).double().requires_grad_(), "left": torch.randn(5, 3).double()}
    found = {}
    for size in (2, 32):
        explainer = LRP(model, target=1, rule="gamma", batch_size=size)
        made = explainer.explain(given, output="torch", differentiable=True)
        wanted = explainer.explain(given)
        for name in given:
            np.testing.assert_allclose(made[name].values.detach(), wanted[name].values, atol=1e-12)
            np.testing.assert_allclose(made[name].numpy().residual, wanted[name].residual, atol=1e-12)
        (found[size],) = torch.autograd.grad(made["left"].values.square().sum(), given["right"])
    assert found[2].abs().max() > 0
    torch.testing.assert_close(found[2], found[32])


def test_zeros_have_derivatives_too():
    """Where a rule divides zero by zero the derivative is zero, not a number that is none."""
    model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False)).double().eval()
    for rule in ("z", "epsilon", "gamma", "alpha_beta", "z_plus", "w_square"):
        x = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
        values = LRP(model, rule=rule).explain(x, output="torch", differentiable=True).values
        values.sum().backward()
        assert x.grad.isfinite().all()
        assert model[0].weight.grad.isfinite().all()


def test_padding_by_name():
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 2, 3, padding="same"), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 2)]
    model = nn.Sequential(*layers).double().eval()
    x = torch.randn(2, 1, 4, 4, dtype=torch.float64).requires_grad_()
    check_slopes(LRP(model, rule="gamma", pooling="flat"), x, [x, model[0].weight, model[4].weight])


def test_rectified_gradients_have_derivatives():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    x = torch.randn(3, 4, dtype=torch.float64)
    check_slopes(GuidedBackprop(model.double().eval()), x, [model[0].weight, model[4].weight])

    class Unknown(nn.Module):
        def forward(self, x):
            return torch.cumprod(model(x), dim=1)

    x.requires_grad_()
    check_slopes(GuidedBackprop(Unknown().eval()), x, [x, model[0].weight])


def test_what_cannot_be_differentiated_is_refused():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)).eval()
    x = torch.rand(2, 1, 4, 4)
    for explainer in (SmoothGrad(model), GradCAM(model)):
        with pytest.raises(InvalidInput, match="cannot be differentiated"):
            explainer.explain(x, output="torch", differentiable=True)
    own = Handover(lambda op: op.name == "relu", lambda xs, out, R: R)
    with pytest.raises(InvalidInput, match="functions of your own"):
        LRP(model, own=[own]).explain(x, output="torch", differentiable=True)
    with pytest.raises(InvalidParameter, match="output="):
        LRP(model).explain(x, differentiable=True)
    with pytest.raises(InvalidParameter, match="differentiable"):
        LRP(model).explain(x, output="torch", differentiable="yes")
    with pytest.raises(InvalidInput, match="copy of the model"):
        LRP(model, device="meta").explain(x, output="torch", differentiable=True)

    class Unknown(nn.Module):
        def forward(self, x):
            return torch.cumprod(x.flatten(1), dim=1)[:, :2]

    with pytest.raises(UnsupportedModel, match="no rule for"):
        LRP(Unknown().eval()).explain(x, output="torch", differentiable=True)


def test_an_ordinary_explanation_has_no_history_and_leaves_none():
    model, x = build("residual")
    assert not LRP(model).explain(x.requires_grad_(), output="torch").values.requires_grad
    seen = []
    model.body.register_forward_hook(lambda module, given, out: seen.append(weakref.ref(out)))
    LRP(model).explain(x, output="torch", differentiable=True)
    gc.collect()
    assert seen
    assert not any(ref() is not None for ref in seen)
    assert all(p.grad is None for p in model.parameters())


def test_training_moves_relevance_out_of_what_is_penalised():
    torch.manual_seed(0)
    x = torch.randn(32, 4)
    classes = (x[:, 0] + x[:, 1] > 0).long()
    shares = {}
    for strength in (0.0, 5.0):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
        steps = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(40):
            values = LRP(model, target=classes).explain(x, output="torch", differentiable=True).values
            outside = values[:, 1:].square().sum(dim=1).mean()
            loss = F.cross_entropy(model(x), classes) + strength * outside
            steps.zero_grad()
            loss.backward()
            steps.step()
        found = np.abs(LRP(model, target=classes).explain(x).values).mean(axis=0)
        shares[strength] = found[1:].sum() / found.sum()
    assert shares[5.0] < 0.6 * shares[0.0]


def test_a_model_that_looks_at_values_is_written_down_for_each_batch():
    torch.manual_seed(0)

    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x):
            return self.layer(x * 2 if x.max() > 1 else x).tanh()

    model = Looks().double().eval()
    explainer = LRP(model, target=0, rule="gamma")
    for scale in (1.0, 4.0, 1.0):
        x = (scale * torch.rand(2, 3, dtype=torch.float64)).requires_grad_()
        check_slopes(explainer, x, [x, model.layer.weight])


def test_one_graph_serves_a_training_and_reads_the_weights_as_they_are():
    model, x = build("residual")
    first = LRP(model, rule="gamma").explain(x[:2], output="torch", differentiable=True).values
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    explainer = LRP(model, rule="gamma")
    found = explainer.explain(x[:2], output="torch", differentiable=True).values
    assert not torch.allclose(found, first)
    np.testing.assert_allclose(found.detach(), explainer.explain(x[:2]).values, atol=1e-12)
    written = graphs._known[model]
    assert len(written) == 1
    model.head = nn.Linear(*model.head.weight.shape[::-1]).double().eval()
    np.testing.assert_allclose(
        explainer.explain(x[:2], output="torch", differentiable=True).values.detach(),
        explainer.explain(x[:2]).values,
        atol=1e-12,
    )
    assert len(written) == 2
