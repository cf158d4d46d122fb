"""Packages of others that declare entry points, as they are after `pip install`."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tellwhy import views
from tellwhy.core import registry
from tellwhy.core.catalogue import METHODS
from tellwhy.kinds.model import PLACES
from tellwhy.views import tell

EXAMPLE = Path(__file__).parents[1] / "extension"
TRY_IT = """
import json, warnings
import numpy as np
import tellwhy
from tellwhy.core.registry import card, cards
from tellwhy.testing import check_detector, check_explainer

X = np.random.default_rng(0).normal(size=(100, 3))
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    listed = sorted(tellwhy.methods()["name"])
    detectors = [c.name for c in cards("detector")]
    tellwhy.methods(), cards("detector")
detector = card("detector", "robust_distance").cls().fit(X)
explanation = tellwhy.explain(detector, np.array([[0.0, 9.0, 0.0]]), method="MedianGap", background=X)
check_detector(type(detector)())
check_explainer(card("explainer", "MedianGap").cls)
print(json.dumps({
    "methods": listed,
    "detectors": detectors,
    "warnings": [str(w.message) for w in heard],
    "method": explanation.method,
    "reason": int(explanation.values.argmax()),
    "dtd": tellwhy.explain(tellwhy.detectors.OneClassSVM().fit(X), X[:2]).method,
    "origin": card("explainer", "OneClassDTD").origin,
}))
"""
TRY_KIND = """
import sys, tellwhy
from pathlib import Path

path = Path(sys.argv[1])
path.write_text("\\n".join(["x" * (20 + k % 5) for k in range(99)] + ["x" * 400]))
model = tellwhy.load(tellwhy.fit(path, kind="lines").save(path.with_suffix(".tellwhy")))
found = tellwhy.judge(model, path, top=1)
print(found.anomalies[0].is_alarm, found.n_flagged)
print(tellwhy.tell(found, "markdown"))
"""
TRY_CHECK = """
import sys, tellwhy
import pandas as pd

sys.path.insert(0, sys.argv[1])
from tellwhy_digits import fits
from tellwhy.checks.check import check_table

numbers = [str(n) for n in range(40_000_000, 40_003_000, 7)]
numbers = [number for number in numbers if fits(number)] * 5
numbers[3] = numbers[3][:-1] + str((int(numbers[3][-1]) + 4) % 10)
for found in check_table(pd.DataFrame({"card": numbers})).findings:
    print(found.kind, list(found.rows), found.text)
"""
NO_MODULE = {"tellwhy.explainers": {"Lost": "no_such_module:Lost"}}
FAILING = {"tellwhy.detectors": {"Hasty": "hasty_module"}}
CLASHING = {"tellwhy.explainers": {"Double": "double_module"}}


def install(folder, name, groups):
    """Write what pip would write for a package that declares entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{point} = {where}" for point, where in points.items())]
    info.joinpath("entry_points.txt").write_text("\n".join(lines))


def install_example(folder):
    """Install tests/extension: its module, and the entry points of its pyproject.toml."""
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    for path in EXAMPLE.glob("*.py"):
        shutil.copy(path, folder)
    install(folder, declared["name"], declared["entry-points"])


def tried(folder):
    """Use tellwhy in a Python of its own that finds these packages."""
    return json.loads(run(folder, TRY_IT)[-1])


def run(folder, code, *words):
    """Return the lines that a Python of its own prints, which finds these packages."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    found = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


@pytest.fixture(scope="module")
def with_example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    install_example(folder)
    return tried(folder)


def test_methods_of_an_installed_package_are_listed_and_work(with_example):
    assert "MedianGap" in with_example["methods"]
    assert "RobustDistance" in with_example["detectors"]
    assert with_example["warnings"] == []
    assert with_example["method"] == "MedianGap"
    assert with_example["reason"] == 1


def test_a_kind_and_a_form_of_an_installed_package_work(tmp_path):
    (tmp_path / "site").mkdir()
    install_example(tmp_path / "site")
    judged, *told = run(tmp_path / "site", TRY_KIND, str(tmp_path / "lines.txt"))
    assert judged == "True 1"
    assert told == ["- **line 99**: length = 400 (usually 20–24) · 100 %"]


def test_a_check_of_an_installed_package_finds_its_mistakes(tmp_path):
    install_example(tmp_path)
    told = run(tmp_path, TRY_CHECK, str(tmp_path))
    assert [line for line in told if line.startswith("check_digit")] == [
        "check_digit [3] 1 row: card ends in a digit that does not fit the 7 before it."
    ]


def test_broken_packages_are_named_once_and_stop_nobody(tmp_path, with_example):
    install_example(tmp_path)
    install(tmp_path, "lost", NO_MODULE)
    install(tmp_path, "hasty", FAILING)
    install(tmp_path, "double", CLASHING)
    (tmp_path / "hasty_module.py").write_text("1 / 0")
    (tmp_path / "double_module.py").write_text(
        "from tellwhy.core.registry import register\n"
        "@register('network explainer', needs='-', cost='-', exactness='-', citation='-')\n"
        "class One_Class_DTD: ...\n"
    )
    found = tried(tmp_path)
    told = sorted(found["warnings"])
    assert len(told) == 3, told
    assert "entry point 'Double'" in told[0]
    assert "'One_Class_DTD' is taken: tellwhy.explainers.decomposition.one_class_dtd" in told[0]
    assert "entry point 'Hasty'" in told[1]
    assert "ZeroDivisionError" in told[1]
    assert "entry point 'Lost'" in told[2]
    assert "no_such_module" in told[2]
    assert found["dtd"] == "OneClassDTD"
    assert found["origin"] == "tellwhy.explainers.decomposition.one_class_dtd"
    assert found["methods"] == with_example["methods"]
    assert found["detectors"] == with_example["detectors"]


OWN_FORM = """
from tellwhy.views.tell import form


@form("{name}")
def write(result):
    return "as {name}"
"""


def test_a_file_of_ours_with_a_decorator_enters_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "PACKAGE", tmp_path / "tellwhy")
    monkeypatch.setattr(registry, "_read_groups", set())
    monkeypatch.setattr(views, "__path__", [*views.__path__, str(tmp_path / "tellwhy" / "views")])
    monkeypatch.setattr(tell, "FORMS", dict(tell.FORMS))
    place = tmp_path / "tellwhy" / "views" / "own_form.py"
    place.parent.mkdir(parents=True)
    place.write_text(OWN_FORM.format(name="own"))
    place.with_name("other.py").write_text(f"text = {OWN_FORM.format(name='other').strip()!r}")
    assert registry.list_decorated("views", "form(") == ["tellwhy.views.own_form"]
    assert tell.tell(None, "own") == "as own"
    assert "other" not in tell.FORMS


def test_what_stands_in_a_table_is_not_looked_for():
    assert set(PLACES.values()) <= set(registry.list_decorated("kinds", "kind("))
    decorated = [
        *registry.list_decorated("detectors", "register("),
        *registry.list_decorated("explainers", "register("),
    ]
    assert not {card.origin for card in METHODS} & set(decorated)
