"""Capabilities: found where the members are, whoever hands them on; not found where they are None or False."""

import numpy as np
import pytest

from tellwhy.core import score as capabilities
from tellwhy.core.explainer import Explainer, Explains, LearnsFromRows, RemembersRows
from tellwhy.core.score import (
    Capability,
    HasExpansion,
    HasGradient,
    HasValueAndGradient,
    LeavesRowsOut,
    SharesOfOne,
    TakesAnyShape,
    support_points,
)
from tellwhy.detectors import SVDD, NearestNeighbours, OneClassSVM
from tellwhy.explainers import LinearRelevance, Occlusion, OneClassDTD
from tellwhy.scoring import FunctionScore, as_score
from tellwhy.scoring.as_score import CheckedScore

X = np.random.default_rng(0).normal(size=(30, 3))
EVERY = [item for item in vars(capabilities).values() if isinstance(item, Capability)]


class Own:
    """A score function made elsewhere, with optional members as given."""

    feature_shape = feature_names = threshold = None
    describes = "a sum"

    def __init__(self, **members):
        vars(self).update(members)

    def value(self, X):
        return np.asarray(X).sum(axis=1)


def test_there_are_many_and_each_says_what_it_is():
    assert len(EVERY) >= 11
    assert all(len(capability.__doc__) > 20 for capability in EVERY)


@pytest.mark.parametrize("capability", EVERY)
def test_a_plain_function_has_none(capability):
    assert not isinstance(FunctionScore(lambda X: X.sum(axis=1)), capability)


@pytest.mark.parametrize("wrap", [lambda score: score, CheckedScore])
def test_members_count_unless_they_are_none_or_false(wrap):
    assert isinstance(wrap(Own(gradient=np.ones_like)), HasGradient)
    assert not isinstance(wrap(Own(gradient=None)), HasGradient)
    assert not isinstance(wrap(Own(expansion=None)), HasExpansion)
    assert isinstance(wrap(Own(any_shape=True)), TakesAnyShape)
    assert not isinstance(wrap(Own(any_shape=False)), TakesAnyShape)
    assert not isinstance(wrap(Own(unit_interval=False)), SharesOfOne)


def test_every_member_is_asked_for():
    known = OneClassSVM().fit(X).to_score()
    assert isinstance(known, LeavesRowsOut)
    assert not isinstance(Own(expansion=known.expansion, match=known.match), LeavesRowsOut)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (OneClassSVM(), {HasGradient, HasExpansion, LeavesRowsOut}),
        (NearestNeighbours(), {HasGradient, HasExpansion, LeavesRowsOut}),
        (SVDD("linear"), {HasGradient, HasExpansion}),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_capabilities_of_our_scores(model, found):
    score = as_score(model.fit(X))
    asked = {HasGradient, HasExpansion, LeavesRowsOut, HasValueAndGradient, TakesAnyShape}
    assert {capability for capability in asked if isinstance(score, capability)} == found


def test_a_capability_asks_for_what_it_extends_too():
    class Silent:
        model, kind = None, "attribution"

    speaking = Silent()
    speaking.model, speaking.explain = "a model", len
    silent = Silent()
    silent.model = "a model"
    assert isinstance(speaking, Explainer)
    assert not isinstance(silent, Explainer)


def test_support_points_are_those_of_the_expansion():
    score = NearestNeighbours().fit(X).to_score()
    assert support_points(score) is score.expansion.points
    assert support_points(SVDD("linear").fit(X).to_score()) is None
    assert support_points(Own(expansion=None)) is None


def test_explainers_tell_whether_they_learn_from_rows():
    model = OneClassSVM().fit(X)
    assert isinstance(Occlusion(model), Explainer)
    assert isinstance(Occlusion(model), LearnsFromRows)
    assert isinstance(OneClassDTD(model), Explainer)
    assert not isinstance(OneClassDTD(model), LearnsFromRows)
    assert isinstance(OneClassDTD(model), RemembersRows)
    assert isinstance(LinearRelevance(model), Explains)
    assert not isinstance(model, Explains)
