"""Claim: trained bases never end worse than they start, and with amplitudes or landmarks need ten times fewer features.

`--prepared` names the folder of sets that `kernel_bases.py --prepare` writes. A run appends one line per unit to
`--results` and needs NumPy, SciPy and PyTorch only; `--from FILE` writes the page from such a file.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.bases._option_units import PARTS, SETS
from benchmarks.bases._sets import load
from benchmarks.bases._trials import TRIALS
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.units import finished

Unit = dict[str, Any]


def key_of(unit: Unit) -> str:
    """Everything a unit says, in order."""
    return json.dumps(
        {k: v for k, v in unit.items() if k not in ("found", "device", "seconds")}, sort_keys=True
    )


class Work:
    """Does units one after the other; the sets stay in memory."""

    def __init__(self, args: argparse.Namespace):
        self.args, self.loaded = args, {}

    def __call__(self, unit: Unit) -> Unit:
        device, name = self.args.device, unit["set"]
        if name not in self.loaded:
            self.loaded[name] = load(name, self.args.prepared)
        most = {"epochs": self.args.max_epochs, "batches": self.args.max_batches}
        small = {key: min(unit.get(key, value), value) for key, value in most.items()}
        if "sizes" in unit:
            small["sizes"] = sorted({min(size, self.args.max_features) for size in unit["sizes"]})
        started = time.perf_counter()
        rows = self.loaded[name]
        if "fold" in unit:
            rows = rows.with_test_rows(unit["fold"])
        elif "rows" in unit:
            rows = rows.first(unit["rows"])
        found = TRIALS[unit["trial"]]({**unit, **small}, rows, device)
        about = {"device": torch.cuda.get_device_name() if device == "cuda" else "CPU"}
        if device == "cuda":
            torch.cuda.empty_cache()  # several processes share the card
        return {**unit, **about, "seconds": time.perf_counter() - started, "found": found}


def command_line() -> argparse.Namespace:
    return arguments(
        __doc__,
        "minutes",
        results=Path("kernel_bases_options.jsonl"),
        prepared=Path("sets"),
        parts=option(["small"], choices=list(PARTS)),
        sets=list(SETS),
        device="cuda" if torch.cuda.is_available() else "cpu",
        cores=option([], "one process on each", type=int, nargs="+"),
        max_features=30_000,
        max_epochs=1_000,
        max_batches=1_000,
        kept=option(
            Path,
            "only write the page from files of results; of a unit in several, the last counts",
            nargs="+",
        ),
    )


def run(args: argparse.Namespace) -> None:
    """Do what the file of results does not hold yet, until the time is up."""
    lines = args.results.read_text().splitlines() if args.results.exists() else []
    done = {key_of(json.loads(line)) for line in lines}
    units = [
        u for part in args.parts for u in PARTS[part]() if u["set"] in args.sets and key_of(u) not in done
    ]
    for unit in finished(Work(args), units, args.cores, 60 * args.minutes):
        with args.results.open("a") as file:
            file.write(json.dumps(unit) + "\n")
        print(f"{unit['seconds']:.1f} s {key_of(unit)} {json.dumps(unit['found'])[:300]}", flush=True)


def kept(source: Path) -> list[Unit]:
    """Units of a file of results, one a line, or of the list that is kept beside the page."""
    text = source.read_text()
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


if __name__ == "__main__":
    options = command_line()
    if options.kept is not None:
        from benchmarks.bases._options_page import publish_page

        publish_page(list({key_of(unit): unit for source in options.kept for unit in kept(source)}.values()))
    else:
        run(options)
