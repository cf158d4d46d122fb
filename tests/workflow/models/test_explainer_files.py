"""Fitted explainers in a file: every one of the catalogue comes back, and says the same."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.linear_model import SGDOneClassSVM
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

import tellwhy
from storage.changed_files import changed
from tellwhy import explainers
from tellwhy.core.errors import CannotWrite, InvalidInput, UnreadableFile
from tellwhy.core.registry import EXPLAINER_ROLES, cards
from tellwhy.detectors import KernelDensity, PCADetector
from tellwhy.storage.saved_classes import ROLES

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(50, 3))
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"])
KERNEL = KernelDensity().fit(ROWS)
SHORT = {"n_sweeps": 8, "n_burn": 2, "n_jobs": 1, "random_state": 0}

# How an explainer that learns from rows is made where its own defaults would not do or take long.
MADE_BY_HAND = {
    "AnomalyShapley": lambda: explainers.AnomalyShapley(KERNEL, groups=[["a", "b"], ["c"]]).fit(FRAME),
    "DMMMEN": lambda: explainers.DMMMEN(KERNEL, **SHORT).fit(ROWS),
    "GaussianNLL": lambda: explainers.GaussianNLL(KERNEL).fit(FRAME),
    "KernelShap": lambda: explainers.KernelShap(OneClassSVM().fit(ROWS), n_coalitions=16).fit(ROWS),
    "Lime": lambda: explainers.Lime(KERNEL, n_samples=64).fit(ROWS),
    "LinearShapley": lambda: explainers.LinearShapley(SGDOneClassSVM(random_state=0).fit(ROWS)).fit(ROWS),
    "LocalInsight": lambda: explainers.LocalInsight(KERNEL, n_questions=64, **SHORT).fit(ROWS),
    "Occlusion": lambda: explainers.Occlusion(
        make_pipeline(StandardScaler(), IsolationForest(n_estimators=3, random_state=0)).fit(FRAME)
    ).fit(FRAME),
    "PredictionDifference": lambda: explainers.PredictionDifference(KERNEL, n_samples=8).fit(ROWS),
    "TreeShapley": lambda: explainers.TreeShapley(
        RandomForestClassifier(3, random_state=0).fit(ROWS, ROWS[:, 0] > 0), target=1
    ).fit(ROWS),
    "Ensemble": lambda: explainers.Ensemble(
        [explainers.Occlusion(KERNEL), explainers.OneClassDTD(KERNEL)]
    ).fit(ROWS),
    "Noise": lambda: explainers.Noise(explainers.Occlusion(KERNEL), n_samples=3).fit(ROWS),
}
FITTING = {
    card.name: MADE_BY_HAND.get(card.name, lambda cls=card.cls: cls(KERNEL).fit(ROWS))
    for role in ROLES
    for card in cards(role)
    if hasattr(card.cls, "fit")
}
NOT_FITTED = {
    "OneClassDTD": lambda: explainers.OneClassDTD(KERNEL, relative=True),
    "Sensitivity": lambda: explainers.Sensitivity(KERNEL),
    "RandomAttribution": lambda: explainers.RandomAttribution(PCADetector().fit(ROWS), random_state=3),
}
CASES = FITTING | NOT_FITTED


def quietly(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains of eight sweeps do not agree
        return make()


def test_every_line_above_is_of_an_explainer_that_fits():
    assert set(MADE_BY_HAND) <= set(FITTING)


def test_only_explainers_of_networks_cannot_be_saved():
    assert set(EXPLAINER_ROLES) - set(ROLES) == {"network explainer"}
    assert set(CASES) <= {card.name for role in ROLES for card in cards(role)}


@pytest.mark.parametrize("name", sorted(CASES))
def test_it_comes_back_and_says_the_same(name, tmp_path):
    explainer = quietly(CASES[name])
    rows = FRAME.iloc[:4] if hasattr(getattr(explainer, "ordinary_rows_", None), "columns") else ROWS[:4]
    path = tellwhy.save(explainer, tmp_path / "e.tellwhy")
    again = tellwhy.load(path)
    assert type(again) is type(explainer)
    before = quietly(lambda: explainer.explain(rows))
    after = quietly(lambda: again.explain(rows))
    assert np.array_equal(before.values, after.values)
    assert np.array_equal(before.scores, after.scores)
    assert before.params == after.params
    assert path.read_bytes() == tellwhy.save(tellwhy.load(path), tmp_path / "again").read_bytes()


def test_what_it_learned_belongs_to_its_model(tmp_path):
    again = tellwhy.load(tellwhy.save(CASES["GaussianNLL"](), tmp_path / "e"))
    again.explain(FRAME)
    again.model.fit(ROWS * 2)
    with pytest.raises(InvalidInput, match="was fitted again"):
        again.explain(FRAME)


def test_functions_and_networks_are_told(tmp_path):
    explainer = explainers.Occlusion(lambda X: np.asarray(X).sum(axis=1)).fit(ROWS)
    with pytest.raises(CannotWrite, match="explains a function"):
        tellwhy.save(explainer, tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_made_up_attributes_are_refused(tmp_path):
    path = tellwhy.save(CASES["GaussianNLL"](), tmp_path / "e")
    changed(path, lambda head: head["is"]["is"]["learned"]["is"].update({"explain": 1}))
    with pytest.raises(UnreadableFile, match="nothing that it learns"):
        tellwhy.load(path)
