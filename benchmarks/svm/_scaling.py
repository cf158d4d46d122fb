"""What the benchmarks of multi-class SVMs over threads and ranks share: sets, figures that are kept, pictures."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared.places import IMAGES, RESULTS
from benchmarks.shared.results import publish
from benchmarks.svm._sets import Split, lshtc_look_alike
from tellwhy.core.errors import NotConverged

CORES = len(os.sched_getaffinity(0))
COUNTS = [n for n in (1, 2, 4, 8) if n <= CORES]
BUNDLES = 16
LLW_C = 100.0
KEPT_WORDS = " Kept from an earlier run."
MEMORY_COLUMN = "GB of the fullest other rank"
Lines = list[dict[str, Any]]
Tell = Callable[[list[tuple[str, pd.DataFrame]]], None]
PANELS = {
    "threads": [("times faster", "times faster than one thread")],
    "ranks": [
        ("times faster", "times faster per epoch than one rank"),
        ("times faster than one rank", "times faster to a gap than one rank"),
        (MEMORY_COLUMN, "GB a rank"),
    ],
}


def documents(n: int = 5_000, n_classes: int = 1_000, n_terms: int = 20_000) -> Split:
    return replace(lshtc_look_alike(n, n_classes, n_terms), name="generated documents")


def stored(s: Split, place: Path) -> Path:
    path = place / f"{s.name.replace(' ', '-')}-{s.X.shape[0]}.npz"
    parts = {"data": s.X.data, "indices": s.X.indices, "indptr": s.X.indptr, "shape": np.array(s.X.shape)}
    np.savez(path, y=s.y, **parts)
    return path


def described(s: Split) -> str:
    n, d = s.X.shape
    return f"{n:,} rows × {d:,} features, {s.X.nnz / n:.0f} entries a row, {len(np.unique(s.y)):,} classes; C = 1."


def kept(what: str) -> Path:
    return RESULTS / f"multiclass_svm_{what}.json"


def measured(what: str, title: str, run: Callable[[Tell], None]) -> None:
    """Run, and after each table write the page, the figures as JSON and the picture."""

    def tell(parts: list[tuple[str, pd.DataFrame]]) -> None:
        publish(f"multiclass_svm_{what}", title, parts, peers=("numba",))
        kept(what).write_text(
            json.dumps([json.loads(table.to_json(orient="records")) for _, table in parts], indent=1)
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        run(tell)
    if what in PANELS and find_spec("matplotlib"):
        draw(what)


def draw(by: str) -> None:
    """Times faster against the number of threads or ranks, and memory per rank."""
    import matplotlib.pyplot as plt

    tables = [pd.DataFrame(lines) for lines in json.loads(kept(by).read_text())]
    panels = PANELS[by]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.2 * len(panels), 4.8), layout="constrained", squeeze=False
    )
    counts = sorted({int(n) for table in tables for n in table[by]})
    for ax, (column, words) in zip(axes.flat, panels, strict=True):
        for lines, label in curves(tables, by, column):
            ax.plot(lines[by], lines[column], "o-", label=label)
        if column != MEMORY_COLUMN:
            ax.plot(counts, counts, ":", color="0.6")
        ax.set(xlabel=by, ylabel=words)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ax.set_xticks(counts, [str(n) for n in counts])
        ax.yaxis.set_major_formatter("{x:.2g}")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(0, -0.14))
    figure.savefig(IMAGES / f"multiclass-svm-{by}.png", dpi=110)


def curves(tables: list[pd.DataFrame], by: str, column: str) -> Iterator[tuple[pd.DataFrame, str]]:
    """Lines of the tables that have a column, and what to call them."""
    for table in tables:
        if column in table:
            lines = table[table[column].notna()].sort_values(by, kind="stable")
            for found, some in lines.groupby(
                [c for c in ("data", "solver", "loss", "cut") if c in table], sort=False
            ):
                what = ["choice of C"] if "best C" in table else []
                yield some, ", ".join([*map(str, found), *what])
