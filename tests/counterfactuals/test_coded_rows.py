"""Rows of a table told in numbers: what each cell may become, and the table that points stand for."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.counterfactuals.normal_versions import OWN_CELL, CodedRows
from tellwhy.counterfactuals.user_rows import ExplainedRows
from tellwhy.data import TableEncoder
from tellwhy.detectors import KernelDensity
from tellwhy.scoring import EncodedScore, as_score

RNG = np.random.default_rng(0)
DAYS = pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 20, 60), unit="D")
FRAME = pd.DataFrame(
    {
        "x": RNG.normal(size=60),
        "n": RNG.integers(3, 9, 60),
        "k": pd.Categorical(RNG.choice(["red", "blue"], 60)),
        "day": DAYS,
        "time": DAYS + pd.to_timedelta(RNG.integers(0, 86_400, 60), unit="s"),
        "flag": RNG.integers(0, 2, 60).astype(float),
        "word": RNG.choice(["p", "q", "r"], 60),
    }
)
FRAME.loc[5, ["x", "word"]] = [np.nan, None]


@pytest.fixture(scope="module")
def rows():
    encoder = TableEncoder().fit(FRAME)
    inner = as_score(KernelDensity().fit(encoder.transform(FRAME)))
    score = EncodedScore(
        inner=inner,
        encode=encoder.transform,
        owner=encoder.owner_,
        n_columns=len(encoder.columns_),
        feature_names=encoder.columns_,
        describes="",
        decode=encoder.inverse_transform,
        decodes_any=True,
    )
    return CodedRows(ExplainedRows(score, FRAME.iloc[:10], np.ones((10, 7)), FRAME, 3.0))


def test_what_cells_may_become(rows):
    limits = rows.limits
    assert limits.is_number.tolist() == [True, True, False, True, True, False, False]
    assert limits.steps.tolist() == [0.0, 1.0, 0.0, 86_400.0, 1.0, 0.0, 0.0]
    epoch = pd.Timestamp("1970-01-01")
    for c, name in ((0, "x"), (1, "n")):
        assert (limits.low[c], limits.high[c]) == (FRAME[name].min(), FRAME[name].max())
    for c, name in ((3, "day"), (4, "time")):
        assert limits.low[c] == (FRAME[name].min() - epoch).total_seconds()
        assert limits.high[c] == (FRAME[name].max() - epoch).total_seconds()
    assert np.isinf(limits.low[[2, 5, 6]]).all()


def test_cells_in_numbers(rows):
    seconds = (FRAME["time"][:10] - pd.Timestamp("1970-01-01")).dt.total_seconds()
    np.testing.assert_allclose(np.delete(rows.X[:, 0], 5), FRAME["x"][:10].dropna(), atol=1e-12)
    assert rows.X[5, 0] == pytest.approx(FRAME["x"].median())  # where the encoding puts a missing number
    np.testing.assert_allclose(rows.X[:, 1], FRAME["n"][:10])
    np.testing.assert_allclose(rows.X[:, 4], seconds)
    assert (rows.X[:, [2, 5, 6]] == OWN_CELL).all()


def test_the_table_that_points_stand_for(rows):
    at = np.array([5, 2, 5])
    Y = rows.X[at].copy()
    back = rows.frame(Y, at)
    pd.testing.assert_frame_equal(back, FRAME.iloc[at])
    Y[0, 1] = 7.0
    Y[1, 3] = 86_400.0 * 19_800
    Y[1, 4] = 86_400.0 * 19_800 + 61
    Y[0, 2] = 40.0
    Y[2, 6] = 40.0
    Y[1, 5] = 40.0
    told = rows.frame(Y, at)
    assert told["n"].tolist() == [7, FRAME["n"][2], FRAME["n"][5]]
    assert told["n"].dtype == FRAME["n"].dtype
    assert told["day"].iloc[1] == pd.Timestamp("2024-03-18")
    assert told["time"].iloc[1] == pd.Timestamp("2024-03-18 00:01:01")
    assert told["k"].iloc[0] == FRAME["k"][40]
    assert told["k"].iloc[1] == FRAME["k"][2]
    assert told["word"].iloc[2] == FRAME["word"][40]
    assert told["flag"].iloc[1] == FRAME["flag"][40]
    assert pd.isna(told["x"].iloc[0])  # not what was changed
    assert pd.isna(told["word"].iloc[0])


def test_rows_without_a_version_are_empty(rows):
    Y = rows.X[:2].copy()
    Y[1] = np.nan
    told = rows.table(Y, np.array([0, 1]))
    assert told.iloc[1].isna().all()
    assert told["n"].iloc[0] == FRAME["n"][0]
