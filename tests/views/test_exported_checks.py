"""Checks that are exported: a file of Python that says what was learned, whatever names and labels hold."""

import ast
import sys
import types

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tellwhy
from tellwhy.views.cli import app
from tellwhy.views.exported_checks import write_checks

HOSTILE = '\'); import os; os.abort() #\n"""'


def rows_of(n=300, seed=0):
    rng = np.random.default_rng(seed)
    ordered = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, n), unit="D")
    rows = pd.DataFrame({"size": rng.uniform(1, 9, n), "shop": rng.choice(["a", HOSTILE], n)})
    rows["ordered"] = ordered
    rows["shipped"] = ordered + pd.to_timedelta(rng.integers(1, 5, n), unit="D")
    return rows


def test_the_file_is_python_and_holds_texts_as_literals():
    text = write_checks(tellwhy.fit(rows_of(), clean=True))
    tree = ast.parse(text)
    imported = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    assert imported == ["pandas", "pandera.pandas"]
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert {"size", "shop", "ordered", HOSTILE.strip()} <= texts


def test_ranges_labels_and_orders_hold_for_rows_like_those_of_the_fitting(monkeypatch):
    pandera = pytest.importorskip("pandera.pandas") if "pandera" in sys.modules else stand_in()
    monkeypatch.setitem(sys.modules, "pandera", types.ModuleType("pandera"))
    monkeypatch.setitem(sys.modules, "pandera.pandas", pandera)
    rows = rows_of()
    space = {}
    exec(write_checks(tellwhy.fit(rows, clean=True)), space)
    schema = space["schema"]
    assert schema.failures(rows) == []
    assert schema.failures(rows.assign(size=rows["size"].where(rows.index != 3, 99.0))) == ["size"]
    assert schema.failures(rows.assign(shop=rows["shop"].where(rows.index != 3, "b"))) == ["shop"]


def stand_in():
    """As much of pandera as the file uses, in plain Python: it is not among our requirements."""
    module = types.ModuleType("pandera.pandas")

    class Check:
        def __init__(self, function, error=""):
            self.function = function
            self.error = error

    class Column:
        def __init__(self, checks=None, nullable=False):
            self.checks = checks
            self.nullable = nullable

    class DataFrameSchema:
        def __init__(self, columns, checks=()):
            self.columns = columns
            self.checks = checks

        def failures(self, frame):
            wrong = [
                name
                for name, column in self.columns.items()
                if (column.checks is not None and not column.checks.function(frame[name].dropna()).all())
                or (not column.nullable and frame[name].isna().any())
            ]
            return wrong + [check.error for check in self.checks if not check.function(frame).all()]

    module.Check = Check
    module.Column = Column
    module.DataFrameSchema = DataFrameSchema
    return module


def test_the_command_writes_the_file_beside_the_model(tmp_path):
    rows_of().to_csv(tmp_path / "orders.csv", index=False)
    words = ["fit", str(tmp_path / "orders.csv"), "--save", str(tmp_path / "m.tellwhy")]
    done = CliRunner().invoke(app, [*words, "--export-checks", str(tmp_path / "checks.py")])
    assert done.exit_code == 0, done.output
    assert "DataFrameSchema" in (tmp_path / "checks.py").read_text()
