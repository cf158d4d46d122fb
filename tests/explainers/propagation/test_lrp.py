"""Layer-wise relevance propagation on whole networks."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from zoo.networks import MODELS, Function, build  # noqa: E402

from tellwhy.core.errors import InvalidParameter  # noqa: E402
from tellwhy.explainers import LRP, InputTimesGradient, coverage  # noqa: E402
from tellwhy.explainers.propagation import COMPOSITES, RULES, Composite  # noqa: E402
from tellwhy.explainers.propagation.composites import convolution, dense, every, first, last  # noqa: E402
from tellwhy.explainers.propagation.rules import alpha_beta, epsilon  # noqa: E402

# Small random networks lose relevance; that is told, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:.* promises that its values add up")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("batch_norm", ["merged", "one_linear", "two_linear"])
def test_lrp_0_is_input_times_gradient(name, batch_norm):
    model, x = build(name)
    expected = InputTimesGradient(model).explain(x)
    found = LRP(model, rule="z", batch_norm=batch_norm).explain(x)
    np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.scores, model(x).max(dim=1).values.detach().numpy(), atol=1e-12)
    assert np.abs(found.values).max() > 1e-3


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rule", [*RULES, *COMPOSITES])
def test_ledger_adds_up_to_the_residual(name, rule):
    model, x = build(name)
    explainer = LRP(model, rule=rule) if rule in RULES else LRP(model, composite=rule)
    residual = explainer.explain(x).residual
    np.testing.assert_allclose(explainer.ledger(x)["absorbed"].sum(), residual.sum(), rtol=1e-8, atol=1e-9)


def test_ledger_names_the_absorbing_bias():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double().eval()
    x = torch.randn(1, 3, dtype=torch.float64)
    book = LRP(model, target=0, rule="z").ledger(x).set_index("path")
    model.requires_grad_(False)
    active = (model[0](x)[0] > 0).double()
    np.testing.assert_allclose(book.absorbed["2"], float(model[2].bias[0]), rtol=1e-10)
    expected = float((model[0].bias * active * model[2].weight[0]).sum())  # Σ_j b_j c_j
    np.testing.assert_allclose(book.absorbed["0"], expected, rtol=1e-10)
    assert abs(book.absorbed["1"]) < 1e-14
    np.testing.assert_allclose(book.arrived["2"], float(model(x)[0, 0]), rtol=1e-12)


def test_flat_conserves_and_ignores_the_input_values():
    model, x = build("shared")
    explanation = LRP(model, rule="flat").explain(x)
    np.testing.assert_allclose(explanation.residual, 0, atol=1e-10)
    np.testing.assert_allclose(
        explanation.values, np.repeat(explanation.scores[:, None] / 6, 6, axis=1), atol=1e-10
    )


def test_merged_batch_norm_is_the_folded_layer():
    model, x = build("residual")
    folded, _ = build("residual")
    scale = folded.norm.weight / torch.sqrt(folded.norm.running_var + folded.norm.eps)
    with torch.no_grad():
        folded.stem.weight.mul_(scale[:, None, None, None])
        folded.stem.bias.copy_((folded.stem.bias - folded.norm.running_mean) * scale + folded.norm.bias)
    folded.norm = nn.Identity().eval()
    for rule in ("gamma", "alpha_beta", "z_plus", "flat", "z_box"):
        expected = LRP(folded, rule=rule).explain(x).values
        np.testing.assert_allclose(LRP(model, rule=rule).explain(x).values, expected, rtol=1e-8, atol=1e-9)
        separate = LRP(model, rule=rule, batch_norm="one_linear").explain(x).values
        assert rule == "flat" or np.abs(separate - expected).max() > 1e-6


def test_a_merged_layer_is_listed_and_has_no_line_of_its_own_in_the_ledger():
    model, x = build("residual")
    listed = coverage(model, x).set_index("path")
    assert listed.loc["stem", "rule"] == "merged with the batch norm after it"
    assert listed.loc["norm", "operation"] == "conv2d + batch_norm"
    paths = LRP(model).ledger(x)["path"].tolist()
    assert "norm" in paths
    assert "stem" not in paths


def test_composites_choose_by_kind_and_place():
    model, x = build("residual")
    names = {}

    def seen(predicate, label):
        def note(operation):
            if predicate(operation):
                names.setdefault(label, set()).add(operation.path)
            return False

        return note

    entries = [(seen(p, p.__name__), RULES["z"]()) for p in (first, last, dense, convolution)]
    LRP(model, composite=Composite([*entries, (lambda _: True, RULES["z"]())])).explain(x)
    # the stem is asked alone and together with its batch norm
    assert names == {
        "first": {"stem", "norm"},
        "last": {"head"},
        "dense": {"head"},
        "convolution": {"stem", "norm", "body"},
    }


@pytest.mark.parametrize("name", COMPOSITES)
def test_named_composites_differ_from_lrp_0(name):
    model, x = build("unet")
    found = LRP(model, composite=name).explain(x)
    assert np.isfinite(found.values).all()
    assert np.abs(found.values - LRP(model, rule="z").explain(x).values).max() > 1e-4


def test_flat_composite_covers_the_first_layer_evenly():
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(3, 2)).double().eval()
    values = (
        LRP(model, composite="preset_a_flat").explain(torch.randn(3, 2, 2, 2, dtype=torch.float64)).values
    )
    np.testing.assert_allclose(
        values, np.broadcast_to(values.mean((1, 2, 3), keepdims=True), values.shape), atol=1e-12
    )


def test_named_composites_take_settings_and_say_which_they_have():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)).double().eval()
    x = torch.rand(2, 1, 4, 4, dtype=torch.float64)
    by_hand = Composite([(convolution, alpha_beta(2, 1, conserve=True)), (every, epsilon(0.5))])
    chosen = LRP(model, composite="preset_b", rule_params={"epsilon": 0.5, "conserve": True}).explain(x)
    np.testing.assert_allclose(chosen.values, LRP(model, composite=by_hand).explain(x).values, atol=1e-14)
    hidden = LRP(model, composite="preset_b").explain(x)
    assert "dense: epsilon(epsilon=0.1)" in hidden.params["rules"]
    assert "dense: epsilon(epsilon=0.5)" in chosen.params["rules"]
    assert np.abs(hidden.values - chosen.values).max() > 1e-6
    with pytest.raises(InvalidParameter, match="rule_params do not fit the composite 'preset_a'"):
        LRP(model, composite="preset_a", rule_params={"gamma": 1}).explain(x)
    with pytest.raises(InvalidParameter, match="Got a Composite"):
        LRP(model, composite=by_hand, rule_params={"epsilon": 1}).explain(x)


class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.gate, self.head = (
            nn.Conv2d(2, 4, 1, bias=False),
            nn.Linear(4, 4),
            nn.Linear(4, 2, bias=False),
        )

    def forward(self, x):
        y = F.relu(self.conv(x))
        return self.head((y * torch.sigmoid(self.gate(y.mean((2, 3))))[:, :, None, None]).sum((2, 3)))


@pytest.mark.parametrize("rule", ["z", "flat"])
@pytest.mark.parametrize(("gates", "share"), [("half", 0.5), ("signal", 0.0)])
def test_a_gate_gets_half_or_nothing(rule, gates, share):
    torch.manual_seed(0)
    model, x = SqueezeExcite().double().eval(), torch.randn(3, 2, 3, 3, dtype=torch.float64)
    book = LRP(model, rule=rule, gates=gates).ledger(x).set_index("operation")
    assert abs(book.absorbed["mul"]) < 1e-12
    np.testing.assert_allclose(book.arrived["sigmoid"], share * book.arrived["mul"], rtol=1e-9)


@pytest.mark.parametrize("rule", ["z", "flat"])
@pytest.mark.parametrize("equation", ["ni,ni->ni", "ni,ni,ni->ni", "ni,ni,ni,ni->ni"])
def test_factors_of_a_product_share_evenly(rule, equation):
    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            n = equation.count(",") + 1
            self.factors = nn.ModuleList([nn.Linear(4, 5, bias=False) for _ in range(n)])

        def forward(self, x):
            return torch.einsum(equation, *[factor(x) for factor in self.factors])

    torch.manual_seed(0)
    model, x = Product().double().eval(), torch.randn(3, 4, dtype=torch.float64)
    book = LRP(model, rule=rule).ledger(x)
    assert abs(book.absorbed.sum()) < 1e-10
    arrived = book.set_index("operation").arrived
    np.testing.assert_allclose(arrived["linear"], arrived["einsum"] / len(model.factors), rtol=1e-9)


def test_square_of_an_activation_is_conserved():
    x = torch.randn(3, 4, dtype=torch.float64)
    np.testing.assert_allclose(
        LRP(Function(lambda x: (x * x).sum(dim=1, keepdim=True)).eval(), rule="z").explain(x).values,
        x.numpy() ** 2,
        atol=1e-12,
    )
