"""Where benchmark tables go: printed, and kept in docs/results with the date, the machine and the command."""

from __future__ import annotations

import datetime
import os
import platform
from importlib.metadata import version
from pathlib import Path

import pandas as pd

import tellwhy
from benchmarks.shared.places import RESULTS, running


def machine() -> str:
    """CPU model and number of cores."""
    names = [line for line in _cpu_lines() if line.startswith("model name")]
    name = names[0].partition(":")[2].strip() if names else platform.processor()
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def markdown(table: pd.DataFrame) -> str:
    """A pipe table."""
    cells = [[str(c) for c in table.columns], ["---"] * table.shape[1]]
    cells += [
        [f"{v:.4g}" if isinstance(v, float) else str(v) for v in row] for row in table.itertuples(index=False)
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def publish(
    name: str, title: str, parts: list[tuple[str, pd.DataFrame]], *, peers: tuple[str, ...] = ()
) -> None:
    """Print the tables and write docs/results/<name>.md."""
    others = (f"{package} {version(package)}" for package in ("numpy", "scikit-learn", *peers))
    versions = ", ".join([f"tellwhy {tellwhy.__version__}", *others])
    lines = [
        f"# {title}",
        "",
        f"Written by `python -m {running()}` on {datetime.date.today()}, {machine()}; {versions}.",
    ]
    for text, table in parts:
        lines += ["", text, "", markdown(table)]
        print(f"\n{text}\n\n{table.to_string(index=False)}", flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
