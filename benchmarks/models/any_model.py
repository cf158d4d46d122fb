"""Claim: `tellwhy.explain(model, X)` is right for any model, says how far it is not, or says what it needs; never wrong.

Each model is explained once by the plain one-liner, with the rows it was fitted on where it asks for them. Shapley values
are compared with their definition (all sets of columns), integrated gradients with Captum's;
detectors must name the one column in which an otherwise ordinary row was made odd, in at least 19 of 20 rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pandas as pd

from benchmarks.models import _networks as networks, _tables as tables
from benchmarks.models._checks import Line
from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish

PARTS = (
    tables.predictions,
    tables.frames,
    tables.wide,
    tables.detectors,
    networks.plain,
    networks.maps_and_errors,
    networks.tokens,
    networks.several,
)


def lines() -> Iterator[Line]:
    """Every model, one after the other."""
    for part in PARTS:
        for line in part():
            print(
                f"{line.family}: {line.model}: {line.outcome} ({line.method}; {line.error[:60]})", flush=True
            )
            yield line


def main() -> None:
    """Try every model, and write the table."""
    warnings.simplefilter("ignore")  # of models that stop early: they are explained as they are
    table = pd.DataFrame([line.cells() for line in lines()])
    counts = table.pivot_table(
        index="family", columns="outcome", values="model", aggfunc="count", fill_value=0
    )
    for outcome in ("exact", "approximate", "refused", "wrong"):
        if outcome not in counts:
            counts[outcome] = 0
    counts = counts[["exact", "approximate", "refused", "wrong"]]
    counts.loc["all"] = counts.sum()
    planted = table[table["checked by"].str.startswith("planted")]
    again = table["model"].str.endswith("24 reference rows").sum()
    asked = table["model"].str.contains("asked for rows").sum()
    publish(
        "any_model",
        "Any model through the one-liner: exact, approximate, refused, wrong",
        [
            (
                f"{len(table) - again} models, {again} of them in two ways: {len(table)} results, by what came out.",
                counts.reset_index(),
            ),
            (
                f"Each model. Errors are shares of the largest value. {len(planted)} detectors are judged by the column "
                f"that was planted; {asked} of them keep nothing that tells what is ordinary, and asked for the rows that "
                "they were fitted on. Where it can be computed, the distance to the method's definition is told too, with "
                "minima found by Powell's method. Scores of the same detectors are compared with enumeration in lines of "
                "their own: Shapley values with 24 reference rows.",
                table,
            ),
        ],
        peers=("captum", "xgboost-cpu", "lightgbm", "pyod", "torch"),
    )


if __name__ == "__main__":
    arguments(__doc__)
    main()
