"""Small sound folders of every kind that is loaded (runs, explanations, models), to be damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.core.explanation import Explanation
from tellwhy.views.cli.main import report_command
from tellwhy.workflow import explain_graph, explain_table, save_run

MODEL = "m.tellwhy"


def table() -> pd.DataFrame:
    """Numbers and labels with gaps, two odd cells, a column that marks true anomalies."""
    rng = np.random.default_rng(0)
    n = 60
    frame = pd.DataFrame({"x": rng.normal(size=n), "y": rng.normal(size=n), "k": rng.choice(list("abc"), n)})
    frame.loc[7, "x"] = 30.0
    frame.loc[9:12, "y"] = np.nan
    frame["wrong"] = np.arange(n) == 7
    return frame


def save_table_run(folder: Path) -> Path:
    return save_run(explain_table(table(), label="wrong", top=3), folder)


def save_grid_run(folder: Path) -> Path:
    file = folder.parent / "grid.npz"
    rng = np.random.default_rng(0)
    np.savez(file, a=rng.normal(size=(9, 8)), b=rng.normal(size=(9, 8)))
    found = explain_graph(file, top=3, n_classes=2)
    return save_run(found.run, folder)


def use_run(folder: Path) -> None:
    """Load a run and draw it."""
    report_command(folder, out=folder.parent / "report.html")


def use_explanation(folder: Path) -> None:
    Explanation.load(folder / "explanation").top(2)


def save_detector(name: str) -> Callable[[Path], Path]:
    def save(folder: Path) -> Path:
        from tellwhy import detectors

        X = np.random.default_rng(0).normal(size=(40, 3))
        model: Any = getattr(detectors, name)().fit(X)
        model.save(folder / MODEL)
        return folder

    return save


def use_detector(folder: Path) -> None:
    from tellwhy import detectors

    X = np.random.default_rng(1).normal(size=(5, 3))
    detectors.load(folder / MODEL).outlierness(X)


def save_classifier(folder: Path) -> Path:
    from tellwhy.classifiers import WestonWatkinsSVM

    rng = np.random.default_rng(0)
    model = WestonWatkinsSVM().fit(rng.normal(size=(60, 4)), rng.integers(0, 3, 60))
    model.save(folder / MODEL)
    return folder


def use_classifier(folder: Path) -> None:
    from tellwhy.classifiers import load

    load(folder / MODEL).predict(np.random.default_rng(1).normal(size=(5, 4)))
