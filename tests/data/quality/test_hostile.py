"""Whatever the table, the pass ends, says nothing wrong, and leaves its input as it was."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.checks.check import check_table

RNG = np.random.default_rng(0)
TABLES = {
    "no columns": pd.DataFrame(),
    "no rows": pd.DataFrame({"a": pd.Series(dtype=float), "b": pd.Series(dtype=object)}),
    "one row": pd.DataFrame({"a": [1.0], "b": ["x"], "c": [pd.Timestamp("2024-01-01")]}),
    "two rows": pd.DataFrame({"a": [1.0, 1.0], "b": ["x", "x"]}),
    "constant": pd.DataFrame({"a": np.ones(200), "b": ["x"] * 200}),
    "all missing": pd.DataFrame({"a": np.full(100, np.nan), "b": [None] * 100}),
    "mixed objects": pd.DataFrame({"a": [1, "x", None, [1, 2], {"k": 1}] * 30, "b": RNG.normal(size=150)}),
    "infinities": pd.DataFrame({"a": np.r_[RNG.normal(size=98), np.inf, -np.inf], "b": RNG.normal(size=100)}),
    "huge": pd.DataFrame({"a": RNG.normal(size=300) * 1e300, "b": RNG.normal(size=300) * 1e-300}),
    "time zones": pd.DataFrame({"a": pd.date_range("2024", periods=100, freq="h", tz="Europe/Berlin")}),
    "nullable": pd.DataFrame(
        {
            "a": pd.array([1, None, 3] * 40, dtype="Int64"),
            "b": pd.array([True, None, False] * 40, dtype="boolean"),
            "c": pd.Categorical(["u", "v", None] * 40),
        }
    ),
    "complex": pd.DataFrame({"a": np.array([1 + 2j, 3, 4] * 30)}),
}


@pytest.mark.parametrize("name", TABLES)
def test_nothing_breaks(name):
    frame = TABLES[name]
    before = frame.copy(deep=True)
    quality = check_table(frame)
    assert [f for f in quality.findings if f.surprise > 0] == []
    assert list(quality.frame.columns) == list(frame.columns)
    assert len(quality.frame) == len(frame)
    assert repr(frame) == repr(before)


def test_many_columns_are_looked_at_in_good_time():
    wide = pd.DataFrame(RNG.normal(size=(300, 500))).add_prefix("x")
    wide["label"] = RNG.choice(["a", "b"], size=300)
    wide.loc[5, "x17"] = -9999
    assert [(f.kind, f.columns, f.rows) for f in check_table(wide).findings] == [
        ("placeholder", ("x17",), (5,))
    ]


def test_an_index_of_its_own_and_repeated_labels_do_not_matter():
    frame = pd.DataFrame({"age": RNG.integers(18, 90, size=300), "x": RNG.normal(size=300)}, index=[7] * 300)
    frame.iloc[[4, 9], 0] = 999
    quality = check_table(frame)
    assert quality.findings[0].rows == (4, 9)
    assert quality.frame.iloc[[4, 9], 0].isna().all()


def test_columns_in_another_order_give_the_same_findings():
    frame = pd.DataFrame({"b": RNG.gamma(2, 10, size=500).round(2), "c": RNG.integers(2, 9, size=500)})
    frame["a"] = (frame["b"] * frame["c"]).round(2)
    frame.loc[[3, 4], "a"] += 55
    told = [
        {(f.kind, f.rows) for f in check_table(frame[order]).findings} for order in (list("abc"), list("cba"))
    ]
    assert told[0] == told[1] == {("broken_relation", (3, 4))}


def test_a_reference_with_other_columns_and_types_is_used_as_far_as_it_goes():
    frame = pd.DataFrame(
        {"age": RNG.integers(18, 90, size=300), "id": np.arange(300), "only": RNG.normal(size=300)}
    )
    frame.iloc[[4, 9], 0] = 999
    before = pd.DataFrame(
        {"age": RNG.integers(18, 90, size=300), "id": RNG.permutation(300), "x": ["a"] * 300}
    )
    for reference in (before, before.assign(age="text"), before.iloc[:0], before.drop(columns="age")):
        told = [f.rows for f in check_table(frame, reference=reference).findings if f.columns == ("age",)]
        assert told == ([(4, 9)] if reference is before or not len(reference) else [])
