"""The package as a whole: light import, public names, the shape of the API."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tellwhy
from tellwhy.core.catalogue import METHODS
from tellwhy.core.registry import ROLES, cards, find_explainer, list_decorated


def loaded_by(statement):
    code = f"{statement}; import sys; print([m for m in ('torch', 'plotly', 'pandas', 'rich') if m in sys.modules])"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import_is_light():
    assert loaded_by("import tellwhy") == "[]"


def test_library_use_loads_neither_torch_nor_plotly():
    assert "torch" not in loaded_by("import tellwhy.explainers, tellwhy.detectors, tellwhy.one_liner.explain")
    assert "plotly" not in loaded_by(
        "import tellwhy.explainers, tellwhy.detectors, tellwhy.one_liner.explain"
    )


WITHOUT_TORCH = """
import importlib.abc, sys

class NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(name, name="torch")

sys.meta_path.insert(0, NoTorch())
import tellwhy
print(*sorted(tellwhy.methods()["name"]))
"""


# files whose methods enter themselves
DECORATED = [*list_decorated("detectors", "register("), *list_decorated("explainers", "register(")]


def public_explainers():
    """Names of the explainers that `tellwhy.explainers` exports."""
    pytest.importorskip("torch")
    public = {name: getattr(tellwhy.explainers, name) for name in tellwhy.explainers.__all__}
    found = {name for name, item in public.items() if isinstance(item, type) and hasattr(item, "explain")}
    return found - {"ScoreExplainer", "BackgroundExplainer"}


def test_the_catalogue_is_whole_and_read_without_torch():
    # in a Python of its own: here other tests may have imported what the catalogue does not look for
    found = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    listed = set(found.stdout.split())
    assert public_explainers() <= listed  # the others enter themselves, in files of their own
    assert all(find_explainer(name).origin in DECORATED for name in listed - public_explainers())
    assert len(public_explainers()) > 25


@pytest.mark.parametrize("name", tellwhy.__all__)
def test_public_names_resolve(name):
    assert getattr(tellwhy, name) is not None
    assert name in dir(tellwhy)


def test_unknown_names_fail_clearly():
    with pytest.raises(AttributeError, match="has no attribute 'magic'"):
        _ = tellwhy.magic


def test_methods_is_a_complete_table():
    table = tellwhy.methods()
    assert list(table.columns) == ["name", "family", "needs", "cost", "exactness", "citation"]
    assert (table.map(len) > 0).all().all()
    assert table["name"].is_unique


def listed(role):
    if role == "network explainer":
        pytest.importorskip("torch")
    tellwhy.methods()  # fills the registry
    # Other tests may have registered a detector of their own in this process.
    ours = [card for card in cards(role) if card.cls.__module__.startswith("tellwhy.")]
    assert ours
    return ours


@pytest.mark.parametrize("role", ROLES)
def test_at_most_five_positional_parameters(role):
    for card in listed(role):
        kinds = [p.kind for p in inspect.signature(card.cls.__init__).parameters.values()]
        positional = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) - 1
        assert positional <= 5, f"{card.name} takes {positional} positional parameters"
        assert inspect.Parameter.VAR_KEYWORD not in kinds, f"{card.name} swallows unknown parameters"


@pytest.mark.parametrize("role", ROLES)
def test_every_parameter_is_declared_and_documented(role):
    for card in listed(role):
        names = [n for n in inspect.signature(card.cls.__init__).parameters if n not in ("self", "model")]
        assert set(names) == set(card.cls._parameters), f"{card.name} declares other parameters than it takes"


def test_functions_that_have_the_name_of_their_module_stay_functions():
    for name in tellwhy.evaluation.__all__:
        found = getattr(tellwhy.evaluation, name)
        assert callable(found), f"tellwhy.evaluation.{name} is a {type(found).__name__}"


def modules_of(statement):
    """Modules of ours, and names of other packages, that a statement loads."""
    code = f"{statement}\nimport sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = ran.stdout.split()
    return [n for n in names if n.startswith("tellwhy")], {name.partition(".")[0] for name in names}


WITHOUT_METADATA = """
import importlib.metadata, sys, tempfile

def fail(name):
    raise importlib.metadata.PackageNotFoundError(name)

importlib.metadata.version = fail
import numpy as np, tellwhy
from sklearn.svm import OneClassSVM
from tellwhy.workflow import explain_table
X = np.random.default_rng(0).normal(size=(60, 3))
with tempfile.TemporaryDirectory() as folder:
    tellwhy.load(tellwhy.save(OneClassSVM().fit(X), folder + "/m.tellwhy"))
print(explain_table(X).versions["tellwhy"])
"""


def test_a_copied_folder_without_metadata_works():
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_METADATA], check=False, capture_output=True, text=True
    )
    assert ran.stdout.strip() == tellwhy.__version__, ran.stderr


USERS_SCRIPT = """
import numpy as np
import tellwhy
from tellwhy.detectors import OneClassSVM
from tellwhy.workflow import explain_table

X = np.zeros((20, 3))
explanation: tellwhy.Explanation = tellwhy.explain(OneClassSVM().fit(X), X)
scores: list[float] = explanation.scores.tolist()
figure = tellwhy.plot.bar(explanation)
run = explain_table(X)
"""
USERS_MISTAKES = """
import tellwhy
from tellwhy.detectors import NoSuchDetector
tellwhy.no_such_name
tellwhy.plot.no_such_figure
tellwhy.workflow.no_such_step
tellwhy.explain(1)
"""


@pytest.mark.slow
def test_type_checkers_know_the_public_names(tmp_path):
    def checked(script):
        (tmp_path / "users.py").write_text(script)
        command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "users.py"]
        sources = {**os.environ, "MYPYPATH": str(Path(tellwhy.__file__).parents[1])}
        ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, env=sources)
        return [line.partition(":")[2].partition(":")[0] for line in ran.stdout.splitlines()]

    assert checked(USERS_SCRIPT) == []
    assert checked(USERS_MISTAKES) == ["3", "4", "5", "6", "7"]


FOREST = """
import numpy as np, tellwhy
from sklearn.ensemble import IsolationForest
X = np.random.default_rng(0).normal(size=(200, 4))
found = tellwhy.explain(IsolationForest(n_estimators=20, random_state=0).fit(X), X[:5])
assert found.method == "TreeShapley"
"""
TABLE = """
import numpy as np
from tellwhy.workflow import explain_table
explain_table(np.random.default_rng(0).normal(size=(300, 4)))
"""


@pytest.mark.parametrize(("statement", "most"), [("import tellwhy", 1), (FOREST, 120), (TABLE, 222)])
def test_nothing_is_loaded_that_is_not_used(statement, most):
    ours, packages = modules_of(statement)
    assert len(ours) <= most
    assert not packages & {"torch", "plotly", "openpyxl", "jinja2"}
    unused = ("propagation", "surrogate", "classifiers", "lccad", "bases", "detectors.networks")
    assert not [name for name in ours if any(f".{folder}." in name for folder in unused)]


def test_a_small_table_is_explained_without_a_compiler():
    assert "numba" not in modules_of(TABLE)[1]


def test_listing_and_choosing_methods_loads_no_other():
    places = {card.origin for card in METHODS}
    listed = "import tellwhy; tellwhy.methods(); tellwhy.core.registry.cards('detector')"
    own = modules_of("; ".join(f"import {name}" for name in DECORATED))[0] if DECORATED else []
    assert not places & set(modules_of(listed)[0]) - set(own)
    assert [name for name in modules_of(FOREST)[0] if name in places] == [
        "tellwhy.explainers.trees.tree_shapley"
    ]


@pytest.mark.parametrize("card", METHODS, ids=lambda card: card.name)
def test_methods_stand_where_the_catalogue_says(card):
    if card.role == "network explainer":
        pytest.importorskip("torch")
    assert card.cls.__module__ == card.origin
