"""Archives of torch.export: the same outputs and relevance as the module, and nothing in them is executed."""

import json
import pickle
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tellwhy.core.errors import UnreadableFile, UnsupportedModel  # noqa: E402
from tellwhy.explainers import LRP  # noqa: E402
from tellwhy.kinds.networks.archive import load_exported  # noqa: E402


class Small(nn.Module):
    """Convolution, batch norm, a residual, a slice and a mask: what graphs spell in other words."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 3)
        self.register_buffer("place", torch.tensor([0, 2, 1]))

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x)))
        y = (y + x)[:, :, 1:].masked_fill(x[:, :, 1:] < -2.0, float("-inf"))
        return self.head(y.mean((2, 3)))[:, self.place].softmax(1)


class Words(nn.Module):
    """Embedded words, attention, and their mean."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, tokens):
        x = self.words(tokens)
        return self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))


def exported(model, x, path):
    torch.export.save(torch.export.export(model, (x,)), path)
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    torch.manual_seed(0)
    model = Small().eval()
    return model, exported(model, torch.rand(2, 1, 6, 6), tmp_path_factory.mktemp("nets") / "small.pt2")


def test_outputs_and_relevance_are_those_of_the_module(small):
    model, path = small
    x = torch.rand(2, 1, 6, 6)
    read = load_exported(path)
    assert read.input_shape == [2, 1, 6, 6]
    torch.testing.assert_close(read(x), model(x))
    theirs = LRP(model, rule="z_plus").explain(x)
    ours = LRP(read, rule="z_plus").explain(x)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-7)
    assert ours.params["explains"] == theirs.params["explains"]  # the softmax is left out of both


def test_words_are_explained_through_their_embedding(tmp_path):
    torch.manual_seed(0)
    model = Words().eval()
    tokens = torch.randint(0, 20, (2, 5))
    read = load_exported(exported(model, tokens, tmp_path / "words.pt2"))
    assert not read.input_dtype.is_floating_point
    theirs = LRP(model).explain(tokens)
    np.testing.assert_allclose(LRP(read).explain(tokens).values, theirs.values, atol=1e-6)


def rewritten(path, target, change):
    """A copy of an archive with one part changed: change(name, bytes) gives new bytes, or None for none."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            raw = change(name, old.read(name))
            if raw is not None:
                new.writestr(name, raw)
    return target


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_nothing_is_unpickled(small, tmp_path):
    def change(name, raw):
        return pickle.dumps(Bomb(tmp_path / "ran")) if "sample_inputs" in name else raw

    load_exported(rewritten(small[1], tmp_path / "bomb.pt2", change))
    assert not (tmp_path / "ran").exists()


def test_expressions_of_sizes_are_not_evaluated(small, tmp_path):
    def change(name, raw):
        if not name.endswith("model.json"):
            return raw
        graph = json.loads(raw)
        code = f"open({str(tmp_path / 'ran')!r}, 'w')"
        for value in graph["graph_module"]["graph"]["tensor_values"].values():
            value["sizes"][:1] = [{"as_expr": {"expr_str": code, "hint": {"as_int": 2}}}]
        graph["guards_code"] = [code]
        return json.dumps(graph).encode()

    read = load_exported(rewritten(small[1], tmp_path / "sizes.pt2", change))
    assert read.input_shape[0] is None
    assert not (tmp_path / "ran").exists()


def test_a_pickled_weight_is_refused(small, tmp_path):
    def change(name, raw):
        return raw.replace(b'"use_pickle": false', b'"use_pickle": true') if "weights_config" in name else raw

    with pytest.raises(UnreadableFile, match="kept as a pickle, which could run code"):
        load_exported(rewritten(small[1], tmp_path / "pickled.pt2", change))


def test_an_operation_that_is_not_pytorchs_is_refused(small, tmp_path):
    def change(name, raw):
        return (
            raw.replace(b"torch.ops.aten.relu.default", b"os.system") if name.endswith("model.json") else raw
        )

    with pytest.raises(UnsupportedModel, match=r"operation 'os.system'; only PyTorch's own are run"):
        load_exported(rewritten(small[1], tmp_path / "other.pt2", change))


def test_a_weight_that_claims_too_much_is_refused(small, tmp_path):
    def change(name, raw):
        return raw.replace(b'{"as_int": 4}', b'{"as_int": 4000000000}') if "weights_config" in name else raw

    with pytest.raises(UnreadableFile, match="its part holds"):
        load_exported(rewritten(small[1], tmp_path / "large.pt2", change))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"no archive at all"])
def test_damaged_files_are_one_error(content, tmp_path):
    path = tmp_path / "damaged.pt2"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match="cannot be read as an exported network"):
        load_exported(path)


def test_files_of_torch_save_are_told_apart(tmp_path):
    torch.save(Small().state_dict(), tmp_path / "weights.pt2")
    with pytest.raises(UnreadableFile, match=r"keeps its weights as a pickle.*Export it again"):
        load_exported(tmp_path / "weights.pt2")


def test_training_mode_is_refused(tmp_path):
    torch.manual_seed(0)
    path = exported(
        nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)), torch.rand(4, 3), tmp_path / "train.pt2"
    )
    with pytest.raises(UnsupportedModel, match=r"model.eval\(\) before exporting"):
        load_exported(path)
