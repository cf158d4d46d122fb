"""DeepLIFT and its kin: the rescale rule written out, differences that add up, and captum's where it is there."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tellwhy  # noqa: E402
from tellwhy.core.errors import InvalidInput, InvalidParameter, NotConverged, UnsupportedModel  # noqa: E402
from tellwhy.explainers import DeepLift, DeepLiftShap, GradientShap, IntegratedGradients  # noqa: E402
from tellwhy.explainers.propagation import programs  # noqa: E402


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def made(build, seed=0):
    torch.manual_seed(seed)
    return build().double().eval()


FEED_FORWARD = {
    "ReLU": lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3)),
    "in place": lambda: nn.Sequential(
        nn.Linear(5, 8), nn.ReLU(inplace=True), nn.Linear(8, 6), nn.ELU(inplace=True), nn.Linear(6, 3)
    ),
    "softmax": lambda: nn.Sequential(
        nn.Linear(5, 8), nn.Sigmoid(), nn.Linear(8, 6), nn.LeakyReLU(), nn.Linear(6, 3), nn.Softmax(dim=1)
    ),
}


def by_hand(model, x, reference, target):
    """The rescale rule, layer after layer, in numpy."""
    layers = [layer for layer in model if not isinstance(layer, nn.Softmax)]
    states = [(x, reference)]
    for layer in layers:
        with torch.no_grad():
            states.append(tuple(layer(state.clone()) for state in states[-1]))
    slope = np.zeros((len(x), states[-1][0].shape[1]))
    slope[:, target] = 1.0
    for layer, before, after in zip(layers[::-1], states[-2::-1], states[:0:-1], strict=True):
        if isinstance(layer, nn.Linear):
            slope = slope @ layer.weight.detach().numpy()
        else:
            slope = slope * ((after[0] - after[1]) / (before[0] - before[1])).numpy()
    return slope * (x - reference).numpy()


@pytest.mark.parametrize("name", FEED_FORWARD)
def test_the_rescale_rule(name):
    model, x, reference = made(FEED_FORWARD[name]), drawn(4, 5), drawn(1, 5, seed=1)
    found = DeepLift(model, target=1, baseline=reference[0]).explain(x)
    np.testing.assert_allclose(found.values, by_hand(model, x, reference, 1), atol=1e-12)
    logits = nn.Sequential(*[layer for layer in model if not isinstance(layer, nn.Softmax)])
    np.testing.assert_allclose(found.base_values, logits(reference.clone())[0, 1].item())
    np.testing.assert_allclose(found.residual, 0, atol=1e-12)


class Gates(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 6), nn.Linear(5, 6)
        self.norm, self.groups, self.head = nn.LayerNorm(6), nn.GroupNorm(2, 6), nn.Linear(6, 3)

    def forward(self, x):
        y = nn.functional.glu(torch.cat([self.a(x), self.b(x)], dim=1))
        y = self.groups(self.norm(y) * self.a(x)) / (1 + self.b(x) ** 2)
        y += self.a(x)
        y *= self.b(x)
        return self.head(1.0 / (2.0 + y.exp()))


class Attention(nn.Module):
    def __init__(self, *, batch_first=True):
        super().__init__()
        self.is_first = batch_first
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first, dropout=0.0)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        found = self.layer(x) if self.is_first else self.layer(x.transpose(0, 1)).transpose(0, 1)
        return self.head(found.mean(dim=1))


class Logarithms(nn.Module):
    """A softmax and its logarithm inside, along different axes, and a division of constants."""

    def __init__(self):
        super().__init__()
        self.a, self.head = nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        y = torch.log_softmax(self.a(x).unflatten(1, (2, 3)), 1).flatten(1)
        y = y + nn.functional.softmax(3 * self.a(x), dim=-1) + 1 / (3 + torch.sinc(y))
        return self.head(y)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.LSTM(3, 5, batch_first=True, num_layers=2), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.layers(x)[0][:, -1])


def pictures():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(4, 5, 2),
        nn.Softplus(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(5, 3),
    )
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    return model


OTHERS = {
    "gates and norms": (Gates, (4, 5)),
    "attention": (Attention, (3, 4, 8)),
    "attention, rows second": (lambda: Attention(batch_first=False), (3, 4, 8)),
    "logarithms": (Logarithms, (4, 5)),
    "recurrent": (Recurrent, (4, 6, 3)),
    "overlapping pools": (pictures, (3, 1, 8, 8)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_differences_add_up_whatever_the_network_is_made_of(name):
    build, shape = OTHERS[name]
    model, x = made(build), drawn(*shape)
    reference = drawn(*shape[1:], seed=2)
    found = DeepLift(model, target=0, baseline=reference).explain(x)
    np.testing.assert_allclose(found.residual, 0, atol=1e-9)
    np.testing.assert_allclose(found.scores, model(x)[:, 0].detach(), atol=1e-12)
    assert np.abs(found.values).max() > 1e-3
    one = DeepLift(model, target=0, baseline=reference).explain(x[1:2])
    np.testing.assert_allclose(one.values, found.values[1:2], atol=1e-9)


def test_a_program_gives_the_same(monkeypatch):
    model, x = made(pictures), drawn(8, 1, 8, 8)
    asked = {"target": 0, "baseline": 0.3, "batch_size": 2}
    found = DeepLift(model, **asked).explain(x, compile=False)
    monkeypatch.setattr(programs, "LEAST_BATCHES", 3)
    explainer = DeepLift(model, **asked)
    again = explainer.explain(x, output="torch")
    (record,) = programs._records[explainer].values()
    assert record.program is not None
    assert record.n_checked == programs.N_CHECKED
    np.testing.assert_allclose(again.values.numpy(), found.values, atol=1e-12)
    np.testing.assert_allclose(again.numpy().base_values, found.base_values, atol=1e-12)


def test_values_can_be_differentiated():
    model, x = made(FEED_FORWARD["softmax"]), drawn(2, 5).requires_grad_()
    explainer, way = DeepLift(model, target=1, baseline=0.3), 1e-6 * drawn(2, 5, seed=5)
    values = explainer.explain(x, output="torch", differentiable=True).values
    (slope,) = torch.autograd.grad(values[:, 0].sum(), x)
    ends = [explainer.explain((x + s * way).detach()).values[:, 0].sum() for s in (-1, 1)]
    np.testing.assert_allclose((slope * way).sum(), (ends[1] - ends[0]) / 2, rtol=1e-6)


def test_the_mean_over_reference_rows():
    model, x, rows = made(FEED_FORWARD["ReLU"]), drawn(3, 5), drawn(7, 5, seed=1)
    found = DeepLiftShap(model, target=2).fit(rows).explain(x)
    each = [DeepLift(model, target=2, baseline=row).explain(x) for row in rows]
    np.testing.assert_allclose(found.values, np.mean([one.values for one in each], axis=0))
    np.testing.assert_allclose(found.base_values, np.mean([one.base_values for one in each], axis=0))
    by_name = tellwhy.explain(model, x, "deep_shap", background=rows, target=2)
    np.testing.assert_array_equal(by_name.values, found.values)
    few = DeepLiftShap(model, target=2, max_background=3).fit(rows)
    assert len(few.references_) == 3


def test_random_places_on_the_way_come_to_integrated_gradients():
    model, x, rows = made(FEED_FORWARD["softmax"]), drawn(3, 5), drawn(4, 5, seed=1)
    found = GradientShap(model, target=1, n_samples=200).fit(rows).explain(x)
    exact = np.mean(
        [IntegratedGradients(model, target=1, baseline=row.numpy()).explain(x).values for row in rows], axis=0
    )
    np.testing.assert_allclose(found.values, exact, atol=2e-2 * np.abs(exact).max())
    np.testing.assert_allclose(found.residual, 0, atol=5e-3)
    noisy = GradientShap(model, target=1, n_samples=50, noise=0.2).fit(rows).explain(x)
    assert not np.allclose(noisy.values, found.values, atol=1e-3)


def test_several_inputs_share_a_difference():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(2, 4)

        def forward(self, first, second):
            return (self.a(first) * torch.tanh(self.b(second))).sum(dim=1, keepdim=True)

    model, x = made(Two), (drawn(3, 3), drawn(3, 2, seed=1))
    found = DeepLift(model, baseline=(0.5, drawn(2, seed=2))).explain(x)
    total = found[0].values.sum(axis=1) + found[1].values.sum(axis=1)
    base = model(torch.full((1, 3), 0.5).double(), drawn(2, seed=2)[None]).item()
    np.testing.assert_allclose(total, found[0].scores - base, atol=1e-12)
    np.testing.assert_allclose(found[0].residual, 0, atol=1e-12)


def test_nothing_of_the_network_changes():
    model = made(pictures)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    DeepLift(model).explain(drawn(2, 1, 8, 8))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(weight.grad is None and weight.requires_grad for weight in model.parameters())


class Squeezed(nn.Module):
    """Drops every axis of length one: of a single row that of the rows, too."""

    def __init__(self):
        super().__init__()
        self.maps, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(torch.relu(self.maps(x)).mean((2, 3), keepdim=True).squeeze())


def test_a_network_that_drops_axes_is_given_a_reference_for_each_row():
    model, x = made(Squeezed), drawn(3, 1, 5, 5)
    found = DeepLift(model, target=1, baseline=0.4).explain(x)
    np.testing.assert_allclose(found.residual, 0, atol=1e-12)
    np.testing.assert_allclose(found.scores, model(x)[:, 1].detach())


class Turns(nn.Module):
    """Does something else where its input is large."""

    def forward(self, x):
        return (x.tanh() if float(x.detach().mean()) > 1 else x.sigmoid().exp()).sum(dim=1, keepdim=True)


def test_a_network_that_goes_other_ways_is_refused():
    assert DeepLift(Turns().eval(), baseline=3.0).explain(2 + drawn(2, 4).abs()).values.all()
    with pytest.raises(UnsupportedModel, match="other operations on the reference"):
        DeepLift(Turns().eval()).explain(2 + drawn(2, 4).abs())


class Unknown(nn.Module):
    def forward(self, x):
        return torch.special.i0(x).sum(dim=1, keepdim=True)


def test_an_operation_that_is_not_known_is_said_to_leave_a_residual():
    with pytest.warns(NotConverged, match="taken at its derivative"):
        found = DeepLift(Unknown().eval()).explain(3 * drawn(2, 4))
    assert np.abs(found.residual).max() > 0.1


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda m: DeepLift(m, baseline=np.zeros(3)).explain(drawn(2, 5)),
            InvalidParameter,
            "like one input",
        ),
        (lambda m: DeepLiftShap(m).explain(drawn(2, 5)), InvalidInput, "call fit"),
        (lambda m: GradientShap(m).explain(drawn(2, 5)), InvalidInput, "call fit"),
        (lambda m: DeepLift(m).ledger(drawn(2, 5)), InvalidInput, "hands down shares of its own"),
        (lambda m: DeepLift(m, baselines=1), InvalidParameter, "did you mean 'baseline'"),
    ],
)
def test_what_cannot_be_done_is_told(make, error, words):
    with pytest.raises(error, match=words):
        make(made(FEED_FORWARD["ReLU"]))


def test_tokens_are_answered_with_methods_that_explain_them():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, 2)).eval()
    with pytest.raises(InvalidInput, match="X holds tokens"):
        DeepLift(model).explain(torch.tensor([[0, 1, 2]]))


# Written by `python -m benchmarks.networks.deep_lift --figures FILE`.
CAPTUM = json.loads((Path(__file__).parent / "captum_figures.json").read_text(encoding="utf-8"))


def waves(*shape, start=0.0):
    numbers = torch.arange(np.prod(shape), dtype=torch.float64)
    return 0.6 * torch.sin(1.7 * numbers + start).reshape(shape)


@pytest.mark.parametrize("name", CAPTUM["cases"])
def test_captum_found_the_same(name):
    case = CAPTUM["cases"][name]
    model = nn.Sequential(*[getattr(nn, layer)(*given) for layer, *given in case["layers"]]).double().eval()
    for k, parameter in enumerate(model.parameters()):
        parameter.data = waves(*parameter.shape, start=k)
    shape = np.shape(case["DeepLift"])[1:]
    x, rows = waves(2, *shape, start=5.0), waves(3, *shape, start=9.0)
    one = DeepLift(model, target=1, baseline=rows[0]).explain(x).values
    np.testing.assert_allclose(one, case["DeepLift"], atol=1e-6)
    mean = DeepLiftShap(model, target=1).fit(rows).explain(x).values
    np.testing.assert_allclose(mean, case["DeepLiftShap"], atol=1e-6)
