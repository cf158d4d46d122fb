"""Columns that are left out by themselves (identifiers, constants, sentences) trouble no detector."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.views.cli.options import DETECTORS
from tellwhy.workflow import compare_table, explain_table


@pytest.fixture(scope="module")
def orders():
    rng = np.random.default_rng(0)
    n = 90
    frame = pd.DataFrame(
        {
            "order_id": np.arange(n) + 1000,
            "amount": rng.normal(50, 9, n),
            "constant": 1,
            "kind": rng.choice(["a", "b"], n),
            "note": [f"call customer {rng.integers(1e6)} about item {i} soon" for i in range(n)],
            "size": rng.normal(size=n),
        }
    )
    frame.loc[7, "amount"] = 500.0
    return frame


@pytest.mark.parametrize(
    "detector", [pytest.param(d, marks=[pytest.mark.slow] if d == "DAGMM" else []) for d in DETECTORS]
)
def test_every_detector(detector, orders):
    ordinary = orders.drop(index=7)
    run = explain_table(orders, reference=ordinary, detector=detector, top=2)
    assert set(run.columns) == {"amount", "kind", "size"}
    assert set(run.explanation.names()) == set(run.columns)
    assert run.anomalies[0].row == 7
    assert run.anomalies[0].reasons[0].feature in run.columns


@pytest.mark.filterwarnings("ignore::tellwhy.core.errors.NotConverged")
def test_comparisons_look_for_changed_columns_among_those_used(orders):
    found = compare_table(orders, n_rows=8, detector="KernelDensity").table.set_index("method")
    of_rows = found.drop(index="Sobel")  # which takes pictures, and says so
    assert not of_rows["note"].str.contains("shape").any()
    assert found.loc["OneClassDTD", "mrr"] > found.loc["RandomAttribution", "mrr"]
