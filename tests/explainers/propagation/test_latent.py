"""Latent relevance: per layer, per head and per token, inside the network."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from oracles import attention_oracles as oracle  # noqa: E402
from torch import nn  # noqa: E402
from zoo import transformers as models  # noqa: E402
from zoo.networks import build  # noqa: E402

from tellwhy.core.errors import InvalidInput  # noqa: E402
from tellwhy.explainers import LRP, Gradient, InputTimesGradient  # noqa: E402

W, X = models.weights(), models.rows()


@pytest.mark.parametrize("batch_size", [2, 32])
def test_heads_get_what_the_algebra_gives_them(batch_size):
    model = models.Block(W).eval()
    explainer = LRP(model, target=1, rule="z", batch_size=batch_size)
    found = explainer.latent(X, ":scaled_dot_product_attention")[":scaled_dot_product_attention"]
    assert found.shape == (3, models.HEADS, models.TIME, models.SIZE // models.HEADS)
    for x, heads in zip(X.numpy(), found, strict=True):
        kept = {}
        zeros = np.zeros((models.TIME, models.TIME))
        oracle.transformer(x, W, n_heads=models.HEADS, mask=zeros, target=1, kept=kept)
        np.testing.assert_allclose(heads, kept["heads"], atol=1e-10)


@pytest.mark.parametrize("rule", ["z", "flat"])
def test_every_module_of_a_chain_hands_on_the_whole(rule):
    torch.manual_seed(0)
    parts = [part for _ in range(3) for part in (nn.Linear(6, 6, bias=False), nn.ReLU())]
    model = nn.Sequential(*parts, nn.Linear(6, 2, bias=False)).double().eval()
    x = torch.rand(4, 6, dtype=torch.float64)
    explainer = LRP(model, rule=rule)
    whole = explainer.explain(x)
    for name, relevance in explainer.latent(x, ["0", "1", "4"]).items():
        assert relevance.shape == (4, 6), name
        np.testing.assert_allclose(relevance.sum(1), whole.values.sum(1), atol=1e-12)


def test_places_change_nothing_and_gradients_have_input_times_gradient():
    model, x = build("unet")
    explainer = InputTimesGradient(model, target=0)
    before = explainer.explain(x).values
    found = explainer.latent(x, "deep")["deep"]
    kept = {}
    handle = model.deep.register_forward_hook(lambda m, a, out: kept.setdefault("z", out))
    outputs = model(x)
    handle.remove()
    slopes = torch.autograd.grad(outputs[:, 0].sum(), kept["z"])[0]
    np.testing.assert_allclose(found, (slopes * kept["z"]).detach().numpy(), atol=1e-12)
    np.testing.assert_array_equal(explainer.explain(x).values, before)


def test_places_that_are_not_there_are_refused():
    model, x = build("residual")
    with pytest.raises(InvalidInput, match="no module 'stam'"):
        LRP(model).latent(x, "stam")
    with pytest.raises(InvalidInput, match="ask for the module after it"):
        LRP(model).latent(x, "stem")
    with pytest.raises(InvalidInput, match="Nothing that depends on the input"):
        LRP(model).latent(x, "norm:tanh")
    with pytest.raises(InvalidInput, match="no latent relevance"):
        Gradient(model).latent(x, "norm")
    assert LRP(model).latent(x, "norm")["norm"].shape == (5, 4, 6, 6)
