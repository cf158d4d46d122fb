"""What a function does to its rows stays with it: neither the user's array nor the explanation changes."""

import ctypes

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from zoo.scores import Own

from tellwhy.core.errors import InvalidInput
from tellwhy.explainers import AnomalyShapley, Compensation, IntegratedGradients, KernelShap, Occlusion
from tellwhy.scoring import FunctionScore, as_score
from tellwhy.scoring.class_scores import as_class_scores, learn_outputs

X = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 10.0, 0.1]
NEW = X[:3] + np.array([0.0, 30.0, 0.0])
METHODS = [KernelShap, AnomalyShapley, Compensation, Occlusion, IntegratedGradients]


def honest(rows):
    return (rows**2).sum(axis=1)


def slopes(rows):
    return 2 * rows


def by_assignment(rows):
    rows **= 2
    return rows.sum(axis=1)


def by_sorting(rows):
    scores = honest(rows)
    rows.sort(axis=1)
    return scores


def by_one_cell(rows):
    scores = honest(rows)
    rows[0, 0] = 1e6
    return scores


def past_the_flags(rows):
    """As libraries in C do, which do not ask whether an array may be written."""
    scores = honest(rows)
    ctypes.memset(rows.ctypes.data, 0, rows.nbytes)
    return scores


def through_torch(rows):
    torch = pytest.importorskip("torch")
    return (torch.from_numpy(rows).pow_(2)).sum(dim=1).numpy()


WRITERS = [by_assignment, by_sorting, by_one_cell, past_the_flags, through_torch]


def writing_slopes(rows):
    rows *= 2
    return rows


def explained(method, model):
    rows = NEW.copy()
    background = X.copy()
    found = method(model).fit(background).explain(rows)
    np.testing.assert_array_equal(rows, NEW)
    np.testing.assert_array_equal(background, X)
    return found


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["function", "own class"])
def test_functions_that_write_into_their_rows(method, writer, kind):
    made = {"function": lambda f, g: FunctionScore(f, gradient=g), "own class": Own}[kind]
    wrong = explained(method, made(writer, writing_slopes))
    right = explained(method, made(honest, slopes))
    np.testing.assert_array_equal(wrong.values, right.values)
    np.testing.assert_array_equal(wrong.scores, right.scores)


def test_a_bare_function_and_a_table():
    frame = pd.DataFrame(NEW, columns=list("abc"))

    def writer(rows):
        rows["b"] = 0.0
        return rows["a"]

    np.testing.assert_array_equal(as_score(writer).value(frame), NEW[:, 0])
    pd.testing.assert_frame_equal(frame, pd.DataFrame(NEW, columns=list("abc")))


def test_the_layout_of_the_rows_is_kept():
    """Products of another layout differ in their last digits."""
    seen = []

    def layout(rows):
        seen.append(rows.flags.f_contiguous)
        return rows[:, 0]

    FunctionScore(layout).value(np.asfortranarray(X))
    assert seen == [True]


def test_transforms_in_place():
    """`copy=False` of scikit-learn allows a transform to write into what it is given."""
    in_place = make_pipeline(
        StandardScaler(copy=False), IsolationForest(n_estimators=20, random_state=0)
    ).fit(X.copy())
    aside = make_pipeline(StandardScaler(), IsolationForest(n_estimators=20, random_state=0)).fit(X)
    np.testing.assert_array_equal(explained(KernelShap, in_place).values, explained(KernelShap, aside).values)


class _Writes:
    def predict(self, rows):
        return super().predict(writing_slopes(rows))

    def predict_proba(self, rows):
        return super().predict_proba(writing_slopes(rows))


def test_classes_and_predictions():
    labels = (X[:, 1] > 0).astype(int)
    for cls in (LogisticRegression, LinearRegression):
        model = type("Writer", (_Writes, cls), {})().fit(X, labels)
        rows = NEW.copy()
        as_class_scores(model).value(rows)
        np.testing.assert_array_equal(rows, NEW)


def test_probabilities_of_a_function():
    rows = NEW.copy()

    def fair(rows):
        rows[:] = 0.0
        return np.full((len(rows), 2), 0.5)

    learn_outputs(as_class_scores(fair), rows).value(rows)
    np.testing.assert_array_equal(rows, NEW)


def test_rows_without_a_copy_are_refused_by_their_type():
    with pytest.raises(InvalidInput, match="one number per row"):
        FunctionScore(lambda rows: 1.0).value((1, 2, 3))
