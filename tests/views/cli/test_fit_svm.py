"""What `tellwhy fit-svm` tells of a fitted machine."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tellwhy.views.cli.models import _tell
from tellwhy.words.wording import THIN

MODEL = SimpleNamespace(
    classes_=["a", "b", "c"],
    n_features_in_=12_345,
    objective_=1.23456789,
    dual_gap_=-4.2e-4,
    n_iter_=1,
    density_=0.25,
    history_=[{"seconds": 0.5}, {"seconds": 7.5}],
)


def test_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    _tell(MODEL, {"model": "here"}, ["0 wrong."], as_json=False)
    assert capsys.readouterr().out == (
        f"3 classes, 12{THIN}345 features: objective 1.23457, certified to 4.2e-04 in 1 epoch; "
        f"25{THIN}% of the weights are not zero.\n0 wrong.\nModel: here\n"
    )
    _tell(MODEL, {"model": "here", "report": "here/report.html"}, [], as_json=False)
    assert capsys.readouterr().out.endswith("Model: here\nReport: here/report.html\n")


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _tell(MODEL, {"model": "here"}, [], as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "model": "here",
        "classes": 3,
        "features": 12_345,
        "objective": 1.23456789,
        "dual_gap": -4.2e-4,
        "epochs": 1,
        "seconds": 7.5,  # of the whole training
        "density": 0.25,
    }
