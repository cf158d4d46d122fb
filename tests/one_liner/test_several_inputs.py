"""Networks of several inputs, by methods that change cells: every input is a part of one long row."""

import numpy as np
import pytest

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter

torch = pytest.importorskip("torch")


class Both(torch.nn.Module):
    """a·b + c², of a vector, a vector by name, and tokens."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(5, 1)
        self.table.weight.data = torch.arange(5.0)[:, None].double()
        self.weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, a, picture, tokens):
        known = (a * picture.flatten(1)[:, :2]).sum(dim=1) + self.table(tokens)[..., 0].prod(dim=1)
        return torch.stack([known * self.weight, -known], dim=1)


NETWORK = Both().eval()
RNG = np.random.default_rng(0)
PARTS = (RNG.normal(size=(3, 2)), RNG.normal(size=(3, 1, 2, 2)), RNG.integers(1, 5, size=(3, 2)))
NOTHING = (np.zeros((1, 2)), np.zeros((1, 1, 2, 2)), np.zeros((1, 2), dtype=np.int64))


def known(a, picture, tokens):
    return (a * picture.reshape(len(a), -1)[:, :2]).sum(axis=1) + tokens.prod(axis=1)


def test_values_are_those_of_the_function_of_one_long_row():
    found = tellwhy.explain(NETWORK, PARTS, "KernelShap", background=NOTHING, target=0)
    assert [each.values.shape for each in found] == [(3, 2), (3, 1, 2, 2), (3, 2)]
    a, picture, tokens = PARTS
    half = a * picture.reshape(3, -1)[:, :2] / 2
    np.testing.assert_allclose(found[0].values, half, atol=1e-9)
    np.testing.assert_allclose(found[1].values.reshape(3, -1)[:, :2], half, atol=1e-9)
    np.testing.assert_allclose(
        found[2].values, np.repeat(tokens.prod(axis=1)[:, None] / 2, 2, axis=1), atol=1e-9
    )
    for each in found:
        np.testing.assert_allclose(each.residual, 0.0, atol=1e-9)
        np.testing.assert_allclose(each.scores, known(*PARTS))


@pytest.mark.parametrize("method", ["Occlusion", "Lime", "OwenValues", "PredictionDifference"])
def test_every_method_of_tables_takes_several_inputs(method):
    rows = tuple(np.concatenate([part] * 20) for part in PARTS)
    given = {"background": rows, "groups": [[0, 1]]} if method == "OwenValues" else {"background": rows}
    found = tellwhy.explain(NETWORK, PARTS, method, target=1, **given)
    assert [each.values.shape for each in found] == [(3, 2), (3, 1, 2, 2), (3, 2)]


def test_by_name_and_in_groups():
    by_name = dict(zip(("a", "picture", "tokens"), PARTS, strict=True))
    nothing = dict(zip(("a", "picture", "tokens"), NOTHING, strict=True))
    masks = {"a": [0, 1], "picture": np.array([[[0, 1], [2, 2]]]), "tokens": 3}
    found = tellwhy.explain(NETWORK, by_name, "Occlusion", background=nothing, groups=masks, target=0)
    assert list(found) == ["a", "picture", "tokens"]
    a, picture, tokens = PARTS
    whole = a * picture.reshape(3, -1)[:, :2]
    np.testing.assert_allclose(found["a"].extras["group_values"][:, :2], whole, atol=1e-9)
    np.testing.assert_allclose(found["tokens"].values.sum(axis=1), tokens.prod(axis=1), atol=1e-9)


def test_what_does_not_fit_is_said():
    with pytest.raises(InvalidInput, match="Give both the same inputs"):
        tellwhy.explain(NETWORK, PARTS, "KernelShap", background=PARTS[:2], target=0)
    with pytest.raises(InvalidParameter, match="groups holds 1 arrays"):
        tellwhy.explain(NETWORK, PARTS, "Occlusion", background=NOTHING, groups=([0, 1],), target=0)
    with pytest.raises(InvalidParameter, match="whose rows have shape"):
        tellwhy.explain(NETWORK, PARTS, "Occlusion", background=NOTHING, groups=([0, 1, 2], 0, 0), target=0)
