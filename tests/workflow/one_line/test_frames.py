"""Frames stay frames on the way into a user's function: names, types, texts, categories, dates."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from oracles.shapley_oracles import shapley_by_definition
from sklearn.ensemble import HistGradientBoostingRegressor

import tellwhy
from tellwhy.core.errors import InvalidInput
from tellwhy.scoring.table_codes import TableCodes

N = 120
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, N),
        "pay": RNG.normal(3000, 500, N),
        "town": RNG.choice(["Bonn", "Ulm", "Jena"], N),
        "grade": pd.Categorical(RNG.choice(["a", "b", "c"], N), categories=["a", "b", "c"], ordered=True),
        "since": pd.to_datetime("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D"),
        "member": RNG.random(N) > 0.5,
    }
)


def price(frame):
    """A function that works on nothing but a frame of exactly these types."""
    assert isinstance(frame, pd.DataFrame)
    assert frame.dtypes.to_dict() == FRAME.dtypes.to_dict()
    days = (pd.Timestamp("2024-01-01") - frame["since"]).dt.days
    return (
        2.0 * frame["age"]
        + 0.01 * frame["pay"]
        + frame["town"].map({"Bonn": 5.0, "Ulm": 0.0, "Jena": -5.0})
        + frame["grade"].cat.codes * frame["member"]
        + 0.001 * days
    )


def by_definition(function, row, background):
    def worth(members):
        mixed = background.copy()
        for name in (background.columns[c] for c in members):
            mixed[name] = pd.Series([row[name]] * len(mixed), index=mixed.index).astype(
                background[name].dtype
            )
        return float(np.mean(function(mixed)))

    return shapley_by_definition(worth, background.shape[1])


@pytest.mark.parametrize("task", ["prediction", "anomaly"])
def test_a_function_gets_the_frame_as_it_is(task):
    found = tellwhy.explain(price, FRAME[:3], "KernelShap", background=FRAME[50:90], task=task)
    assert found.feature_names == list(FRAME.columns)
    assert found.data.equals(FRAME[:3])
    for i in range(3):
        exact = by_definition(price, FRAME.iloc[i], FRAME[50:90])
        np.testing.assert_allclose(found.values[i], exact, atol=1e-8)


def test_levels_are_never_moved_between():
    assert tellwhy.explain(price, FRAME).method == "KernelShap"
    numbers = FRAME[["age", "pay"]]
    found = tellwhy.explain(lambda f: (f["pay"] - 3000).abs() / 500 + (f["age"] - 50).abs() / 15, numbers)
    assert found.method == "AnomalyShapley"


def test_polars_stays_polars():
    frame = pl.from_pandas(FRAME[["age", "pay", "town", "member"]])

    def value(rows):
        assert isinstance(rows, pl.DataFrame)
        assert rows.schema == frame.schema
        return (rows["age"] + (rows["town"] == "Ulm") * 10.0).to_numpy()

    found = tellwhy.explain(value, frame[:4], background=frame, task="prediction")
    exact = (frame["age"] - frame["age"].mean()).to_numpy()[:4]
    np.testing.assert_allclose(found.values[:, 0], exact, atol=1e-8)
    np.testing.assert_allclose(found.values[:, [1, 3]], 0.0, atol=1e-9)


def test_arrays_of_texts_and_numbers_stay_arrays():
    rows = FRAME[["age", "town"]].to_numpy(dtype=object)

    def value(given):
        assert given.dtype == object
        return np.array([age * (town == "Ulm") for age, town in given], dtype=float)

    found = tellwhy.explain(value, rows[:2], background=rows, task="prediction")
    np.testing.assert_allclose(found.scores, value(rows[:2]))


def test_missing_cells_reach_models_that_take_them():
    rows = FRAME[["age", "pay"]].astype(float)
    rows.iloc[::5, 1] = np.nan
    model = HistGradientBoostingRegressor(max_iter=10).fit(rows, FRAME["age"])
    for table in (rows, rows.to_numpy()):
        found = tellwhy.explain(model, table[:6], "KernelShap", background=table)
        np.testing.assert_allclose(found.scores, model.predict(rows[:6]))
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-9)


def test_an_array_may_be_the_background_of_a_frame_and_the_other_way_round():
    numbers = FRAME[["age", "pay"]]
    whole = tellwhy.explain(lambda f: f["age"] * 1.0, numbers[:2], background=numbers, task="prediction")
    mixed = tellwhy.explain(
        lambda f: f["age"] * 1.0, numbers[:2], background=numbers.to_numpy(), task="prediction"
    )
    np.testing.assert_allclose(mixed.values, whole.values)
    with pytest.raises(InvalidInput, match=r"background has 2 columns, \['pay', 'age'\]"):
        tellwhy.explain(
            lambda f: f["age"], numbers[:2], background=numbers[["pay", "age"]], task="prediction"
        )


def test_codes_come_back_as_they_were():
    big = pd.DataFrame({"id": [2**60, 2**60 + 1], "n": pd.array([1, None], dtype="Int64"), "s": ["x", None]})
    for frame in (FRAME, big):
        codes = TableCodes.of(frame)
        pd.testing.assert_frame_equal(codes.decode(codes.encode(frame)), frame.reset_index(drop=True))
    with pytest.raises(InvalidInput, match="'Rome' in row 0"):
        TableCodes.of(FRAME).encode(FRAME[:2].assign(town="Rome"))
    with pytest.raises(InvalidInput, match="list values"):
        TableCodes.of(pd.DataFrame({"a": [[1], [2]]}))
