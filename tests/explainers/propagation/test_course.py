"""Batches that repeat the course of the first one: the same values, and another turn is noticed."""

import numpy as np
import pytest
import torch
from torch import nn

from tellwhy.core.errors import UnsupportedModel
from tellwhy.explainers import LRP, InputTimesGradient, explain_all
from tellwhy.explainers.propagation import batches
from tellwhy.explainers.propagation.engine.replay import Course


class Residual(nn.Module):
    """Convolutions with batch norm, rectifiers in place, and a sum of two ways."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.BatchNorm2d(4)])
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        x = nn.functional.relu(self.norms[0](self.first(x)), inplace=True)
        y = self.norms[1](self.second(x))
        y += x
        return self.out(nn.functional.relu_(y).mean(dim=(2, 3)))


class Reader(nn.Module):
    """Tokens, a norm by hand, attention, a gate and a softmax that is not the last operation."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.keys = nn.Linear(8, 24, bias=False)
        self.gate = nn.Linear(8, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, tokens):
        x = self.embed(tokens)
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        q, k, v = self.keys(h).chunk(3, dim=-1)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + nn.functional.silu(self.gate(x)) * x
        return self.out(x.mean(dim=1))


class Turning(nn.Module):
    """Takes another turn with values above one; `how` says in what the turns differ."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        turns = bool(x.max() > 1)
        a, b = torch.relu(self.a(x)), torch.relu(self.b(x))
        if self.how == "function":
            a = torch.tanh(a) if turns else torch.sigmoid(a)
        elif self.how == "setting":
            a = a * (3.0 if turns else 0.5)
        elif self.how == "input":
            a = torch.exp(b if turns else a)
        elif self.how == "more":
            a = a + b if turns else a
        elif self.how == "output":
            both = self.out(a), self.out(b)
            return both[int(turns)]
        return self.out(a)


class Lookup(nn.Module):
    """A layer whose weights, which are constants, depend on the tokens of the batch."""

    def __init__(self, where):
        super().__init__()
        self.where = where
        self.embed = nn.Embedding(11, 4)
        self.bank = nn.Parameter(torch.randn(11, 4, 4))
        self.out = nn.Linear(4, 2)

    def forward(self, tokens):
        x = self.embed(tokens)
        weight = self.bank[tokens[0, 0]]
        if self.where == "layer":
            x = nn.functional.linear(x, weight)
        elif self.where == "norm":
            x = nn.functional.layer_norm(x, (4,), weight[0])
        elif self.where == "bias":
            x = nn.functional.linear(x, self.bank[0]) + weight[0]
        else:
            x = x @ weight
        return self.out(x.mean(dim=1))


class Keeping(nn.Module):
    """Uses an activation of its first call again in later ones, which also compute it anew."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.out = nn.Linear(4, 2)
        self.kept = None

    def forward(self, x):
        h = torch.relu(self.inner(x))
        self.kept = h if self.kept is None else self.kept
        return self.out(self.kept)


class Pointing(nn.Module):
    """Looks up the largest elements: whole numbers that depend on the input go into later operations."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 6)
        self.out = nn.Linear(2, 2)

    def forward(self, x):
        h = torch.relu(self.inner(x))
        places = h.max(dim=1, keepdim=True).indices
        h = torch.pow(h + 0.5, places)
        return self.out(torch.cat([h.gather(1, places), h[:, :1] * (h > 0.1)[:, :1]], dim=1))


def followed(explainer, x, monkeypatch):
    """Values, where no batch repeats another one's course."""
    with monkeypatch.context() as patch:
        patch.setattr(batches, "Course", lambda: Course(given_up=True))
        return explainer.explain(x).values


def seen(explainer, x, monkeypatch):
    """Values, and the course that was taken."""
    made = []

    def course():
        made.append(Course())
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(batches, "Course", course)
        return explainer.explain(x).values, made[0]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("settings", [{}, {"composite": "preset_a"}, {"rule": "gamma"}], ids=str)
def test_convolutions_of_later_batches_get_what_following_each_gives(settings, monkeypatch):
    model = Residual().eval()
    for norm in model.norms:
        norm.running_mean.normal_()
    x = torch.randn(7, 2, 6, 6)
    explainer = LRP(model, batch_size=2, **settings)
    values, course = seen(explainer, x, monkeypatch)
    assert not course.given_up
    assert len(course.turns) == len(course.operations) > 8
    np.testing.assert_array_equal(values, followed(explainer, x, monkeypatch))


@pytest.mark.parametrize("attention", ["attnlrp", "detached"])
def test_tokens_of_later_batches_get_what_following_each_gives(attention, monkeypatch):
    x = torch.randint(11, (6, 5))
    explainer = LRP(Reader().eval(), attention=attention, batch_size=2)
    values, course = seen(explainer, x, monkeypatch)
    assert not course.given_up
    np.testing.assert_array_equal(values, followed(explainer, x, monkeypatch))


@pytest.mark.parametrize("how", ["function", "setting", "input", "more", "output"])
def test_another_turn_is_noticed_and_followed(how, monkeypatch):
    x = torch.rand(6, 4)
    x[2:4] += 1  # the second batch turns, the third is like the first again
    explainer = LRP(Turning(how).eval(), batch_size=2)
    values, course = seen(explainer, x, monkeypatch)
    assert course.given_up
    np.testing.assert_array_equal(values, followed(explainer, x, monkeypatch))


@pytest.mark.parametrize("where", ["layer", "norm", "bias", "product"])
def test_weights_that_depend_on_the_batch_are_those_of_the_batch(where, monkeypatch):
    x = torch.arange(6)[:, None].repeat(1, 3)
    explainer = LRP(Lookup(where).eval(), batch_size=2)
    values = seen(explainer, x, monkeypatch)[0]
    np.testing.assert_array_equal(values, followed(explainer, x, monkeypatch))


@pytest.mark.parametrize("spelling", ["addmm", "@", "einsum"])
def test_layers_in_other_words_repeat_a_course_too(spelling, monkeypatch):
    """The transposed weights are another tensor each time, of the same memory."""

    class Spelled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 5))
            self.bias = nn.Parameter(torch.randn(5))
            self.out = nn.Linear(5, 2)

        def forward(self, x):
            if spelling == "addmm":
                z = torch.addmm(self.bias, x, self.weight)
            elif spelling == "@":
                z = x @ self.weight + self.bias
            else:
                z = torch.einsum("ni,io->no", x, self.weight)
            return self.out(torch.relu(z))

    x = torch.randn(6, 4)
    explainer = LRP(Spelled().eval(), batch_size=2)
    values, course = seen(explainer, x, monkeypatch)
    assert not course.given_up
    np.testing.assert_array_equal(values, followed(explainer, x, monkeypatch))


def test_an_activation_of_an_earlier_batch_is_not_taken_for_one_of_this():
    with pytest.raises(UnsupportedModel, match="does not depend on x"):
        LRP(Keeping().eval(), batch_size=2).explain(torch.rand(6, 4))


@pytest.mark.parametrize("method", [LRP, InputTimesGradient])
def test_whole_numbers_that_depend_on_the_input(method, monkeypatch):
    x = torch.randn(8, 4)
    explainer = method(Pointing().eval(), batch_size=2)
    values, course = seen(explainer, x, monkeypatch)
    assert not course.given_up
    np.testing.assert_array_equal(values, followed(explainer, x, monkeypatch))


def test_gradients_of_tokens_repeat_a_course(monkeypatch):
    x = torch.randint(11, (6, 5))
    explainer = InputTimesGradient(Reader().eval(), batch_size=2)
    values, course = seen(explainer, x, monkeypatch)
    assert course.turns
    np.testing.assert_array_equal(values, followed(explainer, x, monkeypatch))


def test_a_last_batch_of_other_length_is_followed(monkeypatch):
    x = torch.rand(5, 4)
    explainer = LRP(Turning("input").eval(), batch_size=2)
    values, course = seen(explainer, x, monkeypatch)
    assert not course.given_up
    np.testing.assert_array_equal(values, followed(explainer, x, monkeypatch))


def test_methods_together_repeat_one_course():
    x = torch.randn(6, 2, 6, 6)
    model = Residual().eval()
    explainers = {"epsilon": LRP(model, batch_size=2), "z": LRP(model, rule="z", batch_size=2)}
    together = explain_all(explainers, x)
    for name, explainer in explainers.items():
        np.testing.assert_allclose(together[name].values, explainer.explain(x).values, rtol=1e-5, atol=1e-9)


def test_weights_of_later_explanations_are_those_of_the_model_then():
    model = Residual().eval()
    x = torch.randn(4, 2, 6, 6)
    explainer = LRP(model, batch_size=2)
    explainer.explain(x)
    with torch.no_grad():
        model.out.weight.mul_(2)
        model.out.bias.mul_(2)
    np.testing.assert_allclose(explainer.explain(x).scores, model(x).max(dim=1).values.detach(), rtol=1e-5)


def test_nothing_of_a_batch_is_kept_for_the_next_one():
    import gc
    import weakref

    seen_inputs = []

    class Watched(nn.Linear):
        def forward(self, x):
            seen_inputs.append(weakref.ref(x))
            return super().forward(x)

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Watched(4, 2)).eval()
    gc.disable()
    try:
        LRP(model, batch_size=2).explain(torch.randn(8, 4))
    finally:
        gc.enable()
    assert len(seen_inputs) == 4
    assert all(ref() is None for ref in seen_inputs)
