"""Explanations as programs in files: they run without tellwhy, for any number of rows."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from zoo.networks import UNet

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyError, UnsupportedModel
from tellwhy.explainers import LRP, DeepLift, Gradient, SmoothGrad

LOADING = """
import sys
sys.modules["tellwhy"] = None  # importing it fails
import torch
program = torch.export.load(sys.argv[1]).module()
rows = torch.load(sys.argv[2])
torch.save([program(*rows), program(*[t[:1] for t in rows])], sys.argv[3])
"""


class Blocks(nn.Module):
    """Convolution, batch norm, a residual connection and, at the end, a softmax."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.second(x) + x)
        return self.out(x.mean(dim=(2, 3))).softmax(dim=1)


class Question(nn.Module):
    """Tokens that attend to each other, and numbers."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.read = nn.LSTM(8, 4, batch_first=True)
        self.head = nn.Linear(7, 2)

    def forward(self, tokens, numbers):
        x = self.words(tokens)
        x = x + self.attend(x, x, x, need_weights=False)[0]
        return self.head(torch.cat([self.read(x)[0][:, -1], numbers], dim=1))


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def run_without_tellwhy(folder, path, rows):
    torch.save(rows, folder / "rows.pt")
    (folder / "loading.py").write_text(LOADING)
    files = [path, folder / "rows.pt", folder / "found.pt"]
    subprocess.run([sys.executable, folder / "loading.py", *files], check=True, capture_output=True)
    return torch.load(folder / "found.pt")


def test_a_file_gives_prediction_and_relevance_without_tellwhy(tmp_path):
    model = Blocks().eval().double()
    explainer = LRP(model, composite="preset_a")
    path = explainer.export(tmp_path / "explain.pt2", torch.randn(1, 2, 6, 6, dtype=torch.float64))
    rows = torch.randn(5, 2, 6, 6, dtype=torch.float64)
    many, one = run_without_tellwhy(tmp_path, path, [rows])
    wanted = explainer.explain(rows, output="torch")
    for found, n in ((many, 5), (one, 1)):
        torch.testing.assert_close(found["prediction"], model(rows[:n]).detach(), rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(found["values"], wanted.values[:n], rtol=1e-10, atol=1e-13)
        torch.testing.assert_close(found["scores"], wanted.scores[:n], rtol=1e-12, atol=1e-13)
        assert found["outputs"].tolist() == wanted.outputs[:n].tolist()


def loaded(explainer, folder, X):
    return torch.export.load(explainer.export(folder / "explain.pt2", X)).module()


def test_several_inputs_tokens_attention_and_recurrence(tmp_path):
    explainer = LRP(Question().eval().double(), target=1)
    rows = torch.randint(20, (4, 3)), torch.randn(4, 3, dtype=torch.float64)
    found = loaded(explainer, tmp_path, tuple(t[:2] for t in rows))(*rows)
    for values, explanation in zip(found["values"], explainer.explain(rows), strict=True):
        np.testing.assert_allclose(values, explanation.values, rtol=1e-9, atol=1e-12)


def test_differences_to_a_reference(tmp_path):
    explainer = DeepLift(Blocks().eval().double(), target=1, baseline=0.5)
    x = torch.randn(4, 2, 6, 6, dtype=torch.float64)
    found = loaded(explainer, tmp_path, x[:2])(x)
    wanted = explainer.explain(x)
    np.testing.assert_allclose(found["values"], wanted.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["base"], wanted.base_values, rtol=1e-12)


@pytest.mark.parametrize("explainer", [Gradient, LRP])
def test_targets_that_are_functions(explainer, tmp_path):
    explains = explainer(UNet().eval().double(), target=lambda out: out.flatten(1).amax(dim=1))
    x = torch.randn(4, 2, 8, 8, dtype=torch.float64)
    found = loaded(explains, tmp_path, x[:3])(x)
    np.testing.assert_allclose(found["values"], explains.explain(x).values, rtol=1e-9, atol=1e-12)


def test_a_written_program_keeps_its_weights(tmp_path):
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).eval().double()
    x = torch.randn(3, 4, dtype=torch.float64)
    before = LRP(model).explain(x).values
    program = loaded(LRP(model), tmp_path, x)
    nn.init.zeros_(model[0].weight)
    np.testing.assert_allclose(program(x)["values"], before, rtol=1e-12, atol=1e-14)


class Looking(nn.Module):
    def forward(self, x):
        return x * (2.0 if x.max() > 1 else 1.0)


def test_what_cannot_be_written(tmp_path):
    x = torch.rand(3, 2)
    model = nn.Sequential(nn.Linear(2, 2), Looking()).eval()
    with pytest.raises(UnsupportedModel, match=r"cannot be exported: .*return x \* \(2.0 if x.max\(\) > 1"):
        LRP(model).export(tmp_path / "a.pt2", x)
    plain = nn.Linear(2, 2).eval()
    with pytest.raises(InvalidInput, match="SmoothGrad looks at other rows"):
        SmoothGrad(plain).export(tmp_path / "a.pt2", x)
    with pytest.raises(InvalidInput, match="cannot be a number for each row"):
        LRP(plain, target=[0, 1, 0]).export(tmp_path / "a.pt2", x)
    with pytest.raises(InvalidParameter, match=r"must end in \.pt2 or \.onnx"):
        LRP(plain).export(tmp_path / "a.bin", x)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_kept(tmp_path):
    path = tmp_path / "explain.pt2"
    path.write_bytes(b"mine")
    with pytest.raises(TellwhyError, match=r"explain\.pt2"):
        LRP(nn.Linear(2, 2).eval()).export(path, torch.rand(1, 2))
    assert path.read_bytes() == b"mine"
