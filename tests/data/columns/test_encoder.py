from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from oracles import table_encoding as oracle
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.data import TableEncoder, as_table, read_table
from tellwhy.data.columns import encoder

RNG = np.random.default_rng(0)
N = 60
FRAME = pd.DataFrame(
    {
        "x": RNG.normal(3, 2, N),
        "colour": RNG.choice(["red", "green", "blue"], N, p=[0.7, 0.2, 0.1]),
        "on": pd.to_datetime("2020-01-01") + pd.to_timedelta(RNG.integers(0, 3000 * 24, N), unit="h"),
        "flag": RNG.random(N) < 0.2,
        "k": RNG.integers(0, 9, N),
    }
)


def test_kinds_owners_and_names():
    fitted = TableEncoder().fit(FRAME)
    assert fitted.columns_ == ["x", "colour", "on", "flag", "k"]
    assert fitted.kinds_ == {
        "x": "number",
        "colour": "category",
        "on": "date",
        "flag": "boolean",
        "k": "number",
    }
    assert fitted.owner_.tolist() == [0, *[1] * 4, *[2] * 7, 3, 4]
    assert fitted.owner_.dtype == np.int64
    by_count = FRAME["colour"].value_counts().index
    assert fitted.encoded_names_[:5] == ["x", *(f"colour={c}" for c in by_count), "colour=(other)"]
    assert list(fitted.get_feature_names_out()) == fitted.encoded_names_
    assert fitted.notices_ == []
    assert fitted.left_out_ == {}


def test_encoded_rows_are_finite_and_contiguous():
    Z = TableEncoder().fit_transform(FRAME)
    assert Z.shape == (N, 14)
    assert Z.dtype == np.float64
    assert Z.flags.c_contiguous
    assert np.isfinite(Z).all()


def test_against_the_oracle():
    x = [*FRAME["x"].tolist()[:-2], None, 400.0]
    few = [0.0] * 57 + [5.0] * 2 + [None]
    colour = [*FRAME["colour"].tolist()[:-1], None]
    flag = [None, *FRAME["flag"].tolist()[1:]]
    often = [None, *(~FRAME["flag"]).tolist()[1:]]
    frame = pd.DataFrame({"x": x, "few": few, "colour": colour})
    frame = frame.assign(flag=pd.array(flag, "boolean"), often=pd.array(often, "boolean"))
    fitted = TableEncoder(max_categories=2).fit(frame)
    new = pd.DataFrame(
        {
            "x": [1.0, None],
            "few": [5.0, 7.0],
            "colour": ["violet", None],
            "flag": [True, None],
            "often": [False, None],
        }
    )
    blocks = [
        oracle.number(x, [1.0, None]),
        oracle.number(few, [5.0, 7.0]),
        oracle.category(colour, ["violet", None], 2),
        oracle.boolean(flag, [True, None]),
        oracle.boolean(often, [False, None]),
    ]
    np.testing.assert_allclose(fitted.transform(new), np.hstack(blocks), rtol=1e-12, atol=1e-12)
    own = np.hstack(
        [
            oracle.number(x, x),
            oracle.number(few, few),
            oracle.category(colour, colour, 2),
            oracle.boolean(flag, flag),
            oracle.boolean(often, often),
        ]
    )
    np.testing.assert_allclose(fitted.transform(frame), own, rtol=1e-12, atol=1e-12)


def test_one_unit_is_one_robust_sigma_and_no_kind_dominates():
    rng = np.random.default_rng(1)
    n = 20_000
    frame = pd.DataFrame(
        {
            "normal": rng.normal(50, 7, n),
            "many": rng.choice([f"c{i}" for i in range(26)], n),
            "two": rng.choice(["a", "b"], n),
            "rare": rng.choice(["usual", "rare"], n, p=[0.999, 0.001]),
            "when": pd.to_datetime("2015-01-01") + pd.to_timedelta(rng.integers(0, 10**8, n), unit="s"),
        }
    )
    fitted = TableEncoder().fit(frame)
    Z = fitted.transform(frame)
    variance = np.bincount(fitted.owner_, Z.var(axis=0))
    np.testing.assert_allclose(variance[0], 1, atol=0.05)
    assert (variance[1:4] <= 1.001).all()
    np.testing.assert_allclose(
        variance[4], 1 + np.var(Z[:, fitted.encoded_names_.index("when (days)")]), atol=0.01
    )
    block = fitted.owner_ == 3
    usual, rare = (
        Z[(frame["rare"] == "usual").to_numpy()][0, block],
        Z[(frame["rare"] == "rare").to_numpy()][0, block],
    )
    assert 3 < np.linalg.norm(usual - rare) < 3.6  # as far out as a normal value with p = 0.001


def test_rows_and_columns_may_be_permuted():
    fitted = TableEncoder().fit(FRAME)
    shuffled = FRAME.sample(frac=1, random_state=0)
    again = TableEncoder().fit(shuffled)
    np.testing.assert_allclose(again.transform(FRAME), fitted.transform(FRAME), rtol=1e-12)
    np.testing.assert_array_equal(
        fitted.transform(FRAME[FRAME.columns[::-1]].assign(extra=1)), fitted.transform(FRAME)
    )


def test_any_container_and_storage_gives_the_same_numbers():
    Z = TableEncoder().fit_transform(FRAME)
    np.testing.assert_allclose(TableEncoder().fit_transform(pl.from_pandas(FRAME)), Z)
    np.testing.assert_allclose(TableEncoder().fit_transform(as_table(FRAME)), Z)
    stored = FRAME.astype({"flag": int, "colour": "category", "on": str, "x": "Float64", "k": str})
    np.testing.assert_allclose(TableEncoder().fit_transform(stored), Z)
    with_objects = FRAME.astype(object)
    np.testing.assert_allclose(TableEncoder().fit_transform(with_objects), Z)


def test_arrays_and_names_that_are_not_text():
    X = np.random.default_rng(0).normal(size=(30, 4))
    fitted = TableEncoder().fit(X)
    assert fitted.columns_ == ["x0", "x1", "x2", "x3"]
    assert TableEncoder().fit(pd.DataFrame(X)).columns_ == ["0", "1", "2", "3"]
    expected = np.column_stack([oracle.number(list(column), list(column)) for column in X.T])
    np.testing.assert_allclose(fitted.transform(X), expected, rtol=1e-12, atol=1e-12)


def test_the_users_frame_is_left_alone():
    frame = FRAME.assign(x=FRAME["x"].where(FRAME["x"] > 2))
    before = frame.copy()
    TableEncoder().fit_transform(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_scales_of_very_many_rows_come_from_a_seeded_sample(monkeypatch):
    monkeypatch.setattr(encoder, "SCALE_ROWS", 40)
    one, two, other = (TableEncoder(random_state=s).fit(FRAME).codes_["x"] for s in (1, 1, 2))
    assert one == two
    assert one != other


def test_extreme_numbers_stay_finite():
    frame = pd.DataFrame(
        {"huge": [1e308, -1e308, 1e300, 0.0, 1.0], "tiny": [1e-310, 2e-310, 3e-310, 0.0, 5e-310]}
    )
    frame["offset"] = 1e9 + np.array([0.0, 1, 2, 3, 5])
    fitted = TableEncoder().fit(frame)
    assert np.isfinite(fitted.transform(frame)).all()
    assert np.isfinite(fitted.transform(frame.assign(tiny=1e308))).all()
    np.testing.assert_allclose(fitted.transform(frame)[:, 2] * (4.6 - 0.2) / 3.29, [-2, -1, 0, 1, 3])


# --- missing cells ----------------------------------------------------------------------------------------------


def with_gaps():
    frame = FRAME.copy()
    frame.loc[[3, 5], "x"] = np.nan
    frame.loc[7, "colour"] = None
    frame.loc[9, "on"] = pd.NaT
    frame["flag"] = frame["flag"].astype("boolean")
    frame.loc[11, "flag"] = pd.NA
    return frame


def test_imputing():
    frame = with_gaps()
    fitted = TableEncoder().fit(frame)
    Z = fitted.transform(frame)
    assert np.isfinite(Z).all()
    assert Z[3, 0] == Z[5, 0] == 0
    missing = fitted.encoded_names_.index("colour=(missing)")
    assert np.flatnonzero(Z[:, missing]).tolist() == [7]
    assert Z[11, fitted.encoded_names_.index("flag")] == 0
    assert Z[9, fitted.encoded_names_.index("on (days)")] == 0
    assert fitted.notices_ == [
        "Filled missing numbers with the median: 'x' (2).",
        "Filled missing booleans with the more common value: 'flag' (1).",
        "Filled missing dates with the median date: 'on' (1).",
        "Missing categories count as a label of their own: 'colour' (1).",
    ]
    assert fitted.kept_rows(frame).tolist() == list(range(N))


def test_dropping():
    frame = with_gaps()
    fitted = TableEncoder(missing="drop").fit(frame)
    kept = fitted.kept_rows(frame)
    assert kept.tolist() == [i for i in range(N) if i not in (3, 5, 7, 9, 11)]
    np.testing.assert_allclose(fitted.transform(frame), TableEncoder().fit_transform(frame.iloc[kept]))
    assert fitted.notices_ == [
        "Left out 5 rows with missing cells: 'x' (2), 'colour' (1), 'on' (1), 'flag' (1)."
    ]
    assert fitted.kept_rows(FRAME).tolist() == list(range(N))
    with pytest.raises(InvalidInput, match=r"Every row has a missing cell.*'x' has 60"):
        fitted.transform(frame.assign(x=np.nan))


def test_refusing():
    with pytest.raises(InvalidInput, match=r"Column 'x' has no value in row 3 \(5 missing cells in all\)"):
        TableEncoder(missing="error").fit(with_gaps())
    fitted = TableEncoder(missing="error").fit(FRAME)
    with pytest.raises(InvalidInput, match="row 3"):
        fitted.transform(with_gaps())


def test_a_category_may_miss_only_when_scored():
    fitted = TableEncoder().fit(FRAME)
    Z = fitted.transform(FRAME.assign(colour=None))
    assert (Z[:, fitted.encoded_names_.index("colour=(other)")] > 0).all()


# --- columns that cannot be used, and cells that cannot be read ---------------------------------------------------


def test_columns_left_out():
    frame = FRAME.assign(
        number=np.arange(N) * 5 + 7,
        customer_id=RNG.permutation(1000)[:N],
        code=[f"u{i}" for i in range(N)],
        same=1,
        empty=None,
        note=[f"text {i // 2} {'x' * (i % 5)}" for i in range(N)],
    )
    fitted = TableEncoder(max_categories=10).fit(frame)
    assert fitted.columns_ == list(FRAME.columns)
    assert set(fitted.left_out_) == {"number", "customer_id", "code", "same", "empty", "note"}
    assert "Left out 'code': every row has its own value (an identifier)." in fitted.notices_
    assert "Left out 'same': every row has the same value." in fitted.notices_


def test_choosing_columns():
    assert TableEncoder(columns=["k", "x"]).fit(FRAME).columns_ == ["k", "x"]
    assert TableEncoder(exclude=["on", "flag"]).fit(FRAME).columns_ == ["x", "colour", "k"]
    numbered = FRAME.assign(row=range(N))
    assert "row" not in TableEncoder().fit(numbered).columns_
    assert TableEncoder(columns=["x", "row"]).fit(numbered).columns_ == ["x", "row"]
    with pytest.raises(InvalidParameter, match=r"no column 'colours'. Did you mean 'colour'\?"):
        TableEncoder(exclude=["colours"]).fit(FRAME)
    with pytest.raises(InvalidParameter, match="There are: 'x', 'colour'"):
        TableEncoder(columns=["zzz"]).fit(FRAME)


@pytest.mark.parametrize("excluded_first", [False, True])
def test_text_among_numbers_is_named(tmp_path, excluded_first):
    cells = [str(v) for v in range(0, 40, 2)]
    cells[12] = "12 kg"
    path = tmp_path / "t.csv"
    path.write_text("weight,y\n" + "".join(f"{c},{i % 7}\n" for i, c in enumerate(cells)), encoding="utf-8")
    table = read_table(path)
    if excluded_first:
        assert TableEncoder(exclude=["weight"]).fit(table).columns_ == ["y"]
        return
    message = r"'weight' holds '12 kg' in row 12 \(line 14 of the file\); expected a number, as in the other 9.*% .*exclude"
    with pytest.raises(InvalidInput, match=message):
        TableEncoder().fit(table)
    with pytest.raises(InvalidInput, match=message):
        TableEncoder().fit(table.frame.iloc[5:])


def test_infinity_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,-inf\n2,1e999\n", encoding="utf-8")
    with pytest.raises(
        InvalidInput, match=r"'b' holds -inf in row 1 \(line 3 of the file\); expected a finite number"
    ):
        TableEncoder().fit(read_table(path))
    fitted = TableEncoder().fit(FRAME)
    with pytest.raises(InvalidInput, match=r"Column 'x' holds inf in row 0"):
        fitted.transform(FRAME.assign(x=np.inf))


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        ("x", "big", "Column 'x' holds 'big' in row 0; expected a number"),
        ("flag", "maybe", "Column 'flag' holds 'maybe' in row 0; expected a number"),
        ("on", "soon", r"Column 'on' holds 'soon' in row 0; expected a date \(iso\)"),
        ("on", 5, "Column 'on' holds 5 in row 0; expected a date"),
        ("k", pd.Timestamp("2024-01-01"), "Column 'k' holds Timestamp.* in row 0; expected a number"),
    ],
)
def test_a_type_that_changed_is_named(column, cells, message):
    fitted = TableEncoder().fit(FRAME)
    with pytest.raises(InvalidInput, match=message):
        fitted.transform(FRAME.assign(**{column: cells}))


def test_absent_columns_are_named():
    with pytest.raises(InvalidInput, match=r"lacks 2 column\(s\).*'x', 'on'"):
        TableEncoder().fit(FRAME).transform(FRAME.drop(columns=["x", "on"]))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.iloc[:0], "no rows"),
        (FRAME.iloc[:1], "one row"),
        (
            FRAME[["x"]].assign(x=1.0),
            r"No column of the table can be used \('x': every row has the same value\)",
        ),
        (FRAME[[]], "no rows|all are excluded"),
        (pd.DataFrame({"n": range(20)}), "Name whole-number columns"),
        (pd.DataFrame({"z": [1j, 2j]}), "Complex data not supported: column 'z'"),
    ],
)
def test_tables_that_cannot_be_used(frame, message):
    with pytest.raises(InvalidInput, match=message):
        TableEncoder().fit(frame)


@pytest.mark.parametrize(
    "params",
    [
        {"missing": "ignore"},
        {"exclude": "id"},
        {"columns": "x"},
        {"max_categories": 0},
        {"random_state": "a"},
    ],
)
def test_bad_parameters(params):
    with pytest.raises(
        InvalidParameter, match=f"The '{next(iter(params))}' parameter of TableEncoder must be"
    ):
        TableEncoder(**params).fit(FRAME)


def test_unfitted_and_clone():
    with pytest.raises(NotFittedError):
        TableEncoder().transform(FRAME)
    assert clone(TableEncoder(exclude=["x"], missing="drop")).get_params()["exclude"] == ["x"]


def test_many_columns_left_out_share_a_notice():
    frame = pd.DataFrame({f"c{i}": np.ones(9) for i in range(50)}).assign(x=np.arange(9.0) ** 2)
    notices = TableEncoder().fit(frame).notices_
    assert len(notices) == 1
    assert notices[0].startswith("Left out 50 columns, each because every row has the same value: 'c0', 'c1'")


def test_back_to_the_users_units():
    fitted = TableEncoder().fit(FRAME)
    back = fitted.inverse_transform(fitted.transform(FRAME))
    np.testing.assert_allclose(back["x"], FRAME["x"])
    np.testing.assert_allclose(back["k"], FRAME["k"], atol=1e-12)
    assert back["colour"].tolist() == FRAME["colour"].tolist()
    assert back["flag"].tolist() == FRAME["flag"].tolist()
    assert back["on"].tolist() == FRAME["on"].tolist()
    with pytest.raises(InvalidInput, match="14 columns"):
        fitted.inverse_transform(np.zeros((2, 3)))


def test_columns_that_vary_only_in_the_scored_rows_are_used():
    reference = pd.DataFrame({"x": np.arange(50) % 7, "level": 5.0, "status": "ok", "flag": 0})
    scored = pd.DataFrame(
        {"x": [1, 2, 3], "level": [5.0, 6.0, 7.0], "status": ["ok", "ok", "broken"], "flag": [0, 0, 1]}
    )
    assert set(TableEncoder().fit(reference).left_out_) == {"level", "status", "flag"}
    encoder = TableEncoder().fit(reference, scored=scored)
    assert encoder.columns_ == ["x", "level", "status", "flag"]
    assert encoder.kinds_["flag"] == "boolean"
    assert "'level', 'status', 'flag'" in encoder.notices_[0]
    rows = encoder.transform(scored)
    spread = [np.ptp(rows[:, encoder.owner_ == i], axis=0).max() for i in range(4)]
    assert all(2 < width < 5 for width in spread[1:])  # as far as what one row in a hundred shows
    np.testing.assert_array_equal(encoder.transform(reference)[:, 1], 0)


def test_missing_cells_of_other_rows_are_counted():
    encoder = TableEncoder().fit(pd.DataFrame({"x": np.arange(50) % 7}))
    assert encoder.notices_ == []
    assert encoder.missing_in(pd.DataFrame({"x": [1.0, np.nan, np.nan]})) == [
        "Filled missing numbers with the median: 'x' (2)."
    ]


def test_a_label_with_gaps_is_constant_where_rows_with_gaps_are_dropped():
    frame = FRAME.assign(note=["x", None] * (N // 2))
    assert "note" in TableEncoder().fit(frame).columns_
    assert set(TableEncoder(missing="drop").fit(frame).left_out_) == {"note"}


def test_the_missing_cell_is_named_by_its_own_column():
    frame = FRAME.assign(colour=FRAME["colour"].where(FRAME.index != 4))
    with pytest.raises(
        InvalidInput, match=r"Column 'colour' has no value in row 4 \(1 missing cells in all\)"
    ):
        TableEncoder(missing="error").fit(frame)


def test_advice_on_identifiers_is_given_only_where_there_are_some():
    constant = pd.DataFrame({f"c{i}": np.ones(9) for i in range(7)})
    with pytest.raises(InvalidInput, match=r"'c4': every row has the same value; and 2 more\)\.$"):
        TableEncoder().fit(constant)
    with pytest.raises(InvalidInput, match="Name whole-number columns"):
        TableEncoder().fit(constant.assign(n=range(9)))


def test_long_lists_of_columns_are_cut_and_counted():
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 25)), columns=[f"c{i}" for i in range(25)])
    with pytest.raises(InvalidParameter, match=r"'c19', … \(25 in all\)\.$"):
        TableEncoder(columns=["zzz"]).fit(wide)
    with pytest.raises(InvalidParameter, match=r"'c19'\.$"):
        TableEncoder(columns=["zzz"]).fit(wide.iloc[:, :20])


def test_a_constant_column_that_is_absent_from_the_scored_rows_stays_left_out():
    reference = FRAME.assign(level=5.0)
    assert set(TableEncoder().fit(reference, scored=FRAME).left_out_) == {"level"}


def test_a_column_asked_for_twice_is_used_once():
    assert TableEncoder(columns=["k", "x", "k"]).fit(FRAME).columns_ == ["k", "x"]
