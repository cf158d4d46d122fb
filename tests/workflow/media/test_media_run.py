"""The spreadsheet of a run over pictures, series or texts."""

import csv

import numpy as np
import pytest

from tellwhy.results.result import Anomaly, Part, Reason, Result
from tellwhy.verdicts.run_io import save_run


def run_of(name):
    """A run with one odd item of that name."""
    word = Reason("=1+1", None, (), 0.5, kind="word", facts={"is_present": True})
    item = Anomaly(Part("text", row=0, name=name), score=2.0, is_alarm=True, reasons=[word])
    return Result(
        kind="texts",
        source="texts.csv",
        settings={},
        anomalies=[item],
        names=[name],
        scores=np.ones(1),
        threshold=1.0,
    )


def cells_of(run, folder):
    save_run(run, folder)
    with (folder / "anomalies.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "＝", "＠"])
@pytest.mark.parametrize("before", ["", " ", '"', "a;", "a\n", "a|"])
def test_no_name_is_run_as_a_formula(tmp_path, sign, before):
    """Names of items come from strangers' files: they get the guard that cells of tables get."""
    (line,) = cells_of(run_of(f"{before}{sign}1+1"), tmp_path / "run")
    pieces = line["id"].replace("\n", ";").replace("|", ";").split(";")
    assert "1+1" in line["id"]
    assert not any(piece.lstrip(' "').startswith(sign) for piece in pieces)
    assert line["reason_1"].startswith("“=1+1”")


def test_names_of_half_characters_are_written(tmp_path):
    (line,) = cells_of(run_of("caf\udce9.png"), tmp_path / "run")
    assert line["id"] == "caf\\udce9.png"
    assert (tmp_path / "run" / "anomalies.csv").read_bytes().startswith(b"\xef\xbb\xbf")
