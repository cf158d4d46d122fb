from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from oracles.score_oracles import central_differences

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import ScoreFunction
from tellwhy.scoring import FunctionScore, as_score

X = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "returned",
    [
        np.array([1.0, 2.0, 3.0]),
        np.array([[1], [2], [3]]),
        [1, 2, 3],
        np.array([1, 2, 3], dtype=np.float32),
        np.array([1, 2.0, True], dtype=object) + np.array([0, 0, 2]),
        pd.Series([1.0, 2.0, 3.0], index=[7, 8, 9]),
    ],
    ids=["floats", "one column", "list", "float32", "objects", "series"],
)
def test_numbers_in_any_container_are_read(returned):
    value = FunctionScore(lambda rows: returned).value(X)
    assert value.dtype == np.float64
    np.testing.assert_array_equal(value, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([1.0, np.nan, 3.0], r"is nan for row 1 \(1 such rows"),
        ([1.0, 2.0, np.inf], r"is inf for row 2"),
        ([-np.inf, 2.0, -np.inf], r"is -inf for row 0 \(2 such rows"),
        ([1.0, 2.0], r"for 3 rows, .* has shape \(2,\); expected \(3,\)"),
        (np.ones((3, 2)), r"has shape \(3, 2\)"),
        (np.ones((1, 3)), r"has shape \(1, 3\)"),
        (5.0, r"has shape \(\)"),
        (["1.0", "2.0", "3.0"], r"gave str.* such as .*1\.0.*expected real numbers"),
        ([1.0, 2.0, 3.0 + 0.0j], r"gave complex"),
        ([1.0, None, 3.0], r"gave NoneType values of dtype object"),
        (np.array([1.0, "2.0", 3.0], dtype=object), r"gave str values of dtype object, such as '2.0'"),
        ([Decimal(1), Decimal(2), Decimal(3)], r"gave Decimal"),
        (np.array(["2020-01-01"] * 3, dtype="datetime64[D]"), r"datetime64"),
    ],
)
def test_anything_but_one_finite_number_per_row_is_refused(returned, message):
    with pytest.raises(InvalidInput, match=message):
        FunctionScore(lambda rows: returned, describes="the test score").value(X)


def test_message_names_the_score():
    def temperature(rows):
        return [np.nan] * len(rows)

    with pytest.raises(InvalidInput, match="temperature"):
        FunctionScore(temperature).value(X)


def test_rows_may_be_a_list():
    assert FunctionScore(lambda rows: [len(text) for text in rows]).value(["a", "bbb"]).tolist() == [1.0, 3.0]


def test_gradient_is_there_only_when_given():
    assert not hasattr(FunctionScore(np.sum), "gradient")
    score = FunctionScore(lambda rows: (rows**2).sum(axis=1), gradient=lambda rows: 2 * rows)
    np.testing.assert_allclose(score.gradient(X), central_differences(score.value, X), atol=1e-5)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.ones((3, 3)), r"has shape \(3, 3\); expected \(3, 2\)"),
        (np.ones(3), r"has shape \(3,\)"),
        (np.array([[1.0, 2.0], [np.nan, 0.0], [0.0, 0.0]]), "not finite for row 1"),
        (np.full((3, 2), "a"), "expected real numbers"),
    ],
)
def test_bad_gradients_are_refused(returned, message):
    score = FunctionScore(lambda rows: rows.sum(axis=1), gradient=lambda rows: returned)
    with pytest.raises(InvalidInput, match=message):
        score.gradient(X)


def test_function_score_is_a_score_function_and_passes_through():
    score = FunctionScore(len)
    assert isinstance(score, ScoreFunction)
    assert as_score(score) is score


def test_a_function_gets_a_table_as_a_table():
    frame = pd.DataFrame(X, columns=["a", "b"])
    seen = []
    FunctionScore(lambda rows: seen.append(rows) or np.zeros(len(rows))).value(frame)
    pd.testing.assert_frame_equal(seen[0], frame)
