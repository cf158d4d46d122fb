"""Where benchmark tables go: printed, and kept in docs/results with the date, the machine and the command."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
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


def _commit() -> str:
    """The commit that is measured, in brackets; with a star where its code differs."""
    commit = _ask_git("rev-parse", "--short=8", "HEAD")
    changed = _ask_git("status", "--porcelain", "--", "src", "benchmarks")
    return f" ({commit}{'*' if changed else ''})" if commit else ""


def _ask_git(*words: str) -> str:
    ran = subprocess.run(["git", *words], capture_output=True, text=True, check=False, cwd=RESULTS.parents[1])
    return ran.stdout.strip()


def markdown(table: pd.DataFrame) -> str:
    """A pipe table."""
    cells = [[str(c) for c in table.columns], ["---"] * table.shape[1]]
    cells += [
        [f"{v:.4g}" if isinstance(v, float) else str(v) for v in row] for row in table.itertuples(index=False)
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def publish(
    name: str,
    title: str,
    parts: list[tuple[str, pd.DataFrame]],
    *,
    section: str = "",
    peers: tuple[str, ...] = (),
) -> None:
    """Print the tables and write docs/results/<name>.md, or the part of it below the heading `section` alone.

    What is measured on another machine, or with other settings, is such a section; the rest of the page stays.
    """
    others = (f"{package} {version(package)}" for package in ("numpy", "scikit-learn", *peers))
    versions = ", ".join([f"tellwhy {tellwhy.__version__}{_commit()}", *others])
    lines = [
        f"## {section}" if section else f"# {title}",
        "",
        f"Written by `python -m {running()}` on {datetime.date.today()}, {machine()}; {versions}.",
    ]
    for text, table in parts:
        lines += ["", text, "", markdown(table)]
        print(f"\n{text}\n\n{table.to_string(index=False)}", flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    page = RESULTS / f"{name}.md"
    before = page.read_text(encoding="utf-8") if page.exists() else f"# {title}\n"
    page.write_text(with_section(before, "\n".join(lines) + "\n", section), encoding="utf-8")


def with_section(page: str, text: str, section: str) -> str:
    """The page with a text in the place of a section, or of what stands before the first one."""
    pieces = re.split(r"^(?=## .*\n\nWritten by )", page, flags=re.MULTILINE)
    own = next((i for i, piece in enumerate(pieces) if piece.startswith(f"## {section}\n")), len(pieces))
    at = own if section else 0
    pieces[at : at + 1] = [text]
    return "\n".join(piece.rstrip("\n") + "\n" for piece in pieces)
