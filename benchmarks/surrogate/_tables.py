"""Tables and pictures of DMM-MEN on images, from stored results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared.places import IMAGES
from benchmarks.surrogate._work import Results
from tellwhy.explainers.surrogate.chains import BESIDE

TITLES = {"mnist": "MNIST", "fashion": "Fashion-MNIST", "cifar": "CIFAR-10"}
CLASSES = {
    "mnist": [str(c) for c in range(10)],
    "fashion": [
        "T-shirt",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "boot",
    ],
    "cifar": [
        "airplane",
        "car",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ],
}
PUBLISHED = {
    "mnist": {"DMMMEN": "99.89 / 100", "LIME": "99.84 / 99.95", "SHAP": "94.01 / 94.10"},
    "fashion": {"DMMMEN": "97.59 / 100", "LIME": "93.49 / 98.32", "SHAP": "86.03 / 90.10"},
    "cifar": {},
}
METHODS = {"DMMMEN": "DMM-MEN", "LIME": "LIME", "SHAP": "SHAP"}
PROCEDURES = ("nullified", "replaced", "crafted", "alone")
OWN, PLAIN = "#c65307", "#777777"
AGREED = 1.05  # largest R̂ of chains that agree
ALLOWED = 600.0  # processor seconds of a fit: five minutes of two cores
Parts = list[tuple[str, pd.DataFrame]]


def limits(values: np.ndarray) -> tuple[float, float]:
    """95 % limits of a mean, by bootstrap."""
    drawn = np.random.default_rng(0).integers(len(values), size=(1000, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def measured_on(lines: Sequence[dict[str, Any]]) -> str:
    return "; ".join(sorted({line["machine"] for line in lines if "machine" in line}))


def segment_tables(
    results: Results, rights: dict[str, float], sure: dict[str, np.ndarray], *, about: str
) -> Parts:
    """Keep the top segments: one line per network and method, after one of the whole images."""
    lines, places = [], []
    for name, right in rights.items():
        chunks = list(results.starting(f"local:{name}:"))
        places += chunks
        network = f"{TITLES[name]} ({100 * right:.2f} %)"
        if chunks:
            lines.append(_line(network, "whole images", sure[name], None, "–", "–"))
        for method, title in METHODS.items():
            parts = [chunk[method] for chunk in chunks if "probability" in chunk[method]]
            if not parts:
                continue
            p, a = (np.concatenate([part[of] for part in parts]) for of in ("probability", "accuracy"))
            seconds = f"{np.mean([part['seconds'] for part in parts]):.2f}"
            lines.append(_line(network, title, p, a, PUBLISHED[name].get(method, "–"), seconds))
    return [(f"{about} Measured on {measured_on(places)}.", pd.DataFrame(lines))] if lines else []


def _line(
    network: str, title: str, p: np.ndarray, a: np.ndarray | None, published: str, seconds: str
) -> dict[str, Any]:
    low, high = limits(p)
    return {
        "network": network,
        "method": title,
        "images": len(p),
        "probability %": f"{100 * p.mean():.2f} ({100 * low:.2f}, {100 * high:.2f})",
        "accuracy %": "–" if a is None else f"{100 * a.mean():.2f}",
        "published": published,
        "processor s an image": seconds,
    }


def few_kept_tables(results: Results) -> Parts:
    """CIFAR-10 with neighbours that keep few segments, beside the other methods on the same images."""
    chunks = {line["key"].rpartition(":")[2]: line for line in results.starting("few:cifar:")}
    whole = {start: results.found.get(f"local:cifar:{start}") for start in chunks}
    pairs = [(chunks[start], line) for start, line in whole.items() if line]
    if not pairs:
        return []
    rows = {"DMM-MEN, a quarter kept": [few for few, _ in pairs]}
    rows |= {title: [line[method] for _, line in pairs] for method, title in METHODS.items()}
    lines = []
    for title, parts in rows.items():
        p, a = (np.concatenate([part[of] for part in parts]) for of in ("probability", "accuracy"))
        lines.append(_line(TITLES["cifar"], title, p, a, "–", "–"))
    about = (
        "CIFAR-10 again, on some of the same images: the test keeps a fifth of the image, the neighbours above keep "
        "three quarters. With neighbours that keep a quarter (tried on 24 training images after the table above was "
        "known; a quarter of the questions):"
    )
    return [(about, pd.DataFrame(lines).drop(columns=["published", "processor s an image"]))]


def stability_tables(results: Results, names: Sequence[str]) -> Parts:
    """Agreement between seeds, by the number of questions."""
    lines = []
    for name in names:
        chunks = list(results.starting(f"stability:{name}:"))
        for questions in sorted({chunk["questions"] for chunk in chunks}):
            line: dict[str, Any] = {"images of": TITLES[name], "questions": questions}
            for method in ("DMMMEN", "LIME"):
                same = np.concatenate([chunk[method] for chunk in chunks if chunk["questions"] == questions])
                low, high = limits(same)
                line[METHODS[method]] = f"{same.mean():.3f} ({low:.3f}, {high:.3f})"
            lines.append(line)
    about = (
        "Stability: share of the ten segments ranked first that two seeds have in common (three seeds; segments that "
        "are black anyway are left out, for both methods), with 95 % limits, by the number of questions to the "
        "network. The seed draws the neighbours as well as the sampler's numbers."
    )
    return [(about, pd.DataFrame(lines))] if lines else []


def converged_tables(results: Results, *, about: str) -> Parts:
    """How far chains agree, one line per fit; whole classes before the others."""
    fits = [line for line in results.starting("") if "r_hats" in line]
    fits.sort(key=lambda line: -line["rows"] * line["pixels"] // 300_000)
    return [(about + _counted(fits), pd.DataFrame([_fit_line(line) for line in fits]))] if fits else []


def _counted(fits: Sequence[dict[str, Any]]) -> str:
    """How many fits agree in time, in words."""
    agree = [line for line in fits if line["r_hat"] <= AGREED]
    main = sum(line["r_hat_150"] <= AGREED for line in fits)
    beside = sum(line["r_hats"][BESIDE] <= AGREED for line in fits)
    in_time = sum(line["busy"] <= ALLOWED for line in agree)
    spent = sorted(line["busy"] for line in agree) or [0.0]
    return (
        f" {len(fits)} fits: R̂ is at most {AGREED} in {len(agree)} of them, in {in_time} within {ALLOWED:.0f} processor "
        f"seconds, five minutes of two cores; in {main} for all of the 150 main coefficients, in {beside} for the mean "
        f"variance. Those that agree took {spent[0]:.0f} to {spent[-1]:.0f} processor seconds, half of them at most "
        f"{np.median(spent):.0f}. Measured on {measured_on(fits)}."
    )


def _fit_line(line: dict[str, Any]) -> dict[str, Any]:
    _, name, target = line["key"].split(":")
    splits, split, merges, merged = line["moves"]
    return {
        "class": f"{TITLES[name]}: {CLASSES[name][int(target)]}",
        "images": line["rows"],
        "pixels": line["pixels"],
        "threads": line["threads"],
        "seconds": f"{line['wall']:.0f}",
        "processor s": f"{line['busy']:.0f}",
        "R̂": f"{line['r_hat']:.3f}",
        "of 150 coefficients": f"{line['r_hat_150']:.3f}",
        "of the mean variance": f"{line['r_hats'][BESIDE]:.3f}",
        "effective draws": f"{line['ess']:.0f}",
        "chains": line["ended"],
        "splits": f"{split} of {splits}",
        "merges": f"{merged} of {merges}",
        "shares of the components, %": ", ".join(
            f"{100 * share:.0f}" for share in line["shares"] if share > 0.005
        ),
    }


def fidelity_tables(results: Results, name: str, *, stem: str = "dmm-men") -> Parts:
    """Curves of all classes as a picture, their means, and the fits that they come from."""
    found = list(results.starting(f"fidelity:{name}:"))
    if not found:
        return []
    table = pd.DataFrame([record for line in found for record in line["table"]])
    draw_curves(table, name, f"{stem}-fidelity-{name}.png")
    fits = [results.found[line.get("fitted", line["key"].replace("fidelity", "global"))] for line in found]
    draw_gallery(fits, name, f"{stem}-gallery-{name}.png")
    mean = table.groupby(["procedure", "chosen", "features"])["rate"].mean().unstack("features").reset_index()
    mean.columns = [c if isinstance(c, str) else f"{c} pixels" for c in mean.columns]
    about = (
        f"{TITLES[name]}, mean over {len(found)} classes: share of inputs that the network puts into the class after "
        "the top (or random) pixels of the class were set to 0 in its own images (nullified), to the class's mean in "
        "other images (replaced), or kept from an image of the class while every other pixel takes its value in an "
        f"image drawn at random (crafted) or is 0 (alone). {found[0].get('bootstraps', 50)} bootstraps of 30 % of "
        f"{found[0].get('images', 'the')} test images. Measured on {measured_on(found)}.\n\n"
        f"![Fidelity of every class, with 95 % limits over the bootstraps](../images/{stem}-fidelity-{name}.png)"
    )
    agree = sum(line["r_hat"] <= AGREED for line in fits)
    added = (
        f"{TITLES[name]}: the fits to {sum(line['rows'] for line in fits):,} training images that the curves come from, "
        f"of which {agree} of {len(fits)} have converged (R̂ at most {AGREED}), and what they say adds to each class "
        "(mean coefficient × mean pixel).\n\n![What adds to the log-odds "
        f"of each class](../images/{stem}-gallery-{name}.png)"
    )
    return [(about, mean), (added, table_of_fits(fits))]


def table_of_fits(fits: Sequence[dict[str, Any]]) -> pd.DataFrame:
    lines = [
        {
            "class": int(line["key"].rpartition(":")[2]),
            "training images": line["rows"],
            "fit, processor s": round(line["seconds"] if "seconds" in line else line["busy"]),
            "R̂": f"{line['r_hat']:.3f}",
            "effective draws": f"{line['ess']:.0f}",
            "components": sum(share >= 0.01 for share in line["shares"]),
        }
        for line in fits
    ]
    return pd.DataFrame(lines)


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, file: str) -> None:
    figure.tight_layout()
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGES / file, dpi=110)


def draw_curves(table: pd.DataFrame, name: str, file: str) -> None:
    """One panel per procedure and class: top pixels against random ones."""
    targets = sorted(table["target"].unique(), key=int)
    size = (1.35 * len(targets) + 0.6, 5.6)
    figure, axes = _pyplot().subplots(
        len(PROCEDURES), len(targets), figsize=size, sharex=True, sharey=True, squeeze=False
    )
    for row, procedure in zip(axes, PROCEDURES, strict=True):
        row[0].set_ylabel(procedure)
        for axis, target in zip(row, targets, strict=True):
            mine = table[(table["procedure"] == procedure) & (table["target"] == target)]
            for chosen, colour in (("top", OWN), ("random", PLAIN)):
                line = mine[mine["chosen"] == chosen].sort_values("features")
                axis.plot(line["features"], line["rate"], color=colour, label=f"{chosen} pixels")
                axis.fill_between(
                    line["features"], line["low"], line["high"], color=colour, alpha=0.25, linewidth=0
                )
            axis.set_ylim(-0.03, 1.03)
            axis.grid(alpha=0.3)
    for axis, target in zip(axes[0], targets, strict=True):
        axis.set_title(CLASSES[name][int(target)], fontsize=10)
    for axis in axes[-1]:
        axis.set_xticks([50, 100, 150])
    figure.legend(
        *axes[0][0].get_legend_handles_labels(), fontsize=9, ncols=2, loc="lower right", frameon=False
    )
    figure.supxlabel("number of pixels", fontsize=10)
    figure.supylabel("put into the class", fontsize=10)
    _save(figure, file)


def draw_gallery(fits: Sequence[dict[str, Any]], name: str, file: str) -> None:
    """Mean image of each class, and mean coefficient × mean pixel: red adds to the log-odds, blue takes away."""
    shape = (3, 32, 32) if name == "cifar" else (1, 28, 28)
    figure, axes = _pyplot().subplots(2, len(fits), figsize=(1.2 * len(fits), 2.9), squeeze=False)
    for column, line in zip(axes.T, fits, strict=True):
        centre, slopes = (np.array(line[of]).reshape(shape) for of in ("centre", "coefficients"))
        added = (slopes * centre).sum(axis=0)
        high = np.quantile(np.abs(added), 0.998)
        column[0].imshow(centre.mean(axis=0), cmap="gray_r" if len(centre) == 1 else "gray")
        column[1].imshow(added, cmap="RdBu_r", vmin=-high, vmax=high)
        column[0].set_title(CLASSES[name][int(line["key"].rpartition(":")[2])], fontsize=10)
        for axis in column:
            axis.set_axis_off()
    _save(figure, file)
