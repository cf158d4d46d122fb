"""Rows that a model was trained on: which methods judge them without themselves, told once and everywhere."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tellwhy.core.catalogue import METHODS
from tellwhy.core.explainer import LearnsFromRows
from tellwhy.core.registry import cards
from tellwhy.detectors import SVDD, NearestNeighbours, OneClassSVM
from tellwhy.explainers import Occlusion, OneClassDTD, Sensitivity
from tellwhy.explainers.base import ScoreExplainer
from tellwhy.explainers.rows import Attribution
from tellwhy.scoring import as_score

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
ROWS = np.vstack([X[[4, 9, 30]], RNG.normal(size=(3, 3)) * 3])
KEEP_THEM_IN = {"DMMMEN", "ExpectedValue", "GaussianNLL", "Lime", "LocalInsight", "Occlusion"}
KEEP_THEM_IN |= {"PredictionDifference", "RandomAttribution"}
BRIEF = {"DMMMEN": {"n_components": 1, "n_sweeps": 150, "n_burn": 100}}
# sums over many points, so that every one of the sixty rows is a support point and can be left out
MODEL = OneClassSVM(nu=1.0).fit(X)


def explained(cls, model, rows, background):
    explainer = cls(model, **BRIEF.get(cls.__name__, {}))
    if isinstance(explainer, LearnsFromRows):
        explainer.fit(background)
    return explainer.explain(rows)


APPLY = [card for card in cards("explainer") if card.applies(as_score(MODEL))]


@pytest.mark.filterwarnings("ignore::tellwhy.core.errors.NotConverged")
@pytest.mark.parametrize("card", APPLY, ids=lambda card: card.name)
def test_scores_and_record_agree_on_what_was_left_out(card):
    score = as_score(MODEL)
    assert len(APPLY) > 14
    own = score.match(ROWS)
    assert (own[:3] >= 0).all()
    assert (own[3:] < 0).all()
    explanation = explained(card.cls, MODEL, ROWS, X)
    if card in METHODS:
        assert card.cls.leaves_rows_out == (card.name not in KEEP_THEM_IN)
    if card.cls.leaves_rows_out:
        np.testing.assert_array_equal(explanation.extras["left_out"], [4, 9, 30, -1, -1, -1])
        np.testing.assert_allclose(explanation.scores, score.value(ROWS, own), rtol=1e-12)
        assert (explanation.scores[:3] > score.value(ROWS)[:3]).all()
    else:
        assert "left_out" not in explanation.extras
        np.testing.assert_allclose(explanation.scores, score.value(ROWS), rtol=1e-12)


@pytest.mark.parametrize("model", [NearestNeighbours(3), SVDD("linear")], ids=repr)
def test_only_scores_with_points_of_their_own_leave_any_out(model):
    explanation = Sensitivity(model.fit(X)).explain(ROWS)
    assert ("left_out" in explanation.extras) == isinstance(model, NearestNeighbours)


def test_rows_are_recognised_behind_an_encoding():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    pipeline = make_pipeline(StandardScaler(), OneClassSVM(nu=1.0)).fit(frame)
    explanation = OneClassDTD(pipeline).explain(frame.iloc[[7, 3]])
    np.testing.assert_array_equal(explanation.extras["left_out"], [7, 3])


class Counting(ScoreExplainer):
    """Uses what rows leave out three times."""

    leaves_rows_out = True

    def _attribute(self, rows):
        scores = rows.scores()
        slope = rows.score.gradient(rows.X, *rows.without)
        assert rows.skipped is rows.left_out
        return Attribution(slope, scores)


def test_training_rows_are_looked_for_once(monkeypatch):
    asked = []
    score = as_score(MODEL)
    look = score.match
    monkeypatch.setattr(score, "match", lambda X: asked.append(len(X)) or look(X))
    Counting(score).explain(ROWS)
    assert asked == [len(ROWS)]
    Occlusion(score).fit(X).explain(ROWS)
    assert asked == [len(ROWS)]
