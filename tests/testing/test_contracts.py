"""Every registered detector and explainer keeps its contract, and the contract can be broken."""

import inspect
from dataclasses import replace
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from testing.own_cases import DETECTORS, OWN_CASES

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import real
from tellwhy.core.registry import EXPLAINER_ROLES, ROLES, cards, list_explainers
from tellwhy.detectors import VAE, ClusterSVDD, Committee, NearestNeighbours
from tellwhy.detectors.base import RememberingDetector
from tellwhy.explainers import (
    BackgroundExplainer,
    Ensemble,
    LatentClassDTD,
    LinearRelevance,
    OneClassDTD,
    PatchDTD,
)
from tellwhy.explainers.rows import Attribution
from tellwhy.testing import check_detector, check_explainer
from tellwhy.testing.cases import CASES


def names(check):
    return check[0] if isinstance(check, tuple) else repr(check)


@pytest.mark.parametrize(
    ("detector", "check"),
    [(d, c) for d in DETECTORS for c in check_detector(d, generate_only=True)],
    ids=names,
)
def test_detector(detector, check):
    check[1]()


EXPLAINERS = [c for c in list_explainers() if c.role != "network explainer" or find_spec("torch")]


@pytest.mark.parametrize(
    ("card", "check"),
    [
        (card, check)
        for card in EXPLAINERS
        for check in check_explainer(
            card.cls, role=card.role, case=OWN_CASES.get(card.name), generate_only=True
        )
    ],
    ids=lambda v: v.name if hasattr(v, "name") else names(v),
)
def test_explainer(card, check):
    check[1]()


def test_every_role_has_a_case_and_a_class_that_runs_through_it():
    assert set(CASES) == set(EXPLAINER_ROLES)
    roles = {card.role for card in list_explainers()}
    assert roles == set(EXPLAINER_ROLES)


def test_the_role_of_a_registered_class_is_known():
    trials = {}
    for cls in (OneClassDTD, LinearRelevance, PatchDTD, Ensemble, LatentClassDTD):
        name, check = next(check_explainer(cls, generate_only=True))
        trials[cls.__name__] = inspect.getclosurevars(check).nonlocals["trial"].case
        assert name == "is_an_explainer"
    assert trials["OneClassDTD"] is CASES["explainer"]
    assert trials["LinearRelevance"] is CASES["classifier explainer"]
    assert trials["PatchDTD"] is CASES["patch explainer"]
    assert trials["Ensemble"] is CASES["ensemble"]
    assert trials["LatentClassDTD"] is CASES["graph explainer"]


def expected_failures(estimator):
    """Checks of scikit-learn that a detector fails on purpose, with the reason."""
    expected = {}
    if hasattr(estimator, "contamination") and not isinstance(estimator, (ClusterSVDD, Committee)):
        reason = "contamination counts training rows that are scored as if they were new"
        expected["check_outliers_fit_predict"] = reason
    if isinstance(estimator, VAE):
        reason = "scikit-learn takes the parameter 'score', which says what is scored, for a method"
        names = ("check_fit_score_takes_y", "check_n_features_in_after_fitting", "check_pipeline_consistency")
        expected |= dict.fromkeys(names, reason)
    return expected


@pytest.mark.parametrize("detector", [d for d in DETECTORS if hasattr(d, "contamination")], ids=repr)
def test_contamination_is_the_share_of_training_rows_above_the_threshold(detector):
    rows = np.random.default_rng(0).normal(size=(100, 3))
    fitted = clone(detector).set_params(contamination=0.2)
    found = fitted.fit_predict(rows)
    assert (fitted.training_scores_ > fitted.threshold_).sum() == 20
    assert set(found) == {-1, 1}
    if not isinstance(detector, RememberingDetector):  # which judge a training row without itself
        np.testing.assert_array_equal(found, fitted.predict(rows))


@parametrize_with_checks(DETECTORS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_card_is_complete():
    for role in ROLES:
        if role == "network explainer" and not find_spec("torch"):
            continue
        assert cards(role)
        for card in cards(role):
            assert all([card.needs, card.cost, card.exactness, card.citation, card.cls.__doc__]), card


class FlatDetector(NearestNeighbours):
    """Breaks the contract: farther rows do not score higher."""

    def outlierness(self, X):
        return np.minimum(super().outlierness(X), 1.0)


class Plain(BackgroundExplainer):
    """Keeps the contract: differences to the mean of the background rows."""

    _parameters: ClassVar = {"scale": real(0, 9)}

    def __init__(self, model, *, scale=1.0):
        super().__init__(model)
        self.scale = scale

    def _fit(self, X):
        self.mean_ = self.rows(X).X.mean(axis=0)

    def _attribute(self, rows):
        self._check_fitted("mean_")
        return Attribution(self.scale * (rows.X - self.mean_) ** 2, rows.scores())


class Leaky(Plain):
    def _attribute(self, rows):
        return Attribution(rows.X - rows.X.mean(axis=0), rows.scores())


class Undeclared(Plain):
    def __init__(self, model, *, scale=1.0, power=2):
        super().__init__(model, scale=scale)
        self.power = power


class OtherScores(Plain):
    def _attribute(self, rows):
        return replace(super()._attribute(rows), scores=rows.scores() + 1e-6)


class ByPlace(Plain):
    def _attribute(self, rows):
        return Attribution(rows.X * np.arange(rows.X.shape[1]), rows.scores())


class Forgetful(Plain):
    def fit(self, X):
        super().fit(X)


class Silent(Plain):
    def _attribute(self, rows):
        if "mean_" not in vars(self):
            raise InvalidInput("something is missing here")
        return super()._attribute(rows)


class Unchecked(Plain):
    def explain(self, X):
        wanted, self.scale = self.scale, 1.0
        try:
            return super().explain(X)
        finally:
            self.scale = wanted


class Meddling(Plain):
    def _attribute(self, rows):
        self.model.threshold_ += 1.0
        return super()._attribute(rows)


class Overwriting(Plain):
    def _attribute(self, rows):
        found = super()._attribute(rows)
        rows.X[0, 0] += 1.0
        return found


class Random(Plain):
    def _attribute(self, rows):
        return Attribution(np.random.default_rng().random(rows.X.shape), rows.scores())


class Overflowing(Plain):
    def _attribute(self, rows):
        return Attribution(np.where(np.abs(rows.X) > 1e5, np.inf, rows.X), rows.scores())


class Nameless(Plain):
    def explain(self, X):
        return replace(super().explain(X), feature_names=None)


class Lenient(Plain):
    def explain(self, X):
        X = np.asarray(X)
        return super().explain(np.nan_to_num(X) if X.dtype.kind == "f" else X)


def failing_checks(explainer):
    failed = []
    for name, check in check_explainer(explainer, generate_only=True):
        try:
            check()
        except (AssertionError, ValueError, TypeError, AttributeError):
            failed.append(name)
    return failed


def test_an_explainer_that_keeps_its_promises_passes():
    assert failing_checks(Plain) == []


@pytest.mark.parametrize(
    ("broken", "noticed_by"),
    [
        (Leaky, "rows_are_explained_one_by_one"),
        (Undeclared, "is_an_explainer"),
        (OtherScores, "result_is_an_explanation_of_the_rows"),
        (ByPlace, "columns_are_interchangeable"),
        (Forgetful, "learning_comes_first"),
        (Silent, "learning_comes_first"),
        (Unchecked, "wrong_parameters_are_refused"),
        (Meddling, "nothing_of_the_users_is_modified"),
        (Overwriting, "nothing_of_the_users_is_modified"),
        (Random, "same_input_gives_same_bits"),
        (Overflowing, "far_rows_stay_finite"),
        (Nameless, "frames_keep_their_names"),
        (Lenient, "bad_rows_are_refused"),
    ],
)
def test_broken_promises_are_noticed(broken, noticed_by):
    assert noticed_by in failing_checks(broken)


def test_broken_promises_of_detectors_are_noticed():
    with pytest.raises(AssertionError, match="farther rows"):
        check_detector(FlatDetector())
