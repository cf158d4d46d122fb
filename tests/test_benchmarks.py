"""The benchmarks: an index that names every script and every page once, and pages that name what wrote them."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
RESULTS = ROOT / "docs" / "results"
INDEX = (FOLDER / "README.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\| \[(\w+)\]\((\S+)\) \| \[(\w+)\]\((\S+)\) \| (.+) \|$", INDEX, flags=re.MULTILINE)
WITHOUT_PAGE = {
    "pictures",
    "weights",
}  # of one that draws for a chapter of the documentation, and one that trains
LINK = re.compile(r"\]\(([^)#\s:]+\.(?:md|json|png|svg|py))(?:#[^)]*)?\)")


def scripts():
    return sorted(path for path in FOLDER.glob("*/[a-z]*.py") if path.parent.name != "shared")


def claim(path):
    first = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()[0]
    said = re.sub(r"^(Claim|Question): ", "", first)
    return said[0].upper() + said[1:]


def test_the_index_names_every_script_once():
    assert sorted((FOLDER / path).resolve() for _, path, _, _, _ in LINES) == scripts()
    assert len(LINES) == INDEX.count("\n| [")


def test_the_index_names_every_page_once():
    pages = [(FOLDER / page).resolve() for _, _, word, page, _ in LINES if word not in WITHOUT_PAGE]
    assert sorted(pages) == sorted(RESULTS.glob("*.md"))


@pytest.mark.parametrize(("name", "script", "word", "page", "words"), LINES)
def test_a_script_its_page_and_its_claim_belong_together(name, script, word, page, words):
    path = FOLDER / script
    assert path.stem == name
    assert claim(path) == words
    if word in WITHOUT_PAGE:
        assert (FOLDER / page).is_file()
        return
    text = (FOLDER / page).read_text(encoding="utf-8")
    assert Path(page).stem == name
    module = ".".join(["benchmarks", *Path(script).with_suffix("").parts])
    writers = re.findall(r"^Written by `python -m ([\w.]+)`", text, flags=re.MULTILINE)
    assert set(writers) == {module}


def test_every_script_reads_its_options_with_the_shared_call():
    for path in scripts():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert "arguments" in called, path.name
        assert "ArgumentParser" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), FOLDER / "README.md"],
    ids=lambda p: p.name,
)
def test_links_lead_somewhere(path):
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def names_in(path):
    """Names that a module defines or imports at its top."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {each.asname or each.name for each in node.names}
        else:
            found |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found


def test_what_benchmarks_import_is_there():
    """Without running them: most need data and minutes."""
    for path in sorted((ROOT / "benchmarks").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            top = {"benchmarks": ROOT, "tellwhy": ROOT / "src"}.get(node.module.split(".")[0])
            if top is None:
                continue
            place = top.joinpath(*node.module.split("."))
            assert place.with_suffix(".py").is_file() or place.is_dir(), f"{path}: {node.module}"
            if place.with_suffix(".py").is_file():
                missing = {each.name for each in node.names} - names_in(place.with_suffix(".py"))
                assert not missing, f"{path}: {node.module} has no {missing}"
