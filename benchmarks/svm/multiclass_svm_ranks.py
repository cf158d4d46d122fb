"""Claim: multi-class SVMs speed up over MPI ranks, and memory per rank falls (figure III.2).

1, 2, 4 … ranks under whichever mpiexec there is. `--draw` only makes the picture again, from the figures that were kept
as JSON, and `--floor` tells what of their seconds more ranks could not divide.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.shared.arguments import arguments, option
from benchmarks.svm._ranks import TOLS, in_ranks
from benchmarks.svm._scaling import (
    BUNDLES,
    COUNTS,
    KEPT_WORDS,
    LLW_C,
    MEMORY_COLUMN,
    Lines,
    Tell,
    documents,
    draw,
    kept,
    measured,
    stored,
)
from benchmarks.svm._sets import naics2017_whole

WW_TOL = TOLS["ww"]
EPOCHS = 3
MEMORY_EPOCHS = 3
EPOCH_WORDS = (
    f"Seconds per epoch, as in figure III.2: 1, 2, … ranks of one thread each, {EPOCHS} epochs after a first one, nothing "
    f"left out; Lee–Lin–Wahba at C = {LLW_C:g}, the same {BUNDLES} bundles of classes spread over the ranks."
)
GAP_WORDS = (
    f"To a relative duality gap of {WW_TOL:g}, C = 1, with shrinking, the fastest of some trainings. Ranks of one thread "
    "each, with the weights cut as `fit-svm --ranks` does, features × classes: the same steps and bits for any number of "
    "ranks. Load: processes that wanted a core while it was measured, of whomever; where they are more than the cores, "
    "ranks wait for each other."
)
MEMORY_WORDS = (
    f"What a rank grows by when it reads a file, trains for {MEMORY_EPOCHS} epochs and rank 0 gathers and saves the "
    "model: 6,000 generated documents, 30,000 terms, 1,500 classes, whose weights are 360 MB."
)
FLOOR_WORDS = (
    "What more ranks cannot divide. Every rank solves the same small problems, and they meet once a batch: seconds are "
    "about a + b / ranks + meetings × seconds a meeting, where a meeting is timed by ranks that do nothing else. From one "
    "rank and the most ranks, by plan: a (solving, lists), b (scores, weights), and how many times faster than one rank "
    "no number of ranks can be."
)
WORDS = {"epoch": EPOCH_WORDS, "gap": GAP_WORDS, "memory": MEMORY_WORDS}
LOSSES = ("ww", "cs")
PARTS = ("times", "memory")
ALSO = ("classes", "epochs")


def ranks(tell: Tell, *, asked: argparse.Namespace) -> None:
    """Seconds per epoch as in figure III.2 and to a gap, and memory; what is named, or all."""
    tables = kept_tables()
    with tempfile.TemporaryDirectory() as place:
        sets = (
            {}
            if "times" not in asked.parts
            else {s.name: stored(s, Path(place)) for s in (documents(), naics2017_whole())}
        )
        one = (
            {}
            if "memory" not in asked.parts
            else {"documents": stored(documents(6_000, 1_500, 30_000), Path(place))}
        )
        # Numbers of ranks take turns, as those of threads do: a shared machine is slower at times.
        runs = [(n, measures(n, sets, asked)) for _ in range(asked.rounds) for n in asked.ranks if sets]
        runs += [(n, [memory_of(data, "ww")]) for n in asked.ranks for data in one.values()]
        fresh: set[str] = set()
        for n, whats in runs:
            for what, found in in_ranks(n, Path(place), whats):
                text, line = WORDS[what["measure"]], in_words(n, what, found)
                print(line, flush=True)
                tables[text] = with_line(tables.get(text, []) if text in fresh else [], line)
                fresh.add(text)
                tell([*told(tables, fresh), *floor(tables)])


def with_line(lines: Lines, line: dict[str, Any]) -> Lines:
    """Lines with one more, or with the faster of it and the one that measured the same before."""
    same = ("data", "loss", "ranks", "cut")

    def is_same(other: dict[str, Any]) -> bool:
        return all(other.get(name) == line.get(name) for name in same)

    before = next((other for other in lines if is_same(other)), None)
    if before is None:
        return [*lines, line]
    seconds = "s" if "s" in line else "s an epoch"
    best = min(before, line, key=lambda one: one.get(seconds, 0.0))
    return [best if is_same(other) else other for other in lines]


def told(tables: dict[str, Lines], fresh: set[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Tables with their words, which say where they were not measured now."""
    for words, lines in tables.items():
        yield words if words in fresh else words + KEPT_WORDS, compared(lines)


def measures(n: int, sets: dict[str, Path], asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds to a gap with the plan's cut and, of documents, with the classes cut alone.

    `--also` leaves out the latter, and what is measured by epochs.
    """
    found: Lines = []
    for loss in LOSSES:
        for name, data in sets.items():
            what = {"name": name, "data": str(data), "loss": loss, "threads": 1, "C": 1.0, "parts": None}
            what["repeats"] = asked.repeats
            found.append({**what, "measure": "gap", "epochs": 300})
            if n > 1 and name == "generated documents" and "classes" in asked.also:
                found.append({**what, "measure": "gap", "epochs": 300, "parts": 1})
            if name == "generated documents" and loss == "ww" and "epochs" in asked.also:
                llw = {"loss": "llw", "C": LLW_C, "blocks": BUNDLES}
                found.append({**what, **llw, "measure": "epoch", "epochs": EPOCHS})
    return found


def memory_of(data: Path, loss: str) -> dict[str, Any]:
    name = "generated documents"
    return {"measure": "memory", "name": name, "data": str(data), "loss": loss, "epochs": MEMORY_EPOCHS}


def in_words(n: int, what: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    line = {"data": what["name"], "loss": what["loss"], "ranks": n}
    if what["measure"] != "memory":
        line["load"] = os.getloadavg()[0]
    if what["measure"] == "gap":
        line["cut"] = "by plan" if what["parts"] is None else "classes only"
    return line | found


def floor(tables: dict[str, Lines]) -> Iterator[tuple[str, pd.DataFrame]]:
    """What is not divided by ranks, of each set and loss."""
    lines = pd.DataFrame(tables.get(GAP_WORDS, []))
    if not len(lines) or lines["ranks"].max() == 1:
        return
    if "meetings" not in lines:  # of a run that did not count them: what they take is in a
        lines[["meetings", "µs a meeting"]] = 0
    found = []
    for (data, loss), some in lines[lines["cut"] == "by plan"].groupby(["data", "loss"], sort=False):
        one = some[some["ranks"] == 1].iloc[0]
        most = some.loc[some["ranks"].idxmax()]
        n = most["ranks"]
        waiting = 1e-6 * most["meetings"] * most["µs a meeting"]
        undivided = min(max((n * (most["s"] - waiting) - one["s"]) / (n - 1), 0.0), one["s"])
        found.append({
            "data": data, "loss": loss, "ranks": n, "meetings": most["meetings"],
            "µs a meeting": most["µs a meeting"], "s of meetings": waiting, "a (s)": undivided,
            "b (s)": one["s"] - undivided, "times faster at most": one["s"] / (undivided + waiting),
        })  # fmt: skip
    yield FLOOR_WORDS, pd.DataFrame(found)


def compared(lines: Lines) -> pd.DataFrame:
    """Lines of each set and loss together, and how many times faster they are than the first of these."""
    table = pd.DataFrame(lines).sort_values(["loss", "data"], ascending=[False, True], kind="stable")
    for column, words in (("s an epoch", "times faster"), ("s", "times faster than one rank")):
        if column in table:
            table[words] = table.groupby(["loss", "data"])[column].transform("first") / table[column]
    return table


def kept_tables() -> dict[str, Lines]:
    """Tables of an earlier run, which stay where they are not measured anew."""
    before: list[Lines] = json.loads(kept("ranks").read_text()) if kept("ranks").is_file() else []
    columns = {
        "s an epoch": EPOCH_WORDS,
        "times faster than one rank": GAP_WORDS,
        MEMORY_COLUMN: MEMORY_WORDS,
    }
    return {
        words: lines for lines in before for column, words in columns.items() if lines and column in lines[0]
    }


if __name__ == "__main__":
    options = arguments(
        __doc__,
        parts=option(PARTS, choices=PARTS),
        ranks=option(COUNTS, "numbers of ranks"),
        repeats=option(3, "trainings to a gap, of which the fastest counts"),
        rounds=option(2, "turns of all numbers of ranks"),
        also=option(ALSO, "the classes cut alone; seconds an epoch", choices=ALSO, nargs="*"),
        draw=option(False, "draw the picture alone"),
        floor=option(False, "print what ranks do not divide, from the figures that were kept"),
    )
    if options.draw:
        draw("ranks")
    elif options.floor:
        for words, table in floor(kept_tables()):
            print(f"{words}\n\n{table.to_string(index=False)}")
    else:
        measured("ranks", "Multi-class SVMs over MPI ranks", partial(ranks, asked=options))
