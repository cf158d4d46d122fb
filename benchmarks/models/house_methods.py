"""Claim: the code of a method is read in few files, one of them of its name; before files were joined it was not."""

from __future__ import annotations

import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path

import pandas as pd

import tellwhy
from benchmarks.models._reached import ELSEWHERE, RUNS
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish

FOLDERS = ["bases", "classifiers", "counterfactuals", "detectors", "evaluation"]
FOLDERS += ["explainers", "kernels", "optimise", "scoring", "testing"]
SINCE = ("detectors/series", "detectors/texts")  # methods that came after the commit of before
LEAST = 20  # lines of called functions: a file with fewer gives a method a check or a name, and is not read
AIMS = {
    "OneClassDTD": 11,
    "AnomalyShapley": 12,
    "LCCAD": 12,
    "DMMMEN": 11,
    "WestonWatkinsSVM": 11,
    "TreeShapley": 6,
    "LRP": 21,
}
TWINS = [
    ("inputs of a network", "one: `scoring/network_inputs.py`, `Inputs` and `read_inputs`"),
    (
        "outputs of a model",
        "two readers that share one formula: margins and predictions (`scoring/predictions.py`), log-odds of "
        "classes (`scoring/class_scores.py`)",
    ),
    ("a column moved, the mover ranked", "one: `scoring/moved_columns.py`"),
    ("w(x − m)", "one file: `decomposition/linear_relevance.py`"),
    ("PatchDTD and PatchRelevance", "one: PatchDTD is PatchRelevance of a sum over patches, `PatchSum`"),
    ("comparisons of explainers", "one: `evaluation/compare.py`"),
    ("pooling of distances", "one: `scoring/one_class.py`; `one_class_torch.py` is it on a device"),
    (
        "tables as numbers and back",
        "two: levels by number (`TableCodes`), where a truth value is a level and an unseen value an error, and one "
        "column per value (`RowSpace`), where it is a number and all zeros; they read tables by one function",
    ),
    ("the lower half of scores", "one: `lower_half` of `scoring/reference_rows.py`"),
    (
        "Adam with early stopping",
        "three: NumPy's softmax, networks of different sizes that are halved, and stacks recorded on a graphics "
        "card share a formula of four lines and no loop",
    ),
    ("checks of saved parts", "one: `_require` at each class"),
    (
        "windows; what replaces a cell",
        "one each: `Windows` of `data/pieces.py`, `read_replacement_row` of `explainers/rows.py`",
    ),
    ("Cholesky factors of a regression", "one: `surrogate/_compiled_conditionals.py`"),
]

QUESTIONS = [
    (
        "Where is equation 6 of One-Class DTD?",
        "CONTRIBUTING (row `explainers/`), `decomposition/__init__`, `scoring/one_class.py`",
        "its docstring, line 10: R_i = Σ_j Δ_j (x_i − u_ji)²/r_j²; `relevance`, then `_of_kernel` below",
    ),
    (
        "What happens to a row that a one-class model was trained on, in AnomalyShapley?",
        "CONTRIBUTING, `shapley/__init__`, `anomaly_shapley.py` (`leaves_rows_out`), `scoring/one_class.py`",
        "its docstring, line 14: the row does without its own support point, all other weights become "
        "α_j/(1 − α_i); `RowScores` of `counterfactuals/row_scores.py` hands it on",
    ),
    (
        "How is α drawn in DMM-MEN?",
        "CONTRIBUTING, `surrogate/__init__`, `sampler.py` (the table), `_compiled_conditionals.py`",
        "`draw_alpha`: Gamma(e + J − 1, rate f − Σ log(1 − u_j)); what the supplement prints instead is said",
    ),
]


def unpacked(commit: str, folder: Path) -> Path:
    """The tree of a commit, in a folder of its own; one that is there already is taken as it is."""
    if not (folder / "src").is_dir():
        root = Path(__file__).parents[2]
        asked = ["git", "-C", str(root), "archive", commit]
        packed = subprocess.run(asked, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
    return folder


def modules_of(package: Path, without: tuple[str, ...]) -> dict[str, Path]:
    """Modules of the folders of methods, by name, without those of some folders."""
    found = {}
    for path in (path for name in FOLDERS for path in sorted((package / name).rglob("*.py"))):
        if path.relative_to(package).as_posix().startswith(without):
            continue
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_by(tree: ast.AST, names: set[str], *, when_loaded: bool) -> set[str]:
    """Modules that a module imports: when it is loaded, or at any time."""
    found = set()
    todo = list(ast.iter_child_nodes(tree))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & names) or {node.module}
        is_late = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not (when_loaded and (is_late or is_for_types)):
            todo += ast.iter_child_nodes(node)
    return found & names


def chain_length(graph: dict[str, set[str]]) -> int:
    """Modules in the longest chain of imports."""

    @cache
    def length(module: str) -> int:
        return 1 + max(map(length, graph[module]), default=0)

    return max(map(length, graph))


def tree_figures(package: Path, without: tuple[str, ...] = ()) -> dict[str, object]:
    """Size of the folders of methods, and how their files hang together."""
    modules = modules_of(package, without)
    texts = {name: path.read_text(encoding="utf-8") for name, path in modules.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    lines = [line.strip() for text in texts.values() for line in text.splitlines()]
    names = set(modules)
    importers = defaultdict(set)
    for name, tree in trees.items():
        if modules[name].name != "__init__.py":
            for other in imported_by(tree, names, when_loaded=False):
                importers[other].add(name)
    graph = {name: imported_by(tree, names, when_loaded=True) - {name} for name, tree in trees.items()}
    documents = [node for tree in trees.values() for node in ast.walk(tree) if _document(node)]
    return {
        "files": len(modules),
        "lines": len(lines),
        "lines of a file, median": statistics.median(map(len, map(str.splitlines, texts.values()))),
        "docstrings, % of lines": 100 * sum(map(_document, documents)) / len(lines),
        "comments, % of lines": 100
        * sum(line.startswith("#") or "  # " in line for line in lines)
        / len(lines),
        "files with one importer": sum(len(who) == 1 for who in importers.values()),
        "longest chain of imports": chain_length(graph),
    }


def _document(node: ast.AST) -> int:
    """Lines of the docstring of a module, class or function."""
    if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) or not node.body:
        return 0
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return first.end_lineno - first.lineno + 1 if is_text and isinstance(first.value.value, str) else 0


def test_figures(tests: Path) -> dict[str, object]:
    """Files and lines of the tests of the folders of methods, with what they share."""
    folders = [*FOLDERS, "oracles", "zoo", "pins_of_methods"]
    files = [path for name in folders for path in (tests / name).rglob("*.py")]
    return {
        "files of tests": len(files),
        "lines of tests": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files),
    }


def reached(root: Path, method: str) -> dict[str, object]:
    """What a method reaches, asked of a Python of its own."""
    script = Path(__file__).with_name("_reached.py")
    ran = subprocess.run(
        [sys.executable, str(script), method],
        env={**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
    )
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def method_figures(root: Path, method: str) -> tuple[int, int, int, int]:
    """Files with much of what ran, all files, lines of the first, and modules loaded by importing the method."""
    found = reached(root, method)
    by_file: dict[str, int] = found["reached"]  # type: ignore[assignment]
    read = [path for path, lines in by_file.items() if lines >= LEAST]
    text = [(root / "src/tellwhy" / path).read_text(encoding="utf-8") for path in read]
    apart = tuple(f"tellwhy.{folder[:-1]}" for folder in ELSEWHERE)
    loaded = [name for name in found["loaded"] if not name.startswith(apart)]  # type: ignore[attr-defined]
    return len(read), len(by_file), sum(len(each.splitlines()) for each in text), len(loaded)


def method_rows(before: Path, now: Path) -> pd.DataFrame:
    """A line for each method."""
    rows = []
    for method in RUNS:
        old = method_figures(before, method)
        new = method_figures(now, method)
        rows.append(
            {
                "method": method,
                "files read, before": old[0],
                "now": new[0],
                "aim": AIMS[method],
                "any file, before": old[1],
                "any file, now": new[1],
                "lines of the files, before": old[2],
                "lines of the files, now": new[2],
                "modules loaded, before": old[3],
                "modules loaded, now": new[3],
            }
        )
        print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def house_rows(before: Path, now: Path) -> pd.DataFrame:
    """A line for each figure of both trees."""
    trees = [tree_figures(before / "src/tellwhy"), tree_figures(now / "src/tellwhy")]
    alike = tree_figures(now / "src/tellwhy", SINCE)
    found = [[name, *(_written(figures[name]) for figures in (*trees, alike))] for name in alike]
    tests = [test_figures(root / "tests") for root in (before, now)]
    found += [[name, *(_written(figures[name]) for figures in tests), "–"] for name in tests[0]]
    return pd.DataFrame(found, columns=["", "before", "now", f"now, without {' and '.join(SINCE)}"])


def _written(number: object) -> str:
    return f"{number:.1f}" if isinstance(number, float) and number % 1 else f"{number:,.0f}"


def main() -> None:
    """Measure a commit of before and this tree, and write the page."""
    options = arguments(
        __doc__,
        before=option("f0108f41", "a commit, which the tree as it is now is compared with"),
        folder=option(Path, "where the commit is unpacked, or was: what it compiled is kept there"),
    )
    now = Path(tellwhy.__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:
        before = unpacked(options.before, options.folder or Path(folder))
        parts = [
            (
                f"The folders of methods, at commit {options.before} and now: {', '.join(FOLDERS)}.",
                house_rows(before, now),
            ),
            (
                f"What one reads to follow a method: files in which at least {LEAST} lines of functions ran when it "
                "was fitted and explained a few rows (compiled functions count where a function that ran names "
                "them), without `core`, `storage` and `data`; then all files in which any function ran. A "
                "joined file counts with all its lines, also those for other methods. Modules are those that "
                "importing the class alone loads, of the same folders.",
                method_rows(before, now),
            ),
            (
                "Thirteen ideas were built twice or more.",
                pd.DataFrame(TWINS, columns=["idea", "now"]),
            ),
            (
                "Three questions, and the files that lead from CONTRIBUTING to their answer. They were followed by "
                "one of those who work on these files, so that no time is given; nobody who had never seen the code "
                "was asked.",
                pd.DataFrame(QUESTIONS, columns=["question", "files, in order", "answer"]),
            ),
        ]
        publish("house_methods", "Where the code of a method stands", parts)


if __name__ == "__main__":
    main()
