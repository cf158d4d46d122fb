"""The report and the command line for grids, sequences and graphs."""

import base64
import io
import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner
from zoo.anomalies import odd_row

from tellwhy.data.generated import latent_classes
from tellwhy.data.graphs import chain, grid
from tellwhy.views.cli.main import app
from tellwhy.views.cli.media import record_nodes, show_nodes
from tellwhy.views.page.nodes import draw_pictures, write_png


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    toy = latent_classes(grid((12, 16)), 5.0, random_state=0)
    np.savez("cube.npz", **{"<b>AI": toy.X[:, 0].reshape(12, 16), "SI": toy.X[:, 1].reshape(12, 16)})
    toy = latent_classes(chain(200), 5.0, random_state=1)
    frame = pd.DataFrame({"second": np.arange(200), "flow": toy.X[:, 0], "heat": toy.X[:, 1]})
    frame.to_csv("sensor.csv", index=False)
    pd.DataFrame(chain(200).edges(), columns=["a", "b"]).to_csv("edges.csv", index=False)
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, ["explain", *words, "--classes", "2", "--top", "3"])


def test_grid_from_the_command_line(place):
    result = run("cube.npz", "--grid")
    assert result.exit_code == 0, result.output
    assert "of which context" in result.output
    page = (place / "tellwhy-cube" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png") == 7
    assert "<b>AI" not in page
    assert "style=" not in page
    assert {"arrays.npz", "result.json", "scores.parquet"} <= {
        p.name for p in (place / "tellwhy-cube").iterdir()
    }
    again = CliRunner().invoke(app, ["report", "tellwhy-cube", "--out", "again.html"])
    assert again.exit_code == 0
    assert (place / "again.html").read_text(encoding="utf-8") == page


def test_time_and_edges_from_the_command_line(place):
    result = run("sensor.csv", "--time", "second", "--classes", "0", "--json", "--out", "timed")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["theta"] > 0
    assert len(found["anomalies"]) == 3
    assert {"class", "context_share", "reasons"} <= set(found["anomalies"][0])
    page = (place / "timed" / "report.html").read_text(encoding="utf-8")
    assert page.count('class="node-plot"') == 4
    edged = run("sensor.csv", "--edges", "edges.csv", "--exclude", "second", "--json", "--out", "edged")
    assert edged.exit_code == 0, edged.output
    # A sequence and the edges between its rows are one graph, with one score for each node.
    with np.load(place / "timed" / "arrays.npz") as timed, np.load(place / "edged" / "arrays.npz") as other:
        np.testing.assert_allclose(timed["scores"], other["scores"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cube.npz", "--grid", "--by", "AI"), "--by does not go with --grid"),
        (
            ("sensor.csv", "--edges", "edges.csv", "--reference", "x.csv"),
            "--reference does not go with --edges",
        ),
        (("sensor.csv", "--time", "second", "--edges", "edges.csv"), "got --time and --edges"),
        (("sensor.csv", "--grid"), "cannot be read as arrays"),
        (("sensor.csv", "--time", "flaw", "--classes", "2"), "Did you mean 'flow'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_use_is_said(place, words, said):
    result = run(*words)
    assert result.exit_code == 1
    assert said in re.sub(r"\s+", " ", result.stderr)
    assert not list(place.glob("tellwhy-*"))


def test_each_node_is_told_with_its_own_class_and_context(capsys):
    nodes = [odd_row(7, "(0, [7])", 12.345, 99.0, True, []), odd_row(3, None, 0.5, 80.0, False, [])]
    extras = {"class": np.array([1, 0, 2]), "context_share": np.array([0.25, 0.915, 0.5])}
    found = SimpleNamespace(
        anomalies=nodes, explanation=SimpleNamespace(extras=extras), summary="Two [nodes]."
    )
    told = record_nodes(found, 2)
    assert [(r["row"], r["class"], r["context_share"]) for r in told] == [(7, 1, 0.25), (3, 0, 0.915)]
    assert len(record_nodes(found, 1)) == 1
    show_nodes(found, 2)
    head, _, *lines = (
        " ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip()
    )
    assert head.startswith("# node class score of which context why: column = value")
    assert lines == [
        "1 (0, [7]) 1 12.35 25% no column stands out",
        "2 row 3 0 0.5 92% no column stands out (below the threshold)",
        "Two [nodes].",
    ]


def test_png_is_read_back():
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(256, size=(5, 7, 3)).astype(np.uint8)
    np.testing.assert_array_equal(np.asarray(image.open(io.BytesIO(write_png(pixels)))), pixels)
    assert base64.b64encode(write_png(pixels))


def test_tables_have_no_pictures():
    assert draw_pictures(None) == []


def test_a_grid_is_one_file(tmp_path):
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", x=np.ones((4, 4)))
    words = ["explain", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--grid"]
    for given in (words, ["explain", "-", "--grid"]):
        result = CliRunner().invoke(app, given)
        assert result.exit_code == 1
        assert "--grid takes one .npz or .npy file" in result.output
