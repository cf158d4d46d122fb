"""A result in a folder, and the page on it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from views.example_run import example_run, hostile_run, table

from tellwhy.verdicts.run_io import save_run
from tellwhy.views.server.app_session import TABLE, Session

TOKEN = "a-token-of-the-tests"
OWN = "http://127.0.0.1:8000"


def example_folder(folder, n=600, *, run=None):
    """Save the example, with all rows of its table."""
    run = example_run(n) if run is None else run
    return save_run(run, folder, add=lambda work: table(n).to_parquet(work / TABLE, index=False))


def hostile_folder(folder):
    return save_run(hostile_run(), folder)


def client_of(folder, **settings):
    """A browser that was let in."""
    from starlette.testclient import TestClient

    from tellwhy.views.server.app import make_app

    session = Session.open(folder)
    client = TestClient(make_app(session, token=TOKEN, **settings), base_url=OWN)
    client.get(f"/?token={TOKEN}")
    client.session = session
    return client


def judged_table(n=300, seed=0):
    """Rows of four columns of which three are odd."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["size", "weight", "age"])
    frame["city"] = rng.choice(["Oslo", "Rome", "Bern"], n)
    frame.loc[[7, 70, 170], "size"] = [9.0, 11.0, -10.0]
    return frame


def judged_folder(folder, frame=None):
    """A table that was learned from and judged, as `tellwhy app table.csv` does."""
    from tellwhy.views.server.app_session import make_result

    source = folder / "table.csv"
    (judged_table() if frame is None else frame).to_csv(source, index=False)
    return make_result(source, folder / "run", {"top": 12})
