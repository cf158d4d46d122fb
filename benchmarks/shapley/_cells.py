"""What is measured for the tables of Anomaly Shapley: one function for each kind of cell."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

from benchmarks.shapley._detectors_and_methods import (
    COMPONENTS,
    WIDE,
    explainer,
    fitted,
    injected,
    methods_for,
    split,
)
from tellwhy.detectors import VAE, GaussianMixture, MixedMarginals
from tellwhy.evaluation import localisation
from tellwhy.explainers import AnomalyShapley, CommitteeShares, KernelShap, Marginal

Figures = dict[str, float]


class Asked(NamedTuple):
    """What to measure, and where fitted networks are kept."""

    tables: set[int]
    pairs: list[tuple[str, str]]
    tries: int | None
    rows: int
    models: Path
    methods: list[str]
    kinds: tuple[bool, ...] = (False, True)  # is_plain: our detectors, those of the paper
    device: str = "cpu"  # of networks with more than 12 columns

    def methods_for(self, detector: str) -> list[str]:
        """The methods asked for that apply to a detector."""
        return [m for m in methods_for(detector) if m in self.methods]

    def model(self, name: str, detector: str, *, is_plain: bool = False) -> Any:
        """A fitted detector; a wide network where it is quickest."""
        found = fitted(name, detector, self.models, is_plain=is_plain)
        return found.set_params(device=self.device) if detector != "GMM" and name in WIDE else found


def located(made: Any, X: np.ndarray, truth: np.ndarray, repeated: np.ndarray | None = None) -> Figures:
    """How well the explanations of some rows point at the truth, by signed values, and seconds per row."""
    start = time.perf_counter()
    explanation = made.explain(X)
    seconds = (time.perf_counter() - start) / len(X)
    found = localisation(explanation, truth)
    figures = {
        "mrr": found.mrr,
        "hits": found.hits,
        "auroc": found.auroc,
        "seconds": seconds,
        "rows": float(len(X)),
    }
    if repeated is not None:  # columns where most rows share one value, and the others
        is_repeated = (truth & repeated).any(axis=1)
        figures["mrr_repeats"] = float(found.reciprocal_ranks[is_repeated].mean())
        figures["mrr_others"] = float(found.reciprocal_ranks[~is_repeated].mean())
    if explanation.stderr is not None:
        largest = np.abs(explanation.values).max(axis=1)
        moved = largest > 0  # a row that is a minimum of the score among its neighbours has values of 0
        figures["noise"] = float(np.median(explanation.stderr.max(axis=1)[moved] / largest[moved]))
    return figures


def synthetic(
    asked: Asked, name: str, detector: str, method: str, d_anom: int, *, is_plain: bool = False
) -> Figures:
    made = explainer(
        method, asked.model(name, detector, is_plain=is_plain), split(name).train, is_plain=is_plain
    )
    X, truth = injected(name, d_anom, asked.tries, asked.rows)
    return located(made, X, truth, repeats(name) if name == "arrhythmia" else None)


def repeats(name: str) -> np.ndarray:
    """Mask of the columns where more than four fifths of the training rows share one value."""
    train = split(name).train
    return np.array(
        [np.unique(column, return_counts=True)[1].max() > 0.8 * len(column) for column in train.T]
    )


def local(asked: Asked, name: str, detector: str, characteristic: str, *, is_plain: bool = False) -> Figures:
    model = asked.model(name, detector, is_plain=is_plain)
    weight = {"gamma": 0.01} if is_plain else {}
    made = AnomalyShapley(model, characteristic=characteristic, **weight).fit(split(name).train)
    made.explain(injected(name, 1)[0][:2])  # what is compiled once
    return located(made, *injected(name, 1))


def with_gamma(asked: Asked, name: str, gamma: float | str, *, is_plain: bool = False) -> Figures:
    used = split(name).train.shape[1] / 100 if gamma == "d/100" else gamma
    made = AnomalyShapley(asked.model(name, "GMM", is_plain=is_plain), gamma=used).fit(split(name).train)
    return {**located(made, *injected(name, 1)), "gamma": made.gamma_}


def chosen(asked: Asked, name: str) -> Figures:
    """What was chosen for the mixture of the other tables."""
    model = asked.model(name, "GMM")
    return {"regularisation": model.regularisation_, "components": float(model.n_components_)}


def mixed(name: str) -> Figures:
    """The detector of repeated values, explained by its own shares; and how well it tells the labelled anomalies."""
    data = split(name)
    model = MixedMarginals().fit(np.vstack([data.train, data.valid]))
    labels = np.arange(len(data.normal) + len(data.anomalous)) >= len(data.normal)
    scores = model.outlierness(np.vstack([data.normal, data.anomalous]))
    found = located(CommitteeShares(model), *injected(name, 1))
    return {**found, "detects": float(roc_auc_score(labels, scores)), "repeats": float(repeats(name).mean())}


def regularised(name: str, regularisation: float) -> Figures:
    data = split(name)
    candidates = [GaussianMixture(k, regularisation=regularisation).fit(data.train) for k in COMPONENTS]
    model = min(candidates, key=lambda m: float(m.outlierness(data.valid).mean()))
    found = located(AnomalyShapley(model).fit(data.train), *injected(name, 1))
    return {**found, "components": float(model.n_components_)}


def candidate(asked: Asked, name: str, latent: float, hidden: float, seed: int) -> Figures:
    """A plain VAE of one size: how well it tells the labelled anomalies, and how its explanations locate moved cells."""
    data = split(name)
    d = data.train.shape[1]
    likelihood = "bernoulli" if data.is_binary else "gaussian"
    sizes = {"latent": round(latent * d), "hidden": round(hidden * d), "random_state": seed}
    settings = {"bypass": False, "criterion": "bound", "device": "cpu"}
    model = VAE("elbo", likelihood, **sizes, **settings).fit(np.vstack([data.train, data.valid]))
    model.set_params(device=asked.device)
    X, truth = injected(name, 1, asked.tries, asked.rows)
    tested = np.vstack([data.normal, data.anomalous])
    labels = np.arange(len(tested)) >= len(data.normal)
    figures: Figures = {"bound": min(loss for *_, loss in model.validation_losses_)}
    for score in ("elbo", "reconstruction"):
        model.set_params(score=score)
        figures[f"detects {score}"] = float(roc_auc_score(labels, model.outlierness(tested)))
        made = explainer("ASH", model, data.train, is_plain=True)
        figures[f"ASH {score}"] = localisation(made.explain(X), truth).mrr
    return figures | {"MARG": localisation(Marginal(model).explain(X), truth).mrr}


def smote(minority: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n rows between random minority rows and one of their 5 nearest minority rows (Chawla et al., 2002)."""
    squares = ((minority[:, None] - minority) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    nearest = np.argsort(squares, axis=1)[:, :5]
    rows = rng.integers(len(minority), size=n)
    others = minority[nearest[rows, rng.integers(nearest.shape[1], size=n)]]
    return minority[rows] + rng.random((n, 1)) * (others - minority[rows])


def decision_value(model: SVC) -> Callable[[np.ndarray], np.ndarray]:
    """The decision value by matrix products, many times faster than row by row."""
    points, weights, gamma = model.support_vectors_, model.dual_coef_[0], model._gamma
    squares = (points**2).sum(axis=1)

    def value(X: np.ndarray) -> np.ndarray:
        parts = np.array_split(X, max(1, len(X) * len(points) // 10**7))
        gaps = ((Z**2).sum(axis=1)[:, None] + squares - 2 * Z @ points.T for Z in parts)
        return np.concatenate([np.exp(-gamma * gap) @ weights for gap in gaps]) + model.intercept_[0]

    return value


@cache
def classifier_values(name: str, models: Path) -> np.ndarray:
    """|Kernel SHAP values| of the anomalous test rows, for the decision value of a classifier that knows the labels."""
    place = models / f"{name}_reference.npy"
    if place.exists():
        return np.asarray(np.load(place))
    data = split(name)
    normal = np.vstack([data.train, data.valid, data.normal])
    more = smote(data.anomalous, len(normal) - len(data.anomalous), np.random.default_rng(0))
    X = np.vstack([normal, data.anomalous, more])
    start = time.perf_counter()
    model = SVC().fit(X, np.arange(len(X)) >= len(normal))
    print(
        name,
        "classifier",
        len(model.support_vectors_),
        f"support vectors, {time.perf_counter() - start:.0f} s",
    )
    values = np.abs(
        KernelShap(decision_value(model), baseline="kmeans").fit(normal).explain(data.anomalous).values
    )
    print(name, f"reference: {time.perf_counter() - start:.0f} s", flush=True)
    models.mkdir(parents=True, exist_ok=True)
    np.save(place, values)
    return np.asarray(values)


def reference(name: str, models: Path) -> tuple[np.ndarray, np.ndarray]:
    """Anomalous rows whose top feature, for the classifier, counts twice the second; and that feature."""
    values = classifier_values(name, models)
    ordered = np.sort(values, axis=1)
    clear = ordered[:, -1] >= 2 * ordered[:, -2]
    return split(name).anomalous[clear], np.arange(values.shape[1]) == values[clear].argmax(axis=1)[:, None]


def real(asked: Asked, name: str, detector: str, method: str, *, is_plain: bool = False) -> Figures:
    made = explainer(
        method, asked.model(name, detector, is_plain=is_plain), split(name).train, is_plain=is_plain
    )
    return located(made, *reference(name, asked.models))
