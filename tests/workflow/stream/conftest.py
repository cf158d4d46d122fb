"""A model of orders, and a stream of them in which a few are odd."""

import numpy as np
import pandas as pd
import pytest

import tellwhy

ODD = (120, 333, 512)


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"order": [f"A{k}" for k in range(n)], "size": rng.normal(20, 2, n).round(4)})
    rows["price"] = (rows["size"] / 4 + rng.normal(0, 0.3, n)).round(4)
    rows["shop"] = rng.choice(["north", "south"], n)
    return rows


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "orders.tellwhy"
    tellwhy.save(tellwhy.fit(rows_of(1_000), clean=True), path)
    return path


@pytest.fixture(scope="session")
def stream():
    rows = rows_of(700, seed=1)
    for k in ODD:
        rows.loc[k, "size"] = 60.0 + k / 100
    return rows
