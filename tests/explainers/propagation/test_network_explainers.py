"""Gradient methods, deep Taylor, excitation backprop, targets, batches, and what is refused."""

import collections
import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from oracles.propagation_oracles import network_relevance  # noqa: E402
from torch import nn  # noqa: E402
from zoo.networks import Function, build  # noqa: E402

from tellwhy import explainers  # noqa: E402
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel  # noqa: E402
from tellwhy.core.explanation import Explanation  # noqa: E402
from tellwhy.explainers import (  # noqa: E402
    LRP,
    DeconvNet,
    DeepTaylor,
    ExcitationBackprop,
    Gradient,
    GuidedBackprop,
    InputTimesGradient,
    IntegratedGradients,
    SmoothGrad,
    coverage,
)
from tellwhy.explainers.propagation import register_operation, temporary_registrations  # noqa: E402

# Small random networks lose relevance; that is told, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:.* promises that its values add up")

ALL = [
    Gradient,
    InputTimesGradient,
    SmoothGrad,
    DeconvNet,
    GuidedBackprop,
    LRP,
    DeepTaylor,
    ExcitationBackprop,
]


def network(bias=True):
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(5, 8, bias=bias),
        nn.ReLU(),
        nn.Linear(8, 6, bias=bias),
        nn.ReLU(),
        nn.Linear(6, 3, bias=bias),
    )
    return model.double().eval(), torch.randn(6, 5, dtype=torch.float64)


def weights(model):
    zero = torch.zeros
    return [
        (m.weight.detach().numpy(), (m.bias.detach() if m.bias is not None else zero(m.out_features)).numpy())
        for m in model
        if isinstance(m, nn.Linear)
    ]


def test_gradient_is_autograd():
    model, x = network()
    leaf = x.clone().requires_grad_()
    scores = model(leaf).max(dim=1).values
    expected = torch.autograd.grad(scores.sum(), leaf)[0].numpy()
    found = Gradient(model).explain(x)
    np.testing.assert_allclose(found.values, expected, atol=1e-14)
    np.testing.assert_allclose(found.scores, scores.detach().numpy(), atol=1e-14)
    assert found.kind == "sensitivity"
    assert found.residual is None
    np.testing.assert_allclose(InputTimesGradient(model).explain(x).values, expected * x.numpy(), atol=1e-14)


@pytest.mark.parametrize(("method", "guided"), [(DeconvNet, False), (GuidedBackprop, True)])
def test_rectified_gradients(method, guided):
    model, x = network()
    (W1, b1), (W2, b2), (W3, _) = weights(model)
    z1 = x.numpy() @ W1.T + b1
    z2 = np.maximum(z1, 0) @ W2.T + b2
    c = np.maximum(np.repeat(W3[[1]], len(x), axis=0), 0) * ((z2 > 0) if guided else 1)
    c = np.maximum(c @ W2, 0) * ((z1 > 0) if guided else 1)
    np.testing.assert_allclose(method(model, target=1).explain(x).values, c @ W1, atol=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "first"),
    [
        (None, None, ("w_square", {})),
        (0, None, ("z_plus", {})),
        (-2.0, 3.0, ("z_box", {"low": -2.0, "high": 3.0})),
    ],
)
def test_deep_taylor_is_its_rules(low, high, first):
    model, x = network(bias=False)
    x = x.clamp(min=0 if low == 0 else -2, max=3)
    chosen = np.where(np.arange(6) < 3, model(x).argmax(dim=1).numpy(), model(x).argmin(dim=1).numpy())
    found = DeepTaylor(model, target=chosen, low=low, high=high).explain(x)
    rules = [first, ("z_plus", {}), ("z_plus", {})]
    for row, values, score, k in zip(x.numpy(), found.values, found.scores, chosen, strict=True):
        expected = network_relevance(rules, weights(model), row, k)
        np.testing.assert_allclose(values, expected if score > 0 else 0 * expected, atol=1e-10)
    np.testing.assert_array_equal(found.extras["undefined"], found.scores < 0)
    assert (found.scores > 0).any()
    assert (found.scores < 0).any()


def test_excitation_backprop_is_a_probability():
    model, x = network(bias=False)
    found = ExcitationBackprop(model).explain(x.abs())
    assert (found.values >= 0).all()
    np.testing.assert_allclose(found.values.sum(axis=1), 1, atol=1e-12)
    plus = LRP(model, rule="z_plus").explain(x.abs())
    np.testing.assert_allclose(found.values, plus.values / plus.scores[:, None], atol=1e-12)


def test_contrastive_excitation_backprop_subtracts_the_negated_walk():
    model, x = network(bias=False)
    found = ExcitationBackprop(model, target=1, contrastive=True).explain(x.abs())
    negated, _ = network(bias=False)
    with torch.no_grad():
        negated[4].weight.neg_()
    walks = [ExcitationBackprop(m, target=1).explain(x.abs()).values for m in (model, negated)]
    np.testing.assert_allclose(found.values, walks[0] - walks[1], atol=1e-12)
    both = walks[0].any(axis=1) & walks[1].any(axis=1)
    np.testing.assert_allclose(found.values[both].sum(axis=1), 0, atol=1e-12)
    assert both.sum() == 4
    assert found.values.min() < -0.01 < 0.01 < found.values.max()
    with pytest.raises(InvalidParameter, match="contrastive"):
        ExcitationBackprop(model, contrastive="yes").explain(x)


@pytest.mark.parametrize(
    ("postprocess", "process"), [(None, lambda g: g), ("abs", np.abs), ("square", np.square)]
)
def test_smooth_grad_is_the_mean_over_noisy_copies(postprocess, process):
    model, x = network()
    found = SmoothGrad(model, n_samples=7, noise=0.3, postprocess=postprocess, random_state=5).explain(x)
    rng = np.random.default_rng(5)
    for row, values, top in zip(x.numpy(), found.values, model(x).argmax(dim=1), strict=True):
        copies = row + 0.3 * np.ptp(row) * rng.standard_normal((7, 5))
        expected = process(Gradient(model, target=int(top)).explain(copies).values).mean(axis=0)
        np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("method", ALL)
def test_batches_do_not_matter(method):
    model, x = network()
    kwargs = {"random_state": 0, "n_samples": 4} if method is SmoothGrad else {}
    whole = method(model, **kwargs).explain(x)
    parts = method(model, batch_size=4, **kwargs).explain(x.numpy())
    np.testing.assert_allclose(parts.values, whole.values, atol=1e-12)
    assert isinstance(whole, Explanation)
    assert whole.values.shape == x.shape
    assert whole.params["explains"] == "the largest output of each row"


def test_targets():
    model, x = network()
    outputs = model(x).detach().numpy()
    chosen = np.array([0, 1, 2, 0, 1, 2])
    np.testing.assert_allclose(LRP(model, target=2).explain(x).scores, outputs[:, 2])
    np.testing.assert_allclose(
        LRP(model, target=chosen, batch_size=4).explain(x).scores, outputs[np.arange(6), chosen]
    )
    np.testing.assert_allclose(
        LRP(model, target=torch.tensor(chosen)).explain(x).scores, outputs[np.arange(6), chosen]
    )
    difference = LRP(model, target=lambda y: y[:, 0] - y[:, 1], rule="z").explain(x)
    parts = [LRP(model, target=k, rule="z").explain(x).values for k in (0, 1)]
    np.testing.assert_allclose(difference.values, parts[0] - parts[1], atol=1e-12)


@pytest.mark.parametrize("rule", ["z", "flat"])
def test_trailing_softmax_is_left_out_and_said_so(rule):
    model, x = network()
    softened = nn.Sequential(model, nn.Softmax(dim=1)).eval()
    found = LRP(softened, rule=rule).explain(x)
    np.testing.assert_array_equal(found.values, LRP(model, rule=rule).explain(x).values)
    assert (
        found.params["explains"] == "the largest output of each row, before the trailing softmax (left out)"
    )
    assert (
        LRP(nn.Sequential(model, nn.LogSoftmax(dim=1)).eval())
        .explain(x)
        .params["explains"]
        .endswith("(left out)")
    )


class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(5, 4), Function(lambda x: x.cumprod(dim=1)))

    def forward(self, x):
        return self.block(x)


def test_unknown_operation_is_named_with_its_module():
    model, x = Unknown().double().eval(), torch.randn(2, 5, dtype=torch.float64)
    with pytest.raises(
        UnsupportedModel,
        match=r"no rule for 'cumprod' in module 'block.1' \(operation 1\).*register_operation\('cumprod', ",
    ):
        LRP(model).explain(x)
    assert list(coverage(model, x)["rule"]) == ["epsilon(epsilon=1e-06)", "unknown"]
    assert Gradient(model).explain(x).values.shape == (2, 5)


def test_a_kind_can_be_named():
    x = torch.randn(3, 2, dtype=torch.float64)
    with temporary_registrations():
        register_operation("sinc", kind="elementwise")
        found = LRP(Function(torch.sinc).eval(), target=0).explain(x)
    np.testing.assert_allclose(found.residual, 0, atol=1e-12)


class OwnFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x**2

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class ViewChanged(nn.Module):
    def forward(self, x):
        y = x * 1
        part = y[:, :2]
        part.mul_(3)
        return y


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            Function(lambda x: x.abs() ** x),
            r"no rule for 'pow' .* several of its arguments depend on the input",
        ),
        (Function(lambda x: F.dropout(x, 0.5)), "training mode although"),
        (Function(lambda x: torch.dropout(x, 0.5, True)), "training mode although"),
        (Function(lambda x: torch.dropout(x, p=0.5, train=True)), "training mode although"),
        (Function(lambda x: F.rrelu(x, training=True)), "training mode although"),
        (
            Function(lambda x: torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False)),
            "training mode although",
        ),
        (Function(lambda x: OwnFunction.apply(x) + 1), "computed where it cannot be seen"),
        (Function(lambda x: OwnFunction.apply(x + 1)), "computed where it cannot be seen"),
        (
            Function(lambda x: x[:, :1] ** torch.tensor([1.0, 2.0], dtype=x.dtype)),
            "'pow' in the model's own forward broadcasts",
        ),
        (
            Function(lambda x: F.conv1d(torch.ones(2, 1, 9, dtype=x.dtype), x[:, None])),
            "no rule for 'conv1d'",
        ),
        (Function(lambda x: x.detach() * 2), "does not depend on x"),
        (Function(lambda x: (x, x)), "returns a tuple"),
        (ViewChanged(), "changes a tensor in place"),
    ],
)
def test_models_that_cannot_be_followed(model, message):
    with pytest.raises(UnsupportedModel, match=message):
        LRP(model.eval()).explain(torch.randn(2, 5, dtype=torch.float64))


def test_rows_of_a_loop_are_followed():
    class Loop(nn.Module):
        def forward(self, x):
            return torch.stack([torch.relu(part) * 2 for part in x])

    x = torch.randn(2, 5, dtype=torch.float64)
    expected = InputTimesGradient(Loop().eval()).explain(x).values
    np.testing.assert_allclose(LRP(Loop().eval(), rule="z").explain(x).values, expected)


def test_the_order_of_elements_in_memory_does_not_matter():
    class Viewing(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.head = nn.Conv2d(2, 3, 2), nn.Linear(12, 2)

        def forward(self, x):
            return self.head(torch.relu(self.conv(x)).view(len(x), -1))

    model, x = Viewing().double().eval(), torch.randn(4, 2, 3, 3, dtype=torch.float64)
    expected = LRP(model, rule="gamma").explain(x).values
    last = x.contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(LRP(model, rule="gamma").explain(last).values, expected, atol=1e-12)


def test_compiled_modules_are_explained_through_the_original():
    class Compiled(nn.Module):  # as torch.compile wraps a module
        def __init__(self, model):
            super().__init__()
            self._orig_mod = model

        def forward(self, x):
            raise AssertionError("the compiled code was called")

    model, x = network()
    np.testing.assert_array_equal(LRP(Compiled(model).eval()).explain(x).values, LRP(model).explain(x).values)


def test_mixed_precision_around_it_does_not_matter():
    model, x = network()
    model, x = model.float(), x.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = LRP(model).explain(x).values
    np.testing.assert_array_equal(found, LRP(model).explain(x).values)


@pytest.mark.parametrize(
    "change", [lambda x: x.requires_grad_(), lambda x: x.to(torch.bfloat16), lambda x: x]
)
def test_rows_can_be_taken_out_of_an_explanation(change, tmp_path):
    model, x = network()
    x = change(x.clone())
    found = LRP(model.to(x.dtype)).explain(x)
    assert np.asarray(found[[4]].data).shape == (1, 5)
    assert found.data is x or x.requires_grad or x.dtype == torch.bfloat16
    found.save(tmp_path / "saved")


def test_images_of_outputs_need_a_function():
    model, x = nn.Conv2d(1, 2, 1).double().eval(), torch.randn(2, 1, 3, 3, dtype=torch.float64)
    with pytest.raises(InvalidInput, match="target=<function"):
        LRP(model).explain(x)
    assert LRP(model, target=lambda y: y[:, 0].sum((1, 2))).explain(x).values.shape == x.shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrower_types_work_less_exactly(dtype):
    model, x = build("residual")
    exact = LRP(model, composite="epsilon_plus").explain(x).values
    found = LRP(model.to(dtype), composite="epsilon_plus").explain(x.to(dtype)).values
    assert np.corrcoef(found.ravel(), exact.ravel())[0, 1] > (0.99 if dtype is torch.float32 else 0.9)


def test_names_are_listed():
    assert {method.__name__ for method in ALL} <= set(dir(explainers))
    with pytest.raises(AttributeError, match="magic"):
        _ = explainers.magic


@pytest.mark.parametrize("method", ALL)
def test_explanations_can_be_saved(method, tmp_path):
    model, x = network()
    explanation = method(model, **({"n_samples": 2} if method is SmoothGrad else {})).explain(x.numpy())
    explanation.save(tmp_path / "saved")
    np.testing.assert_array_equal(Explanation.load(tmp_path / "saved").values, explanation.values)


def test_what_a_model_kept_of_its_parameters_is_a_constant():
    """Some models keep the biases of attention from their first call, with autograd's record of them."""

    class Keeping(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(4, 4)
            self.table = nn.Parameter(torch.randn(4))
            self.kept = None

        def forward(self, x):
            if self.kept is None:
                self.kept = self.table[torch.tensor([3, 2, 1, 0])] * 2
            return torch.relu(self.layer(x)) + self.kept

    model = Keeping().double().eval()
    x = torch.randn(6, 4, dtype=torch.float64)
    fresh = LRP(model, rule="z", batch_size=2).explain(x)
    model.kept = None
    model(x)  # by the user, with gradients
    assert model.kept.grad_fn is not None
    found = LRP(model, rule="z", batch_size=2).explain(x)
    np.testing.assert_array_equal(found.values, fresh.values)
    np.testing.assert_allclose(found.values, InputTimesGradient(model).explain(x).values, atol=1e-12)


class Given(dict):
    """What Hugging Face's models return: a dict whose entries are attributes too."""

    __getattr__ = dict.__getitem__


@dataclasses.dataclass
class Fields:
    logits: torch.Tensor
    hidden: tuple = ()
    loss: None = None


class Both(NamedTuple):
    loss: None
    logits: torch.Tensor


RETURNED = {
    "a dict": lambda y, h: {"logits": y, "hidden_states": (h,)},
    "classes": lambda y, h: Given(loss=None, logits=y, hidden_states=None),
    "all states": lambda y, h: Given(logits=y, hidden_states=(h, h), attentions=(h,)),
    "with a cache": lambda y, h: Given(logits=y, past_key_values=object()),
    "vision": lambda y, h: collections.OrderedDict(logits=y, last_hidden_state=h),
    "two heads": lambda y, h: Given(logits=y, distillation_logits=2 * y),
    "pooled": lambda y, h: Given(pooler_output=y),
    "text and pictures": lambda y, h: Given(logits=y, text_embeds=h, image_embeds=h),
    "an object with fields": lambda y, h: Fields(y, (h,)),
    "a named tuple": lambda y, h: Both(None, y),
    "a tuple of one": lambda y, h: (y,),
    "a list of one": lambda y, h: [y],
}


class Returning(nn.Module):
    """A network that wraps its outputs up, as its `how` says."""

    def __init__(self, how):
        super().__init__()
        torch.manual_seed(0)
        self.how = how
        self.body, self.head = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        return self.how(self.head(hidden), hidden)


@pytest.mark.parametrize("how", RETURNED)
def test_outputs_as_hugging_face_has_them_are_explained(how):
    plain = Returning(lambda y, h: y).double().eval()
    wrapped = Returning(RETURNED[how]).double().eval()
    x = torch.randn(4, 5, dtype=torch.float64)
    methods = (
        lambda m: LRP(m, target=1),
        lambda m: Gradient(m, target="max"),
        lambda m: IntegratedGradients(m, target=0),
    )
    for method in methods:
        np.testing.assert_array_equal(method(wrapped).explain(x).values, method(plain).explain(x).values)


@pytest.mark.parametrize(
    "how",
    [lambda y, h: Given(start_logits=y, end_logits=y), lambda y, h: Given(last_hidden_state=y, pooler=y)],
)
def test_several_outputs_without_logits_are_refused(how):
    for method in (LRP, Gradient):
        with pytest.raises(UnsupportedModel, match="returns a Given"):
            method(Returning(how).eval()).explain(torch.randn(2, 5))
