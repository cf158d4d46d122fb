"""Question: Is Weston–Watkins still sparser and better than one-vs-rest when both have an intercept?

Tables III.3 to III.5 of the thesis were fitted without one, and so is the page of `multiclass_svm_tables`. Every C of the
grid is reported, with and without the intercept, and the best of them on test rows, as in the thesis.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from benchmarks.svm._sets import SETS, Split
from tellwhy.classifiers import CrammerSingerSVM, OneVsRestSVM, WestonWatkinsSVM
from tellwhy.core.errors import NotConverged

GRID = (0.1, 1.0, 10.0)
SOLVERS = {"WW": WestonWatkinsSVM, "CS": CrammerSingerSVM, "OVR": OneVsRestSVM}
NAMES = ("naics2017", "clinc150", "news20")


def line(s: Split, solver: str, C: float, *, intercept: bool) -> dict[str, Any]:
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        model = SOLVERS[solver](C=C, fit_intercept=intercept, random_state=0).fit(s.X, s.y)
    seconds = time.process_time() - started
    coef = model.coef_.data if sparse.issparse(model.coef_) else model.coef_
    size = model.coef_.shape[0] * model.coef_.shape[1]
    return {
        "data": s.name, "intercept": "with" if intercept else "without", "solver": solver, "C": C,
        "error %": 100 * float((model.predict(s.X_test) != s.y_test).mean()),
        "density %": 100 * float(np.count_nonzero(coef)) / size,
        "gap": float(model.dual_gap_), "CPU s": seconds,
    }  # fmt: skip


def compare(every: pd.DataFrame) -> pd.DataFrame:
    """Weston–Watkins beside one-vs-rest, each at its best C on the test rows."""
    rows = []
    best = every.loc[every.groupby(["data", "intercept", "solver"], sort=False)["error %"].idxmin()]
    for (data, intercept), part in best.groupby(["data", "intercept"], sort=False):
        ww, ovr = (part[part["solver"] == name].iloc[0] for name in ("WW", "OVR"))
        rows.append(
            {
                "data": data, "intercept": intercept,
                "error % of WW": ww["error %"], "of OVR": ovr["error %"],
                "lead of WW, points": ovr["error %"] - ww["error %"],
                "density % of WW": ww["density %"], "of OVR ": ovr["density %"],
                "OVR's density / WW's": ovr["density %"] / ww["density %"],
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def main() -> None:
    asked = arguments(__doc__, sets=option(list(NAMES), choices=list(SETS)))
    lines = []
    for name in asked.sets:
        s = SETS[name]()
        for intercept in (False, True):
            for solver in SOLVERS:
                for C in GRID:
                    lines.append(line(s, solver, C, intercept=intercept))
                    print(lines[-1], flush=True)
    every = pd.DataFrame(lines)
    lead = "Weston–Watkins (WW) beside one-vs-rest (OVR), each at its best C on the test rows."
    publish(
        "multiclass_svm_intercept",
        "Multi-class SVMs with and without an intercept",
        [(lead, compare(every)), ("Every C; the density leaves the intercept out.", every)],
    )


if __name__ == "__main__":
    main()
