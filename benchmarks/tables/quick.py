"""Claim: small things are quick: help, a check, a table of 3,000 × 6, one line for a forest, also the first time."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import tellwhy
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish

IMPORTS = "import pandas, sklearn, scipy.stats; pandas.read_csv('small.csv')"
FOREST = """
import numpy as np, tellwhy
from sklearn.ensemble import IsolationForest
X = np.random.default_rng(0).normal(size=(500, 6))
tellwhy.explain(IsolationForest(random_state=0).fit(X), X[:5])
"""
BARE_FOREST = """
import numpy as np
from sklearn.ensemble import IsolationForest
X = np.random.default_rng(0).normal(size=(500, 6))
IsolationForest(random_state=0).fit(X).score_samples(X[:5])
"""
COMMAND = "import sys; sys.argv = ['tellwhy', *{words!r}]; from tellwhy.views.cli import main; main()"
DEMO = ["cancer.csv", "--normal", "diagnosis=benign", "--label", "diagnosis=malignant"]
CALLS = {
    "imports and reading, 3,000 × 6": (IMPORTS, "–"),
    "tellwhy --help": (["--help"], ".25"),
    "tellwhy check, 3,000 × 6": (["check", "small.csv"], "1.5 × imports"),
    "tellwhy explain, 3,000 × 6": (["explain", "small.csv", "--out", "run"], "1.5 × imports"),
    "tellwhy explain, the demo's 569 × 30": (["explain", *DEMO, "--out", "run"], "3"),
    "an isolation forest alone": (BARE_FOREST, "–"),
    "tellwhy.explain(IsolationForest(…), X[:5])": (FOREST, "1.5 above the forest"),
    "tellwhy explain, 40 × 2,000": (["explain", "wide.csv", "--out", "run"], "10"),
}
# Printed when Python ends: how many of our modules are there, and how often the default detector was called.
COUNTING = """
import atexit, sys
def tell():
    ours = [name for name in sys.modules if name.partition('.')[0] == 'tellwhy']
    print('COUNTED', len(ours), len(sys.modules), *calls, file=sys.stderr)
calls = [0, 0]
atexit.register(tell)
"""
WATCHING = """
try:
    from tellwhy.detectors.committee.committee import CommitteeScore
except ImportError:  # an earlier version
    from tellwhy.detectors.committee.score import CommitteeScore
plain = CommitteeScore.value
def watched(self, X, *args, **more):
    calls[0] += 1
    calls[1] += len(X)
    return plain(self, X, *args, **more)
CommitteeScore.value = watched
"""


def write_tables(folder: Path) -> None:
    """The tables of the calls."""
    rng = np.random.default_rng(0)
    n = 3_000
    small = {
        "amount": rng.lognormal(3, 1, n).round(2),
        "weight": rng.normal(70, 10, n).round(1),
        "age": rng.integers(18, 90, n),
        "height": rng.normal(170, 8, n).round(),
        "city": rng.choice(["Rome", "Oslo", "Bern", "Wien", "Kiel"], n),
        "score": rng.normal(size=n).round(3),
    }
    pd.DataFrame(small).to_csv(folder / "small.csv", index=False)
    data = load_breast_cancer(as_frame=True)
    names = dict(enumerate(data.target_names))
    data.data.assign(diagnosis=data.target.map(names)).to_csv(folder / "cancer.csv", index=False)
    wide = rng.normal(size=(40, 2_000)).round(3)
    pd.DataFrame(wide, columns=[f"c{k}" for k in range(2_000)]).to_csv(folder / "wide.csv", index=False)


def fresh_copy(package: Path, folder: Path) -> None:
    """Copy the package as an installer leaves it: nothing of it was compiled."""
    shutil.rmtree(folder / "copy", ignore_errors=True)
    shutil.copytree(package, folder / "copy" / "tellwhy", ignore=shutil.ignore_patterns("__pycache__"))


def processor_seconds(code: str, folder: Path) -> tuple[float, str]:
    """User and system seconds of a Python of its own, and what it wrote to its standard error."""
    # Bytecode is kept as it is for users: a workplace may forbid it, and then every run compiles every module.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(folder / "copy")},
        capture_output=True,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ran.stderr


def measured(name: str, package: Path, folder: Path) -> dict[str, object]:
    """One call, the first time and later."""
    asked, target = CALLS[name]
    code = asked if isinstance(asked, str) else COMMAND.format(words=asked)
    fresh_copy(package, folder)
    cold = processor_seconds(code, folder)[0]
    warm = min(processor_seconds(code, folder)[0] for _ in range(2))
    watches = "explain" in asked[0]
    told = processor_seconds(COUNTING + (WATCHING if watches else "") + code, folder)[1]
    ours, modules, calls, rows = told.rpartition("COUNTED")[2].split()
    return {
        "call": name,
        "first time, CPU s": cold,
        "later, CPU s": warm,
        "target, CPU s": target,
        "modules of tellwhy": ours,
        "all modules": modules,
        "calls of the detector": calls if watches else "–",
        "rows that it scored": rows if watches else "–",
    }


if __name__ == "__main__":
    asked = arguments(
        __doc__,
        package=option(Path(tellwhy.__file__).parent, "folder of the package to measure"),
        section=option("Now", "heading on the page"),
        calls=option(list(CALLS), "which calls"),
    )
    with tempfile.TemporaryDirectory() as name:
        write_tables(Path(name))
        table = pd.DataFrame([measured(call, asked.package, Path(name)) for call in asked.calls])
    publish(
        "quick",
        "Small things are quick",
        [
            (
                "User and system seconds of a whole process. The first time nothing of the package is compiled, "
                "as in a new container; later is the less of two.",
                table,
            )
        ],
        section=asked.section,
    )
