"""`tellwhy network` from the outside: what is printed, what is written, and how it fails."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from tellwhy.views.cli import app

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

NETS = """
import torch
from torch import nn

class Light(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 2, 8, bias=False), nn.Flatten())
        self[0].weight.data.zero_()
        self[0].weight.data[0, :, :4] = 1.0
        self[0].weight.data[1, :, 4:] = 1.0

def light():
    return Light()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets_of_light.py").write_text(NETS)
    pixels = np.zeros((8, 8, 3), dtype=np.uint8)
    pixels[:4] = (250, 10, 120)
    Image.fromarray(pixels).save(tmp_path / "<b>upper.png")
    (tmp_path / "names.txt").write_text("upper <half>\nlower\n")
    yield tmp_path
    sys.modules.pop("nets_of_light", None)


def run(*words):
    return CliRunner().invoke(app, ["network", *words])


def test_a_picture_is_explained_and_reported(place):
    done = run(
        "nets_of_light:light", "--input", "<b>upper.png", "--labels", "names.txt", "--method", "lrp,gradient",
        "--out", "found",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "The network says upper <half>" in done.stdout
    assert "LRP (ε, z+): Its shares add up to the output within 1 %." in done.stdout
    assert "Gradient: Its values are no shares of the output." in done.stdout
    assert "ran the code of its module" in done.stderr
    page = (place / "found" / "report.html").read_text()
    assert "upper &lt;half&gt;" in page
    assert "<b>upper" not in page
    assert page.count("data:image/png;base64") == 13
    assert "default-src 'none'" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_json_holds_everything_but_arrays(place):
    done = run("nets_of_light:light", "--input", "<b>upper.png", "--target", "1", "--no-check", "--json")
    told = json.loads(done.stdout)
    assert told["items"][0]["explained"] == "1"
    assert told["items"][0]["classes"][0]["name"] == "0"
    assert told["methods"][0]["area"] is None
    assert told["out"] == "tellwhy-network-nets_of_light-light"
    built = CliRunner().invoke(app, ["report", told["out"], "--out", "again.html"])
    assert built.exit_code == 0, built.output
    assert (place / "again.html").read_text() == (place / told["out"] / "report.html").read_text()
    with np.load(place / told["out"] / "arrays.npz") as arrays:
        assert arrays["lrp.0"].shape == (3, 8, 8)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--size", "0"], "--size must be"),
        (["--size", "8x"], "--size must be"),
        (["--mean", "a"], "--mean must be numbers"),
        (["--std", "0"], "--std must be positive numbers"),
        (["--mean", "0.1,0.2"], "for each of 3 channels"),
        (["--method", "magic"], "Networks have no method 'magic'"),
        (["--target", "2"], "numbered from 0 to 1"),
        (["--labels", "none.txt"], "cannot be read as text"),
    ],
)
def test_wrong_options_say_what_to_do_and_write_nothing(place, words, said):
    done = run("nets_of_light:light", "--input", "<b>upper.png", "--out", "found", *words)
    assert done.exit_code == 1
    assert said in " ".join(done.stderr.split())
    assert not (place / "found").exists()


def test_a_folder_of_another_kind_is_not_overwritten(place):
    (place / "found").mkdir()
    (place / "found" / "mine.txt").write_text("mine")
    done = run("nets_of_light:light", "--input", "<b>upper.png", "--out", "found")
    assert done.exit_code == 1
    assert (place / "found" / "mine.txt").read_text() == "mine"
