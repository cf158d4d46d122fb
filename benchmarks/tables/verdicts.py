"""Claim: planted errors of more than 40 kinds are found, their cause is named, and false alarms are few.

Tables of twelve kinds with everything drawn at random (_verdict_tables.py); default settings. A planted row is
found when it is above the threshold or among a finding's rows, and its cause is named when the first reason, or a
finding that covers the row, names a column that is part of the error. The committee's tails were chosen on tables of
seeds 100 to 103, which are not part of any page. Peers read one matrix and flag as many rows as
were planted, or as many as tellwhy flagged where that is more.

    python -m benchmarks.tables.verdicts --quick          # each kind of error once, in small tables
    python -m benchmarks.tables.verdicts --seeds 3        # everything; an interrupted run goes on where it stopped
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd

import tellwhy
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from benchmarks.tables._verdict_ours import ask, judged
from benchmarks.tables._verdict_planting import Planted
from benchmarks.tables._verdict_tables import ERRORS, KINDS, clean, plant, written

NONE = "(clean table)"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tellwhy" / "verdicts.jsonl"
QUICK_ROWS = 1_500
TABLES = (
    "draws",
    "business",
    "machines",
    "planting",
    "errors_cells",
    "errors_rows",
    "tables",
)  # what is asked


def planted_table(kind: str, error: str, seed: int, n: int | None) -> Planted:
    """The table with its error, as people write it."""
    frame = clean(kind, seed, n)
    if error == NONE:
        found = Planted(frame, (), (), ())
    else:
        found = plant(frame, kind, error, np.random.default_rng([crc32(f"{kind}/{error}".encode()), seed]))
    reference = None if found.reference is None else written(found.reference, kind, seed)
    return Planted(
        written(found.frame, kind, seed), found.rows, found.columns, found.also, found.kinds, reference
    )


def cases(args: argparse.Namespace) -> list[tuple[str, str, int]]:
    """Kind of table, kind of error, seed; a quick run takes one table for each error and seed."""
    found = []
    for i, (error, about) in enumerate([(NONE, None), *ERRORS.items()]):
        kinds = [k for k in (KINDS if about is None else about.kinds) if k in args.kinds]
        if error not in args.errors or not kinds:
            continue
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            chosen = [kinds[(i + seed) % len(kinds)]] if args.quick and error != NONE else kinds
            found += [(kind, error, seed) for kind in chosen]
    return found


def fingerprint(paths: Iterable[Path]) -> str:
    """Of the code that a result depends on, so that results of other code are not taken for it."""
    text = b"".join(path.read_bytes() for path in sorted(paths))
    return hashlib.sha256(text).hexdigest()[:12]


class Results:
    """Results kept in a file, one line each."""

    def __init__(self, path: Path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.known = {line["key"]: line for line in map(json.loads, lines)}

    def get(self, key: str, make) -> dict[str, Any]:
        if key not in self.known:
            start = time.perf_counter()
            result = make()
            self.known[key] = {"key": key, "seconds": round(time.perf_counter() - start, 2), **result}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(self.known[key]) + "\n")
        return self.known[key]


def our_result(planted: Planted, way: str) -> dict[str, Any]:
    try:
        return judged(ask(planted.frame, planted.reference, way=way), planted)
    except Exception as error:  # nothing found, and the table counts as crashed, never as one without alarms
        n = len(planted.rows)
        where = traceback.extract_tb(error.__traceback__)[-1]
        words = f"CRASH {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        nothing = {
            "n_alarms": 0,
            "n_flagged": 0,
            "false_alarms": 0,
            "false_in_findings": 0,
            "stated": None,
            "crashed": True,
        }
        return {"found": [False] * n, "named": [False] * n, "wrong": words, "findings": [], **nothing}


def peers_result(kind: str, error: str, seed: int, n: int | None) -> dict[str, Any]:
    """Of each peer: the rank of each planted row, whether it names the cause, and how many rows it flags."""
    from benchmarks.tables._verdict_peers import judge

    frame = clean(kind, seed, n)
    planted = plant(frame, kind, error, np.random.default_rng([crc32(f"{kind}/{error}".encode()), seed]))
    whole = planted.frame
    offset = 0 if planted.reference is None else len(planted.reference)
    if offset:
        whole = pd.concat([planted.reference, whole], ignore_index=True)
    found = {}
    for name, said in judge(whole, [offset + row for row in planted.rows]).items():
        rank = np.empty(len(whole), dtype=int)
        rank[np.argsort(-said.scores, kind="stable")] = np.arange(len(whole))
        ranks = [
            int(min(rank[offset + r] for r in {row, also} - {-1}))
            for row, also in zip(planted.rows, planted.also, strict=True)
        ]
        silent = [said.scores[offset + row] <= 0 for row in planted.rows] if name == "simple rules" else None
        if silent:
            ranks = [len(whole) if quiet else r for r, quiet in zip(ranks, silent, strict=True)]
        named = [
            cause in right or (cause == "(duplicate)" and "duplicate" in planted.kinds)
            for cause, right in zip(said.causes, planted.columns, strict=True)
        ]
        found[name] = {"ranks": ranks, "named": named, "n_flagged": said.n_flagged}
    return {"peers": found}


def collect(args: argparse.Namespace) -> pd.DataFrame:
    """One line a case."""
    results = Results(args.cache)
    here = Path(__file__).parent
    ours = fingerprint([here / "_verdict_ours.py", *Path(tellwhy.__file__).parent.rglob("*.py")])
    peers = fingerprint([here / "_verdict_peers.py"])
    made = fingerprint(here / f"_verdict_{name}.py" for name in TABLES)
    n = args.rows or (QUICK_ROWS if args.quick else None)
    lines = []
    for i, (kind, error, seed) in enumerate(cases(args)):
        case = f"{kind}/{error}/{seed}/{n}/{made}"
        planted = planted_table(kind, error, seed, n)
        mine = results.get(
            f"{case}/ours/{ours}/{args.way}", lambda planted=planted: our_result(planted, args.way)
        )
        line = {"table": kind, "error": error, "seed": seed, "rows": len(planted.frame), **mine}
        if error != NONE and not args.no_peers:
            line |= results.get(
                f"{case}/peers/{peers}", lambda case=(kind, error, seed): peers_result(*case, n)
            )
        lines.append(line)
        share = np.mean(mine["found"]) if mine["found"] else float("nan")
        print(
            f"{i + 1:4d} {mine['seconds']:6.1f} s  {kind:<10} {error:<40} found {share:4.0%}  "
            f"alarms {mine['n_alarms']:4d}  false {mine['false_alarms']:4d}"
            + ("  CRASH" if mine.get("crashed") else ""),
            flush=True,
        )
    return pd.DataFrame(lines)


def command_line() -> argparse.Namespace:
    args = arguments(
        __doc__,
        kinds=option(list(KINDS), choices=list(KINDS), metavar="KIND"),
        errors=option([NONE, *ERRORS], "also parts of names", metavar="ERROR"),
        seeds=option(int, "how many; 1 with --quick, else 2"),
        first_seed=0,
        rows=option(int, "rows a table; drawn from 1,000 to 5,000 unless told"),
        quick=False,
        way=option("function", "how a table is explained", choices=("function", "command", "check")),
        no_peers=False,
        no_page=option(False, "print only"),
        page=option(False, "write the page after a quick run too"),
        cache=CACHE,
    )
    args.seeds = args.seeds or (1 if args.quick else 2)
    args.errors = [e for e in (NONE, *ERRORS) if any(part in e for part in args.errors)]
    return args


if __name__ == "__main__":
    from benchmarks.tables._verdict_report import failures, parts

    warnings.simplefilter("ignore")
    asked = command_line()
    lines = collect(asked)
    print(failures(lines))
    tables = parts(lines)
    if asked.no_page or (asked.quick and not asked.page):
        for text, table in tables:
            print(f"\n{text}\n\n{table.to_string(index=False)}")
    else:
        publish("verdicts", "Verdicts on planted errors", tables, peers=("shap", "pyod"))
