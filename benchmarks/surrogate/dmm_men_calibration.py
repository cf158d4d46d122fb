"""Is DMM-MEN's sampler right: Geweke's test, printed formulas put back, calibration, coverage, planted mixtures."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import IMAGES, TESTS
from benchmarks.shared.results import publish
from benchmarks.surrogate._work import Results

sys.path.append(str(TESTS))
checks = import_module("oracles.mixture_calibration")
steps_with = import_module("oracles.mixture_oracles").steps_with

mpl.use("Agg")
FIGURE = IMAGES / "dmm-men-calibration.png"
SHAPES = ((8, 3, 1), (2, 6, 0), (20, 1, 2))  # rows, columns, gates
LONGER = 4  # times as many sweeps for the first shape, from other seeds
LEVELS = (0.5, 0.8, 0.9, 0.95)
N_RANKS, N_BINS = 99, 20
ORANGE, BLUE = "#c65307", "#2166ac"


def geweke(results: Results, sweeps: int) -> None:
    """The compiled sweep for three shapes of data; each printed formula for the first."""
    for shape, times in [*((shape, 1) for shape in SHAPES), (SHAPES[0], LONGER)]:
        key = f"geweke:{shape}:{times}"
        if key not in results:
            independent = checks.expected_statistics(times * sweeps // 3, shape, seed=times - 1)
            z = checks.geweke(independent, None, times * sweeps, shape=shape, seed=6 + times)
            results.add(key, shape=shape, sweeps=times * sweeps, z=z.tolist())
    for kind, steps in (("printed", checks.PRINTED), ("right", checks.RIGHT)):
        for name, replaced in steps.items():
            key = f"{kind}:{name}"
            if key not in results:
                # Wrong formulas show at once; right ones that mix slowly need chains that are long against that.
                length = sweeps // 20 if kind == "printed" else sweeps // 5
                independent = checks.expected_statistics(2 * length)
                z = checks.geweke(independent, steps_with(**replaced), length)
                results.add(key, name=name, sweeps=length, largest=float(z.max()))


def calibration(results: Results, sets: int) -> None:
    if "ranks" not in results:
        ranks = checks.calibration_ranks(sets, N_RANKS, 20, seed=5)
        counts, p_values = checks.rank_histograms(ranks, N_RANKS, N_BINS)
        results.add("ranks", sets=sets, counts=counts.tolist(), p=p_values.tolist())


def coverage(results: Results, sets: int) -> None:
    if "coverage" in results:
        return
    lines = []
    for level, found in checks.coverage(LEVELS, sets).items():
        lines.append({"nominal": level, "found": found.mean(), "error": found.std() / np.sqrt(sets)})
    results.add("coverage", sets=sets, lines=lines)


def recovery(results: Results, sets: int) -> None:
    for seed in range(sets):
        if f"planted:{seed:02d}" not in results:
            results.add(f"planted:{seed:02d}", found=checks.recovery(seed))


def geweke_tables(results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
    own = [
        {
            "rows, columns, gates": ", ".join(map(str, line["shape"])),
            "statistics": len(line["z"]),
            "sweeps": line["sweeps"],
            "largest \\|z\\|": max(line["z"]),
            "share above 1.96": float(np.mean(np.array(line["z"]) > 1.96)),
        }
        for line in results.starting("geweke:")
    ]
    put_back = [
        {
            "put back": line["name"],
            "sweeps": line["sweeps"],
            "largest \\|z\\|": line["largest"],
            "printed": kind,
        }
        for kind, prefix in (("yes", "printed:"), ("no, right", "right:"))
        for line in results.starting(prefix)
    ]
    return pd.DataFrame(own), pd.DataFrame(put_back)


def report(results: Results) -> None:
    own, put_back = geweke_tables(results)
    ranks, covered = results.found["ranks"], results.found["coverage"]
    uniform = pd.DataFrame({"quantity": checks.INVARIANT, "χ² p-value": ranks["p"]})
    inside = pd.DataFrame(
        [
            {
                "nominal %": 100 * line["nominal"],
                "found %": 100 * line["found"],
                "standard error": 100 * line["error"],
            }
            for line in covered["lines"]
        ]
    )
    planted = pd.DataFrame([line["found"] for line in results.starting("planted:")])
    spread = pd.DataFrame(
        [{"of the planted mixture": c, "mean": v.mean(), "worst": _worst(c, v)} for c, v in planted.items()]
    )
    publish(
        "dmm_men_calibration",
        "DMM-MEN: is the sampler right?",
        [
            (
                "Geweke's test: means of statistics of everything that is drawn, from independent draws of the prior "
                "and along a chain that alternates a sweep and new outputs; z is their difference in standard errors.",
                own,
            ),
            (
                "The same with one conditional replaced: by the formula as it was printed (more than 4: the test sees "
                "it), or by right code of another kind.",
                put_back,
            ),
            (
                f"Simulation-based calibration: ranks of true quantities among {N_RANKS} draws of the posterior, "
                f"{ranks['sets']} data sets drawn from the prior, {N_BINS} bins; uniform if the sampler is right. "
                "[Picture](../images/dmm-men-calibration.png): the grey bands hold 99 % of such counts.",
                uniform,
            ),
            (
                f"Local intervals of planted coefficients: 6 rows of each of {covered['sets']} data sets (60 rows, 3 "
                "columns, 2 regressions with coefficients drawn anew); how often they hold the planted coefficient.",
                inside,
            ),
            (
                f"Planted mixtures ({len(planted)} of them: 400 rows, 8 columns, 3 regressions with 2, 1 and 3 "
                "non-zero coefficients, at most 6 components): adjusted Rand index, mean over draws; coefficients of "
                "rows whose 95 % interval leaves out 0.",
                spread,
            ),
        ],
    )
    draw(results)


def _worst(name: str, values: Any) -> float:
    return float(values.min() if name in ("ARI", "non-zero coefficients found") else values.max())


def draw(results: Results) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 5, figsize=(12, 4.6))
    ranks = results.found["ranks"]
    low, high = stats.binom.ppf([0.005, 0.995], ranks["sets"], 1 / N_BINS)
    panels = [axis for line in axes for axis in line[:4]]
    for axis, name, counts in zip(panels, checks.INVARIANT, ranks["counts"], strict=True):
        axis.axhspan(low, high, color="#e5e5e5")
        axis.bar(np.arange(N_BINS), counts, width=0.9, color=BLUE)
        axis.set_title(name, fontsize=9)
        axis.set_xticks([0, N_BINS - 1], ["lowest", "highest rank"], fontsize=8)
        axis.tick_params(axis="y", labelsize=8)
    draw_z(axes[0, 4], results)
    draw_coverage(axes[1, 4], results)
    figure.tight_layout()
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=130)


def draw_z(axis: Any, results: Results) -> None:
    """|z| of Geweke's test against what half-normal numbers would be."""
    z = np.sort(np.concatenate([line["z"] for line in results.starting("geweke:")]))
    expected = stats.halfnorm.ppf((np.arange(len(z)) + 0.5) / len(z))
    axis.plot([0, 3.2], [0, 3.2], color="#999999", lw=1)
    axis.plot(expected, z, ".", color=ORANGE, ms=4)
    axis.axhline(4, color="#999999", lw=1, ls=":")
    axis.set_title("Geweke: |z| and expected |z|", fontsize=9)
    axis.tick_params(labelsize=8)


def draw_coverage(axis: Any, results: Results) -> None:
    lines = results.found["coverage"]["lines"]
    nominal = 100 * np.array([line["nominal"] for line in lines])
    found, error = (100 * np.array([line[name] for line in lines]) for name in ("found", "error"))
    axis.fill_between([45, 100], [40, 95], [50, 105], color="#e5e5e5")
    axis.plot([45, 100], [45, 100], color="#999999", lw=1)
    axis.errorbar(nominal, found, 1.96 * error, fmt="o", color=ORANGE, ms=4)
    axis.set_title("intervals: nominal and found %", fontsize=9)
    axis.tick_params(labelsize=8)


if __name__ == "__main__":
    chosen = arguments(
        __doc__,
        cache=option(Path("dmm-men-cache"), "finished parts, to resume from"),
        sweeps=option(60_000, "of Geweke's chains"),
        sets=option(2_000, "data sets of the calibration"),
        coverage_sets=300,
        planted=10,
    )
    warnings.simplefilter("ignore")
    stored = Results(chosen.cache / "calibration.jsonl")
    parts: list[tuple[Callable[[Results, int], None], int]] = [
        (recovery, chosen.planted),
        (geweke, chosen.sweeps),
        (calibration, chosen.sets),
        (coverage, chosen.coverage_sets),
    ]
    for part, size in parts:
        begin = time.process_time()
        part(stored, size)
        print(f"{part.__name__}: {time.process_time() - begin:.0f} processor seconds", flush=True)
    report(stored)
