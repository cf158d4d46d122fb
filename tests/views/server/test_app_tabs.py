"""The parts of the page besides the rows: findings, repairs, the line, segments, drift, files in and out."""

import io
import re
import shutil
import time

import numpy as np
import pandas as pd
import pytest
from views.server.opened import client_of, hostile_folder, judged_folder, judged_table

pytest.importorskip("starlette")
pytest.importorskip("duckdb")

from tellwhy.kinds.mark_file import marks_beside
from tellwhy.views.server.app_columns import measure_distribution


def with_mistakes():
    frame = judged_table(300)
    frame["price"] = np.round(10 + 5 * np.abs(frame["weight"]), 2)
    frame["pieces"] = np.random.default_rng(5).integers(1, 9, 300)
    frame["total"] = np.round(frame["price"] * frame["pieces"], 2)
    frame.loc[31, "city"] = "Olso"
    frame.loc[58, "total"] += 100
    return frame


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("tabs")
    judged_folder(place, with_mistakes())
    return place


@pytest.fixture
def client(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    with client_of(tmp_path / "copy" / "run") as client:
        yield client


def wait(client):
    for _ in range(600):
        job = client.get("/job").json()
        if job["state"] != "running":
            return job
        time.sleep(0.02)
    raise TimeoutError(job)


def test_every_part_of_the_page_is_shown(client):
    text = client.get("/").text
    names = re.findall(r'data-tab="(\w+)"', text)
    assert names == [
        *(
            "rows",
            "findings",
            "columns",
            "line",
            "segments",
            "drift",
            "trust",
            "decisions",
            "settings",
            "open",
        )
    ]
    for name in names[1:]:
        answer = client.get(f"/tab/{name}")
        assert answer.status_code == 200
        assert "<h2" in answer.text
        assert not re.search(r"<script|<style| style=| on\w+=", answer.text)
    assert client.get("/tab/nothing").status_code == 400


def test_panels_are_those_of_the_report(client):
    report = (client.session.folder / "report.html").read_text(encoding="utf-8")
    for name, start in (("columns", '<div class="side-by-side">'), ("trust", '<section id="trust"')):
        panel = client.get(f"/tab/{name}").text
        own = panel[panel.index(start) : panel.index("</section>", panel.index(start))]
        assert own in report


def test_a_rejected_finding_becomes_a_mark_that_can_be_taken_back(client):
    findings = client.session.result.findings
    place = next(i for i, f in enumerate(findings) if f.kind == "misspelling")
    assert f'data-reject="{place}"' in client.get("/tab/findings").text
    made = client.post("/findings", json={"finding": place, "why": "a suburb"}).json()
    [mark] = marks_beside(client.session.model_file)
    assert (mark.why, "Olso" in mark.cause) == ("a suburb", True)
    assert f'data-reject="{place}"' not in client.get("/tab/findings").text
    client.post("/undo", json={"id": made["id"]})
    assert marks_beside(client.session.model_file) == []
    assert client.post("/findings", json={"finding": 999}).status_code == 400


def test_repairs_are_accepted_rejected_and_written(client):
    repairs = {(r.row, r.column): r.new for r in client.session.repairs}
    assert repairs[31, "city"] == "Oslo"
    assert "should be" in client.get("/row/31").text
    told = {"row": 31, "column": "city", "verdict": "accepted"}
    made = client.post("/repairs", json=told).json()
    frame = pd.read_csv(io.BytesIO(client.get("/export/repaired.csv").content))
    before = with_mistakes()
    assert frame.loc[31, "city"] == "Oslo"
    changed = frame.astype(str).to_numpy() != before.astype(str).to_numpy()
    assert np.argwhere(changed).tolist() == [[31, list(before.columns).index("city")]]
    client.post("/undo", json={"id": made["id"]})
    frame = pd.read_csv(io.BytesIO(client.get("/export/repaired.csv").content))
    assert frame.loc[31, "city"] == "Olso"
    assert client.post("/repairs", json={"all": True}).json()["n"] == len(repairs)
    assert client.post("/repairs", json={"all": True}).json()["n"] == 0
    assert client.post("/repairs", json=told | {"row": 5}).status_code == 400


def test_the_line_tells_alarms_and_false_ones_to_expect(client):
    result = client.session.result
    text = client.get("/tab/line").text
    n = result.n_flagged
    assert f"<dt>alarms</dt><dd>{n}</dd>" in text
    scores = np.sort(result.scores)[::-1]
    text = client.get("/tab/line", params={"alarms": 20}).text
    assert "<dt>alarms</dt><dd>20</dd>" in text
    expected = 300 * np.exp(-scores[20])  # scores of a committee are surprises
    told = float(re.search(r"false ones to expect</dt><dd>([\d.]+)", text)[1])
    assert told == pytest.approx(min(20, expected), rel=0.05)
    assert "--alarms 20" in text


def test_segments_count_rows_and_alarms(client):
    result = client.session.result
    frame = with_mistakes()
    text = client.get("/tab/segments", params={"column": "city"}).text
    alarms = set(np.asarray(result.rows)[result.scores > result.line].tolist())
    for name, rows in frame.groupby("city").groups.items():
        line = re.search(rf">{name}</button></th><td[^>]*>(\d+)</td><td[^>]*>(\d+)</td>", text)
        assert (int(line[1]), int(line[2])) == (len(rows), len(alarms & set(rows)))


def test_a_column_is_drawn_with_the_value_of_the_row(client):
    found = measure_distribution(client.session.rows, "size")
    values = with_mistakes()["size"].to_numpy()
    edges = np.linspace(found.low, found.high, len(found.counts) - 1)
    assert sum(found.counts) == len(values)
    assert found.counts[0] == (values < found.low).sum()
    assert list(found.counts[1:-1]) == np.histogram(values, edges)[0].tolist()
    text = client.get("/row/70/chart", params={"column": "size"}).text
    assert "this row: 11" in text
    assert "categories" in client.get("/row/70/chart", params={"column": "city"}).text
    assert measure_distribution(client.session.rows, "city") is None


@pytest.mark.parametrize("form", ["csv", "parquet", "xlsx", "html"])
def test_a_view_is_saved_as_a_file(client, form):
    answer = client.get(f"/export/view.{form}", params={"show": "alarms", "sort": "-size"})
    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    result = client.session.result
    alarms = np.asarray(result.rows)[result.scores > result.line]
    wanted = with_mistakes().loc[alarms].sort_values("size", ascending=False)["size"]
    if form == "html":
        assert f'id="anomaly-{alarms[0]}"' in answer.text
        return
    held = io.BytesIO(answer.content)
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "xlsx": pd.read_excel}[form]
    found = read(held)
    assert found["row"].tolist() == wanted.index.tolist()
    np.testing.assert_allclose(found["size"], wanted, rtol=1e-9)


def test_cells_that_look_like_formulas_are_saved_as_text(tmp_path):
    with client_of(hostile_folder(tmp_path / "run")) as client:
        text = client.get("/export/view.csv", params={"show": "explained"}).text
    assert "=cmd|" in text
    assert not re.search(r"""(^|,)["' ]*=""", text.replace("'=cmd", ""), flags=re.MULTILINE)


def test_rows_are_judged_again_without_what_is_benign(client):
    row = client.session.result.anomalies[0].row
    before = client.session.result.n_flagged
    client.post("/marks", json={"row": row, "verdict": "benign"})
    assert client.post("/again", json={"alarms": ""}).status_code == 200
    job = wait(client)
    assert (job["state"], job["error"]) == ("done", "")
    text = client.get("/").text
    assert "run-2" in text
    counts = client.get("/counts").json()
    assert counts["alarms"] < before


def test_files_are_taken_explained_and_opened(client):
    rows = judged_table(200, seed=1)
    first, second = rows.iloc[:100], rows.iloc[100:]
    ids = [
        client.put("/files", params={"name": f"../{n}.csv"}, content=part.to_csv(index=False)).json()["id"]
        for n, part in (("a", first), ("b", second))
    ]
    extra = client.put("/files", params={"name": "c.csv"}, content="x").json()
    assert client.post(f"/files/{extra['id']}/drop", json={}).status_code == 200
    assert client.post("/explain", json={"files": [extra["id"]]}).status_code == 400
    assert client.post("/explain", json={"files": ids}).status_code == 200
    assert client.post("/again", json={}).status_code == 400  # one piece of work at a time
    assert wait(client)["state"] == "done"
    assert client.get("/counts").json()["all"] == 200


def test_a_file_that_is_too_large_or_no_table_is_an_error(client, tmp_path):
    small = client_of(client.session.folder, most_bytes=1000)
    assert small.put("/files", params={"name": "x.csv"}, content=b"x" * 1001).status_code == 413
    taken = client.put("/files", params={"name": "x.parquet"}, content=b"no parquet at all").json()
    client.post("/explain", json={"files": [taken["id"]]})
    job = wait(client)
    assert job["state"] == "failed"
    assert "x.parquet" in job["error"]


def test_work_can_be_ended(client):
    big = judged_table(4000)
    taken = client.put("/files", params={"name": "big.csv"}, content=big.to_csv(index=False)).json()
    client.post("/explain", json={"files": [taken["id"]]})
    client.post("/job/cancel", json={})
    assert wait(client)["state"] == "cancelled"
    assert not (client.session.folder.parent / "tellwhy-big" / "result.json").exists()


def test_what_changed_from_another_run_is_told(client):
    other = client.session.folder.parent / "older"
    shutil.copytree(client.session.folder, other)
    frame = with_mistakes()
    frame["age"] += 2.0
    frame.to_parquet(other / "table.parquet", index=False)
    assert '<option value="older"' in client.get("/tab/drift").text
    text = client.get("/tab/drift", params={"with": "older"}).text
    assert "<strong>age</strong>" in text
    assert "<strong>weight</strong>" not in text
    assert client.get("/tab/drift", params={"with": "../../etc"}).status_code == 400
    assert client.post("/open", json={"run": "../older"}).status_code == 400
    assert client.post("/open", json={"run": "older"}).status_code == 200
