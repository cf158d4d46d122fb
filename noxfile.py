"""Several versions of Python, and packages as users get them: `nox`, `nox -s tests-3.12`, `nox -s packages`.

A version of Python that is not on the machine is skipped, and said to be.
"""

import tempfile
from pathlib import Path

import nox

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = (
    "torch",
    "excel",
    "sql",
    "images",
    "sentences",
    "app",
    "serve",
    "mcp",
    "db",
    "streams",
    "mpi",
    "ray",
)
OLDEST = (  # the lower bounds of pyproject.toml
    "numpy==2.1.0",
    "scipy==1.14.1",
    "scikit-learn==1.7.0",
    "numba==0.61.0",
    "joblib==1.3.2",
    "threadpoolctl==3.1.0",
    "pandas==2.2.3",
    "narwhals==1.20.1",
    "pyarrow==17.0.0",
    "plotly==6.0.0",
    "jinja2==3.1.0",
    "typer==0.16.1",
    "rich==13.7.1",
)
TRIAL = """
import numpy as np, tellwhy
from sklearn.svm import OneClassSVM
X = np.random.default_rng(0).normal(size=(200, 3))
found = tellwhy.explain(OneClassSVM(nu=0.1).fit(X), np.array([[0.0, 8.0, 0.3]]))
assert found.method == "OneClassDTD" and found.values[0].argmax() == 1, found
print("tellwhy", tellwhy.__version__, "works")
"""
nox.options.sessions = ["tests"]
nox.options.error_on_missing_interpreters = False


@nox.session(python=VERSIONS)
def tests(session: nox.Session) -> None:
    """Run the default tests, without what needs PyTorch or servers."""
    session.install(
        "-c", "constraints.txt", ".", "pytest", "hypothesis", "openpyxl", "polars", "duckdb", "pyod"
    )
    session.run(
        "pytest", "-q", "-x", "tests/core", "tests/checks", "tests/kinds", "tests/verdicts", *session.posargs
    )


@nox.session(python="3.11")
def oldest(session: nox.Session) -> None:
    """Run the same with the oldest versions that pyproject.toml allows."""
    session.install(*OLDEST, ".", "pytest", "hypothesis", "openpyxl", "polars")
    session.run("pytest", "-q", "-x", "tests/core", "tests/results", "tests/words", *session.posargs)


@nox.session(python=VERSIONS)
@nox.parametrize("extra", ["", *EXTRAS])
def packages(session: nox.Session, extra: str) -> None:
    """Install the wheel, bare and with each extra, into a clean environment, and try it from elsewhere."""
    wheel = next(iter(sorted(Path("dist").glob("tellwhy-*.whl"))), None)
    if wheel is None:
        session.error("There is no wheel in dist/. Run `make release` first.")
    wanted = f"{wheel.resolve()}[{extra}]" if extra else str(wheel.resolve())
    session.install("-c", "constraints.txt", wanted)
    with session.chdir(tempfile.mkdtemp()):
        session.run("python", "-c", TRIAL)
        session.run("tellwhy", "--version")
        session.run("python", "-m", "tellwhy", "--help", silent=True)
