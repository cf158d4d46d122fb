"""Operations between layers: how each one hands relevance down, in contributions and in relevance."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from tellwhy.explainers import LRP, InputTimesGradient, coverage  # noqa: E402
from tellwhy.explainers.propagation import Rule  # noqa: E402
from tellwhy.explainers.propagation.engine.calls import operation_name  # noqa: E402
from tellwhy.explainers.propagation.rules import quotient  # noqa: E402

# Small random networks lose relevance; that is told, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:.* promises that its values add up")


class Between(nn.Module):
    """An operation between two layers without bias."""

    def __init__(self, operation, shape=(4, 6, 6)):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(2, shape[0], 1, bias=False)
        self.operation = operation
        with torch.no_grad():
            n = operation(self.first(torch.zeros(1, 2, *shape[1:]))).numel()
        self.last = nn.Linear(n, 2, bias=False)

    def forward(self, x):
        return self.last(self.operation(self.first(x)).flatten(1))


def order_of(z):
    """Which channel each element goes to; two go to the last one."""
    return torch.tensor([3, 0, 3, 1])[None, :, None, None].expand_as(z)


LINEAR = {
    "relu": F.relu,
    "leaky_relu": lambda z: F.leaky_relu(z, 0.2),
    "prelu": lambda z: F.prelu(z, z.new_tensor([0.3])),
    "max_pool2d": lambda z: F.max_pool2d(z, 2),
    "max_pool1d": lambda z: F.max_pool1d(z.flatten(2), 3, padding=1),
    "max_pool3d": lambda z: F.max_pool3d(z[:, None], 2),
    "adaptive_max_pool2d": lambda z: F.adaptive_max_pool2d(z, 2),
    "avg_pool2d": lambda z: F.avg_pool2d(z, 3, padding=1),
    "avg_pool1d": lambda z: F.avg_pool1d(z.flatten(2), 2),
    "avg_pool3d": lambda z: F.avg_pool3d(z[:, None], 2),
    "adaptive_avg_pool2d": lambda z: F.adaptive_avg_pool2d(z, 4),
    "permute": lambda z: z.permute(0, 2, 3, 1).contiguous().view(len(z), -1, 4).transpose(1, 2),
    "cat": lambda z: torch.cat([z, -z[:, :1]], dim=1),
    "stack": lambda z: torch.stack(z.chunk(2, dim=1), dim=2),
    "split": lambda z: sum(z.split(2, dim=1)),
    "unbind": lambda z: z.unbind(1)[2] - z.unbind(1)[0],
    "pad": lambda z: F.pad(z, (1, 2, 0, 1), mode="replicate"),
    "nearest": lambda z: F.interpolate(z, scale_factor=2),
    "bilinear": lambda z: F.interpolate(z, size=(5, 9), mode="bilinear"),
    "dropout": lambda z: F.dropout2d(F.dropout(z, training=False), training=False),
    "scaled": lambda z: (2 * z - z / 3).mul(torch.ones(4, 1, 1) / 2),
    "mean": lambda z: z.mean((2, 3)) + z.sum((2, 3)),
    "constant_matmul": lambda z: z @ torch.linspace(-1, 1, 12, dtype=z.dtype).reshape(6, 2),
    "largest": lambda z: z.max(dim=1).values + z.amax(dim=1),
    "where": lambda z: torch.where(z > 0, z, 0.1 * z),
    "masked_fill": lambda z: z.masked_fill(z < 0, 0),
    "shuffle": lambda z: F.pixel_shuffle(z, 2),
    "adaptive_avg_pool1d": lambda z: F.adaptive_avg_pool1d(z.flatten(2), 5),
    "adaptive_avg_pool3d": lambda z: F.adaptive_avg_pool3d(z[:, None], 2),
    "adaptive_max_pool1d": lambda z: F.adaptive_max_pool1d(z.flatten(2), 5),
    "adaptive_max_pool3d": lambda z: F.adaptive_max_pool3d(z[:, None], 2),
    "reshape": lambda z: z.reshape(len(z), 2, -1).flatten(1).unflatten(1, (8, -1)),
    "constant_pad": lambda z: F.pad(z, (1, 0, 2, 1)),
    "upsample": nn.Upsample(scale_factor=2, mode="bicubic"),
    "residual": lambda z: z + F.relu(z) - 0.5 * z,
    "scatter_add": lambda z: torch.zeros_like(z).scatter_add(1, order_of(z), z),
    "index_add": lambda z: z.index_add(1, torch.tensor([0, 0, 3, 1]), 2 * z, alpha=0.5),
    "index_put": lambda z: z.index_put((torch.tensor([0]), torch.tensor([1])), z[:1, 2], accumulate=True),
    "index_copy": lambda z: z.index_copy(1, torch.tensor([2, 0]), z[:, 1:3]),
    "scatter": lambda z: torch.zeros_like(z).scatter(1, order_of(z)[:, 1:], z[:, 1:]),
    "lerp": lambda z: torch.lerp(z, -z.flip(1), 0.3),
    "addmm": lambda z: torch.addmm(
        torch.zeros(2, dtype=z.dtype), z.flatten(0, 2), torch.linspace(-1, 1, 12, dtype=z.dtype).reshape(6, 2)
    ).reshape(len(z), -1),
    "mask from bits": lambda z: z * (z.view(torch.int64 if z.dtype is torch.float64 else torch.int32) >= 0),
}


def rows():
    torch.manual_seed(1)
    return torch.randn(3, 2, 6, 6, dtype=torch.float64)


@pytest.mark.parametrize("name", LINEAR)
def test_homogeneous_operations_conserve(name):
    model, x = Between(LINEAR[name]).double().eval(), rows()
    found = LRP(model, rule="z").explain(x)
    np.testing.assert_allclose(found.values, InputTimesGradient(model).explain(x).values, atol=1e-12)
    np.testing.assert_allclose(found.residual, 0, atol=1e-10)
    assert not (coverage(model, x)["kind"] == "unknown").any()


Z_OF_RELEVANCE = Rule("z", lambda layer, x, z, R: x * layer.backward(x, layer.weight, quotient(R, z)), True)


@pytest.mark.parametrize("name", LINEAR)
def test_relevance_travels_like_contributions(name):
    """LRP-0 does not depend on whether R or c = R/a travels."""
    model, x = Between(LINEAR[name]).double().eval(), rows()
    found = LRP(model, rule=Z_OF_RELEVANCE).explain(x)
    np.testing.assert_allclose(found.values, LRP(model, rule="z").explain(x).values, atol=1e-10)


@pytest.mark.parametrize("name", LINEAR)
def test_nothing_is_absorbed_between_the_layers(name):
    """The ledger sees what every operation hands on, also one that returns several tensors."""
    model, x = Between(LINEAR[name]).double().eval(), rows()
    explainer = LRP(model, rule="z")
    book = explainer.ledger(x)
    np.testing.assert_allclose(book["absorbed"].sum(), 0, atol=1e-10)
    np.testing.assert_allclose(book["arrived"].iloc[-1], explainer.explain(x).scores.sum(), atol=1e-10)


ELEMENTWISE = {
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "elu": F.elu,
    "selu": F.selu,
    "silu": lambda z: F.silu(z, inplace=True),
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.Tensor.tanh,
    "softplus": F.softplus,
    "hardswish": F.hardswish,
    "mish": F.mish,
    "clamp": lambda z: z.clamp(-0.5, 0.5),
    "square": lambda z: z**2,
    "abs": abs,
    "reciprocal": lambda z: 1 / (z + 9),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("rule", ["z", "w_square"])
def test_elementwise_functions_pass_relevance_on(name, rule):
    model, x = Between(ELEMENTWISE[name]).double().eval(), rows()
    if name != "reciprocal":  # there the constant 9 absorbs
        np.testing.assert_allclose(LRP(model, rule=rule).explain(x).residual, 0, atol=1e-9)
    z = model.first(x).detach()
    c = (
        model.last.weight[0].detach().reshape(4, 6, 6)
        * ELEMENTWISE[name](z.clone())
        / (z + 9 if name == "reciprocal" else z)
    )
    expected = x * torch.einsum("nkhw,kc->nchw", c, model.first.weight[:, :, 0, 0].detach())
    np.testing.assert_allclose(LRP(model, target=0, rule="z").explain(x).values, expected.numpy(), atol=1e-10)


def detached(x, dims, weight=None, bias=None, *, centred=True):
    """Normalisation whose standard deviation is a constant."""
    centre = x.mean(dims, keepdim=True) if centred else 0
    s = ((x - centre).square().mean(dims, keepdim=True) + 1e-5).sqrt().detach()
    z = (x - centre) / s
    return z if weight is None else z * weight + (0 if bias is None else bias)


def vector(n, seed):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def grouped(x):
    parts = detached(x.reshape(len(x), 2, -1), -1).reshape(x.shape)
    return parts * vector(4, 0)[:, None, None] + vector(4, 1)[:, None, None]


NORMALISATIONS = {
    "layer_norm": (
        lambda z: F.layer_norm(
            z, (6, 6), vector(36, 0).reshape(6, 6).to(z), vector(36, 1).reshape(6, 6).to(z)
        ),
        lambda z: detached(z, (2, 3), vector(36, 0).reshape(6, 6), vector(36, 1).reshape(6, 6)),
    ),
    "layer_norm_plain": (lambda z: F.layer_norm(z, [6]), lambda z: detached(z, -1)),
    "group_norm": (lambda z: F.group_norm(z, 2, vector(4, 0).to(z), vector(4, 1).to(z)), grouped),
    "instance_norm": (F.instance_norm, lambda z: detached(z, (2, 3))),
    "rms_norm": (
        lambda z: F.rms_norm(z, (6,), vector(6, 0).to(z), eps=1e-5),
        lambda z: detached(z, -1, vector(6, 0), centred=False),
    ),
}


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_normalisation_takes_its_deviation_as_a_constant(name):
    operation, linear = NORMALISATIONS[name]
    model, x = Between(operation).double().eval(), rows()
    leaf = model.first(x).detach().requires_grad_()
    y = linear(leaf)
    np.testing.assert_allclose(y.detach().numpy(), operation(leaf).detach().numpy(), atol=1e-12)
    c = torch.autograd.grad(model.last(y.flatten(1))[:, 0].sum(), leaf)[0]
    expected = x * torch.einsum("nkhw,kc->nchw", c, model.first.weight[:, :, 0, 0].detach())
    np.testing.assert_allclose(LRP(model, target=0, rule="z").explain(x).values, expected.numpy(), atol=1e-10)
    np.testing.assert_allclose(
        LRP(model, target=0, rule=Z_OF_RELEVANCE).explain(x).values, expected.numpy(), atol=1e-8
    )
    plain = InputTimesGradient(model, target=0).explain(x).values
    assert np.abs(plain - expected.numpy()).max() > 1e-4


def test_instance_norm_with_running_statistics_is_linear():
    model, x = Between(nn.InstanceNorm2d(4, track_running_stats=True).double().eval().float()), rows()
    model = model.double().eval()
    expected = InputTimesGradient(model).explain(x).values
    np.testing.assert_allclose(LRP(model, rule="z").explain(x).values, expected, atol=1e-12)


def negative_item(z):
    y = F.relu(z).clone()
    y[:, 0] = -1.0
    return y


@pytest.mark.parametrize(
    "before",
    [
        "relu",
        "max_pool2d",
        "cat_constant",
        "negative_pad",
        "negative_item",
        "subtracted",
        "difference",
        "gelu",
    ],
)
def test_signs_of_activations_are_known_or_looked_at(before):
    """z+ treats inputs that are below zero differently: skipping the look must not change anything."""
    operations = {
        "relu": F.relu,
        "max_pool2d": lambda z: F.max_pool2d(F.relu(z), 2),
        "cat_constant": lambda z: torch.cat([F.relu(z), -torch.ones_like(z)], dim=1),
        "negative_pad": lambda z: F.pad(F.relu(z), (1, 1), value=-2.0),
        "negative_item": negative_item,
        "difference": lambda z: F.relu(z) - F.relu(-z),
        "subtracted": lambda z: torch.add(F.relu(z), F.relu(-z), alpha=-1),
        "gelu": F.gelu,
    }
    model, x = Between(operations[before]).double().eval(), rows()
    found = LRP(model, target=0, rule="z_plus", residual="z").explain(x).values
    a = operations[before](model.first(x)).flatten(1).detach()
    products = a * model.last.weight[0].detach()
    R = products.clamp(min=0) / products.clamp(min=0).sum(1, keepdim=True) * model(x)[:, :1].detach()

    class Rest(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.c = model.first, torch.where(a == 0, 0, R / a)

        def forward(self, x):
            return (operations[before](self.first(x)).flatten(1) * self.c).sum(1, keepdim=True)

    np.testing.assert_allclose(
        found, LRP(Rest().eval(), target=0, rule="z_plus").explain(x).values, atol=1e-10
    )


def test_softmax_inside_takes_the_derivative():
    model, x = Between(lambda z: torch.softmax(z, dim=1)).double().eval(), rows()
    expected = InputTimesGradient(model).explain(x).values
    np.testing.assert_allclose(LRP(model, rule="z").explain(x).values, expected, atol=1e-12)


def test_matmul_of_two_activations_gives_half_to_each():
    model, x = Between(lambda z: z @ z.mT).double().eval(), rows()
    found = LRP(model, rule="z").explain(x)
    np.testing.assert_allclose(found.residual, 0, atol=1e-10)
    np.testing.assert_allclose(found.values, InputTimesGradient(model).explain(x).values / 2, atol=1e-12)


def test_batch_norm_without_a_layer_before_it():
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU(), nn.BatchNorm1d(3), nn.Linear(3, 2)).double().eval()
    nn.init.normal_(model[0].running_mean)
    x = torch.randn(4, 3, dtype=torch.float64)
    expected = InputTimesGradient(model).explain(x).values
    np.testing.assert_allclose(LRP(model, rule="z").explain(x).values, expected, atol=1e-12)


def test_tokens_are_explained_through_their_embedding():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 2, bias=False)).double().eval()
    tokens = torch.tensor([[1, 2, 3], [9, 0, 0]])
    found = LRP(model, target=0, rule="z").explain(tokens)
    parts = model[0](tokens) * model[2].weight[0].reshape(3, 4)
    np.testing.assert_allclose(found.values, parts.sum(-1).detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(found.residual, 0, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (torch.Tensor.__iadd__, ("add", True)),
        (torch.Tensor.__rsub__, ("sub", False)),
        (torch.relu_, ("relu", True)),
        (torch.Tensor.mT.__get__, ("mT", False)),
        (torch.Tensor.__setitem__, ("setitem", True)),
    ],
)
def test_names(function, expected):
    assert operation_name(function) == expected
