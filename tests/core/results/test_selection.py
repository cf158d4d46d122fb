"""Parts of explanations by place, name and label, and several explanations as one."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tellwhy import Explanation
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation_parts import Deferred


def example(**changes):
    values = np.arange(12.0).reshape(4, 3) - 5
    data = pd.DataFrame(
        {"age": [1, 2, 3, 4], "town": list("abcd"), "pay": [5.0, 6.0, 7.0, 8.0]}, index=list("wxyz")
    )
    given = {
        "values": values,
        "scores": values.sum(axis=1) + 2.5,
        "base_values": np.full(4, 2.0),
        "stderr": np.abs(values) / 10,
        "data": data,
        "feature_names": list(data.columns),
        "method": "Example",
        "params": {"explains": "a made-up score"},
        "extras": {
            "note": "kept",
            "interactions": np.arange(36.0).reshape(4, 3, 3),
            "later": Deferred(lambda rows: 10.0 * np.arange(12).reshape(4, 3)[rows], np.arange(4)),
        },
    }
    return Explanation(**{**given, **changes})


@pytest.mark.parametrize("columns", [["pay", "age"], [2, 0], [-1, -3]])
def test_columns_are_chosen_by_name_and_place(columns):
    part = example()[1:3, columns]
    np.testing.assert_array_equal(part.values, example().values[1:3][:, [2, 0]])
    np.testing.assert_array_equal(part.stderr, example().stderr[1:3][:, [2, 0]])
    assert part.feature_names == ["pay", "age"]
    assert list(part.data.columns) == ["pay", "age"]
    assert part.data.pay.tolist() == [6.0, 7.0]
    np.testing.assert_array_equal(part.extras["later"], [[50.0, 30.0], [80.0, 60.0]])
    np.testing.assert_array_equal(part.extras["interactions"][0], [[17.0, 15.0], [11.0, 9.0]])


def test_what_other_columns_contributed_goes_to_the_base():
    part = example()[:, "town"]
    np.testing.assert_allclose(part.residual, example().residual)
    np.testing.assert_allclose(part.base_values, 2.0 + example().values[:, [0, 2]].sum(axis=1))
    ranking = example(kind="ranking")[:, "town"]
    np.testing.assert_array_equal(ranking.base_values, 2.0)


@pytest.mark.parametrize(
    "columns", [slice(0, 2), np.array([True, True, False]), ["age", "town"]], ids=["slice", "mask", "names"]
)
def test_slices_and_masks_of_columns(columns):
    assert example()[:, columns].feature_names == ["age", "town"]


@pytest.mark.parametrize("columns", ["wage", 3, ["age", "wage"]])
def test_unknown_columns_are_named_with_those_that_exist(columns):
    with pytest.raises(InvalidInput, match="There are: age, town, pay"):
        example()[:, columns]


def test_columns_of_pictures_are_refused():
    image = Explanation(values=np.ones((2, 4, 4)), scores=np.ones(2), method="Image")
    with pytest.raises(InvalidInput, match=r"\(4, 4\)"):
        image[:, 0]


def test_data_in_other_columns_are_matched_by_name():
    wider = example(data=example().data.assign(more=0)[["more", "pay", "town", "age"]])
    assert list(wider[:, ["age", "pay"]].data.columns) == ["age", "pay"]
    assert example(data=np.ones((4, 7)))[:, "age"].data is None
    assert example(data=pl.DataFrame(example().data))[:, ["pay"]].data.columns == ["pay"]


def test_rows_are_chosen_by_label():
    e = example()
    assert e.loc["y"].values.tolist() == e.values[[2]].tolist()
    assert list(e.loc[["z", "w"]].data.index) == ["z", "w"]
    assert e.loc["x":"y", "pay"].values.tolist() == e.values[1:3, 2:].tolist()
    assert example(data=None).loc[2].values.tolist() == e.values[[2]].tolist()
    twice = example(data=e.data.set_axis(["a", "b", "a", "c"]))
    assert len(twice.loc["a"]) == 2
    with pytest.raises(InvalidInput, match=r"no row labelled 'q'.*'w', 'x'"):
        e.loc["q"]


def test_parts_put_together_are_the_whole():
    e = example()
    whole = Explanation.concat([e[:1], e[1:3], e[3:]])
    for name in ("values", "scores", "base_values", "stderr"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(e, name))
    pd.testing.assert_frame_equal(whole.data, e.data)
    assert whole.params == e.params
    assert whole.extras["note"] == "kept"
    np.testing.assert_array_equal(whole.extras["interactions"], e.extras["interactions"])
    arrays = example(data=np.ones((4, 3)))
    assert Explanation.concat([arrays, arrays]).data.shape == (8, 3)
    assert Explanation.concat([arrays, example(data=None)]).data is None
    stacked = example(data=pl.DataFrame(e.data))
    assert Explanation.concat([stacked, stacked]).data.shape == (8, 3)


def test_what_does_not_belong_together_is_not_joined():
    e = example()
    with pytest.raises(InvalidInput, match="same kind"):
        Explanation.concat([e, example(kind="ranking")])
    with pytest.raises(InvalidInput, match="same method"):
        Explanation.concat([e, example(method="Other")])
    with pytest.raises(InvalidInput, match=r"same columns.*\['a', 'b', 'c'\]"):
        Explanation.concat([e, example(feature_names=["a", "b", "c"])])
    with pytest.raises(InvalidInput, match="at least one"):
        Explanation.concat([])
    other = example(params={"explains": "another score", "same": 1})
    assert "explains" not in Explanation.concat([e, other]).params
