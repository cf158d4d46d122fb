"""Claim: wrong cells of public tables with known errors are found without labels, and clean tables are left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from benchmarks.tables._dirty_recipes import contacts, deliveries
from tellwhy.checks import texts
from tellwhy.checks.check import check_table
from tellwhy.checks.keyboard import Keyboard
from tellwhy.data.benchmarks import data_folder
from tellwhy.data.columns.roles import read_columns

Cells = NDArray[np.bool_]
# F1 of cells, from the publications of others: with 20 labelled rows, and without labels.
PUBLISHED = {"hospital": (".72", ".36"), "flights": (".81", ".62")}
KEYS = {"flights": "flight", "hospital": "provider_number"}
SUBSAMPLES = 20
FEWER = 1_200
MOST_UNLIKE = 0.6  # a column in which more cells differ does not follow from the key


def read_texts(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table as it is written, and what it should be."""
    files = [folder / f"{part}.csv" for part in ("dirty", "clean")]
    dirty, clean = (pd.read_csv(file, dtype=str, keep_default_na=False) for file in files)
    return dirty, clean.set_axis(dirty.columns, axis=1)


def claimed(table: pd.DataFrame) -> Cells:
    """Cells that a finding of the product blames."""
    written = table.mask(table == "")
    read = read_columns(written)
    found = np.zeros(table.shape, dtype=bool)
    for finding in check_table(read.frame, read.roles, raw=written).findings:
        if finding.rows and finding.surprise > 0:
            found[list(finding.rows), table.columns.get_loc(finding.columns[0])] = True
    return found


def unlike_most(table: pd.DataFrame, key: str) -> Cells:
    """Cells that differ from the most common one of the rows with the same key; empty cells too."""
    found = np.zeros(table.shape, dtype=bool)
    for place, name in enumerate(table.columns):
        filled = table[name].where(table[name] != "")
        usual = filled.groupby(table[key]).transform(lambda cells: cells.mode().get(0, ""))
        differs = ((table[name] != usual) & (usual != "")).to_numpy()
        found[:, place] = differs & (differs.mean() < MOST_UNLIKE)
    return found


def scored(found: Cells, wrong: Cells) -> tuple[float, float, float]:
    """Precision, recall and F1 of cells."""
    right = int((found & wrong).sum())
    precision = right / max(int(found.sum()), 1)
    recall = right / max(int(wrong.sum()), 1)
    return precision, recall, 2 * right / max(int(found.sum() + wrong.sum()), 1)


def compared(name: str, dirty: pd.DataFrame, clean: pd.DataFrame) -> Iterator[dict[str, object]]:
    """The product and the majority, each on the table as it is and with its rows five times."""
    ways: dict[str, Callable[[pd.DataFrame], Cells]] = {
        "tellwhy check": claimed,
        f"unlike most of the same {KEYS[name]}": lambda table: unlike_most(table, KEYS[name]),
    }
    wrong = dirty.to_numpy() != clean.to_numpy()
    for way, find in ways.items():
        precision, recall, f1 = scored(find(dirty), wrong)
        five = pd.concat([dirty] * 5, ignore_index=True)
        yield {
            "table": name,
            "way": way,
            "precision": round(precision, 3),
            "recall": round(recall, 3),
            "F1": round(f1, 3),
            "F1, rows five times": round(scored(find(five), np.tile(wrong, (5, 1)))[2], 3),
            "F1, flat law of slips": _without_law(find, dirty, wrong) if find is claimed else "–",
            "claims in the clean version": int(find(clean).sum()),
        }
    labelled, without = PUBLISHED[name]
    for way, figure in (("Raha, 20 rows labelled (published)", labelled), ("dBoost (published)", without)):
        yield {"table": name, "way": way, "F1": figure}


def _without_law(find: Callable[[pd.DataFrame], Cells], dirty: pd.DataFrame, wrong: Cells) -> float:
    """F1 where nothing is learnt of the characters that come in by mistake."""
    with mock.patch.object(texts.Keyboard, "learned", return_value=Keyboard()):
        return round(scored(find(dirty), wrong)[2], 3)


def of_recipes() -> Iterator[dict[str, object]]:
    """Tables with mistakes that people make, by recipes that nothing was tuned on."""
    for make in (contacts, deliveries):
        for seed in (0, 1):
            dirty, clean = make(seed)
            wrong = dirty.to_numpy() != clean.to_numpy()
            precision, recall, f1 = scored(claimed(dirty), wrong)
            yield {
                "table": f"{make.__name__}, seed {seed}",
                "wrong cells": int(wrong.sum()),
                "precision": round(precision, 3),
                "recall": round(recall, 3),
                "F1": round(f1, 3),
                "claims in the clean version": int(claimed(clean).sum()),
            }


def of_fewer_rows(name: str, dirty: pd.DataFrame, clean: pd.DataFrame) -> dict[str, object]:
    """F1 of random rows, beside the majority on the same rows."""
    wrong = dirty.to_numpy() != clean.to_numpy()
    ours = []
    theirs = []
    for seed in range(SUBSAMPLES):
        rows = np.sort(np.random.default_rng(seed).permutation(len(dirty))[:FEWER])
        part = dirty.iloc[rows].reset_index(drop=True)
        ours.append(scored(claimed(part), wrong[rows])[2])
        theirs.append(scored(unlike_most(part, KEYS[name]), wrong[rows])[2])
    return {
        "table": f"{name}, {FEWER} random rows",
        "F1, mean": round(float(np.mean(ours)), 3),
        "F1, least": round(min(ours), 3),
        "majority, mean": round(float(np.mean(theirs)), 3),
        f"behind the majority, of {SUBSAMPLES}": int(np.sum(np.array(ours) < np.array(theirs))),
    }


if __name__ == "__main__":
    asked = arguments(__doc__, tables=option(list(PUBLISHED), "which tables"))
    folder = data_folder() / "dirty"
    tables = {name: read_texts(folder / name) for name in asked.tables}
    rows = [row for name, (dirty, clean) in tables.items() for row in compared(name, dirty, clean)]
    parts = [
        (
            "A cell is wrong where the table differs from its clean version.",
            pd.DataFrame(rows).astype(object).fillna("–"),
        )
    ]
    if "flights" in tables:
        fewer = pd.DataFrame([of_fewer_rows("flights", *tables["flights"])])
        parts.append(
            (
                "Few reports of each flight. When sources count as copies was chosen on ten of these samples, the "
                "one worst before among them.",
                fewer,
            )
        )
    recipes = pd.DataFrame(of_recipes())
    parts.append(("Mistakes of natural kinds, by recipes written after the rules were frozen.", recipes))
    publish("dirty_tables", "Wrong cells of public tables with known errors", parts)
