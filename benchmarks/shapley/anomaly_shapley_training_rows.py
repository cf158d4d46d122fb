"""Which settings of the detectors make attributions point at moved cells, judged on training rows alone.

Some rows of the training and validation sets of Takeishi and Kawahara (TMLR 2023) are held out from fitting, from early
stopping and from every choice of a detector; one cell of each is moved as in the paper's table 2. No test row is used:
this is what the defaults of `VAE` and the choice of `regularisation` were settled on.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.shapley._detectors_and_methods import SETS, Measured, split
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.detectors import VAE, GaussianMixture
from tellwhy.evaluation import inject_anomalies, localisation
from tellwhy.explainers import AnomalyShapley, Marginal

NETWORKS: dict[str, dict[str, Any]] = {
    "plain, bound": {"bypass": False, "criterion": "bound"},
    "with linear maps, bound": {"criterion": "bound"},
    "with linear maps, localisation (default)": {},
}
STRENGTHS: tuple[float | str, ...] = (1e-6, 1e-3, 1e-2, 0.1, "auto")
MOVED, TRIES, FEW_TRIES = 60, 2, 5

Figures = dict[str, float]


class Held(NamedTuple):
    """Rows to fit to, and others with one cell moved."""

    rows: np.ndarray
    moved: np.ndarray
    truth: np.ndarray


@cache
def held(name: str) -> Held:
    data = split(name)
    both = np.vstack([data.train, data.valid])
    order = np.random.default_rng(7).permutation(len(both))
    n = min(MOVED, len(both) // 5)
    binary = np.full(both.shape[1], data.is_binary)
    draws = [
        inject_anomalies(both[order[:n]], 1, random_state=100 + i, scale=1.0, binary=binary)
        for i in range(TRIES if n == MOVED else FEW_TRIES)
    ]
    return Held(both[order[n:]], np.vstack([d.X for d in draws]), np.vstack([d.truth for d in draws]))


def mrr(explainer: Any, data: Held) -> float:
    made = explainer.fit(data.rows) if hasattr(explainer, "fit") else explainer
    return localisation(made.explain(data.moved), data.truth).mrr


def network(name: str, kind: str) -> Figures:
    data = held(name)
    likelihood = "bernoulli" if split(name).is_binary else "gaussian"
    model = VAE("reconstruction", likelihood, device="cpu", **NETWORKS[kind]).fit(data.rows)
    found = {"MARG": mrr(Marginal(model), data), "VAE-r": mrr(AnomalyShapley(model), data)}
    model.set_params(score="elbo")
    sizes = {"latent": float(model.latent_), "hidden": float(model.hidden_), "epochs": float(model.n_epochs_)}
    return {**found, "VAE-e": mrr(AnomalyShapley(model), data), **sizes}


def mixture(name: str, strength: float | str) -> Figures:
    data = held(name)
    model = GaussianMixture(regularisation=strength).fit(data.rows)
    figures = {"components": float(model.n_components_), "regularisation": model.regularisation_}
    return {"mrr": mrr(AnomalyShapley(model), data), **figures}


def networks(measured: Measured) -> pd.DataFrame:
    lines = []
    for name in SETS:
        for kind in NETWORKS:
            if found := measured.get("network", name, kind):
                sizes = {key: int(found[key]) for key in ("latent", "hidden", "epochs")}
                rates = {key: f"{found[key]:.2f}" for key in ("MARG", "VAE-r", "VAE-e")}
                lines.append({"set": name, "network": kind, **sizes, **rates})
    return pd.DataFrame(lines)


def mixtures(measured: Measured) -> pd.DataFrame:
    lines = []
    for name in SETS:
        found = [measured.get("mixture", name, s) for s in STRENGTHS]
        if any(found):
            cells = [f"{f['mrr']:.2f} (K = {f['components']:.0f})" if f else "—" for f in found]
            taken = f"{found[-1]['regularisation']:g}" if found[-1] else "—"
            named = (s if isinstance(s, str) else f"{s:g}" for s in STRENGTHS)
            lines.append({"set": name, **dict(zip(named, cells, strict=True)), "'auto' takes": taken})
    return pd.DataFrame(lines)


def write(measured: Measured, note: str) -> None:
    """Write docs/results/anomaly_shapley_training_rows.md from what was measured so far."""
    parts = [
        (
            "Variational autoencoders: mean reciprocal rank of the one cell that was moved, by the squared errors of "
            "cells (MARG) and by ASH for both scores; sizes chosen, passes trained." + note,
            networks(measured),
        ),
        (
            "Gaussian mixtures: mean reciprocal rank of ASH by `regularisation`, K by the likelihood of rows held out.",
            mixtures(measured),
        ),
    ]
    title = "Anomaly Shapley: settings of the detectors, judged on training rows"
    publish("anomaly_shapley_training_rows", title, [part for part in parts if len(part[1])])


def command_line() -> argparse.Namespace:
    return arguments(
        __doc__,
        "note",
        "only_page",
        sets=",".join(SETS),
        only=option(str, choices=["network", "mixture"]),
        kind=option(int, "one kind of network, by its place"),
        cache=Path(tempfile.gettempdir()) / "tellwhy_training_rows",
    )


if __name__ == "__main__":
    asked = command_line()
    kept = Measured(asked.cache)
    for name in asked.sets.split(",") if not asked.only_page else ():
        for strength in STRENGTHS if asked.only != "network" else ():
            kept.take(partial(mixture, name, strength), "mixture", name, strength)
        for place, kind in enumerate(NETWORKS if asked.only != "mixture" else ()):
            if asked.kind in (None, place):
                kept.take(partial(network, name, kind), "network", name, kind)
    write(kept, f" {asked.note}" if asked.note else "")
