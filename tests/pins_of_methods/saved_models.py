"""One saved model of each kind, as it was written when the pins were set: later versions must read it.

Only what does not need PyTorch is here: networks keep their weights with the same code as all others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pins_of_methods.values import pinned

import tellwhy
from tellwhy.bases import KernelBasis
from tellwhy.classifiers import (
    CrammerSingerSVM,
    KernelBasisClassifier,
    LeeLinWahbaSVM,
    OneVsRestSVM,
    TextClassifier,
    WestonWatkinsSVM,
)
from tellwhy.data.graphs import chain
from tellwhy.detectors import (
    LCCAD,
    SVDD,
    ClusterSVDD,
    Committee,
    GaussianMixture,
    KernelDensity,
    MixedMarginals,
    NearestNeighbours,
    OneClassSVM,
    PatchModel,
    PCADetector,
)
from tellwhy.explainers import (
    DMMMEN,
    AnomalyShapley,
    IntegratedGradients,
    KernelShap,
    Lime,
    LocalInsight,
    Occlusion,
    OneClassDTD,
)
from tellwhy.testing.cases import odd_rows, some_rows

FOLDER = Path(__file__).parent / "saved"
TEXTS = ["red green", "green red red", "blue sky", "sky blue blue", "red red", "blue"] * 5


@dataclass(frozen=True)
class Saved:
    """A model that is fitted, written, read again, and asked for numbers."""

    made: Callable[[], Any]
    numbers: Callable[[Any], Any]
    of_scikit_learn: bool = False  # what it holds of scikit-learn is read by the same version only

    def measured(self, model: Any) -> dict[str, Any]:
        """What is kept of the numbers that a model gives."""
        return {"numbers": pinned(np.asarray(self.numbers(model)))}


def _labels():
    rows = some_rows()
    return (rows / rows.std(axis=0)).argmax(axis=1)


def _rows(model):
    return Saved(lambda: model.fit(some_rows()[:40]), lambda m: m.outlierness(odd_rows()))


def _classes(model):
    return Saved(lambda: model.fit(some_rows(), _labels()), lambda m: m.decision_function(odd_rows()))


def _explainer(cls, **settings):
    """An explainer that learned from ordinary rows where it learns."""

    def made():
        explainer = cls(OneClassSVM().fit(some_rows()[:40]), **settings)
        return explainer.fit(some_rows()[:40]) if hasattr(explainer, "fit") else explainer

    return Saved(made, lambda m: m.explain(odd_rows()).values, of_scikit_learn=True)


def _patches():
    return PatchModel(KernelDensity(), patch_size=4).fit(np.sin(np.arange(60.0)).reshape(3, 20))


def _graph():
    return LCCAD(2, theta=0.5, gamma=1.0, random_state=0).fit(some_rows()[:40], chain(40))


SAVED = {
    "ClusterSVDD": _rows(ClusterSVDD(random_state=0)),
    "Committee": _rows(Committee()),
    "GaussianMixture": _rows(GaussianMixture(random_state=0)),
    "KernelDensity": _rows(KernelDensity()),
    "MixedMarginals": _rows(MixedMarginals()),
    "NearestNeighbours": _rows(NearestNeighbours()),
    "OneClassSVM": _rows(OneClassSVM()),
    "OneClassSVM on features": _rows(OneClassSVM(features=KernelBasis(n_features=20, random_state=0))),
    "PCADetector": _rows(PCADetector()),
    "SVDD": _rows(SVDD()),
    "LCCAD": Saved(_graph, lambda m: m.outlierness(odd_rows(), chain(12))),
    "PatchModel": Saved(_patches, lambda m: m.outlierness(np.cos(np.arange(40.0)).reshape(2, 20))),
    "KernelBasis": Saved(
        lambda: KernelBasis(n_features=20, random_state=0).fit(some_rows()),
        lambda m: m.transform(odd_rows()),
    ),
    "CrammerSingerSVM": _classes(CrammerSingerSVM(random_state=0)),
    "KernelBasisClassifier": _classes(
        KernelBasisClassifier(KernelBasis(n_features=20, random_state=0), max_epochs=3, random_state=0)
    ),
    "LeeLinWahbaSVM": _classes(LeeLinWahbaSVM(random_state=0)),
    "OneVsRestSVM": _classes(OneVsRestSVM(random_state=0)),
    "WestonWatkinsSVM": _classes(WestonWatkinsSVM(random_state=0)),
    "TextClassifier": Saved(
        lambda: TextClassifier().fit(TEXTS, ["warm", "warm", "cold", "cold", "warm", "cold"] * 5),
        lambda m: m.decision_function(TEXTS[:6]),
    ),
    "AnomalyShapley": _explainer(AnomalyShapley),
    "DMMMEN": _explainer(DMMMEN, n_sweeps=60, n_burn=30, random_state=0),
    "IntegratedGradients": _explainer(IntegratedGradients),
    "IntegratedGradients from a row": _explainer(IntegratedGradients, baseline=np.zeros(4)),
    "KernelShap": _explainer(KernelShap, random_state=0),
    "KernelShap with rows": _explainer(KernelShap, baseline=np.eye(4), random_state=0),
    "Lime": _explainer(Lime, baseline="background", random_state=0),
    "LocalInsight": _explainer(LocalInsight, random_state=0),
    "Occlusion": _explainer(Occlusion, random_state=0),
    "OneClassDTD": _explainer(OneClassDTD),
}


def place(name: str) -> Path:
    """Return the file of a saved model."""
    return FOLDER / f"{name.replace(' ', '_')}.tellwhy"


def of_saved_models():
    """What models that were saved before give, by name."""
    return {name: lambda n=name: SAVED[n].measured(tellwhy.load(place(n))) for name in SAVED}


def write():
    """Fit and write every model that is not there yet; those that are there are never written again."""
    FOLDER.mkdir(exist_ok=True)
    for name, saved in SAVED.items():
        if not place(name).exists():
            tellwhy.save(saved.made(), place(name))
