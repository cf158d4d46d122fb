"""Attention, norms and activation functions: the rule depends on the function, not on its spelling."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from oracles import attention_oracles as oracle  # noqa: E402
from torch import nn  # noqa: E402
from zoo import transformers as models  # noqa: E402

from tellwhy.explainers import LRP, Gradient, coverage, explain_all  # noqa: E402

W = models.weights()
X = models.rows()
MASKS = {"no mask": None, "causal": models.causal_mask()}
ATTENTIONS = [*models.ATTENTIONS, "nn.MultiheadAttention", "with weights"]


def expected(mask, **settings):
    """Relevance of every row by explicit algebra, and the scores."""
    added = np.zeros((models.TIME, models.TIME)) if mask is None else mask
    values, scores = [], []
    for x in X.numpy():
        _, score = oracle.transformer(x, W, n_heads=models.HEADS, mask=added, target=0, **settings)
        found, _ = oracle.transformer(
            x, W, n_heads=models.HEADS, mask=added, target=int(score.argmax()), **settings
        )
        values.append(found)
        scores.append(score.max())
    return np.array(values), np.array(scores)


def close(found, wanted, near=1e-9):
    np.testing.assert_allclose(found / np.abs(wanted).max(), wanted / np.abs(wanted).max(), rtol=0, atol=near)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("variant", ["attnlrp", "detached"])
def test_every_spelling_of_attention_is_the_algebra(attention, mask, variant):
    model = models.Block(W, attention=attention, mask=MASKS[mask]).eval()
    wanted, scores = expected(MASKS[mask], detached=variant == "detached")
    explainer = LRP(model, rule="z", attention=variant)
    found = explainer.explain(X)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-10)
    close(found.values, wanted)
    ledger = explainer.ledger(X)
    assert np.isfinite(ledger[["arrived", "handed_on"]].to_numpy()).all()
    np.testing.assert_allclose(ledger["absorbed"].sum(), found.residual.sum(), atol=1e-9)
    assert not (coverage(model, X)["kind"] == "unknown").any()


@pytest.mark.parametrize("norm", models.LAYER_NORMS)
@pytest.mark.parametrize("linear", models.LINEARS)
def test_every_spelling_of_layer_norm_and_of_layers_is_the_algebra(norm, linear):
    wanted, _ = expected(None)
    spelled = {"norm": models.LAYER_NORMS[norm], "linear": models.LINEARS[linear]}
    model = models.Block(W, **spelled).eval()
    close(LRP(model, rule="z").explain(X).values, wanted)
    plain = models.Block(W).eval()
    for settings in (
        {"rule": "gamma"},
        {"rule": "epsilon", "rule_params": {"epsilon": 0.1}, "residual": "equal"},
    ):
        close(LRP(model, **settings).explain(X).values, LRP(plain, **settings).explain(X).values)


@pytest.mark.parametrize("norm", models.RMS_NORMS)
def test_every_spelling_of_rms_norm_is_the_algebra(norm):
    model = models.Block(W, norm=models.RMS_NORMS[norm]).eval()
    close(LRP(model, rule="z").explain(X).values, expected(None, centred=False)[0])


@pytest.mark.parametrize("family", ["GELUS", "SILUS"])
def test_activation_functions_by_hand_keep_the_relevance_of_each_element(family):
    spelled = list(getattr(models, family).values())
    wanted = LRP(models.Block(W, gelu=spelled[0]).eval(), rule="z").explain(X).values
    if family == "GELUS":
        close(wanted, expected(None)[0])
    for other in spelled[1:]:
        close(LRP(models.Block(W, gelu=other).eval(), rule="z").explain(X).values, wanted)


SPELLED = {"attention": "exp over sum", "norm": models.LAYER_NORMS["rsqrt"], "gelu": models.GELUS["erf"]}


@pytest.mark.parametrize("variant", ["attnlrp", "detached"])
@pytest.mark.parametrize("attention", ["sdpa", "exp over sum", "matmul", "with weights"])
def test_relevance_travels_like_contributions(attention, variant):
    """Rules that carry relevance itself give what those that carry contributions give."""
    from tellwhy.explainers.propagation import Rule
    from tellwhy.explainers.propagation.rules import quotient

    def plain(layer, x, z, R):
        return x * layer.backward(x, layer.weight, quotient(R, z))

    model = models.Block(W, **{**SPELLED, "attention": attention}, mask=MASKS["causal"]).eval()
    wanted = LRP(model, rule="z", attention=variant).explain(X).values
    found = LRP(model, rule=Rule("z", plain, maps_relevance=True), attention=variant).explain(X).values
    close(found, wanted, 1e-8)


@pytest.mark.parametrize("attention", ["sdpa", "exp over sum", "with weights"])
def test_gradients_that_share_the_pass_see_everything(attention):
    model = models.Block(W, **{**SPELLED, "attention": attention}).eval()
    together = explain_all(
        {"gradient": Gradient(model), "detached": LRP(model, rule="z", attention="detached")}, X
    )
    leaf = X.clone().requires_grad_()
    slopes = torch.autograd.grad(model(leaf).max(dim=1).values.sum(), leaf)[0]
    np.testing.assert_allclose(together["gradient"].values, slopes.numpy(), atol=1e-10)
    close(together["detached"].values, expected(None, detached=True)[0])


def test_detached_attention_conserves_where_there_are_no_biases():
    bare = {name: value * (not name.startswith(("b", "beta"))) for name, value in W.items()}
    found = LRP(models.Block(bare).eval(), rule="z", attention="detached").explain(X)
    assert np.abs(found.residual / found.scores).max() < 1e-9


def test_grouped_heads_and_a_mask_that_depends_on_the_input():
    class Grouped(nn.Module):
        """Two heads of keys and values for four of queries, by PyTorch or by hand."""

        def __init__(self, by_hand):
            super().__init__()
            torch.manual_seed(0)
            self.q, self.kv, self.m = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, models.TIME)
            self.head = nn.Linear(8, 2)
            self.by_hand = by_hand

        def forward(self, x):
            q = self.q(x).view(len(x), -1, 4, 2).transpose(1, 2)
            k, v = (t.view(len(x), -1, 2, 2).transpose(1, 2) for t in self.kv(x).chunk(2, -1))
            mask = self.m(x)[:, None]
            if self.by_hand:
                k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
                y = ((q @ k.mT) * 2**-0.5 + mask).softmax(-1) @ v
            else:
                attend = nn.functional.scaled_dot_product_attention
                y = attend(q, k, v, attn_mask=mask, enable_gqa=True)
            return self.head(y.transpose(1, 2).flatten(2).mean(1))

    both = [LRP(Grouped(by_hand).double().eval(), rule="z").explain(X).values for by_hand in (False, True)]
    close(both[0], both[1])
    assert np.abs(both[0]).max() > 0


class Constant(nn.Module):
    """Attention some of whose arguments do not depend on the input, by PyTorch's function or by hand."""

    def __init__(self, fixed, spelling):
        super().__init__()
        torch.manual_seed(0)
        self.learned = nn.ParameterDict({name: torch.randn(1, models.TIME, 8) for name in fixed})
        self.maps = nn.ModuleDict({name: nn.Linear(8, 8, bias=False) for name in "qkv"})
        self.head = nn.Linear(8, 2, bias=False)
        self.spelling = spelling
        self.double().eval()

    def forward(self, x):
        given = {name: self.learned[name].expand_as(x) if name in self.learned else x for name in "qkv"}
        q, k, v = (self.maps[name](given[name]) for name in "qkv")
        if self.spelling == "sdpa":
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = (q @ k.mT / 8**0.5).softmax(-1) @ v
        return self.head(mixed.mean(1))


@pytest.mark.parametrize("variant", ["attnlrp", "detached"])
@pytest.mark.parametrize("fixed", ["q", "k", "v", "qk", "qv", "kv"])
def test_a_factor_that_does_not_depend_on_the_input_gets_nothing(fixed, variant):
    """Learned queries, say: the other factor of the product gets its share too, in either spelling."""
    both = [
        LRP(Constant(fixed, spelling), rule="z", attention=variant).explain(X)
        for spelling in ("sdpa", "by hand")
    ]
    close(both[0].values, both[1].values)
    if fixed == "qk":  # constant weights: a linear map of the values
        assert np.abs(both[0].residual / both[0].scores).max() < 1e-9
