"""A table is encoded once in a run, and handed on."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.data import TableEncoder
from tellwhy.kinds.table_cells import KnownRows
from tellwhy.workflow import explain_table

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": RNG.normal(size=300), "n": RNG.poisson(5, 300), "k": RNG.choice(list("abc"), 300)})
FRAME.loc[7, "x"] = 15.0
FRAME.loc[8, "n"] = 60


def test_cells_are_looked_up_where_they_came_from():
    encoder = TableEncoder().fit(FRAME)
    Z = encoder.transform(FRAME)
    known = KnownRows(Z, encoder.owner_, encoder.columns_)
    rows = np.array([5, 200, 5])
    np.testing.assert_array_equal(known.encode(known.table(rows)), Z[rows])
    mixed = known.table(rows)
    mixed["k"] = [1, 2, 3]
    mixed["x"] = [9, 9, 9]
    cells = FRAME.iloc[rows].reset_index(drop=True)
    cells["k"] = FRAME["k"].iloc[[1, 2, 3]].to_numpy()
    cells["x"] = FRAME["x"].iloc[[9, 9, 9]].to_numpy()
    np.testing.assert_array_equal(known.encode(mixed), encoder.transform(cells))


@pytest.fixture
def encoded(monkeypatch):
    """Number of rows in each call of the encoder."""
    calls = []
    transform = TableEncoder.transform

    def counted(self, frame):
        calls.append(len(frame))
        return transform(self, frame)

    monkeypatch.setattr(TableEncoder, "transform", counted)
    return calls


@pytest.mark.parametrize("detector", ["auto", "GaussianMixture", "NearestNeighbours"])
@pytest.mark.parametrize("method", ["auto", "Occlusion"])
def test_the_scored_table_is_encoded_once(encoded, detector, method):
    run = explain_table(FRAME, top=10, detector=detector, method=method)
    assert any(a.nearest_normal for a in run.anomalies)
    assert encoded == [len(FRAME)]


def test_a_separate_reference_is_encoded_once_too(encoded):
    ordinary = FRAME.drop(index=[7, 8])
    explain_table(FRAME.iloc[:20], reference=ordinary, top=5)
    assert encoded == [len(ordinary), 20]


def test_a_reference_inside_the_table_costs_nothing_more(encoded):
    explain_table(FRAME, normal="k=a", top=5)
    assert encoded == [len(FRAME)]


def test_no_row_above_the_threshold_means_no_suggestion_to_encode(encoded):
    circle = np.linspace(0.0, 2.0 * np.pi, 50, endpoint=False)  # no row differs from any other
    calm = pd.DataFrame({"x": np.sin(circle), "y": np.cos(circle)})
    run = explain_table(calm, top=3)
    assert not any(a.above_threshold for a in run.anomalies)
    assert encoded == [50]


def test_one_large_separate_reference_is_encoded_once(encoded):
    many = pd.DataFrame(np.random.default_rng(1).normal(size=(6_000, 2)), columns=["a", "b"])
    explain_table(many.iloc[:30], reference=many, top=2)
    assert encoded == [6_000, 30]
