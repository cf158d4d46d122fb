"""Operations that few networks have: complex numbers, quotients, folds, sparse matrices, fixed grids."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from tellwhy.core.errors import InvalidInput, UnsupportedModel  # noqa: E402
from tellwhy.explainers import LRP, DeepTaylor, Gradient, GuidedBackprop, InputTimesGradient  # noqa: E402

X = torch.randn(4, 3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class Between(nn.Module):
    """A layer, a function, and a head that sums over time."""

    def __init__(self, function, bias=True):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.head = nn.Linear(8, 8, bias=bias), nn.LazyLinear(2, bias=bias)
        self.function = function
        self.double()
        self(X)
        self.eval()

    def forward(self, x):
        return self.head(self.function(torch.relu(self.first(x)))).flatten(1, -2).sum(dim=1)


def filtered(z):
    spectrum = torch.fft.rfft(z, dim=-1)
    turned = spectrum * torch.polar(torch.ones(5).double(), torch.arange(5.0).double())
    return torch.fft.irfft(turned, n=8, dim=-1)


def folded(z):
    columns = F.unfold(z[:, None], (2, 4), stride=1)
    return F.fold(columns, z.shape[1:], (2, 4), stride=1)[:, 0]


def warped(z):
    turn = torch.tensor([[0.9, 0.1, 0.0], [-0.1, 0.9, 0.0]], dtype=z.dtype)
    grid = F.affine_grid(turn.expand(len(z), 2, 3), [len(z), 1, 3, 8], align_corners=False)
    return F.grid_sample(z[:, None], grid, align_corners=False)[:, 0]


def neighbours(z):
    edges = torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 0, 1]], dtype=z.dtype).to_sparse()
    return torch.stack([torch.sparse.mm(edges, row) for row in z])


def experts(z):
    """One matrix for each third of the places, as mixtures of experts have them."""
    weights = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(2))
    ends = torch.tensor([len(z), 2 * len(z), 3 * len(z)], dtype=torch.int32)
    return F.grouped_mm(z.flatten(0, 1).float(), weights, offs=ends).reshape(z.shape).double()


# All of degree one in z: LRP-0 is input times gradient.
LINEAR = {
    "Fourier transform": lambda z: torch.fft.fft2(z).real,
    "two parts": lambda z: torch.view_as_real(torch.fft.rfft(z)).flatten(-2),
    "size of complex numbers": lambda z: torch.fft.rfft(z).abs(),
    "filter of frequencies": filtered,
    "fold": folded,
    "fixed grid": warped,
    "sparse matrix": neighbours,
}


@pytest.mark.parametrize("name", LINEAR)
def test_what_is_of_degree_one_keeps_its_derivative(name):
    model = Between(LINEAR[name])
    explainer = LRP(model, rule="z")
    found = explainer.explain(X)
    np.testing.assert_allclose(found.values, InputTimesGradient(model).explain(X).values, atol=1e-12)
    np.testing.assert_allclose(explainer.ledger(X)["absorbed"].sum(), found.residual.sum(), atol=1e-10)
    bare = LRP(Between(LINEAR[name], bias=False), rule="z").explain(X)
    np.testing.assert_allclose(bare.residual, 0, atol=1e-12)


@pytest.mark.skipif(not hasattr(F, "grouped_mm"), reason="this PyTorch has no grouped_mm")
def test_matrices_of_groups_keep_their_derivative():
    model = Between(experts)
    found = LRP(model, rule="z").explain(X).values
    wanted = InputTimesGradient(model).explain(X).values
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


class Rotary(nn.Module):
    """Attention with rotary positions, by sines and cosines or by complex numbers."""

    def __init__(self, by_complex):
        super().__init__()
        torch.manual_seed(0)
        self.maps = nn.ModuleList([nn.Linear(8, 8, bias=False) for _ in range(3)])
        self.head = nn.Linear(8, 2, bias=False)
        self.by_complex = by_complex
        self.double().eval()

    def turned(self, x):
        angles = torch.outer(torch.arange(x.shape[1]), 1 / 100 ** (torch.arange(4) / 4)).to(x)
        pairs = x.unflatten(-1, (4, 2))
        if self.by_complex:
            turned = torch.view_as_complex(pairs) * torch.polar(torch.ones_like(angles), angles)
            return torch.view_as_real(turned).flatten(-2)
        even, odd = pairs.unbind(-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

    def forward(self, x):
        q, k, v = (layer(x) for layer in self.maps)
        return self.head(F.scaled_dot_product_attention(self.turned(q), self.turned(k), v).mean(1))


@pytest.mark.parametrize("settings", [{"rule": "z"}, {"rule": "gamma"}, {"attention": "detached"}], ids=str)
def test_rotary_positions_by_complex_numbers_are_those_by_sines(settings):
    found, wanted = (LRP(Rotary(by_complex), **settings).explain(X).values for by_complex in (True, False))
    np.testing.assert_allclose(found, wanted, atol=1e-12 * np.abs(wanted).max())


def test_complex_numbers_are_refused_where_relevance_travels_or_the_function_is_none_of_their_parts():
    with pytest.raises(UnsupportedModel, match="complex numbers"):
        DeepTaylor(Rotary(True)).explain(X)
    with pytest.raises(UnsupportedModel, match="no rule for 'exp'"):
        LRP(Between(lambda z: torch.fft.rfft(z).exp().real)).explain(X)
    with pytest.raises(InvalidInput, match="complex numbers"):
        LRP(Rotary(True)).explain(torch.view_as_complex(X.unflatten(-1, (4, 2))))
    assert GuidedBackprop(Between(filtered)).explain(X).values.any()


QUOTIENTS = {
    "by itself": (
        lambda z: z / (1 + z.sum(-1, keepdim=True)),
        lambda z: z * (1 + z.sum(-1, keepdim=True)).reciprocal(),
    ),
    "in place": (lambda z: z.clone().div_(1 + z), lambda z: z * (1 + z).reciprocal()),
    "of a constant": (lambda z: torch.full((), 2.0, dtype=z.dtype) / (1 + z), lambda z: 2 / (1 + z)),
    "of chosen weights": (
        lambda z: z * _shares(z, lambda w: w / w.sum(-1, keepdim=True)),
        lambda z: z * _shares(z, lambda w: w * w.sum(-1, keepdim=True).reciprocal()),
    ),
}


def _shares(z, normalised):
    """Shares of the five largest places, as mixtures of experts have them."""
    weights, places = z.softmax(-1).topk(5, dim=-1)
    return torch.zeros_like(z).scatter(-1, places, normalised(weights))


@pytest.mark.parametrize("name", QUOTIENTS)
@pytest.mark.parametrize("attention", ["attnlrp", "detached"])
def test_a_quotient_is_a_product_with_the_reciprocal(name, attention):
    found, wanted = (
        LRP(Between(f), rule="z", attention=attention).explain(X).values for f in QUOTIENTS[name]
    )
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert np.abs(wanted).max() > 1e-3


def test_a_mixture_of_experts_conserves_where_its_weights_are_constants():
    model = Between(QUOTIENTS["of chosen weights"][0], bias=False)
    found = LRP(model, rule="z", attention="detached").explain(X)
    np.testing.assert_allclose(found.residual, 0, atol=1e-12)


def test_quotients_that_are_rounded_stay_unknown():
    with pytest.raises(UnsupportedModel, match="no rule for 'div'"):
        LRP(Between(lambda z: torch.div(z, 1 + z.flip(-1), rounding_mode="floor"))).explain(X)


@pytest.mark.parametrize("size", [2, 3])
def test_response_normalisation_takes_its_divisor_as_a_constant(size):
    norm = nn.LocalResponseNorm(size, alpha=0.5, beta=0.75, k=1.0)
    model = Between(norm, bias=False)
    found = LRP(model, rule="z").explain(X)
    np.testing.assert_allclose(found.residual, 0, atol=1e-12)  # the divisor takes nothing
    z = torch.relu(model.first(X)).detach()
    divisor = z / norm(z)
    fixed = Between(lambda z: z / torch.nan_to_num(divisor, nan=1.0), bias=False)
    np.testing.assert_allclose(found.values, LRP(fixed, rule="z").explain(X).values, atol=1e-12)


@pytest.mark.parametrize("dims", [1, ([2], [0]), ([-1], [1])])
@pytest.mark.parametrize("rule", ["z", "gamma"])
def test_a_layer_by_tensordot_is_a_layer(dims, rule):
    weight = torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    matrix = weight if dims == ([-1], [1]) else weight.T
    found = LRP(Between(lambda z: torch.relu(torch.tensordot(z, weight, dims))), rule=rule).explain(X).values
    wanted = LRP(Between(lambda z: torch.relu(F.linear(z, matrix))), rule=rule).explain(X).values
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("both", [True, False])
def test_a_grid_that_depends_on_the_input_is_refused(both):
    def moved(z):
        turn = F.pad(z[:, :2, :2], (0, 1))
        grid = F.affine_grid(turn, [len(z), 1, 3, 8], align_corners=False)
        picture = z[:, None] if both else torch.ones_like(z[:, None]).detach()
        return F.grid_sample(picture, grid, align_corners=False)[:, 0]

    with pytest.raises(UnsupportedModel, match="no rule for 'grid_sample'"):
        LRP(Between(moved)).explain(X)


def test_recomputed_activations_are_refused_in_words():
    from torch.utils.checkpoint import checkpoint

    model = Between(lambda z: checkpoint(torch.tanh, 2 * z, use_reentrant=False))
    assert Gradient(model).explain(X).values.any()
    with pytest.raises(UnsupportedModel, match="gradient checkpointing off"):
        LRP(model).explain(X)


def test_errors_of_the_model_tell_what_to_do():
    picture = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2)).eval()
    picture(torch.zeros(1, 1, 5, 5))
    with pytest.raises(InvalidInput, match="x / 255"):
        LRP(picture).explain(np.zeros((2, 1, 5, 5), dtype=np.uint8))
    weights = torch.randn(3, 8, 8, dtype=torch.float64)
    with pytest.raises(InvalidInput, match=r"torch\.vmap"):
        LRP(Between(lambda z: torch.vmap(lambda w: torch.relu(z @ w))(weights).sum(0))).explain(X)


def test_exported_programs_are_explained_by_their_archive(tmp_path):
    from tellwhy.workflow import load_network

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2)).eval()
    x = torch.randn(2, 8)
    program = torch.export.export(model, (x,))
    with pytest.raises(UnsupportedModel, match=r"load_network\('model.pt2'\)"):
        LRP(program.module()).explain(x)
    torch.export.save(program, tmp_path / "model.pt2")
    found = LRP(load_network(str(tmp_path / "model.pt2")).model).explain(x).values
    np.testing.assert_allclose(found, LRP(model).explain(x).values, atol=1e-6)
