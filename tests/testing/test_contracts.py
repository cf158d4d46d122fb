"""Every registered detector and explainer keeps its contract, and the contract can be broken."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import tellwhy.explainers  # noqa: F401  (fills the registry)
from tellwhy.bases import KernelBasis
from tellwhy.core.registry import cards
from tellwhy.detectors import SVDD, VAE, GaussianMixture, KernelDensity, NearestNeighbours, OneClassSVM
from tellwhy.detectors.base import RememberingDetector
from tellwhy.explainers import ScoreExplainer
from tellwhy.explainers.base import Attribution
from tellwhy.testing import check_detector, check_explainer

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


def names(check):
    return check[0] if isinstance(check, tuple) else repr(check)


@pytest.mark.parametrize(
    ("detector", "check"),
    [(d, c) for d in DETECTORS for c in check_detector(d, generate_only=True)],
    ids=names,
)
def test_detector(detector, check):
    check[1]()


@pytest.mark.parametrize(
    ("card", "check"),
    [(card, c) for card in cards("explainer") for c in check_explainer(card.cls, generate_only=True)],
    ids=lambda v: v.name if hasattr(v, "name") else names(v),
)
def test_explainer(card, check):
    check[1]()


def expected_failures(estimator):
    """Checks of scikit-learn that a detector fails on purpose, with the reason."""
    if isinstance(estimator, RememberingDetector):
        reason = "fit_predict judges each training row without itself; predict does not know that it is one"
        return {"check_outliers_fit_predict": reason}
    if isinstance(estimator, VAE):
        reason = "scikit-learn takes the parameter 'score', which says what is scored, for a method"
        names = ("check_fit_score_takes_y", "check_n_features_in_after_fitting", "check_pipeline_consistency")
        return dict.fromkeys(names, reason)
    return {}


@parametrize_with_checks(DETECTORS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_card_is_complete():
    for role in ("detector", "explainer"):
        assert cards(role)
        for card in cards(role):
            assert all([card.needs, card.cost, card.exactness, card.citation, card.cls.__doc__]), card


class FlatDetector(NearestNeighbours):
    """Breaks the contract: farther rows do not score higher."""

    def outlierness(self, X):
        return np.minimum(super().outlierness(X), 1.0)


class LeakyExplainer(ScoreExplainer):
    """Breaks the contract: values depend on the other rows of the batch."""

    def _attribute(self, rows):
        return Attribution(rows.X - rows.X.mean(axis=0), rows.score.value(rows.X))


def test_broken_promises_are_noticed():
    with pytest.raises(AssertionError, match="farther rows"):
        check_detector(FlatDetector())
    with pytest.raises(AssertionError):
        check_explainer(LeakyExplainer)
