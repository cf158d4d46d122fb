"""Results of every kind of data are opened, each in its own form, and can be decided about."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from views.server.opened import client_of, example_folder

pytest.importorskip("starlette")
pytest.importorskip("duckdb")

from tellwhy.verdicts.run_io import save_run
from tellwhy.views.server.app_tabs import list_tabs
from tellwhy.workflow import explain_documents, explain_events, explain_graph, explain_series, explain_table

WORDS = ["cat", "sat", "mat", "rain", "fell", "wind", "blew", "over", "old", "stone", "walls", "while"]


def posts():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 8)) for _ in range(60)]
    texts[7] = "quantum gravity <b>needs</b> strings"
    return pd.DataFrame({"body": texts})


def series(n=700):
    rng = np.random.default_rng(0)
    t = np.arange(n)
    frame = pd.DataFrame({"t": t, "a": np.sin(t / 5), "b": np.cos(t / 7)})
    frame[["a", "b"]] += 0.05 * rng.normal(size=(n, 2))
    frame.loc[400:414, "a"] = 0.0
    return frame


def nodes():
    rng = np.random.default_rng(0)
    level = np.repeat([0.0, 3.0, 0.0], 50) + rng.normal(size=150)
    level[20] = 3.5
    return pd.DataFrame({"t": np.arange(150), "level": level, "kind": rng.choice(["a", "b"], 150)})


RUNS = {
    "texts": (lambda: explain_documents(posts(), text="body"), "Texts", "<mark"),
    "events": (lambda: explain_events(series(), time="t"), "Events", "node-plot"),
    "series": (
        lambda: explain_series(series(), time="t", window=15, n_windows=150),
        "Stretches",
        "node-plot",
    ),
    "graph": (lambda: explain_graph(nodes(), time="t", n_classes=2).run, "Nodes", 'class="factors"'),
}


@pytest.mark.parametrize(
    "kind", ["texts", "series", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("events", "graph"))]
)
def test_each_kind_has_its_own_form_and_takes_decisions(kind, tmp_path):
    make, words, drawn = RUNS[kind]
    run = make()
    save_run(run, tmp_path / "run")
    with client_of(tmp_path / "run") as client:
        page = client.get("/").text
        assert f'data-tab="rows" aria-current="page">{words}</a>' in page
        rows = [
            int(row)
            for row in re.findall(
                r'<tr class="item[^"]*" data-row="(\d+)"', client.get("/list?show=explained").text
            )
        ]
        assert len(rows) == len(set(rows)) == len(run.anomalies)
        panel = client.get(f"/row/{rows[0]}").text
        assert drawn in panel
        assert "<b>needs" not in panel
        for name in re.findall(r'data-tab="(\w+)"', page)[1:]:
            assert client.get(f"/tab/{name}").status_code == 200
        assert client.post("/marks", json={"row": rows[-1], "verdict": "benign"}).status_code == 200
        made = client.post("/marks", json={"row": rows[0], "verdict": "confirmed", "why": "seen"})
        assert made.status_code == 200
        assert client.get("/counts").json()["confirmed"] == 1
        assert "seen" in client.get("/tab/decisions").text
        assert client.get("/export/view.csv?show=explained").text.count("\n") == len(rows) + 1


def test_what_has_no_anomalies_is_shown_as_its_report(tmp_path):
    from tellwhy.results.notice import written
    from tellwhy.results.result import Result

    other = Result(kind="texts", source="x", settings={}, anomalies=[], threshold=None, done=written("done"))
    save_run(other, tmp_path / "run")
    with client_of(tmp_path / "run") as client:
        page = client.get("/").text
        assert 'data-tab="rows"' not in page
        assert 'data-tab="report" aria-current="page"' in page
        assert client.get("/tab/report").status_code == 200


def test_without_an_alarm_what_was_explained_comes_first(tmp_path):
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("abc"))
    run = explain_table(rows, top=4)
    assert run.n_flagged == 0
    save_run(run, tmp_path / "run")
    page = client_of(tmp_path / "run").get("/").text
    assert "No row fits" not in page
    assert re.search(r'value="explained"\s+selected', page)


def test_what_a_network_was_given_is_told_by_its_report(tmp_path):
    client = client_of(example_folder(tmp_path / "run", 200))
    assert list_tabs(client.session)[0][0] == "rows"
    client.session.result = replace(client.session.result, kind="network")
    assert "rows" not in dict(list_tabs(client.session))
