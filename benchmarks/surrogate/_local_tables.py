"""Tables of local explanations, from stored results: keep-k, remove-k, paired differences, stability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared.results import publish
from benchmarks.surrogate._tables import TITLES, limits, measured_on
from benchmarks.surrogate._work import Results

COUNTS = (5, 10, 20)
BY_VALUES = "@values"  # ends the name of a method whose segments are ranked by their values alone
NAMES = {
    "sufficiency": "LocalInsight, sufficiency",
    "necessity": "LocalInsight, necessity",
    "sufficiency@values": "LocalInsight, sufficiency, by values",
    "necessity@values": "LocalInsight, necessity, by values",
    "mixture@values": "LocalInsight, sufficiency, six components, by values",
    "published": "DMM-MEN, three quarters kept",
    "LIME": "LIME",
    "SHAP": "SHAP",
}
PUBLISHED = {"mnist": (99.89, 100.0), "fashion": (97.59, 100.0)}  # probability and accuracy, 20 kept
PAIRS = {
    "sufficiency": ("keep", ("LIME", "SHAP")),
    "necessity": ("remove", ("LIME", "SHAP")),
    "sufficiency@values": ("keep", ("LIME", "SHAP")),
    "necessity@values": ("remove", ("LIME", "SHAP")),
    "mixture@values": ("keep", ("LIME", "sufficiency@values")),
}


def joined(results: Results, name: str, method: str) -> dict[str, Any]:
    """Numbers of all images of a set by a method, by the start of their chunk."""
    asked = method.removesuffix(BY_VALUES)
    lines = {line["key"].rpartition(":")[2]: line for line in results.starting(f"local:{name}:{asked}:")}
    if asked == method:
        return lines
    return {start: {**line, **line["by_values"]} for start, line in lines.items() if "by_values" in line}


def together(chunks: dict[str, Any], starts: Sequence[str], way: str, of: str) -> np.ndarray:
    return np.concatenate([np.array(chunks[start][way][of], dtype=float) for start in starts])


def cell(values: np.ndarray) -> str:
    low, high = limits(values)
    return f"{100 * values.mean():.2f} ({100 * low:.2f}, {100 * high:.2f})"


def kept_table(results: Results, sets: Sequence[str], way: str) -> pd.DataFrame:
    """One line per set and method: probability and decision, for the own and the true class."""
    lines = []
    for name in sets:
        for method, title in NAMES.items():
            chunks = joined(results, name, method)
            if not chunks:
                continue
            line: dict[str, Any] = {"set": TITLES[name], "method": title}
            starts = sorted(chunks)
            line["images"] = len(together(chunks, starts, f"{way}:5", "own"))
            for count in COUNTS:
                key = f"{way}:{count}"
                line[f"{count}: own class, probability %"] = cell(together(chunks, starts, key, "own"))
                right = together(chunks, starts, key, "own_right")
                line[f"{count}: own class, %"] = f"{100 * right.mean():.2f}"
                true = together(chunks, starts, key, "true_right")
                line[f"{count}: true class, %"] = f"{100 * true.mean():.2f}"
            lines.append(line)
    return pd.DataFrame(lines)


def paired_table(results: Results, sets: Sequence[str]) -> pd.DataFrame:
    """Differences to LIME and SHAP on the same images, with 95 % limits."""
    lines = []
    for name in sets:
        for mine, (way, others) in PAIRS.items():
            for other in others:
                own, theirs = joined(results, name, mine), joined(results, name, other)
                starts = sorted(set(own) & set(theirs))
                if not starts:
                    continue
                line: dict[str, Any] = {"set": TITLES[name], "difference": f"{NAMES[mine]} − {NAMES[other]}"}
                for count in COUNTS:
                    pair = [together(c, starts, f"{way}:{count}", "own") for c in (own, theirs)]
                    line |= {"images": len(pair[0]), f"{count} segments": cell(pair[0] - pair[1])}
                lines.append(line)
    return pd.DataFrame(lines)


def published_table(results: Results, sets: Sequence[str]) -> pd.DataFrame:
    """Twenty kept, against the published figures, and what the network's own accuracy allows."""
    lines = []
    for name in sets:
        chunks = joined(results, name, "sufficiency")
        if not chunks or name not in PUBLISHED:
            continue
        starts = sorted(chunks)
        own = together(chunks, starts, "keep:20", "own")
        stays = 100 * together(chunks, starts, "keep:20", "own_right").mean()
        true = 100 * together(chunks, starts, "keep:20", "true_right").mean()
        right = 100 * np.concatenate([chunks[start]["whole_right"] for start in starts]).mean()
        shown = np.concatenate([chunks[start]["shown"] for start in starts])
        whole = np.concatenate([chunks[start]["whole"] for start in starts])
        most = 100 * np.where(shown <= 20, whole, 1.0).mean()
        probability, accuracy = PUBLISHED[name]
        met = 100 * own.mean() >= probability and stays >= accuracy
        lines.append(
            {
                "set": TITLES[name],
                "published": f"{probability} / {accuracy:.0f}",
                "own class, probability %": cell(own),
                "most that it can be, %": f"{most:.2f}",
                "own class, %": f"{stays:.2f}",
                "met for the own class": "yes" if met else "no",
                "true class, %": f"{true:.2f}",
                "true class, whole images, %": f"{right:.2f}",
                "most that the true class can be, %": f"{min(100.0, right + 100 - stays):.2f}",
            }
        )
    return pd.DataFrame(lines)


def image_table(results: Results, sets: Sequence[str]) -> pd.DataFrame:
    """What the images are: segments that are not black, how sure the network is of the whole image."""
    lines = []
    for name in sets:
        chunks = joined(results, name, "sufficiency")
        if not chunks or f"network:{name}" not in results:
            continue
        shown = np.concatenate([line["shown"] for line in chunks.values()])
        whole = np.concatenate([line["whole"] for line in chunks.values()])
        right = np.concatenate([line["whole_right"] for line in chunks.values()])
        holds = np.concatenate([line["chosen_holds"] for line in chunks.values()])
        asked = np.concatenate([line["n_questions"] for line in chunks.values()])
        low, high = np.quantile(shown, [0.1, 0.9])
        lines.append(
            {
                "set": TITLES[name],
                "network, test accuracy %": f"{100 * results.found[f'network:{name}']['right']:.2f}",
                "segments not black, median (10 %, 90 %)": f"{np.median(shown):.0f} ({low:.0f}, {high:.0f})",
                "whole images: own class, probability %": f"{100 * whole.mean():.2f}",
                "whole images: true class, %": f"{100 * right.mean():.2f}",
                "chosen set suffices, %": f"{100 * holds.mean():.1f}",
                "questions asked, mean": f"{asked.mean():.0f}",
            }
        )
    return pd.DataFrame(lines)


def seconds_table(results: Results, sets: Sequence[str]) -> pd.DataFrame:
    lines = []
    for name in sets:
        for method, title in NAMES.items():
            chunks = joined(results, name, method)
            if chunks:
                wall = np.median([line["wall"] for line in chunks.values()])
                busy = np.median([line["busy"] for line in chunks.values()])
                lines.append(
                    {"set": TITLES[name], "method": title, "wall s an image": wall, "processor s": busy}
                )
    return pd.DataFrame(lines)


STEADY = {
    ("sufficiency", "place"): "LocalInsight, order",
    ("sufficiency", "values"): "LocalInsight, values",
    ("drawn", "place"): "LocalInsight, questions drawn anew, order",
    ("drawn", "values"): "LocalInsight, questions drawn anew, values",
    ("LIME", "values"): "LIME",
}


def stability_table(results: Results, sets: Sequence[str]) -> pd.DataFrame:
    lines = []
    for name in sets:
        line: dict[str, Any] = {"set": TITLES[name]}
        for (method, by), title in STEADY.items():
            found = [chunk[by] for chunk in results.starting(f"stability:{name}:{method}:")]
            if found:
                same = np.concatenate(found)
                low, high = limits(same)
                line |= {"images": len(same), title: f"{same.mean():.3f} ({low:.3f}, {high:.3f})"}
        if len(line) > 1:
            lines.append(line)
    return pd.DataFrame(lines)


def alone_table(results: Results, sets: Sequence[str]) -> pd.DataFrame:
    lines = []
    for name in sets:
        for line in results.starting(f"alone:{name}"):
            row: dict[str, Any] = {
                "set": TITLES[name],
                "images": len(line["LIME"]),
                "questions": line["questions"],
            }
            for method in ("LocalInsight", "LIME"):
                row[f"{method}, median s (slowest)"] = (
                    f"{np.median(line[method]):.2f} ({max(line[method]):.2f})"
                )
                if busy := line.get(f"{method}, busy"):
                    row[f"{method}, processor s"] = f"{np.median(busy):.2f}"
            lines.append(row)
    return pd.DataFrame(lines)


def report(results: Results, sets: Sequence[str], *, note: str = "") -> None:
    """Write the page."""
    stored = list(results.starting("local:"))
    asked = {line["questions"] for line in results.starting("network:")}
    parts = [
        (
            "Images, networks (trained by this benchmark) and the mean number of questions after which LocalInsight "
            f"stopped, of {' or '.join(map(str, sorted(asked)))} allowed to every method. Measured on "
            f"{measured_on(stored)}. {note}".strip(),
            image_table(results, sets),
        ),
        (
            "Sufficiency: only the top 5, 10 or 20 segments (of about 50) are kept, the rest is black. Mean "
            "probability of the network's own class (95 % bootstrap limits), how often it stays the decision, and how "
            "often the decision is the true category. LocalInsight: by the order that it gives (`place`) or, where "
            "said, by its values. Test images from number 800 on; all choices were made on training images.",
            kept_table(results, sets, "keep"),
        ),
        (
            "Necessity: the same after the top segments were made black: lower is better.",
            kept_table(results, sets, "remove"),
        ),
        (
            "The same images by two methods: mean difference of the probability of the own class, in points, with "
            "95 % limits. Sufficiency: above 0 is better; necessity: below 0 is better.",
            paired_table(results, sets),
        ),
        (
            "Twenty kept, against the published figures. Of an image with 20 segments or fewer that are not black, "
            "these are the whole image, of which no order can change the probability; with 1 for all other images, it "
            "is the most that can be. An explanation is of the network's own decision: where the "
            "decision stays, it is as right as it was. So the true class cannot be found more often than in the whole "
            "images, but by as much as decisions changed.",
            published_table(results, sets),
        ),
        ("Seconds an image, many processes at once.", seconds_table(results, sets)),
        (
            "One image after the other on two cores, no GPU, two chains in two threads.",
            alone_table(results, sets),
        ),
        (
            "Stability at the default 4,096 questions: share of the ten segments ranked first that two seeds have in "
            "common (five seeds, all pairs; black segments left out), with 95 % limits over images. LocalInsight draws "
            "the same questions whatever the seed, which moves the sampler's draws only; with questions drawn anew "
            '(`design="drawn"`) the seed draws both, as it does the questions of LIME.',
            stability_table(results, sets),
        ),
    ]
    publish(
        "dmm_men_local", "What suffices, what is necessary", [p for p in parts if len(p[1])], peers=("torch",)
    )
