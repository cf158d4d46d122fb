"""Claim: one way to judge takes fewer files, shorter chains of imports and fewer calls than thirteen ways did."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

import tellwhy
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from benchmarks.tables.quick import CALLS, COMMAND, WATCHING, processor_seconds, write_tables

# The verbs that functions of this package begin with.
VERBS = frozenset(
    """
    accept add adjust advance announce append apply ask assemble assert assign attach attribute balance
    calibrate call centre change check choose clear close collect compare compile compute connect copy count
    cross cut deal decide declare decode decompose default describe detach detect diff display draw drop encode
    end ensure enter evaluate explain factor fail fetch fill find finish fit fold follow forget format forward
    gather generate get give go group hand has hash impute index init inject integrate is join judge keep label
    launch lead learn leave link list load locate lock log look lower make map mark mask match may measure merge
    minimise mix move multiply name need normalize note open order parse pick place plan pool predict prepare
    print project promise pull push put raise randomise rank read recall receive record reduce refuse register
    relabel release remember remove render repair repeat replace report request require rescale restore resume
    rewrite round run sample save scale scan score screen seed select send separate set settle shape share shift
    show shrink sign slice smooth solve split spread stack stamp start state stop store strip suggest sum
    support swap sweep switch take tell tidy time trace track train transform try turn undo unify union update
    validate verify visit wait walk warn watch weigh weight write
    """.split()  # noqa: SIM905
)
RUNS = {"tellwhy explain, 3,000 × 6": "explain", "tellwhy.explain(IsolationForest(…), X[:5])": "one-liner"}
# Which of our modules are there when Python ends, and of which a function ran after they were loaded.
FOLLOWING = """
import atexit, sys
ran = set()
def follow(frame, event, argument):
    if event == 'call' and frame.f_code.co_name != '<module>':
        ran.add(frame.f_globals.get('__name__', ''))
def tell():
    sys.setprofile(None)
    ours = [name for name in list(sys.modules) if name.partition('.')[0] == 'tellwhy']
    print('COUNTED', len(ours), len(set(ours) & ran), *calls, file=sys.stderr)
calls = [0, 0]
atexit.register(tell)
"""


def names_of(package: Path) -> dict[str, Path]:
    """Every module of the package and its file."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """What runs when a module is loaded: not the bodies of functions, nor what is for type checkers."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            waiting += [*node.body, *node.orelse]
        elif isinstance(node, (ast.Try, ast.With, ast.ClassDef)):
            waiting += node.body


def imported(node: ast.AST, known: dict[str, Path]) -> set[str]:
    """Modules of the package that a statement imports."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names if alias.name in known}
    if not isinstance(node, ast.ImportFrom) or not node.module:
        return set()
    places = {f"{node.module}.{alias.name}" for alias in node.names} & set(known)
    return places or {node.module} & set(known)


def longest_chain(imports: dict[str, set[str]]) -> int:
    """Modules that wait for each other when the last of them is loaded."""

    @functools.cache
    def height(name: str) -> int:
        return 1 + max((height(other) for other in imports[name]), default=0)

    return max(map(height, imports))


def measured_files(package: Path) -> dict[str, object]:
    """What the files of a package tell."""
    known = names_of(package)
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in known.items()}
    loaded = {
        name: set().union(*(imported(node, known) for node in statements(tree))) - {name}
        for name, tree in trees.items()
    }
    importers = defaultdict(set)
    for name, tree in trees.items():
        if known[name].name != "__init__.py":
            for other in set().union(*(imported(node, known) for node in ast.walk(tree))):
                importers[other].add(name)
    functions = [n for t in trees.values() for n in ast.walk(t) if isinstance(n, ast.FunctionDef)]
    plain = [n for n in functions if not n.name.startswith("__") and not is_property(n)]
    verbs = sum(n.name.lstrip("_").split("_")[0] in VERBS for n in plain)
    text = "".join(path.read_text(encoding="utf-8") for path in known.values())
    kinds = re.findall(r'^@kind\("(\w+)"\)', text, flags=re.MULTILINE)
    return {
        "lines": text.count("\n"),
        "files": len(known),
        "longest chain of imports": longest_chain(loaded),
        "modules that one other imports": sum(len(others) == 1 for others in importers.values()),
        "functions named by a verb": f"{verbs / len(plain):.0%}",
        "kinds of data that fit and judge": len(kinds),
    }


def is_property(function: ast.FunctionDef) -> bool:
    """Whether a function is read like a field."""
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def measured_run(call: str, package: Path, folder: Path) -> dict[str, object]:
    """One call: what it loads and runs, how often the default detector is asked, what it takes."""
    asked = CALLS[call][0]
    code = asked if isinstance(asked, str) else COMMAND.format(words=asked)
    (folder / "copy").unlink(missing_ok=True)
    (folder / "copy").symlink_to(package.parent)
    processor_seconds(code, folder)  # compiles what is compiled the first time
    seconds = min(processor_seconds(code, folder)[0] for _ in range(3))
    watching = WATCHING if RUNS[call] == "explain" else ""
    told = processor_seconds(FOLLOWING + watching + "sys.setprofile(follow)\n" + code, folder)[1]
    loaded, ran, calls, rows = told.rpartition("COUNTED")[2].split()
    name = RUNS[call]
    found: dict[str, object] = {f"{name}: modules loaded": loaded, f"{name}: modules that ran": ran}
    if watching:
        found |= {f"{name}: calls of the detector": calls, f"{name}: rows that it scored": rows}
    return found | {f"{name}: CPU s": f"{seconds:.2f}"}


def measured(package: Path) -> dict[str, object]:
    """All of it."""
    found = measured_files(package)
    with tempfile.TemporaryDirectory() as name:
        write_tables(Path(name))
        for call in RUNS:
            found |= measured_run(call, package, Path(name))
    return found


def earlier(revision: str, folder: Path) -> Path:
    """The package as it was at a revision."""
    packed = subprocess.run(["git", "archive", revision, "src"], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
    return folder / "src" / "tellwhy"


if __name__ == "__main__":
    asked = arguments(
        __doc__,
        before=option("f0108f41", "revision to compare with"),
    )
    with tempfile.TemporaryDirectory() as place:
        before = measured(earlier(asked.before, Path(place)))
        now = measured(Path(tellwhy.__file__).parent)
    rows = [{"what": name, "before": before[name], "now": value} for name, value in now.items()]
    publish(
        "house",
        "The house, before and after",
        [
            (
                f"Before is revision {asked.before}. A chain of imports is what waits for each other when a "
                "module is loaded; `explain` is `tellwhy explain` of 3,000 × 6 rows, the one-liner "
                "`tellwhy.explain` of an isolation forest. CPU seconds are those of a whole process, the least "
                "of three; they are more where others use the machine, the more so with threads that wait for each "
                f"other. Python {sys.version.split()[0]}.",
                pd.DataFrame(rows),
            )
        ],
    )
