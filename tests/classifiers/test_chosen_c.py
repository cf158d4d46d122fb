"""C by cross-validation: the scores of fits one by one, for any number of threads."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold

from tellwhy.classifiers import WestonWatkinsSVM, choose_c, chosen_c
from tellwhy.core.errors import InvalidParameter

CS = [1e-4, 0.01, 0.1]


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    return X / 8, np.array(["a", "b", "c"])[y]


def test_scores_are_those_of_fits_one_by_one(iris):
    X, y = iris
    cls = WestonWatkinsSVM
    model = cls(tol=1e-4, random_state=0)
    found = choose_c(model, X, y, Cs=reversed(CS), cv=3, n_jobs=2)
    assert found.Cs.tolist() == CS
    for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        for i, C in enumerate(CS):
            fitted = cls(C=C, tol=1e-4, random_state=0).fit(X[train], y[train])
            assert found.scores[i, fold] == pytest.approx(fitted.score(X[test], y[test]), abs=1 / len(test))
    assert CS[found.means.argmax()] == found.model.C
    assert found.model.n_jobs is None
    assert model.C == 1.0
    assert not hasattr(model, "coef_")
    whole = cls(C=found.model.C, tol=1e-4, random_state=0).fit(X, y)
    np.testing.assert_array_equal(found.model.coef_, whole.coef_)


def test_threads_change_no_bit(iris):
    X, y = iris
    ends = [
        choose_c(WestonWatkinsSVM(random_state=0), sparse.csr_array(X), y, Cs=CS, cv=2, n_jobs=n)
        for n in (None, 3)
    ]
    np.testing.assert_array_equal(ends[0].scores, ends[1].scores)
    np.testing.assert_array_equal(ends[0].model.coef_, ends[1].model.coef_)


def test_one_value_is_enough_and_ties_go_to_the_smallest(iris, monkeypatch):
    X, y = iris
    assert choose_c(WestonWatkinsSVM(random_state=0), X, y, Cs=[0.1], cv=2).scores.shape == (1, 2)
    monkeypatch.setattr(chosen_c, "_scores", lambda *given: np.ones(len(given[-1])))
    assert CS[0] == choose_c(WestonWatkinsSVM(random_state=0), X, y, Cs=CS).model.C


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"Cs": []}, "'Cs' parameter"),
        ({"Cs": [1.0, 0.0]}, "'Cs' parameter"),
        ({"Cs": [np.nan]}, "'Cs' parameter"),
        ({"Cs": CS, "cv": 1}, "'cv'"),
        ({"Cs": CS, "n_jobs": 0}, "'n_jobs'"),
    ],
)
def test_what_cannot_be_is_told(iris, given, words):
    with pytest.raises(InvalidParameter, match=words):
        choose_c(WestonWatkinsSVM(), *iris, **given)
