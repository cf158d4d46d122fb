"""A whole data set at once: which class is recognised beside its objects, and a group that is recognised by a mark.

Table V.1 of the thesis on generated scenes, where the truth is known: clothes lie at random places of a striped
ground, and the ground of all bags has one direction. And digits of which half of the threes carry a small mark.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from benchmarks.networks._data import FASHION, MARKED, SCENIC, SIDE, marked, pictures, scenes
from benchmarks.networks._models import WEIGHTS, Cnn, load_weights
from benchmarks.networks._pictures import draw
from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy import plot
from tellwhy.core.explanation import Explanation
from tellwhy.evaluation import box_ratios, strategies
from tellwhy.explainers import LRP
from tellwhy.workflow import image_grid

N = 1_500


def explained(model: nn.Module, X: Tensor) -> Explanation:
    """Relevance of the likeliest class."""
    return LRP(model, composite="epsilon_plus", batch_size=128).explain(X)


def on_grounds(given: argparse.Namespace) -> list[tuple[str, pd.DataFrame]]:
    """Share of relevance inside the boxes of clothes, class by class, with the network's accuracy on other grounds."""
    data = pictures("fashion", given.archive, 100)
    model = load_weights(Cnn(side=SIDE), WEIGHTS / "scenes-cnn.safetensors")
    y = data.y_test[: given.pictures]
    X, boxes = scenes(data.X_test[: given.pictures], y, 1)
    found = box_ratios(explained(model, X), boxes, y.numpy())
    table = found.by_class()
    table["class"] = [FASHION[int(k)] for k in table["class"]]
    draw(plot.box_ratios(found, names=FASHION), "network-boxes", width=900)
    rows = torch.nonzero(y == SCENIC)[:6, 0]
    grid = image_grid(model, X[rows], "lrp", labels=["bag"] * len(rows))
    draw(plot.grid(grid), "network-boxes-examples")
    with torch.no_grad():
        said = model(X).argmax(1)
        # the same bags on the grounds of another class
        moved, _ = scenes(
            data.X_test[: given.pictures][y == SCENIC], torch.zeros(int((y == SCENIC).sum())), 2
        )
        there = float((said[y == SCENIC] == SCENIC).float().mean())
        elsewhere = float((model(moved).argmax(1) == SCENIC).float().mean())
    words = (
        f"Relevance (LRP ε, z+) of {given.pictures} scenes inside the boxes of their objects, lowest ratio first; "
        "`times_area` is the share over that of an even spread. All bags lie on one kind of ground, and the network "
        f"uses it: it recognises {there:.0%} of the bags on their own ground and {elsewhere:.0%} of the same bags on "
        "the grounds of others."
    )
    return [(words, table.round(3))]


def with_marks(given: argparse.Namespace) -> list[tuple[str, pd.DataFrame]]:
    """Groups of explanations of digits, of a network trained with marks and of one trained without."""
    data = pictures("mnist", given.archive, 100)
    y = data.y_test[: given.pictures]
    X, is_marked = marked(data.X_test[: given.pictures], y, 1)
    lines = []
    for name, network, inputs in (
        ("trained with marks, marked digits", "marked-cnn", X),
        ("trained with marks, digits without", "marked-cnn", data.X_test[: given.pictures]),
        ("trained without, digits without", "mnist-cnn", data.X_test[: given.pictures]),
    ):
        explanation = explained(load_weights(Cnn(), WEIGHTS / f"{network}.safetensors"), inputs)
        found = strategies(explanation)
        lines += [_line(name, group, is_marked) for group in found.odd] or [
            {"network and digits": name, "odd group": "none"}
        ]
        if inputs is X:
            draw(plot.strategies(found, explanation), "network-strategies", width=1100)
    words = (
        f"Groups of explanations that look where others do not, of {given.pictures} digits ({int(is_marked.sum())} of the "
        f"threes marked in the corner, rows 1–3 and columns 1–4)."
    )
    return [(words, pd.DataFrame(lines).astype(object).fillna("–"))]


def _line(name: str, group: object, is_marked: np.ndarray) -> dict[str, object]:
    right = int(is_marked[group.rows].sum())
    return {
        "network and digits": name,
        "odd group": f"class {group.of}, rows {group.box[0]}–{group.box[1] - 1}, columns {group.box[2]}–{group.box[3] - 1}",
        "pictures": str(len(group.rows)),
        "of them marked": str(right),
        "marked ones found": f"{right / max(int(is_marked.sum()), 1):.0%}",
        "alike there": f"{group.alike:.2f}",
        "relevance there": f"{group.inside:.0%}",
        "in other pictures": f"{group.elsewhere:.1%}",
    }


def main() -> None:
    """Write the page and its figures."""
    given = arguments(__doc__, "archive", pictures=N)
    assert MARKED == 3
    publish(
        "network_systematic", "Networks checked on whole data sets", [*on_grounds(given), *with_marks(given)]
    )


if __name__ == "__main__":
    main()
