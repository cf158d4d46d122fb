"""Pictures of DMM-MEN on images: patterns, curves, inputs made from patterns, local explanations side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.shared.places import IMAGES
from benchmarks.surrogate._patterns import ClassFit, Pattern
from benchmarks.surrogate._tables import CLASSES, OWN, PLAIN, _pyplot

SHOWN = 150  # pixels of a pattern, as published
WORDS = {
    "nullified": "(a) own images, top pixels black",
    "replaced": "(b) other images, top pixels as the class's mean",
    "crafted": "(c) new: top pixels as in the class, others drawn",
    "alone": "(d) new: top pixels as in the class, others black",
}


class Sample(NamedTuple):
    """An input as it was made, and what the network says of it."""

    image: np.ndarray
    says: int  # class that the network puts it into
    sure: float  # probability of that class
    works: bool  # whether it does what the pattern says it should


def save(figure: Any, file: str) -> Path:
    """Write a picture with few colours: small, and as sharp as before."""
    from PIL import Image

    path = IMAGES / file
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight", pad_inches=0.05)
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)
    return path


def pattern_image(pattern: Pattern) -> np.ndarray:
    """What the top pixels add to the log-odds of the class, all others 0."""
    added = pattern.coefficients * pattern.centre
    found = np.zeros(added.size)
    top = pattern.ranking()[:SHOWN]
    found[top] = np.maximum(added.ravel()[top], 0.0)
    return found.reshape(added.shape).squeeze()


def draw_patterns(fits: Sequence[ClassFit], name: str, n_components: int = 3) -> None:
    """A column for each class: its mean image, the class's pattern, and those of its largest components."""
    n_components = min(n_components, max(len(fit.components) for fit in fits))
    labels = ["mean image", "whole class", *(f"component {j + 1}" for j in range(n_components))]
    size = (1.05 * len(fits) + 0.9, 1.2 * len(labels))
    figure, axes = _pyplot().subplots(len(labels), len(fits), figsize=size, squeeze=False)
    for column, fit in zip(axes.T, fits, strict=True):
        column[0].imshow(fit.whole.centre.squeeze(), cmap="gray_r")
        column[0].set_title(CLASSES[name][fit.target], fontsize=10)
        patterns = [fit.whole, *fit.components[:n_components]]
        for axis, pattern in zip(column[1:], patterns, strict=False):
            axis.imshow(pattern_image(pattern), cmap="Oranges")
        for axis, pattern in zip(column[2:], fit.components, strict=False):
            mark = "" if pattern.r_hat <= 1.1 else "?"
            axis.set_title(f"{100 * pattern.share:.0f} %{mark}", fontsize=8, pad=2)
        for axis in column[1 + len(patterns) :]:
            axis.set_facecolor("none")
    for row, label in zip(axes, labels, strict=True):
        row[0].set_ylabel(label, fontsize=9)
    _bare(axes)
    save(figure, f"dmm-men-patterns-{name}.png")


def _bare(axes: np.ndarray) -> None:
    """Take ticks and frames away, and what was not drawn on."""
    for axis in axes.ravel():
        axis.set_xticks([])
        axis.set_yticks([])
        for side in axis.spines.values():
            side.set_visible(False)


def draw_curves(table: pd.DataFrame, name: str) -> None:
    """Mean probability of the class against the number of features: one line per class, random pixels in grey."""
    figure, axes = _pyplot().subplots(
        1, len(WORDS), figsize=(3.1 * len(WORDS), 3.5), sharey=True, squeeze=False
    )
    colours = _pyplot().get_cmap("tab10")
    for axis, (procedure, words) in zip(axes[0], WORDS.items(), strict=True):
        mine = table[table["procedure"] == procedure]
        for target in sorted(mine["target"].unique()):
            for chosen in ("random", "top"):
                line = mine[(mine["target"] == target) & (mine["chosen"] == chosen)].sort_values("features")
                style = {"color": colours(int(target)), "linewidth": 1.8}
                if chosen == "random":
                    style = {"color": PLAIN, "linewidth": 0.7, "alpha": 0.6}
                axis.plot(line["features"], line["probability"], label=f"{chosen} {target}", **style)
        axis.set_title(words, fontsize=8.5)
        axis.set_xlabel("number of pixels", fontsize=9)
        axis.set_ylim(-0.03, 1.03)
        axis.grid(alpha=0.3)
        axis.set_xticks([50, 75, 100, 125, 150])
    axes[0][0].set_ylabel("mean probability of the class", fontsize=9)
    lines = dict(zip(*axes[0][0].get_legend_handles_labels()[::-1], strict=True))
    keys = [f"top {c}" for c in range(10) if f"top {c}" in lines] + [
        k for k in lines if k.startswith("random")
    ][:1]
    words = [CLASSES[name][int(k.split()[1])] if k.startswith("top") else "random pixels" for k in keys]
    figure.legend([lines[k] for k in keys], words, fontsize=8, ncols=11, loc="lower center", frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    save(figure, f"dmm-men-curves-{name}.png")


def draw_samples(rows: dict[str, list[Sample]], name: str) -> None:
    """A row for each kind of input, a column for each class; below each, what the network says."""
    n = len(next(iter(rows.values())))
    figure, axes = _pyplot().subplots(len(rows), n, figsize=(1.05 * n + 1.3, 1.3 * len(rows)), squeeze=False)
    for row, (words, samples) in zip(axes, rows.items(), strict=True):
        row[0].set_ylabel(words, fontsize=8)
        for axis, sample in zip(row, samples, strict=True):
            axis.imshow(sample.image.squeeze(), cmap="gray", vmin=0, vmax=1)
            colour = OWN if sample.works else PLAIN
            says = f"{CLASSES[name][sample.says]}: {100 * sample.sure:.0f} %"
            axis.set_xlabel(says, fontsize=7.5, color=colour, labelpad=2)
    for axis, words in zip(axes[0], CLASSES[name], strict=False):
        axis.set_title(words, fontsize=9)
    _bare(axes)
    figure.tight_layout(h_pad=0.3, w_pad=0.2)
    save(figure, f"dmm-men-samples-{name}.png")


def greyed(x: np.ndarray, is_kept: np.ndarray) -> np.ndarray:
    """An image (height, width, 3) whose other segments are grey."""
    shown = np.repeat(x, 3, axis=0) if len(x) == 1 else x
    return np.moveaxis(np.where(is_kept, shown, 0.5), 0, -1)


def draw_local(columns: list[dict[str, tuple[np.ndarray, float]]], file: str) -> None:
    """A column for each image: itself, and what each method keeps of it, with the probability that is left."""
    names = list(columns[0])
    size = (1.05 * len(columns) + 0.9, 1.22 * len(names))
    figure, axes = _pyplot().subplots(len(names), len(columns), figsize=size, squeeze=False)
    for column, images in zip(axes.T, columns, strict=True):
        for axis, (image, left) in zip(column, images.values(), strict=True):
            axis.imshow(image, vmin=0, vmax=1)
            axis.set_xlabel(f"{100 * left:.0f} %", fontsize=8, labelpad=1, color=OWN if left > 0.5 else PLAIN)
    for row, words in zip(axes, names, strict=True):
        row[0].set_ylabel(words, fontsize=9)
    _bare(axes)
    figure.tight_layout(h_pad=0.6, w_pad=0.2)
    save(figure, file)
