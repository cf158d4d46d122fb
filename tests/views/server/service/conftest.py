"""A small model, and the service of it in this process."""

import numpy as np
import pandas as pd
import pytest
from starlette.testclient import TestClient

import tellwhy
from tellwhy.views.server.service.app import make_service
from tellwhy.views.server.service.limits import Limits
from tellwhy.views.server.service.shelf import Shelf

OWN = "http://127.0.0.1:8000"


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"size": rng.normal(20, 2, n), "price": rng.normal(5, 1, n)})
    rows["shop"] = rng.choice(["north", "south"], n)
    return rows


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "orders.tellwhy"
    tellwhy.save(tellwhy.fit(rows_of(300)), path)
    return path


@pytest.fixture(scope="session")
def shelf(place):
    return Shelf({"orders": place})


@pytest.fixture
def client(shelf):
    limits = Limits(most_bytes=200_000, most_rows=1_000, most_columns=20)
    with TestClient(make_service(shelf, limits), base_url=OWN, raise_server_exceptions=False) as there:
        yield there
