"""Figures of the chapter on networks, on networks that were trained here: methods, settings, views, grids.

The figures of the thesis show VGG16 and others on ImageNet, whose pictures and weights are not at hand; these are on
digits and clothes, with the same rows and columns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.networks._data import FASHION, pictures, queries
from benchmarks.networks._models import NETWORKS, WEIGHTS, Cnn, TextTransformer, load_weights
from benchmarks.networks._pictures import draw
from benchmarks.networks.network_flipping import methods
from benchmarks.shared.arguments import arguments, option
from tellwhy import plot
from tellwhy.explainers import LRP, IntegratedGradients, PatternAttribution, SmoothGrad
from tellwhy.kinds.networks.grids import Make
from tellwhy.workflow import architecture_grid, batch_norm_grid, image_grid, neuron_grid, sweep_grid

SHOWN = [
    "Input × gradient", "Integrated gradients", "Gradient", "SmoothGrad, squared", "DeconvNet", "Guided backprop",
    "Deep Taylor", "LRP ε", "LRP z+", "LRP preset A, flat", "LRP preset B, flat", "PatternNet", "PatternAttribution",
]  # fmt: skip
NOISES = [0.02, 0.05, 0.1, 0.2, 0.4, 0.8]


_MADE: dict[tuple[int, str], Any] = {}


class _Aimed:
    """A method of the tables, aimed at one output."""

    def __init__(self, model: nn.Module, target: object, name: str, rows: torch.Tensor):
        known = (id(model), name)
        if known not in _MADE:  # patterns are learned once
            _MADE[known] = methods(is_text=False)[name](model, rows[:300])
        self.explainer = _MADE[known]
        self.explainer.target = target

    def explain(self, X: object) -> object:
        """Explain the output."""
        return self.explainer.explain(X)


def aimed(names: list[str], rows: torch.Tensor) -> dict[str, Make]:
    """Methods of the tables as a grid takes them."""
    made: dict[str, Make] = {
        name: lambda m, target, name=name: _Aimed(m, target, name, rows) for name in names
    }
    if "Integrated gradients" in made:  # its target belongs to the score that it is made for
        made["Integrated gradients"] = lambda m, target: IntegratedGradients(m, target=target)
    return made


def main() -> None:
    """Draw all figures, or some."""
    given = arguments(__doc__, "archive", "texts", only=option(list(FIGURES), choices=list(FIGURES)))
    for name in given.only:
        print(FIGURES[name](given), flush=True)


def _digits(given: argparse.Namespace) -> tuple[nn.Module, object]:
    return load_weights(Cnn(), WEIGHTS / "mnist-cnn.safetensors"), pictures("mnist", given.archive, 1000)


def _clothes(given: argparse.Namespace) -> tuple[dict[str, nn.Module], object]:
    made = {
        name: load_weights(make(), WEIGHTS / f"fashion-{name}.safetensors") for name, make in NETWORKS.items()
    }
    return made, pictures("fashion", given.archive, 1000)


def methods_figure(given: argparse.Namespace) -> Path:
    """Figure V.1: one network, all methods."""
    model, data = _digits(given)
    grid = image_grid(model, data.X_test[[0, 4]], aimed(SHOWN, data.X), labels=["a seven", "a four"])
    return draw(plot.grid(grid), "network-methods")


def settings_figure(given: argparse.Namespace) -> Path:
    """Figure V.5: SmoothGrad's noise, and the reference of integrated gradients from black to white."""
    models, data = _clothes(given)
    model = models["cnn"]

    def smooth(post: str) -> Callable[[int], SmoothGrad]:
        return lambda k: SmoothGrad(model, noise=NOISES[k], postprocess=post, n_samples=25)

    def integrated(k: int) -> IntegratedGradients:
        return IntegratedGradients(model, baseline=np.full((1, 28, 28), k / (len(NOISES) - 1)))

    rows = {
        "SmoothGrad, absolute": smooth("abs"),
        "SmoothGrad, squared": smooth("square"),
        "Integrated gradients": integrated,
    }
    names = [f"noise {noise:g} / grey {k / (len(NOISES) - 1):.1f}" for k, noise in enumerate(NOISES)]
    grid = sweep_grid(rows, range(len(NOISES)), data.X_test[2], names=names)
    return draw(plot.grid(grid), "network-settings")


def views_figure(given: argparse.Namespace) -> Path:
    """Figure V.6: six views of one explanation."""
    models, data = _clothes(given)
    explanation = PatternAttribution(models["cnn"]).fit(data.X).explain(data.X_test[:1])
    return draw(plot.six_views(explanation), "network-views", width=1_000)


def neurons_figure(given: argparse.Namespace) -> Path:
    """Figure V.7: a digit that is taken for another one, explained for several outputs."""
    model, data = _digits(given)
    with torch.no_grad():
        said = model(data.X_test).argmax(1)
    wrong = torch.nonzero((said != data.y_test) & (data.y_test == 3))[0]
    at = int(wrong[0])
    outputs = [int(said[at]), 3, *[k for k in range(10) if k not in (3, int(said[at]))][:3]]
    names = [f"as a {k}" for k in range(10)]
    chosen = [name for name in SHOWN if name not in ("SmoothGrad, squared", "LRP z+")]
    grid = neuron_grid(model, data.X_test[at], outputs, methods=aimed(chosen, data.X), names=names)
    return draw(plot.grid(grid), "network-neurons")


def images_figure(given: argparse.Namespace) -> Path:
    """Figure V.8: pictures against methods."""
    models, data = _clothes(given)
    with torch.no_grad():
        said = models["resnet"](data.X_test[:200]).argmax(1)
    rows = [0, 1, 2, 8, int(torch.nonzero(said != data.y_test[:200])[0])]
    labels = [f"{FASHION[int(data.y_test[k])]}: {FASHION[int(said[k])]}" for k in rows]
    chosen = [name for name in SHOWN if not name.startswith("Pattern")]
    return draw(
        plot.grid(image_grid(models["resnet"], data.X_test[rows], aimed(chosen, data.X), labels=labels)),
        "network-images",
    )


def batch_norm_figure(given: argparse.Namespace) -> Path:
    """Figure V.9: treatments of batch norm in three architectures."""
    models, data = _clothes(given)
    normed = {name: model for name, model in models.items() if name != "cnn"}
    return draw(plot.grid(batch_norm_grid(normed, data.X_test[0]), root=True), "network-batch-norm")


def architectures_figure(given: argparse.Namespace) -> Path:
    """Figure V.10: architectures against methods."""
    models, data = _clothes(given)
    return draw(
        plot.grid(architecture_grid(models, data.X_test[0], aimed(SHOWN, data.X))), "network-architectures"
    )


def text_figure(given: argparse.Namespace) -> Path:
    """Words of a query that a transformer reads."""
    asked = queries(given.texts)
    model = TextTransformer(len(asked.vocabulary), len(asked.classes))
    load_weights(model, WEIGHTS / "clinc-transformer.safetensors")
    row = next(k for k, words in enumerate(asked.texts) if {"my", "card", "bank"} <= set(words))
    words = asked.texts[row]
    explanation = LRP(model, attention="detached").explain(asked.split.X_test[row : row + 1, : len(words)])
    figure = plot.text(explanation, words=words)
    said = asked.classes[int(explanation.extras["output"][0])].replace("_", " ")
    figure.update_layout(title_text=f"Why the query is about “{said}”")
    return draw(figure, "network-text", width=1_000)


FIGURES = {
    "methods": methods_figure,
    "settings": settings_figure,
    "views": views_figure,
    "neurons": neurons_figure,
    "images": images_figure,
    "batch-norm": batch_norm_figure,
    "architectures": architectures_figure,
    "text": text_figure,
}

if __name__ == "__main__":
    main()
