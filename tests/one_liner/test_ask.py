"""Which question the automatic method answers: shares of the score, or which cell is to blame."""

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.svm import OneClassSVM

import tellwhy
from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers import CorruptionPosterior

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 4)) @ RNG.normal(size=(4, 4))
MIXTURE = GaussianMixture(2, random_state=0).fit(X)
MOVED = X[:6].copy()
MOVED[np.arange(6), np.arange(6) % 4] += 12.0


def test_of_a_mixture_the_probability_that_a_cell_is_wrong():
    found = tellwhy.explain(MIXTURE, MOVED, ask="blame")
    assert (found.method, found.kind) == ("CorruptionPosterior", "probability")
    np.testing.assert_array_equal(found.values, CorruptionPosterior(MIXTURE).explain(MOVED).values)
    assert found.values.argmax(axis=1).tolist() == [0, 1, 2, 3, 0, 1]
    assert found.params["asks"] == "which cell is to blame"


def test_shares_are_what_is_explained_by_itself():
    plain = tellwhy.explain(MIXTURE, MOVED)
    found = tellwhy.explain(MIXTURE, MOVED, ask="shares")
    assert found.method == plain.method == "AnomalyShapley"
    np.testing.assert_array_equal(found.values, plain.values)
    assert found.params["asks"] == plain.params["asks"] == "shares of the score"


@pytest.mark.parametrize("model", [OneClassSVM(nu=0.1), IsolationForest(n_estimators=20, random_state=0)])
def test_of_other_scores_what_names_moved_cells_of_ordinary_rows(model):
    model = model.fit(X)
    found = tellwhy.explain(model, MOVED, ask="blame", background=X)
    tried = tellwhy.explain(model, MOVED, "tried", background=X)
    np.testing.assert_array_equal(found.values, tried.values)
    assert found.params["chosen"].startswith("by trial")
    assert found.params["asks"] == "which cell is to blame"


def test_few_ordinary_rows_are_no_ground_for_a_trial():
    found = tellwhy.explain(OneClassSVM(nu=0.1).fit(X), MOVED, ask="blame", background=X[:60])
    assert found.method == "AnomalyShapley"
    assert "too few to try others on" in found.params["chosen"]


@pytest.mark.parametrize(
    ("model", "rows", "further", "words"),
    [
        (MIXTURE, MOVED, {"method": "KernelShap"}, "Leave either out"),
        (MIXTURE, MOVED, {"ask": "cause"}, "The 'ask' parameter"),
        (lambda texts: [1.0] * len(texts), ["a b"], {}, "this is texts"),
        (LogisticRegression().fit(X, X[:, 0] > 0), MOVED, {"background": X}, "not an anomaly score"),
    ],
)
def test_questions_that_cannot_be_answered(model, rows, further, words):
    with pytest.raises(InvalidParameter, match=words):
        tellwhy.explain(model, rows, **{"ask": "blame", **further})
