"""Claim: multi-class SVMs speed up over threads (figure III.2).

As many threads as there are cores; `--sets` measures some, the tables of the others are kept from an earlier run.
`--draw` only makes the picture again, from the figures that were kept as JSON.
"""

from __future__ import annotations

import json
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared.arguments import arguments, option
from benchmarks.svm._ceiling import ceiling
from benchmarks.svm._ranks import TOLS
from benchmarks.svm._scaling import (
    BUNDLES,
    COUNTS,
    KEPT_WORDS,
    LLW_C,
    Lines,
    Tell,
    described,
    documents,
    draw,
    kept,
    measured,
)
from benchmarks.svm._sets import Split, naics2017_whole, news20
from tellwhy.classifiers import CrammerSingerSVM, LeeLinWahbaSVM, WestonWatkinsSVM, choose_c

WW_TOL = TOLS["ww"]
LLW_EPOCHS = 8
CEILING_WORDS = (
    "What the machine gives at most: threads that never wait for each other and share nothing, which compute in their "
    "caches, or read rows of 160 MB of weights in no order."
)
SHARED_ROWS = "All classes in one bundle: threads share rows."
SHARED_CLASSES = (
    f"{BUNDLES} bundles: threads share the classes; {LLW_EPOCHS} epochs, with C = {LLW_C:g} in place of 1."
)
CHOICE = (0.1, 0.3, 1.0, 3.0)
CHOICE_WORDS = (
    f"`choose_c`: {len(CHOICE)} values of C, five folds and the fit on all rows. Threads share the folds and the values; "
    "rows of a few words are too little work to share."
)
PARTS = ("documents", "naics2017", "news20", "llw", "choice")


def over_threads(s: Split, cls: Any, n_bundles: int, repeats: int, **given: Any) -> Lines:
    """The fastest of some fits with each number of threads, whose turns come round after each other."""
    fits: dict[int, list[tuple[float, int, float]]] = {n: [] for n in COUNTS}
    options = {"n_bundles": n_bundles, "fit_intercept": False, "random_state": 0, **given}
    for _ in range(repeats):
        for n in COUNTS:
            model = cls(n_jobs=n, **options).fit(s.X, s.y)
            fits[n].append((model.history_[-1]["seconds"], model.n_iter_, model.objective_))
    found: Lines = []
    for n in COUNTS:
        seconds, epochs, objective = min(fits[n])
        line = {"data": s.name, "solver": cls.__name__, "threads": n, "bundles": n_bundles}
        found.append({**line, "s": seconds, "epochs": epochs, "objective": objective})
        found[-1]["times faster"] = found[0]["s"] / seconds
        print(found[-1], flush=True)
    return found


def over_values(s: Split) -> Lines:
    """The choice of C with each number of threads, which share the folds and the values of C."""
    found: Lines = []
    model = WestonWatkinsSVM(tol=WW_TOL, fit_intercept=False, random_state=0)
    for n in COUNTS:
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # some classes have fewer rows than there are folds
            chosen = choose_c(model, s.X, s.y, Cs=CHOICE, n_jobs=n)
        seconds = time.perf_counter() - started
        line = {"data": s.name, "solver": type(model).__name__, "threads": n, "s": seconds}
        scores = {"best C": chosen.model.C, "score %": float(100 * chosen.means.max())}
        found.append(line | scores | {"times faster": (found[0]["s"] if found else seconds) / seconds})
        print(found[-1], flush=True)
    return found


def threads(tell: Tell, *, named: list[str], repeats: int) -> None:
    """The sets that are named, or all; tables of the others are kept from an earlier run."""
    sets = {"documents": documents(), "naics2017": naics2017_whole(), "news20": news20()}
    compile_all(sets)
    parts: dict[str, tuple[str, pd.DataFrame]] = {"machine": (CEILING_WORDS, ceiling(COUNTS))}
    parts |= kept_threads(sets)
    for name, s in sets.items():
        if name in named:
            lines = [
                line
                for cls in (WestonWatkinsSVM, CrammerSingerSVM)
                for line in over_threads(s, cls, 1, repeats, tol=WW_TOL)
            ]
            parts[name] = f"{SHARED_ROWS} {described(s)}", pd.DataFrame(lines)
            tell(list(parts.values()))
    if "llw" in named:
        docs = sets["documents"]
        lines = over_threads(docs, LeeLinWahbaSVM, BUNDLES, repeats, C=LLW_C, max_epochs=LLW_EPOCHS)
        parts["llw"] = f"{SHARED_CLASSES} {described(docs)}", pd.DataFrame(lines)
        tell(list(parts.values()))
    if "choice" in named:
        parts["choice"] = CHOICE_WORDS, pd.DataFrame(over_values(sets["naics2017"]))
    tell(list(parts.values()))


def compile_all(sets: dict[str, Split]) -> None:
    """Rows of both kinds, so that no fit that is timed has to compile."""
    for s in (sets["documents"], sets["naics2017"]):
        small = s.X[:800], np.arange(800) % 70
        for cls, bundles in ((WestonWatkinsSVM, 1), (CrammerSingerSVM, 1), (LeeLinWahbaSVM, 4)):
            cls(tol=0.1, n_bundles=bundles, n_jobs=2, fit_intercept=False, max_epochs=20).fit(*small)


def kept_threads(sets: dict[str, Split]) -> dict[str, tuple[str, pd.DataFrame]]:
    """Tables of an earlier run over threads, by what was measured."""
    before: list[Lines] = json.loads(kept("threads").read_text()) if kept("threads").is_file() else []
    names = {s.name: name for name, s in sets.items()}
    found = {}
    for lines in before:
        if "solver" in lines[0]:
            name = names[lines[0]["data"]]
            if "best C" in lines[0]:
                found["choice"] = CHOICE_WORDS + KEPT_WORDS, pd.DataFrame(lines)
                continue
            is_llw = lines[0]["solver"] == LeeLinWahbaSVM.__name__
            words = f"{SHARED_CLASSES if is_llw else SHARED_ROWS} {described(sets[name])}{KEPT_WORDS}"
            found["llw" if is_llw else name] = words, pd.DataFrame(lines)
    return {name: found[name] for name in (*sets, "llw", "choice") if name in found}


if __name__ == "__main__":
    asked = arguments(
        __doc__,
        sets=option(PARTS, choices=PARTS),
        repeats=option(3, "fits, of which the fastest counts"),
        draw=option(False, "draw the picture alone"),
    )
    if asked.draw:
        draw("threads")
    else:
        measured(
            "threads",
            "Multi-class SVMs over threads",
            partial(threads, named=asked.sets, repeats=asked.repeats),
        )
