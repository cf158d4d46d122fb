"""The page of the published figures: what each shows here, beside what was claimed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared.results import publish
from benchmarks.surrogate._patterns import ClassFit
from benchmarks.surrogate._tables import CLASSES, TITLES, Parts
from benchmarks.surrogate._work import Results

LOST, WON = (
    0.5,
    0.5,
)  # share of the images that must leave, or enter, a class before a change counts as one that works
CLAIMS = {
    "nullified": "classification is hit dramatically from 50 to 75 pixels on, by random pixels not at all",
    "replaced": "other images with the pixels of a class are put into it, recognisable or not",
    "crafted": "new cases with the top 50 pixels succeed in about half of the cases, random ones hardly ever",
    "alone": "the same, read the other way: what is not named is black",
}


def report(fits: dict[str, list[ClassFit]], tables: dict[str, pd.DataFrame], results: Results) -> None:
    """Write the page."""
    parts: Parts = []
    for name, found in fits.items():
        parts += [_patterns(name, found), _verdicts(name, tables[name]), _rates(name, tables[name])]
        if f"pictured:{name}" in results:
            parts.append(_local(name, results.found[f"pictured:{name}"]))
    publish("dmm_men_figures", "DMM-MEN: the published figures", parts, peers=("torch",))


def _patterns(name: str, fits: list[ClassFit]) -> tuple[str, pd.DataFrame]:
    lines = [
        {
            "class": CLASSES[name][fit.target],
            "images": fit.rows,
            "pixels": fit.pixels,
            "sweeps": fit.sweeps,
            "components": len(fit.components),
            "shares, %": ", ".join(f"{100 * c.share:.0f}" for c in fit.components),
            "R̂, reported": f"{fit.r_hat:.2f}",
            "R̂, 150 main pixels of the class": f"{fit.whole.r_hat:.2f}",
            "processor s": round(fit.seconds),
        }
        for fit in fits
    ]
    one = fits[0]
    text = (
        f"## {TITLES[name]}: what a class goes by\n\nPublished (figure 1): a heat map of 150 pixels for each class. Here "
        f"also for each component of the mixture that describes at least 1 % of the images. {one.chains} chains, as many "
        "sweeps of burn-in as are kept, published settings, training images that the network puts into "
        "the class; pixels by what their mean value adds to the log-odds. A share with a question mark: chains do not "
        f"agree on the component (R̂ above 1.1). Fitted on {one.machine}.\n\n"
        f"![Mean images, patterns of classes and of components](../images/dmm-men-patterns-{name}.png)"
    )
    return text, pd.DataFrame(lines)


def _at(table: pd.DataFrame, procedure: str, target: str, count: int, chosen: str) -> Any:
    is_it = (table["procedure"] == procedure) & (table["target"] == target)
    return table[is_it & (table["features"] == count) & (table["chosen"] == chosen)].iloc[0]


def _works(table: pd.DataFrame, procedure: str, target: str, count: int) -> bool:
    """Whether most images leave (or enter) the class, and the limits do not reach those of random pixels."""
    top, other = (_at(table, procedure, target, count, chosen) for chosen in ("top", "random"))
    if procedure == "nullified":
        return bool(top["rate"] < LOST and top["high"] < other["low"])
    return bool(top["rate"] > WON and top["low"] > other["high"])


def _verdicts(name: str, table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    targets = sorted(table["target"].unique(), key=int)
    lines = []
    for procedure, claim in CLAIMS.items():
        for count in (50, 100, 150):
            good = [t for t in targets if _works(table, procedure, t, count)]
            means = {
                chosen: np.mean([_at(table, procedure, t, count, chosen)["rate"] for t in targets])
                for chosen in ("top", "random")
            }
            lines.append(
                {
                    "inputs": procedure,
                    "pixels": count,
                    "in the class, top": f"{100 * means['top']:.0f} %",
                    "random": f"{100 * means['random']:.0f} %",
                    "works in": _names(name, good, len(targets)),
                    "does not in": _names(name, [t for t in targets if t not in good], len(targets)),
                    "published": claim if count == 50 else "",
                }
            )
    numbers = "8 to 10" if name == "mnist" else "11 to 13"
    text = (
        f"## {TITLES[name]}: inputs made from the patterns\n\nPublished (figures 2 and 3, and {numbers} "
        "of the supplement). *nullified*: images of the class, top pixels black; *replaced*: images of other classes, "
        "top pixels as in the class's mean; *crafted*: top pixels as in an image of the class, every other one drawn "
        "from any image; *alone*: the same, every other one black. A change works in a class where more than half of "
        "the images leave (nullified) or enter it, and the 95 % limits over bootstraps do not touch those of as many "
        "random pixels.\n\n"
        f"![Mean probability of the class against the number of pixels](../images/dmm-men-curves-{name}.png)\n\n"
        "One image of each class, drawn and not chosen, 100 pixels; in orange where the change works:\n\n"
        f"![Inputs made from patterns, and what the network says](../images/dmm-men-samples-{name}.png)"
    )
    return text, pd.DataFrame(lines)


def _names(name: str, targets: list[str], n: int) -> str:
    if not targets:
        return "none"
    return f"all {n}" if len(targets) == n else ", ".join(CLASSES[name][int(t)] for t in targets)


def _rates(name: str, table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    targets = sorted(table["target"].unique(), key=int)
    lines = []
    for target in targets:
        line: dict[str, Any] = {"class": CLASSES[name][int(target)]}
        for procedure in CLAIMS:
            for count in (50, 150):
                top, other = (_at(table, procedure, target, count, c)["rate"] for c in ("top", "random"))
                line[f"{procedure}, {count}"] = f"{100 * top:.0f} / {100 * other:.0f}"
        lines.append(line)
    return "Percent of the inputs that the network puts into the class, top / random pixels:", pd.DataFrame(
        lines
    )


def _local(name: str, line: dict[str, Any]) -> tuple[str, pd.DataFrame]:
    ways = list(line["left"][0])
    lines = [
        {
            "shown": way,
            "mean probability": f"{100 * np.mean([c[way] for c in line['left']]):.1f} %",
            "images with more than half": sum(c[way] > 0.5 for c in line["left"]),
            "of": len(line["left"]),
        }
        for way in ways
    ]
    text = (
        f"## {TITLES[name]}: single images\n\nPublished (figure 4): DMM-MEN marks the outline of each object nearly "
        "perfectly, LIME and SHAP parts of it and more of the background. Here the first ten segments of the first test "
        "image of each class from number 800 on, 512 questions for each method; below each, the probability of the "
        "network's own class when only these are kept. Ten images say nothing of who is better: "
        "[what suffices](dmm_men_local.md) has hundreds.\n\n"
        f"![Segments that each method keeps](../images/dmm-men-local-{name}.png)"
    )
    return text, pd.DataFrame(lines)
