"""Labels by models that have not seen the row."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone

from tellwhy.classifiers import WestonWatkinsSVM, label_out_of_fold
from tellwhy.classifiers.out_of_fold import deal_folds
from tellwhy.core.errors import InvalidInput


def rows(n=120, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, 6))
    X[np.arange(n), y] += 4.0
    return X, np.array(["d", "a", "c", "b"])[y]


def test_it_is_what_one_model_a_fold_says():
    X, y = rows()
    y[5] = "a" if y[5] != "a" else "b"
    model = WestonWatkinsSVM(C=0.1, random_state=0)
    found = label_out_of_fold(model, X, y, folds=3, n_jobs=1)
    classes = np.unique(y)
    for fold in range(3):
        inside = found.fold == fold
        peer = clone(model).fit(X[~inside], y[~inside])
        scores = peer.decision_function(X[inside])
        np.testing.assert_array_equal(found.labels[inside], peer.predict(X[inside]))
        chances = softmax(scores / found.temperature, axis=1)
        at = np.arange(inside.sum())
        own = np.searchsorted(classes, y[inside])
        np.testing.assert_allclose(found.own[inside], chances[at, own], rtol=1e-9)
        np.testing.assert_allclose(found.told[inside], chances.max(axis=1), rtol=1e-9)
    np.testing.assert_array_equal(found.behind > 0, found.labels != y)
    assert found.find_doubtful()[0] == 5


def test_planted_labels_are_first_in_every_row_and_a_lone_label_is_not_judged():
    X, y = rows(400)
    planted = np.random.default_rng(1).choice(400, 12, replace=False)
    names = np.unique(y)
    y[planted] = [names[(np.searchsorted(names, y[i]) + 1) % 4] for i in planted]
    y = np.append(y, "once")
    X = np.vstack([X, np.full((1, 6), 9.0)])
    found = label_out_of_fold(WestonWatkinsSVM(C=0.1, random_state=0), X, y)
    assert set(found.find_doubtful()[:12]) == set(planted)
    assert found.fold[-1] == -1
    assert np.isnan(found.own[-1])
    assert (np.bincount(found.fold[:-1]) == 80).all()


def test_threads_and_order_of_classes_change_nothing():
    X, y = rows()
    one, two = (label_out_of_fold(WestonWatkinsSVM(random_state=0), X, y, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.behind, two.behind)
    assert one.temperature == two.temperature


def test_two_classes_are_judged_by_half_the_lead_of_each():
    X, y = rows(60, 2)
    found = label_out_of_fold(WestonWatkinsSVM(random_state=0), X, y, folds=2)
    assert (found.own + found.told >= 1 - 1e-12).all()
    agree = found.labels == y
    np.testing.assert_allclose(found.own[agree], found.told[agree])


def test_labels_that_all_differ_are_refused():
    X, _ = rows(8)
    with pytest.raises(InvalidInput, match="No two of the 8 rows have the same label"):
        label_out_of_fold(WestonWatkinsSVM(), X, np.arange(8))


def test_every_class_stays_in_the_training_of_every_fold():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 30, size=100)
    fold = deal_folds(numbers, 5, rng)
    for f in range(5):
        assert set(numbers[fold == f]) <= set(numbers[fold != f])
