"""Claim: Weston–Watkins and Lee–Lin–Wahba speed up over threads and ranks, and memory per rank falls (figure III.2).

`python -m benchmarks.svm.multiclass_svm_scaling threads` runs as many threads as there are cores, `ranks` 1, 2, 4 … MPI
ranks under whichever mpiexec there is (RANKS=1,2 in the environment chooses others), and `large` fits 100,000 documents
× 50,000 terms (60 a row) × 10,000 classes in single precision (target: 16 GB, one hour). `plan` reckons what 1,000,000
documents × 100,000 terms × 10,000 classes would need over ranks. `draw threads` and `draw ranks` only make the pictures
again, from the figures that were kept as JSON, and `floor` tells what of their seconds more ranks could not divide.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
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
from benchmarks.svm._ceiling import ceiling
from benchmarks.svm._ranks import TOLS, in_ranks
from benchmarks.svm._sets import Split, lshtc_look_alike, naics2017_whole, news20
from tellwhy.classifiers import CrammerSingerSVM, LeeLinWahbaSVM, WestonWatkinsSVM, choose_c
from tellwhy.classifiers.svm.ranks.plan import ROW, Plan, Size
from tellwhy.classifiers.training_job import Job, train
from tellwhy.core.errors import NotConverged

CORES = len(os.sched_getaffinity(0))
COUNTS = [n for n in (1, 2, 4, 8) if n <= CORES]
RANKS = [int(n) for n in os.environ.get("RANKS", ",".join(str(n) for n in COUNTS[:4])).split(",")]
WW_TOL = TOLS["ww"]
BUNDLES = 16
REPEATS = int(os.environ.get("REPEATS", "3"))
ROUNDS = int(os.environ.get("ROUNDS", "2"))
ALSO = os.environ.get("ALSO", "classes,epochs").split(",")
EPOCHS = 3
LLW_C = 100.0
LLW_EPOCHS = 8
MEMORY_EPOCHS = 3
LISTED = 30  # variables of a row that may have to move
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
CEILING_WORDS = (
    "What the machine gives at most: threads that never wait for each other and share nothing, which compute in their "
    "caches, or read rows of 160 MB of weights in no order."
)
KEPT_WORDS = " Kept from an earlier run."
SHARED_ROWS = "All classes in one bundle: threads share rows."
SHARED_CLASSES = (
    f"{BUNDLES} bundles: threads share the classes; {LLW_EPOCHS} epochs, with C = {LLW_C:g} in place of 1."
)
CHOICE = (0.1, 0.3, 1.0, 3.0)
CHOICE_WORDS = (
    f"`choose_c`: {len(CHOICE)} values of C, five folds and the fit on all rows. Threads share the folds and the values; "
    "rows of a few words are too little work to share."
)
WORDS = {"epoch": EPOCH_WORDS, "gap": GAP_WORDS, "memory": MEMORY_WORDS}
LOSSES = ("ww", "cs")
MEMORY_COLUMN = "GB of the fullest other rank"
Lines = list[dict[str, Any]]
Tell = Callable[[list[tuple[str, pd.DataFrame]]], None]


def documents(n: int = 5_000, n_classes: int = 1_000, n_terms: int = 20_000) -> Split:
    return replace(lshtc_look_alike(n, n_classes, n_terms), name="generated documents")


def over_threads(s: Split, cls: Any, n_bundles: int, **given: Any) -> Lines:
    """The fastest of some fits with each number of threads, whose turns come round after each other."""
    fits: dict[int, list[tuple[float, int, float]]] = {n: [] for n in COUNTS}
    options = {"n_bundles": n_bundles, "fit_intercept": False, "random_state": 0, **given}
    for _ in range(REPEATS):
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


def stored(s: Split, place: Path) -> Path:
    path = place / f"{s.name.replace(' ', '-')}-{s.X.shape[0]}.npz"
    parts = {"data": s.X.data, "indices": s.X.indices, "indptr": s.X.indptr, "shape": np.array(s.X.shape)}
    np.savez(path, y=s.y, **parts)
    return path


def threads(tell: Tell) -> None:
    """The sets that are named, or all; tables of the others are kept from an earlier run."""
    named = sys.argv[2:] or ["documents", "naics2017", "news20", "llw", "choice"]
    sets = {"documents": documents(), "naics2017": naics2017_whole(), "news20": news20()}
    compile_all(sets)
    parts: dict[str, tuple[str, pd.DataFrame]] = {"machine": (CEILING_WORDS, ceiling(COUNTS))}
    parts |= kept_threads(sets)
    for name, s in sets.items():
        if name in named:
            lines = [
                line
                for cls in (WestonWatkinsSVM, CrammerSingerSVM)
                for line in over_threads(s, cls, 1, tol=WW_TOL)
            ]
            parts[name] = f"{SHARED_ROWS} {described(s)}", pd.DataFrame(lines)
            tell(list(parts.values()))
    if "llw" in named:
        docs = sets["documents"]
        lines = over_threads(docs, LeeLinWahbaSVM, BUNDLES, C=LLW_C, max_epochs=LLW_EPOCHS)
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


def described(s: Split) -> str:
    n, d = s.X.shape
    return f"{n:,} rows × {d:,} features, {s.X.nnz / n:.0f} entries a row, {len(np.unique(s.y)):,} classes; C = 1."


def ranks(tell: Tell) -> None:
    """Seconds per epoch as in figure III.2 and to a gap, and memory; what is named, or all."""
    named, tables = sys.argv[2:] or ["times", "memory"], kept_tables()
    with tempfile.TemporaryDirectory() as place:
        sets = (
            {}
            if "times" not in named
            else {s.name: stored(s, Path(place)) for s in (documents(), naics2017_whole())}
        )
        one = (
            {}
            if "memory" not in named
            else {"documents": stored(documents(6_000, 1_500, 30_000), Path(place))}
        )
        # Numbers of ranks take turns, as those of threads do: a shared machine is slower at times.
        runs = [(n, measures(n, sets)) for _ in range(ROUNDS) for n in RANKS if sets]
        runs += [(n, [memory_of(data, "ww")]) for n in RANKS for data in one.values()]
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


def measures(n: int, sets: dict[str, Path]) -> list[dict[str, Any]]:
    """Seconds to a gap with the plan's cut and, of documents, with the classes cut alone.

    `ALSO=` in the environment leaves out the latter, and what is measured by epochs.
    """
    found: Lines = []
    for loss in LOSSES:
        for name, data in sets.items():
            what = {"name": name, "data": str(data), "loss": loss, "threads": 1, "C": 1.0, "parts": None}
            what["repeats"] = REPEATS
            found.append({**what, "measure": "gap", "epochs": 300})
            if n > 1 and name == "generated documents" and "classes" in ALSO:
                found.append({**what, "measure": "gap", "epochs": 300, "parts": 1})
            if name == "generated documents" and loss == "ww" and "epochs" in ALSO:
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


def large(tell: Tell) -> None:
    """From a file, with checkpoints, as `tellwhy fit-svm` does."""
    s, n = lshtc_look_alike(100_000, 10_000, 50_000, words=60), min(CORES, 4)
    with tempfile.TemporaryDirectory() as place:
        data = stored(s, Path(place))
        job = Job(str(data), str(data.with_name("model")), dtype="float32", threads=n, checkpoint_every=10)
        wall, cpu = time.perf_counter(), time.process_time()
        model = train(job, lambda text: print(text, flush=True))
    line = {
        "rows": s.X.shape[0], "classes": 10_000, "terms": s.X.shape[1], "terms a row": s.X.nnz / s.X.shape[0],
        "threads": n, "wall s": time.perf_counter() - wall, "CPU s": time.process_time() - cpu,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "gap": model.dual_gap_,
        "epochs": model.n_iter_, "density %": 100 * model.density_,
    }  # fmt: skip
    text = (
        "100,000 generated documents, 10,000 classes, Weston–Watkins, C = 1, single precision, gap 1e-3, read from a "
        "file and with checkpoints (target: 16 GB and 3,600 s)."
    )
    tell([(text, pd.DataFrame([line]))])


def plan(tell: Tell) -> None:
    """What ranks of a training that fits no machine here would hold, and how long it would take at best."""
    rows, entries = 1_000_000, 100
    size = Size(rows, rows * entries, 100_000, 10_000, itemsize=4)
    before = pd.DataFrame(json.loads(kept("large").read_text())[0]).iloc[0]
    # Work grows with rows and with entries of a row; as many epochs.
    seconds = before["CPU s"] * rows / before["rows"] * entries / before["terms a row"]
    lines = []
    for n in (1, 2, 4, 8, 16, 32, 64):
        found = Plan.of(n, size)
        weights, held = (b / 1e9 for b in found.bytes_a_rank)
        duals = rows * LISTED * 8 / n / 1e9
        lines.append({
            "ranks": n, "features × classes": f"{found.n_slots} × {found.n_ranges}", "weights GB": weights,
            "rows GB": held, "variables GB": duals, "GB a rank": weights + held + duals,
            "hours at least": seconds / n / 3600,
        })  # fmt: skip
    text = (
        f"On paper: {rows:,} documents of {entries} terms, {size.n_features:,} terms, {size.n_classes:,} classes, "
        f"Weston–Watkins in single precision. Rows: a rank's columns, and about {ROW} bytes of every row that all ranks "
        f"keep. Variables: {LISTED} listed a row. Hours at least: the {before['CPU s']:.0f} CPU seconds of the part that "
        f"was run ({before['rows']:,.0f} documents of {before['terms a row']:.0f} terms, {before['terms']:,.0f} terms, "
        "as many classes; results/multiclass_svm_large.md), times rows and terms a row, for as many epochs, divided by the "
        "ranks. That ranks divide the work so well is an assumption; results/multiclass_svm_ranks.md has what was measured."
    )
    tell([(text, pd.DataFrame(lines))])


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


def kept(what: str) -> Path:
    return RESULTS / f"multiclass_svm_{what}.json"


PANELS = {
    "threads": [("times faster", "times faster than one thread")],
    "ranks": [
        ("times faster", "times faster per epoch than one rank"),
        ("times faster than one rank", "times faster to a gap than one rank"),
        (MEMORY_COLUMN, "GB a rank"),
    ],
}
PAGES: dict[str, tuple[Callable[[Tell], None], str]] = {
    "threads": (threads, "Multi-class SVMs over threads"),
    "ranks": (ranks, "Multi-class SVMs over MPI ranks"),
    "large": (large, "A large multi-class SVM"),
    "plan": (plan, "A multi-class SVM over 1 to 64 ranks, on paper"),
}

if __name__ == "__main__":
    what = sys.argv[1]
    if what == "draw":
        draw(sys.argv[2])
    elif what == "floor":
        for words, table in floor(kept_tables()):
            print(f"{words}\n\n{table.to_string(index=False)}")
    else:
        run, title = PAGES[what]

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
