"""The folder of a run over pictures, series or texts."""

import csv

import numpy as np
import pytest

from tellwhy.results.media_run import Item, MediaRun, Place, save_media


def run_of(name):
    """A run with one odd item of that name."""
    item = Item(name, 2.0, True, [Place("=1+1", 0.5)])
    head = {"source": "texts.csv", "headline": "", "summary": "", "notices": [], "settings": {}}
    stamp = {"versions": {}, "created": "2026-01-01T00:00:00"}
    return MediaRun(
        kind="texts", **head, items=[item], names=[name], scores=np.ones(1), threshold=1.0, **stamp
    )


def cells_of(run, folder):
    save_media(run, folder)
    with (folder / "anomalies.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "＝", "＠"])
@pytest.mark.parametrize("before", ["", " ", '"', "a;", "a\n", "a|"])
def test_no_name_is_run_as_a_formula(tmp_path, sign, before):
    """Names of items come from strangers' files: they get the guard that cells of tables get."""
    (line,) = cells_of(run_of(f"{before}{sign}1+1"), tmp_path / "run")
    pieces = line["name"].replace("\n", ";").replace("|", ";").split(";")
    assert "1+1" in line["name"]
    assert not any(piece.lstrip(' "').startswith(sign) for piece in pieces)
    assert line["where"] == "'=1+1"


def test_names_of_half_characters_are_written(tmp_path):
    (line,) = cells_of(run_of("caf\udce9.png"), tmp_path / "run")
    assert line["name"] == "caf\\udce9.png"
    assert (tmp_path / "run" / "anomalies.csv").read_bytes().startswith(b"\xef\xbb\xbf")
