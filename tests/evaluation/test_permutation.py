"""Permutation importance: beside loops, closed forms, and how often its intervals hold the truth."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.svm import SVC

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.evaluation import permutation_importance
from tellwhy.evaluation.permutation import _derange

WEIGHTS = np.array([2.0, -1.0, 0.0])


def rows_and_truth(seed, n=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ WEIGHTS + rng.normal(size=n)


def test_of_a_line_it_is_known_and_intervals_hold_it():
    model = LinearRegression().fit(np.eye(3), WEIGHTS)
    model.coef_, model.intercept_ = WEIGHTS, 0.0
    known = 2 * WEIGHTS**2  # E (w(x' − x))² for independent x' and x of variance 1
    held, values = [], []
    for seed in range(150):
        found = permutation_importance(model, *rows_and_truth(seed), n_repeats=3)
        held.append((found.lower <= known) & (known <= found.upper))
        values.append(found.values)
    assert 0.92 < np.mean(np.array(held)[:, :2]) < 0.98
    np.testing.assert_allclose(np.mean(values, axis=0), known, rtol=0.05, atol=1e-12)
    assert np.array(held)[:, 2].all()


def test_it_is_the_mean_over_rows_and_repeats():
    X, y = rows_and_truth(0, 40)
    model = LinearRegression().fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=2, random_state=3)
    rng = np.random.default_rng(3)
    for column in range(3):
        grown, lent = np.zeros(40), np.zeros(40)
        for _ in range(2):
            taken = _derange(40, rng)
            mixed = X.copy()
            mixed[:, column] = X[taken, column]
            change = ((model.predict(mixed) - y) ** 2 - (model.predict(X) - y) ** 2) / 2
            grown += change
            for row, other in enumerate(taken):
                lent[other] += change[row]
        assert found.values[column] == pytest.approx(grown.mean())
        assert found.stderr[column] == pytest.approx((grown + lent).std(ddof=1) / np.sqrt(40))
    assert found.loss == pytest.approx(np.mean((model.predict(X) - y) ** 2))


def test_no_row_keeps_its_own_cell():
    for n in (2, 3, 50):
        taken = _derange(n, np.random.default_rng(n))
        assert (taken != np.arange(n)).all()
        assert sorted(taken) == list(range(n))


def test_classifiers_frames_and_groups():
    X, y = rows_and_truth(1)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    labels = np.where(y > 0, "high", "low")
    forest = RandomForestClassifier(30, min_samples_leaf=5, random_state=0).fit(frame, labels)
    found = permutation_importance(forest, frame, labels, groups=[["b", "c"]])
    assert found.names == ["b & c", "a"]
    assert found.to_frame().index[0] == "a"
    chances = forest.predict_proba(frame)[np.arange(300), (labels == "low").astype(int)]
    assert found.loss == pytest.approx(-np.log(chances).mean())
    hard = permutation_importance(SVC().fit(X, labels), X, labels)
    assert 0 <= hard.loss < 0.5


def test_a_loss_of_ones_own():
    X, y = rows_and_truth(2)
    one = permutation_importance(lambda rows: rows @ WEIGHTS, X, y, loss=lambda a, b: np.abs(a - b))
    other = permutation_importance(lambda rows: rows @ WEIGHTS, X, y, loss="absolute")
    np.testing.assert_array_equal(one.values, other.values)


def test_what_does_not_fit_is_said():
    X, y = rows_and_truth(3, 20)
    with pytest.raises(InvalidInput, match="y has shape"):
        permutation_importance(lambda rows: rows[:, 0], X, y[:5])
    with pytest.raises(InvalidInput, match="one finite number per row"):
        permutation_importance(lambda rows: rows[:, 0], X, y, loss=lambda a, b: 1.0)
    with pytest.raises(InvalidParameter, match="'n_repeats'"):
        permutation_importance(lambda rows: rows[:, 0], X, y, n_repeats=0)
    with pytest.raises(InvalidParameter, match=r"tellwhy.evaluation.permutation_importance"):
        tellwhy.explain(lambda rows: rows[:, 0], X, "permutation_importance", background=X)
