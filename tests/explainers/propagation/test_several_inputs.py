"""Models of several inputs: arrays, tokens, masks; by place and by name."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from zoo.networks import Function, Joined  # noqa: E402

from tellwhy.core.errors import InvalidInput, UnsupportedModel  # noqa: E402
from tellwhy.explainers import (  # noqa: E402
    LRP,
    DeepTaylor,
    ExcitationBackprop,
    Gradient,
    InputTimesGradient,
    SmoothGrad,
    explain_all,
)

# Small random networks lose relevance; that is told, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:.* promises that its values add up")


def two_towers():
    """A network of a picture and a row of numbers."""
    torch.manual_seed(0)
    picture = nn.Sequential(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4))
    return Joined(picture, nn.Linear(5, 4), nn.Linear(4, 2)).double().eval()


class Question(nn.Module):
    """Tokens with a mask, and numbers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(10, 4), nn.Linear(7, 2)

    def forward(self, tokens, mask, numbers):
        words = (self.embedding(tokens) * mask[:, :, None]).sum(dim=1)
        return self.head(torch.cat([words, numbers], dim=1))


def towers(bias=True):
    model = two_towers()
    if not bias:
        for module in model.modules():
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
    torch.manual_seed(1)
    return model, (torch.randn(6, 1, 3, 3, dtype=torch.float64), torch.randn(6, 5, dtype=torch.float64))


def total(explanation):
    return explanation.values.reshape(len(explanation), -1).sum(axis=1)


@pytest.mark.parametrize("rule", ["z", "epsilon", "gamma", "flat"])
def test_relevance_is_conserved_across_inputs(rule):
    model, x = towers(bias=False)
    image, numbers = LRP(model, rule=rule, batch_size=4).explain(x)
    np.testing.assert_allclose(total(image) + total(numbers), image.scores, atol=1e-5)
    assert image.values.shape == (6, 1, 3, 3)
    assert numbers.values.shape == (6, 5)
    assert np.abs(total(image)).max() > 1e-3
    assert np.abs(total(numbers)).max() > 1e-3


def test_each_residual_is_that_of_the_whole():
    model, x = towers()
    explainer = LRP(model, rule="z")
    image, numbers = explainer.explain(x)
    whole = image.scores - total(image) - total(numbers)
    np.testing.assert_allclose(image.residual, whole, atol=1e-12)
    np.testing.assert_allclose(numbers.residual, whole, atol=1e-12)
    np.testing.assert_allclose(image.base_values, total(numbers), atol=1e-12)
    np.testing.assert_allclose(explainer.ledger(x)["absorbed"].sum(), whole.sum(), rtol=1e-9)
    assert image.data is x[0]


@pytest.mark.parametrize(
    "method", [Gradient, InputTimesGradient, SmoothGrad, ExcitationBackprop, DeepTaylor, LRP]
)
def test_by_place_and_by_name(method):
    model, x = towers()
    settings = {"n_samples": 3, "random_state": 0} if method is SmoothGrad else {}
    by_place = method(model, **settings).explain(x)
    by_name = method(model, **settings).explain({"left": x[0].numpy(), "right": x[1].numpy()})
    assert list(by_name) == ["left", "right"]
    for one, other in zip(by_place, by_name.values(), strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    if method is Gradient:
        leaves = [t.clone().requires_grad_() for t in x]
        expected = torch.autograd.grad(model(*leaves).max(dim=1).values.sum(), leaves)
        for one, gradient in zip(by_place, expected, strict=True):
            np.testing.assert_allclose(one.values, gradient.numpy(), atol=1e-14)
            assert not one.base_values.any()


def test_tokens_masks_and_numbers():
    model = Question().double().eval()
    tokens, mask = (
        torch.tensor([[1, 2, 0], [3, 3, 9]]),
        torch.tensor([[1, 1, 0], [1, 1, 1]], dtype=torch.bool),
    )
    numbers = torch.randn(2, 3, dtype=torch.float64)
    words, ignored, rest = LRP(model, target=1, rule="z").explain((tokens, mask, numbers))
    w = model.head.weight[1].detach()
    expected = (model.embedding(tokens).detach() * w[:4]).sum(-1) * mask
    np.testing.assert_allclose(words.values, expected.numpy(), atol=1e-12)
    np.testing.assert_allclose(rest.values, (numbers * w[4:]).numpy(), atol=1e-12)
    assert not ignored.values.any()
    np.testing.assert_allclose(words.residual, float(model.head.bias[1].detach()), atol=1e-12)


def test_two_inputs_of_tokens_are_told_apart():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.embedding = nn.Embedding(5, 3)
            self.head = nn.Linear(3, 1, bias=False)

        def forward(self, a, b):
            return self.head(self.embedding(a).sum(1) - 2 * self.embedding(input=b).sum(1))

    model, tokens = Pair().double().eval(), torch.tensor([[1, 2], [3, 4]])
    first, second = LRP(model, rule="z").explain((tokens, tokens))
    np.testing.assert_allclose(second.values, -2 * first.values, atol=1e-12)
    each = (model.embedding(tokens) @ model.head.weight[0]).detach().numpy()
    np.testing.assert_allclose(first.values, each, atol=1e-12)


def test_tokens_that_are_embedded_twice_get_both_parts():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.deep, self.wide = nn.Embedding(5, 3), nn.Embedding(5, 1)
            self.head = nn.Linear(3, 1, bias=False)

        def forward(self, tokens):
            return self.head(self.deep(tokens)).sum(dim=1) + self.wide(tokens).sum(dim=1)

    model, tokens = Twice().double().eval(), torch.tensor([[1, 2, 3], [3, 4, 0]])
    found = LRP(model, rule="z").explain(tokens)
    expected = (model.head(model.deep(tokens)) + model.wide(tokens))[:, :, 0]
    np.testing.assert_allclose(found.values, expected.detach().numpy(), atol=1e-12)


def _shifted(tokens):
    shifted = tokens.new_zeros(tokens.shape)
    shifted[:, 1:] = tokens[:, :-1].clone()
    shifted[:, 0] = 4
    return shifted


def _overwritten(tokens):
    tokens[:, 1] = 2
    return tokens


# What a model looks up, and from which column of the tokens it came (-1: from none).
MOVED = {
    "as they are": (lambda t: t, [0, 1, 2]),
    "a copy of another type": (lambda t: t.clone().int(), [0, 1, 2]),
    "some": (lambda t: t[:, :2], [0, 1]),
    "one column": (lambda t: t[:, 1], [1]),
    "turned round": (lambda t: t.flip(1), [2, 1, 0]),
    "time first": (lambda t: t.transpose(0, 1).contiguous(), [0, 1, 2]),
    "twice": (lambda t: torch.cat([t, t[:, 1:]], dim=1), [0, 1, 2, 1, 2]),
    "with an offset": (lambda t: t + torch.tensor([0, 5, 10]), [0, 1, 2]),
    "after a start": (lambda t: torch.cat([torch.full((len(t), 1), 3), t], dim=1), [-1, 0, 1, 2]),
    "shifted": (_shifted, [-1, 0, 1]),
    "padded": (lambda t: nn.functional.pad(t, (1, 0), value=3), [-1, 0, 1, 2]),
    "overwritten": (_overwritten, [0, -1, 2]),
    "filled in": (lambda t: t.masked_fill(torch.tensor([False, False, True]), 1), [0, 1, -1]),
    "chosen": (lambda t: torch.where(torch.tensor([True, False, False]), t, 3), [0, -1, -1]),
}


class Moves(nn.Module):
    """Looks up tokens after moving them; each place that is looked up counts differently."""

    def __init__(self, moved, lookup="embedding"):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(20, 3))
        self.head = nn.Linear(3, 1, bias=False)
        self.moved, self.lookup = moved, lookup

    def found(self, tokens):
        index = self.moved(tokens)
        if self.lookup == "embedding":
            return nn.functional.embedding(index, self.table)
        if self.lookup == "index_select":
            return self.table.index_select(0, index.flatten()).reshape(*index.shape, 3)
        return self.table[index]

    def forward(self, tokens):
        found = self.found(tokens)
        if found.ndim == 2:
            return self.head(found)
        found = found if len(found) == len(tokens) else found.transpose(0, 1)
        return self.head(found * torch.arange(1.0, 1 + found.shape[1])[:, None]).sum(dim=1)


@pytest.mark.parametrize("lookup", ["embedding", "index_select", "square brackets"])
@pytest.mark.parametrize("name", MOVED)
@pytest.mark.parametrize("batch_size", [1, 2])
def test_relevance_finds_back_to_tokens_that_were_moved(name, lookup, batch_size):
    moved, columns = MOVED[name]
    model = Moves(moved, lookup).double().eval()
    tokens = torch.tensor([[1, 2, 3], [3, 4, 0]])
    explanation = LRP(model, rule="z", batch_size=batch_size).explain(tokens)
    looked_up = model.found(tokens.clone()).detach()
    looked_up = looked_up[:, None] if looked_up.ndim == 2 else looked_up
    looked_up = looked_up.transpose(0, 1) if name == "time first" else looked_up
    each = (looked_up @ model.head.weight[0].detach()).numpy() * np.arange(1, 1 + looked_up.shape[1])
    expected = np.zeros((2, 3))
    for place, column in enumerate(columns):
        if column >= 0:
            expected[:, column] += each[:, place]
    np.testing.assert_allclose(explanation.values, expected, atol=1e-12)
    constants = each[:, [column < 0 for column in columns]].sum(axis=1)
    np.testing.assert_allclose(explanation.residual, constants, atol=1e-12)


def test_two_inputs_of_tokens_may_be_joined():
    class Joined(Moves):
        def forward(self, a, b):
            return super().forward(torch.cat([b, a], dim=1))

    model = Joined(lambda t: t).double().eval()
    first, second = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[5, 6, 7], [8, 9, 0]])
    found = LRP(model, rule="z").explain((first, second))
    whole = LRP(Moves(lambda t: t).double().eval(), rule="z").explain(torch.cat([second, first], dim=1))
    np.testing.assert_allclose(found[1].values, whole.values[:, :3], atol=1e-12)
    np.testing.assert_allclose(found[0].values, whole.values[:, 3:], atol=1e-12)


def test_explain_all_takes_several_inputs():
    model, x = towers()
    (gradient, _), (lrp, numbers) = explain_all([Gradient(model), LRP(model)], x)
    np.testing.assert_allclose(gradient.values, Gradient(model).explain(x)[0].values, atol=1e-12)
    np.testing.assert_allclose(numbers.values, LRP(model).explain(x)[1].values, atol=1e-12)
    assert lrp.method == "LRP"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda a, b: (a, b[:3]), InvalidInput, r"different numbers of rows: \[6, 3\]"),
        (lambda a, b: (a,), InvalidInput, r"cannot be applied to inputs of shape \(6, 1, 3, 3\)"),
        (lambda a, b: (a, b.float()), InvalidInput, "input 1 has dtype torch.float32"),
        (lambda a, b: {"left": a, "right": b / 0}, InvalidInput, "'right' is not finite in row 0"),
        (lambda a, b: {"left": a, "other": b}, InvalidInput, "unexpected keyword argument 'other'"),
        (lambda a, b: {}, InvalidInput, "no input"),
        (lambda a, b: [b, b], InvalidInput, "list of tensors"),
        (lambda a, b: (a, b[:, 0]), InvalidInput, "input 1 must have rows first"),
    ],
)
def test_bad_inputs(change, error, message):
    model, x = towers()
    with pytest.raises(error, match=message):
        LRP(model).explain(change(*x))


def test_inputs_that_do_not_matter_get_nothing():
    x = torch.randn(2, 3, dtype=torch.float64)
    used, ignored = LRP(Function(lambda a, b: a * 2).eval(), target=0, rule="z").explain((x, x))
    assert used.values.any()
    assert not ignored.values.any()

    with pytest.raises(UnsupportedModel, match="does not depend on x"):
        LRP(Function(lambda a: torch.ones(len(a), 2)).eval()).explain((x,))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_tokens_are_explained_like_their_embeddings(mode):
    class Bag(nn.Module):
        def __init__(self, by_hand):
            super().__init__()
            torch.manual_seed(0)
            self.bag, self.head = nn.EmbeddingBag(20, 4, mode=mode), nn.Linear(4, 2)
            self.by_hand = by_hand

        def forward(self, tokens):
            if not self.by_hand:
                return self.head(self.bag(tokens))
            words = nn.functional.embedding(tokens, self.bag.weight)
            return self.head(words.amax(1) if mode == "max" else getattr(words, mode)(1))

    tokens = torch.randint(0, 20, (3, 6), generator=torch.Generator().manual_seed(0))
    both = [LRP(Bag(by_hand).double().eval(), rule="z").explain(tokens).values for by_hand in (False, True)]
    np.testing.assert_allclose(both[0], both[1], atol=1e-12)
    assert np.abs(both[0]).max() > 0
