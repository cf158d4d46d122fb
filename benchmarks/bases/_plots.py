"""Pictures of what kernel_bases.py measured, after the figures of the thesis' chapter IV."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmarks.shared.places import IMAGES

COLOURS = {
    "random": "#7f7f7f",
    "unsupervised": "#1f77b4",
    "supervised": "#ff7f0e",
    "discriminative": "#d62728",
}
NAMES = {"mnist": "MNIST", "letter": "Letter", "usps": "USPS", "adult": "Adult", "covtype": "CoverType"}
NAMES |= {"madelon": "Madelon", "cifar10": "CIFAR-10"}
BAND = 4  # sets side by side
SHORT_STEPS = 0.001  # learning rate of the dashed curves


def draw_all(lines: pd.DataFrame) -> list[str]:
    """Draw every figure there are results for; the names of the files."""
    import matplotlib as mpl

    mpl.use("Agg")
    drawn, main = [], lines[lines.part.isin(["main", "wide"])]
    for kernel in ("gaussian", "arccos"):
        own = main[main.kernel == kernel]
        if len(own):
            drawn.append(draw_curves(own, f"kernel-bases-{kernel}.png"))
    if len(lines[lines.part.isin(["transfer", "optimisation", "blocks", "deep"])]):
        drawn.append(draw_variants(lines, "kernel-bases-variants.png"))
    return drawn


def draw_curves(lines: pd.DataFrame, file: str) -> str:
    """Figures IV.1 and A.1: each set has a panel of kernel errors and, below, one of accuracies; four sets a band."""
    import matplotlib.pyplot as plt

    names = [name for name in NAMES if name in set(lines.set)]
    bands = -(-(len(names) + 1) // BAND)
    figure, axes = plt.subplots(
        2 * bands, BAND, figsize=(2.7 * BAND, 4.1 * bands), squeeze=False, layout="constrained"
    )
    places = [axes[2 * band : 2 * band + 2, column] for band in range(bands) for column in range(BAND)]
    for place, name in zip(places, names, strict=False):
        own = lines[lines.set == name]
        _curves(place[0], own, "error")
        _curves(place[1], own, "accuracy")
        place[0].set(title=NAMES[name], yscale="log", ylabel="kernel error", xlim=(7, 45_000))
        place[1].set(xlabel="features", ylabel="accuracy, %", xlim=(7, 45_000))
    for place in places[len(names) :]:
        place[0].set_axis_off()
        place[1].set_axis_off()
    places[-1][0].legend(*places[0][0].get_legend_handles_labels(), frameon=False, loc="center", fontsize=10)
    return _saved(figure, file)


def _curves(axis: Any, lines: pd.DataFrame, value: str, style: str = "o-", suffix: str = "") -> None:
    for basis, colour in COLOURS.items():
        own = lines[lines.basis == basis].groupby("features")[value].mean().dropna()
        factor = 1 if value in ("error", "epochs") else 100
        if len(own):
            label = basis + suffix
            axis.plot(own.index, factor * own, style, color=colour, ms=3, lw=1.2, label=label)
    axis.set_xscale("log")
    axis.tick_params(which="both", labelsize=7)
    axis.spines[["top", "right"]].set_visible(False)


def draw_variants(lines: pd.DataFrame, file: str) -> str:
    """Figures IV.2 to IV.5: transfer, deep kernels, structured blocks, epochs."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(13, 6.4), squeeze=False, layout="constrained")
    _draw_transfer(axes[:, 0], lines[lines.part == "transfer"])
    _draw_deep(axes[:, 1], lines[lines.part.isin(["main", "deep"]) & (lines.set == "mnist")])
    _draw_blocks(axes[:, 2], lines[lines.part == "blocks"])
    _draw_epochs(axes[:, 3], lines[(lines.part == "optimisation") & (lines.set == "mnist")])
    for axis in axes[1]:
        axis.set_xlabel("features")
    return _saved(figure, file)


def _draw_transfer(axes: Any, lines: pd.DataFrame) -> None:
    """Bases trained in short steps are dashed."""
    for axis, value in zip(axes, ("accuracy", "transferred"), strict=True):
        _curves(axis, lines[lines.rate.isin([0, lines.rate.max()])], value)
        _curves(axis, lines[lines.rate == SHORT_STEPS], value, "s--", ", short steps")
    axes[0].set(title="MNIST, five classes", ylabel="accuracy, %")
    axes[1].set(title="the other five, same basis", ylabel="accuracy, %")
    axes[0].legend(fontsize=7, frameon=False, loc="lower right")


def _draw_deep(axes: Any, lines: pd.DataFrame) -> None:
    for axis, basis in zip(axes, ("unsupervised", "supervised"), strict=True):
        for kernel, style in (("arccos", "o-"), ("arccos2", "s--"), ("arccos3", "^:")):
            own = lines[(lines.kernel == kernel) & (lines.basis == basis) & (lines.features <= 1_000)]
            _curves(axis, own, "accuracy", style, f", {kernel}")
        axis.set(title=f"MNIST, {basis}", ylabel="accuracy, %")
        axis.legend(fontsize=7, frameon=False, loc="lower right")


def _draw_blocks(axes: Any, lines: pd.DataFrame) -> None:
    names = [name for name in ("covtype", "mnist") if name in set(lines.set)]
    for n_blocks, style in ((1, "o-"), (2, "s--"), (3, "^:")):
        own = lines[lines.n_blocks == n_blocks]
        errors = own[(own.set == names[0]) & own.basis.isin(["random", "unsupervised"])]
        _curves(axes[0], errors, "error", style, f", {n_blocks}")
        if n_blocks != 2:  # much like three
            few = own[(own.set == names[-1]) & (own.features <= 1_000)]
            _curves(axes[1], few, "accuracy", style, f", {n_blocks}")
    axes[0].set(title=f"{NAMES[names[0]]}, 1 to 3 Hadamard blocks", ylabel="kernel error", yscale="log")
    axes[1].set(title=f"{NAMES[names[-1]]}, 1 block (full) and 3 (dotted)", ylabel="accuracy, %")
    axes[0].legend(fontsize=7, frameon=False, loc="upper right")


def _draw_epochs(axes: Any, lines: pd.DataFrame) -> None:
    for axis, value, label in zip(axes, ("epochs", "accuracy"), ("epochs", "accuracy, %"), strict=True):
        for kernel, name, style in (("gaussian", ", sin and cos", "o-"), ("arccos", ", ReLU", "s--")):
            _curves(axis, lines[lines.kernel == kernel], value, style, name)
        axis.set(title="MNIST, end to end", ylabel=label)
        axis.legend(fontsize=7, frameon=False)


def _saved(figure: Any, file: str) -> str:
    for axis in figure.axes:
        axis.title.set_fontsize(9)
        axis.xaxis.label.set_fontsize(8)
        axis.yaxis.label.set_fontsize(8)
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGES / file, dpi=120)
    return file
