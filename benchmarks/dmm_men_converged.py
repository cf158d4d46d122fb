"""Do global fits of image classes converge: four chains that go on until they agree, or until a time limit."""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _results import machine, publish

from _dmm_men import Results, images, probabilities, trained
from _dmm_men_tables import CLASSES, TITLES, measured_on
from tellwhy.explainers import DMMMEN, PRESETS

N_CHAINS = 4
ABOUT = (
    f"Training images that the network puts into a class; {N_CHAINS} chains with the published setting, {{sweeps}} sweeps "
    "after as many of burn-in, then rounds of twice the length until the split-R̂ of what is reported (the ten largest "
    "effects, which pixels these are, the mean variance) is at most 1.05, or {seconds:.0f} s would be over. R̂ of the 150 "
    "main coefficients is that of the insight into the class as a whole. Networks trained by the benchmark. Measured on "
    "{place}."
)


def fit(name: str, target: int, settings: argparse.Namespace, model: Any) -> dict[str, Any]:
    """Fit one class, and say how far its chains agree."""
    X = images(name)[0]
    ask = probabilities(model)
    chosen = np.concatenate([ask(part).argmax(axis=1) for part in np.array_split(X, 60)])
    mine = X[chosen == target][: settings.rows].astype(np.float64)
    explainer = DMMMEN(
        model,
        scale="common",
        n_sweeps=settings.sweeps,
        n_burn=settings.sweeps,
        n_chains=N_CHAINS,
        max_seconds=settings.seconds,
        **PRESETS["mnist" if name == "mnist" else "fashion-mnist"],
    )
    begin, busy = time.perf_counter(), time.process_time()
    explainer.fit(mine)
    seconds = {"wall": time.perf_counter() - begin, "busy": time.process_time() - busy}
    agreement = explainer.convergence_[str(target)]
    whole = explainer.insights(150, per="target")[0]
    return {
        **seconds,
        "rows": len(mine),
        "pixels": len(explainer.surrogates_[target].columns.used),
        "r_hat": agreement.worst_r_hat,
        "ess": agreement.least_ess,
        "r_hat_150": whole.r_hat,
        "shares": [round(part.share, 3) for part in explainer.insights(10)],
    }


def report(results: Results, settings: argparse.Namespace) -> None:
    """Write the page."""
    found = list(results.starting("fit:"))
    lines = []
    for line in found:
        _, name, target = line["key"].split(":")
        lines.append(
            {
                "class": f"{TITLES[name]}: {CLASSES[name][int(target)] if name in CLASSES else target}",
                "images": line["rows"],
                "pixels": line["pixels"],
                "wall s": f"{line['wall']:.0f}",
                "processor s": f"{line['busy']:.0f}",
                "R̂": f"{line['r_hat']:.3f}",
                "effective draws": f"{line['ess']:.0f}",
                "R̂ of the 150 main coefficients": f"{line['r_hat_150']:.3f}",
                "shares of the components": ", ".join(map(str, line["shares"])),
            }
        )
    about = ABOUT.format(sweeps=settings.sweeps, seconds=settings.seconds, place=measured_on(found))
    publish(
        "dmm_men_converged",
        "DMM-MEN: converged global fits",
        [(about, pd.DataFrame(lines))],
        peers=("torch",),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("dmm-men-cache"), help="networks and results")
    parser.add_argument("--sets", nargs="+", default=["mnist", "fashion"])
    parser.add_argument("--classes", nargs="+", type=int, default=list(range(10)))
    parser.add_argument("--rows", type=int, default=100_000, help="the most images of a class")
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tables", action="store_true", help="write the page from stored results")
    chosen = parser.parse_args()
    stored = Results(chosen.cache / "converged.jsonl")
    warnings.simplefilter("ignore")
    for name in () if chosen.tables else chosen.sets:
        model = trained(name, chosen.cache, device=chosen.device)[0]
        for target in chosen.classes:
            if f"fit:{name}:{target}" not in stored:
                stored.add(f"fit:{name}:{target}", machine=machine(), **fit(name, target, chosen, model))
    report(stored, chosen)


if __name__ == "__main__":
    main()
