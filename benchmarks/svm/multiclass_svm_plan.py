"""What 1,000,000 documents × 100,000 terms × 10,000 classes would need over ranks, on paper."""

from __future__ import annotations

import json

import pandas as pd

from benchmarks.shared.arguments import arguments
from benchmarks.svm._scaling import Tell, kept, measured
from tellwhy.classifiers.svm.ranks.exchange import ROW, Plan, Size

LISTED = 30  # variables of a row that may have to move


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


if __name__ == "__main__":
    arguments(__doc__)
    measured("plan", "A multi-class SVM over 1 to 64 ranks, on paper", plan)
