"""Global fits of image classes for the figures: what each class, and each component of it, goes by."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared.results import machine
from benchmarks.surrogate._work import images, probabilities, trained
from tellwhy.explainers import DMMMEN, PRESETS, Insight


@dataclass(frozen=True, eq=False)
class Pattern:
    """What the network goes by in a class as a whole, or in one component; enough for `fidelity`."""

    target: str
    share: float
    coefficients: np.ndarray
    centre: np.ndarray
    r_hat: float

    def ranking(self, baseline: float = 0.0) -> np.ndarray:
        """Pixels by what their mean value adds to the log-odds, the largest first."""
        return np.argsort(-(self.coefficients * (self.centre - baseline)).ravel(), kind="stable")


@dataclass(frozen=True, eq=False)
class ClassFit:
    """A fitted class: its pattern as a whole, those of its components, and how it was fitted."""

    target: int
    whole: Pattern
    components: list[Pattern]
    rows: int
    pixels: int
    sweeps: int
    chains: int
    seconds: float
    r_hat: float
    ess: float
    machine: str


def rows_of_class(name: str, model: Any, target: int, most: int) -> np.ndarray:
    """Training images that the network puts into a class."""
    X = images(name)[0]
    ask = probabilities(model)
    found: list[np.ndarray] = []
    for part in np.array_split(
        X, 60
    ):  # no further than needed: the network's answers take longer than the fit
        found.append(part[ask(part).argmax(axis=1) == target])
        if sum(map(len, found)) >= most:
            break
    return np.concatenate(found)[:most].astype(np.float64)


def fit_class(
    name: str, cache: str, target: int, rows: int, pixels: int | None, sweeps: int, chains: int
) -> dict[str, Any]:
    """Fit one class with the published setting, and keep it in a file."""
    import warnings

    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    model = trained(name, Path(cache))[0]
    X = rows_of_class(name, model, target, rows)
    preset = PRESETS["mnist" if name == "mnist" else "fashion-mnist"]
    explainer = DMMMEN(
        model,
        features=pixels,
        scale="common",
        n_sweeps=sweeps,
        n_burn=sweeps,
        n_chains=chains,
        n_jobs=1,
        **preset,
    )
    begin = time.process_time()
    explainer.fit(X)
    seconds = time.process_time() - begin
    agreement = explainer.convergence_[str(target)]
    whole = explainer.insights(150, per="target")[0]
    parts = explainer.insights(150)
    used = len(explainer.surrogates_[target].columns.used)
    said = {"rows": len(X), "pixels": used, "sweeps": sweeps, "chains": chains, "seconds": seconds}
    said |= {"r_hat": agreement.worst_r_hat, "ess": agreement.least_ess}
    path = file_of(cache, name, target)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, machine=machine(), **said, **_arrays([whole, *parts]))
    return {**said, "shares": [round(part.share, 3) for part in parts]}


def _arrays(insights: list[Insight]) -> dict[str, np.ndarray]:
    """The class as a whole first, then its components."""
    return {
        "coefficients": np.array([i.coefficients for i in insights], dtype=np.float32),
        "centre": np.array([i.centre for i in insights], dtype=np.float32),
        "share": np.array([i.share for i in insights]),
        "r_hats": np.array([i.r_hat for i in insights]),
    }


def file_of(cache: str | Path, name: str, target: int) -> Path:
    """Where a fitted class is kept."""
    return Path(cache) / "patterns" / f"{name}_{target}.npz"


def read_fit(cache: Path, name: str, target: int) -> ClassFit:
    """A fitted class from its file."""
    with np.load(file_of(cache, name, target), allow_pickle=False) as stored:
        found = dict(stored)
    patterns = [
        Pattern(str(target), float(share), np.float64(coefficients), np.float64(centre), float(r_hat))
        for share, coefficients, centre, r_hat in zip(
            found["share"], found["coefficients"], found["centre"], found["r_hats"], strict=True
        )
    ]
    counts = {key: int(found[key]) for key in ("rows", "pixels", "sweeps", "chains")}
    numbers = {key: float(found[key]) for key in ("seconds", "r_hat", "ess")}
    return ClassFit(target, patterns[0], patterns[1:], machine=str(found["machine"]), **counts, **numbers)
