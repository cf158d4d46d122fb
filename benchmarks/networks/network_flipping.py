"""Which methods name the regions that carry a network's output: perturbation of pictures and of queries.

Regions are painted over in the order of each explanation, most relevant first; the area below the curve of the
output (1 = untouched, 0 = all painted over) is small where the named regions carry it. Random orders stand beside.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor, nn

from benchmarks.networks._data import pictures, queries
from benchmarks.networks._models import NETWORKS, WEIGHTS, Cnn, TextTransformer, load_weights
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy import explainers as ex
from tellwhy.core.errors import TellwhyError
from tellwhy.core.explanation import Explanation
from tellwhy.evaluation import region_flipping
from tellwhy.scoring import NetworkOutput

N = 500  # pictures
WORDS = 9  # of each query
DRAWS = 2_000  # of the bootstrap
RANDOM = "Random order"
UNKNOWN = 1.0  # number of the word that stands for all unknown ones
FILLS = {"pictures": ("zero", "blur"), "queries": ("unknown word",)}
Make = Callable[[nn.Module, Tensor], Any]


def _score(model: nn.Module, *, is_text: bool = False) -> NetworkOutput:
    score = NetworkOutput(model, batch_size=4096)
    score.has_levels = is_text
    return score


def methods(is_text: bool) -> dict[str, Make]:
    """Explainers by the names that tables and figures have; each takes the network and rows to learn from."""
    made: dict[str, Make] = {
        "Gradient": lambda m, _: ex.Gradient(m),
        "SmoothGrad, squared": lambda m, _: ex.SmoothGrad(
            m, postprocess="square", n_samples=25, batch_size=256
        ),
        "Input × gradient": lambda m, _: ex.InputTimesGradient(m),
        "Integrated gradients": lambda m, _: ex.IntegratedGradients(m, batch_size=256),
        "LRP ε": lambda m, _: ex.LRP(m),
        "LRP γ = .25": lambda m, _: ex.LRP(m, rule="gamma", rule_params={"gamma": 0.25}),
    }
    if is_text:
        made.pop("SmoothGrad, squared")  # noise on numbers of words means nothing
        made["LRP ε, attention detached"] = lambda m, _: ex.LRP(m, attention="detached")
        made["Occlusion, one word"] = lambda m, _: ex.Occlusion(_score(m, is_text=True), baseline=UNKNOWN)
        made["LIME, every set of words"] = lambda m, _: ex.Lime(
            _score(m, is_text=True), n_samples=2**WORDS, baseline=UNKNOWN
        )
        return made
    return made | {
        "Occlusion, 4 × 4": lambda m, _: ex.Occlusion(_score(m), patch_size=4, baseline=0.0),
        "LIME, 500 samples": lambda m, _: ex.Lime(_score(m), n_samples=500, baseline=0.0),
        "DeconvNet": lambda m, _: ex.DeconvNet(m),
        "Guided backprop": lambda m, _: ex.GuidedBackprop(m),
        "Excitation backprop": lambda m, _: ex.ExcitationBackprop(m),
        "Deep Taylor": lambda m, _: ex.DeepTaylor(m, low=0.0, high=1.0),
        "LRP z+": lambda m, _: ex.LRP(m, rule="z_plus"),
        "LRP α2β1": lambda m, _: ex.LRP(m, rule="alpha_beta"),
        "LRP ε, z+": lambda m, _: ex.LRP(m, composite="epsilon_plus"),
        "LRP preset A": lambda m, _: ex.LRP(m, composite="preset_a"),
        "LRP preset A, flat": lambda m, _: ex.LRP(m, composite="preset_a_flat"),
        "LRP preset B, flat": lambda m, _: ex.LRP(m, composite="preset_b_flat"),
        "PatternNet": lambda m, rows: ex.PatternNet(m).fit(rows),
        "PatternAttribution": lambda m, rows: ex.PatternAttribution(m).fit(rows),
    }


def judged(
    network: nn.Module, X: Tensor, rows: Tensor, device: str, known: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Areas of every method on some rows, one after the other; of a method that refuses the network, its words."""
    network = network.to(device)
    is_text = not X.is_floating_point()
    chance: dict[str, list[float]] = {}
    wanted = {name: make for name, make in methods(is_text).items() if name not in known}
    for name, make in wanted.items():
        started = time.perf_counter()
        try:
            explainer = make(network, rows.to(device))
            is_of_scores = isinstance(explainer, (ex.Occlusion, ex.Lime))
            found = explainer.explain(np.asarray(X) if is_text or is_of_scores else X.to(device))
        except TellwhyError as error:
            yield {"method": name, "refused": str(error)[:300]}
            continue
        line = {"method": name, "kind": found.kind, "left": _left(found), "areas": {}}
        line["seconds"] = time.perf_counter() - started
        for fill in FILLS["queries" if is_text else "pictures"]:
            flipped = _flipped(found, network, X, fill, n_random=0 if fill in chance or known else 5)
            line["areas"][fill] = np.round(flipped.areas, 5).tolist()
            if flipped.random is not None:
                chance[fill] = np.round(flipped.random.areas, 5).tolist()
        yield line
    if not known:
        yield {"method": RANDOM, "kind": "", "left": None, "areas": chance, "seconds": 0.0}


def _flipped(found: Explanation, network: nn.Module, X: Tensor, fill: str, *, n_random: int) -> Any:
    how: dict[str, Any] = {"n_random": n_random, "batch_size": 2048}
    if X.is_floating_point():
        return region_flipping(found, network, patch_size=4, baseline=fill, **how)
    score = NetworkOutput(network, np.asarray(found.extras["output"]), batch_size=2048)
    score.has_levels = True
    return region_flipping(
        found, score, patch_size=1, axes=(0,), baseline=np.full(X.shape[1:], UNKNOWN), **how
    )


def _left(found: Explanation) -> float | None:
    """Median share of the output that no input got."""
    if found.residual is None:
        return None
    return float(np.median(np.abs(found.residual) / np.abs(found.scores - found.base_values)))


def measure(given: argparse.Namespace, made: dict[str, Any]) -> None:
    """Areas of all methods on all networks that are not there yet; what is there so far is kept on the way."""
    for name, model, X, rows in _cases(given):
        lines = made["networks"].setdefault(name, [])
        for line in judged(model, X, rows, given.device, [line["method"] for line in lines]):
            lines.append(line)
            areas = {fill: round(float(np.nanmean(a)), 3) for fill, a in line.get("areas", {}).items()}
            print(
                name, line["method"], areas or line["refused"], round(line.get("seconds", 0.0), 2), flush=True
            )
            if given.save:
                given.save.write_text(json.dumps(made) + "\n")


def _cases(given: argparse.Namespace) -> Iterator[tuple[str, nn.Module, Tensor, Tensor]]:
    """Networks by name, with the inputs to explain and rows to learn from."""
    made = {"mnist-cnn": Cnn, "fashion-cnn": Cnn, "fashion-resnet": NETWORKS["resnet"]}
    for name, network in made.items():
        split = pictures(name.partition("-")[0], given.archive)
        model = load_weights(network(), given.weights / f"{name}.safetensors")
        yield name, model, split.X_test[: given.pictures], split.X[:2000]
    asked = queries(given.texts)
    chosen = [k for k, words in enumerate(asked.texts) if len(words) == WORDS]
    model = TextTransformer(len(asked.vocabulary), len(asked.classes))
    load_weights(model, given.weights / "clinc-transformer.safetensors")
    X = asked.split.X_test[chosen][: given.pictures, :WORDS]
    yield "clinc-transformer", model, X, X


def interval(values: np.ndarray) -> str:
    """Median with a 95 % bootstrap interval over inputs: where an output hardly falls at all, areas are huge."""
    known = values[np.isfinite(values)]
    draws = np.random.default_rng(0).integers(0, len(known), size=(DRAWS, len(known)))
    low, high = np.quantile(np.median(known[draws], axis=1), [0.025, 0.975])
    return f"{np.median(known):.3f} [{low:.3f}, {high:.3f}]"


def table(lines: list[dict[str, Any]]) -> pd.DataFrame:
    """One line per method, the smallest area of the first fill-in first."""
    chance = next(line for line in lines if line["method"] == RANDOM)
    random = {fill: np.asarray(areas, dtype=float) for fill, areas in chance["areas"].items()}
    shown = []
    for line in lines:
        if "refused" in line:
            continue
        areas = {fill: np.asarray(a, dtype=float) for fill, a in line["areas"].items()}
        row = {"method": line["method"], "values are": line["kind"] or "–"}
        row |= {f"area, {fill}": interval(a) for fill, a in areas.items()}
        first = next(iter(areas))
        row["below random order"] = "–" if line is chance else interval(random[first] - areas[first])
        row["left over"] = "–" if line["left"] is None else f"{100 * line['left']:.1f} %"
        shown.append((np.nanmedian(areas[first]), row))
    return pd.DataFrame([row for _, row in sorted(shown, key=lambda pair: pair[0])])


def parts(found: dict[str, Any], trained: dict[str, Any]) -> list[tuple[str, pd.DataFrame]]:
    """The page: how good the networks are, then a table for each."""
    scores = pd.DataFrame(trained)
    scores["accuracy"] = [f"{100 * a:.2f} %" for a in scores["accuracy"]]
    said = (
        "The networks, trained by `benchmarks/networks/network_training.py`; their weights lie in "
        "`benchmarks/networks/weights`."
    )
    if str(found.get("device")).startswith("cuda"):
        said += " Areas of pictures were measured on an NVIDIA H200 (those of LRP ε, z+ and of the queries on one core)."
    made = [(said, scores)]
    for name, lines in found["networks"].items():
        first = next(line for line in lines if "areas" in line)
        n = len(next(iter(first["areas"].values())))
        what = (
            "queries of nine words, one word at a time"
            if "clinc" in name
            else "test pictures, regions of 4 × 4 pixels"
        )
        words = f"**{name}**: {n} {what}. Median area below the curve with 95 % intervals over inputs; smaller is better."
        refused = [f"{line['method']}: {line['refused']}" for line in lines if "refused" in line]
        words += " Refused: " + " ".join(refused) if refused else ""
        made.append((words, table(lines)))
    return made


def main() -> None:
    """Measure, or read what was measured, and write the page."""
    given = arguments(
        __doc__,
        "device",
        "archive",
        "texts",
        "save",
        weights=WEIGHTS,
        pictures=N,
        kept=option(Path, "what was measured before, perhaps elsewhere"),
    )
    found = json.loads(given.kept.read_text()) if given.kept else {"networks": {}}
    if given.save or not given.kept:
        measure(given, found)
    trained = json.loads((given.weights / "networks.json").read_text())
    publish("network_flipping", "Perturbation of trained networks", parts(found, trained))


if __name__ == "__main__":
    main()
