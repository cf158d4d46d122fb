"""Detectors that the contract is run over, and models for explainers that their role's model is nothing for."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from tellwhy.bases import KernelBasis
from tellwhy.core.registry import cards
from tellwhy.detectors import SVDD, VAE, Committee, GaussianMixture, KernelDensity, OneClassSVM, PatchModel
from tellwhy.explainers import OneClassDTD
from tellwhy.scoring import as_prediction
from tellwhy.testing.cases import CASES

BRIEF = {"latent": 1, "hidden": 4, "max_epochs": 8}  # networks are trained for a moment only
NETWORKS = {"VAE": BRIEF, "DAGMM": BRIEF}
DETECTORS = [
    *(card.cls() for card in cards("detector") if card.name not in NETWORKS),
    *(
        card.cls(**NETWORKS[card.name])
        for card in cards("detector")
        if card.name in NETWORKS and find_spec("torch")
    ),
    *([VAE("elbo", **BRIEF)] if find_spec("torch") else []),
    GaussianMixture(2, covariance="diag"),
    OneClassSVM("exponential", q=1),
    OneClassSVM("student_t"),
    OneClassSVM(solver="smo"),
    OneClassSVM(features=KernelBasis(n_features=400, random_state=0)),
    SVDD("linear"),
    KernelDensity("student_t", q=1),
]


class Squares(GradientBoostingRegressor):
    """Boosted trees that learn how far rows are out; an isolation forest depends on the order of columns."""

    def fit(self, X, y=None):
        scaled = np.asarray(X) / np.std(np.asarray(X), axis=0)
        return super().fit(X, (scaled**2).sum(axis=1))


def boosted(X):
    return Squares(n_estimators=10, max_depth=2, min_samples_leaf=15, random_state=0).fit(X)


class Weighted(LinearRegression):
    """A linear model whose weights are the columns' own."""

    def fit(self, X, y=None):
        return super().fit(X, np.asarray(X) @ (1.0 / np.std(np.asarray(X), axis=0)))


def with_maps(X):
    """A network of pictures, for an explainer that weights the maps of a convolution."""
    import torch

    torch.manual_seed(0)
    parts = torch.nn.Conv2d(1, 3, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(432, 2)
    return torch.nn.Sequential(*parts).double().eval()


def behind_itself(X):
    """The usual network, whose first layer gives its rows as they are."""
    import torch

    network = CASES["network explainer"].fit(X)
    return torch.nn.Sequential(torch.nn.Identity(), *network).eval()


def pictures(scale):
    return scale * np.random.default_rng(0).normal(size=(12, 1, 12, 12))


PATCHES = replace(
    CASES["patch explainer"],
    fit=lambda waves: PatchModel(KernelDensity(), patch_size=4).fit(waves),
    scores=lambda model, waves: model.outlierness(waves),
    settings={},
)

# Explainers that the model of their role's case is nothing for.
OWN_CASES = {
    "CommitteeShares": replace(CASES["explainer"], fit=lambda X: Committee().fit(X)),
    "GradCAM": replace(
        CASES["network explainer"],
        fit=with_maps,
        ordinary=lambda: pictures(1.0),
        odd=lambda: pictures(2.0),
        has_columns=False,
    ),
    "GuidedGradCAM": replace(
        CASES["network explainer"],
        fit=with_maps,
        ordinary=lambda: pictures(1.0),
        odd=lambda: pictures(2.0),
        has_columns=False,
    ),
    "LayerAttribution": replace(
        CASES["network explainer"], fit=behind_itself, settings={"layer": "0"}, keeps_rows=False
    ),
    "LinearShapley": replace(
        CASES["explainer"],
        fit=lambda X: Weighted().fit(X),
        given=as_prediction,
        scores=lambda model, X: model.predict(X),
    ),
    "Noise": replace(
        CASES["ensemble"],
        given=OneClassDTD,
        settings={"noise": 1e-9},
        keeps_rows=True,
    ),
    "PatchRelevance": PATCHES,
    "Sobel": PATCHES,
    "TreeShapley": replace(CASES["explainer"], fit=boosted, scores=lambda model, X: model.predict(X)),
}
