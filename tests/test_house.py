"""The house: folders as CONTRIBUTING draws them, imports as it allows them, files that stay readable."""

import ast
import functools
import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tellwhy"
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_FILES = 40
LONGEST_LINE = 110


def folders(where):
    return {path.name for path in where.iterdir() if path.is_dir() and path.name != "__pycache__"}


def drawn():
    """The table of folders in CONTRIBUTING: name → (what it holds, what it may import)."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `(\w+)/` \| (.*) \| (.*) \|$", text, flags=re.MULTILINE)
    return {name: (holds, imports) for name, holds, imports in lines}


def test_every_folder_is_on_the_map():
    assert set(drawn()) == folders(PACKAGE)


@pytest.mark.parametrize("name", sorted(folders(PACKAGE)))
def test_sub_folders_are_on_the_map(name):
    named = set(re.findall(r"`(\w+)/?`", drawn()[name][0]))
    for path in PACKAGE.joinpath(name).rglob("*"):
        if path.is_dir() and path.name != "__pycache__":
            assert path.name in named, f"CONTRIBUTING does not name {path.relative_to(PACKAGE)}"


def test_the_map_allows_what_the_contracts_allow():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    allowed = {}
    for contract in contracts:
        if " imports " in contract["name"]:
            name, _, words = contract["name"].partition(" imports ")
            forbidden = {module.removeprefix("tellwhy.") for module in contract["forbidden_modules"]}
            allowed[name] = words
            assert contract["source_modules"] == [f"tellwhy.{name}"]
            assert forbidden == set(drawn()) - {name, *words.split(", ")}
    listed = {name: imports for name, (_, imports) in drawn().items() if not imports.startswith(("all", "–"))}
    assert listed == allowed


def lazy_packages():
    found = [
        path for path in MODULES if path.name == "__init__.py" and "lazy_names" in path.read_text("utf-8")
    ]
    return [".".join(path.relative_to(PACKAGE.parent).parent.parts) for path in found]


@pytest.mark.parametrize("name", lazy_packages())
def test_names_loaded_when_used_are_those_that_types_are_checked_with(name):
    package = importlib.import_module(name)
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: line.module.removeprefix(f"{name}.")
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    assert typed == package._PLACES
    assert set(package._PLACES) <= set(package.__all__)
    assert set(package._PLACES) <= set(dir(package)) <= set(package.__all__)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_lines_are_short_and_assign_at_most_two_names(path):
    text = path.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines()), default=0) <= LONGEST_LINE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            assert len(node.targets[0].elts) <= 2, f"line {node.lineno} assigns to three or more names"


def imported_when_loaded(path):
    """Modules of tellwhy that a module imports when it is loaded itself."""
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    waiting = list(ast.parse(path.read_text(encoding="utf-8")).body)
    found = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tellwhy"):
            places = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (places & NAMES) or {node.module}
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            waiting += [*node.body, *node.orelse]
        elif isinstance(node, (ast.Try, ast.With, ast.ClassDef)):
            waiting += node.body
    return name, found - {name}


NAMES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in MODULES
}
LONGEST_CHAIN = 15


def test_no_module_waits_for_a_long_chain_of_others():
    imports = dict(imported_when_loaded(path) for path in MODULES)

    @functools.cache
    def longest(name):
        return [name, *max((longest(other) for other in imports[name]), key=len, default=[])]

    chain = max(map(longest, imports), key=len)
    assert len(chain) <= LONGEST_CHAIN, " -> ".join(chain)
