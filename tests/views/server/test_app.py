"""The page on a result: who is let in, what is listed, what is decided, and that it is kept."""

import re

import numpy as np
import pytest
from views.server.opened import OWN, TOKEN, client_of, example_folder, hostile_folder

pytest.importorskip("starlette")
pytest.importorskip("duckdb")
from views.example_run import HOSTILE, table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return example_folder(tmp_path_factory.mktemp("app") / "run")


@pytest.fixture
def client(folder, tmp_path):
    import shutil

    shutil.copytree(folder, tmp_path / "run")
    with client_of(tmp_path / "run") as client:
        yield client


def listed(client, **query):
    text = client.get("/list", params=query).text
    return [int(row) for row in re.findall(r'data-row="(\d+)"', text)]


def test_only_who_shows_the_token_is_let_in(client):
    fresh = type(client)(client.app, base_url=OWN)
    for path in ("/", "/list", "/row/1", "/static/app.js", "/?token=wrong", "/nowhere"):
        refused = fresh.get(path)
        assert refused.status_code == 403
        assert "token" in refused.json()["error"]["message"]
    assert fresh.post("/marks", json={"row": 1, "verdict": "benign"}).status_code == 403
    let_in = fresh.get(f"/?token={TOKEN}&show=all", follow_redirects=False)
    assert let_in.status_code == 303
    assert let_in.headers["location"] == "/?show=all"
    cookie = let_in.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert fresh.get("/").status_code == 200


def test_pages_of_others_and_other_names_are_refused(client):
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    told = {"row": 1, "verdict": "benign"}
    assert client.post("/marks", json=told, headers={"origin": "https://evil.example"}).status_code == 403
    form = client.post(
        "/marks", content="row=1", headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert form.status_code == 415
    assert client.get("/counts").json()["benign"] == 0


def test_the_page_has_a_policy_and_nothing_inline(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert not re.search(r"<script(?![^>]*src=)|<style| style=| on\w+=", answer.text)
    for name in re.findall(r'(?:href|src)="(/static/[^"]+)"', answer.text):
        assert client.get(name).status_code == 200
    assert client.get("/static/../app.py").status_code == 404


def test_rows_are_listed_as_the_scores_say(client):
    result = client.session.result
    order = np.argsort(-result.scores, kind="stable")
    n_alarms = int((result.scores > result.threshold).sum())
    assert listed(client) == order[:n_alarms].tolist()
    assert listed(client, show="all", page=2, size=20) == order[20:40].tolist()
    assert listed(client, show="all", sort="row", size=5) == [0, 1, 2, 3, 4]
    assert listed(client, show="explained", size=500) == [a.row for a in result.anomalies]


def test_rows_are_sorted_and_chosen_by_their_cells(client):
    frame = table(600)
    highest = frame["T3"].sort_values(ascending=False, kind="stable").index[:3].tolist()
    assert listed(client, show="all", sort="-T3", size=3) == highest
    chosen = listed(client, show="all", where="age > 80", size=500)
    assert sorted(chosen) == np.flatnonzero(frame["age"] > 80).tolist()
    chosen = listed(client, show="all", where="referral source = STMW", size=500)
    assert sorted(chosen) == np.flatnonzero(frame["referral source"] == "STMW").tolist()
    chosen = listed(client, show="all", where="referral source ~ svh", size=500)
    assert sorted(chosen) == np.flatnonzero(frame["referral source"].str.contains("SVH")).tolist()
    assert listed(client, show="all", where="age =", size=500) == []
    assert client.get("/list", params={"where": "nothing > 3"}).status_code == 400
    assert client.get("/list", params={"sort": "x; DROP TABLE listed"}).status_code == 400
    assert client.get("/list", params={"where": "age = '; DROP TABLE listed; --"}).status_code == 200
    assert len(listed(client)) > 0


def test_rows_are_searched_in_names_reasons_and_cells(client):
    result = client.session.result
    first = result.anomalies[0]
    assert first.row in listed(client, search=first.id)
    assert listed(client, search="no such words anywhere") == []
    frame = table(600)
    found = listed(client, show="all", search="2019-03-01", size=500)
    assert sorted(found) == np.flatnonzero(frame["measured"] == "2019-03-01").tolist()


def test_rows_with_one_cause_are_one_line(client):
    rows = client.session.rows
    text = client.get("/list", params={"group": 1}).text
    own = [int(row) for row in re.findall(r'data-row="(\d+)"', text)]
    alarms = listed(client, size=500)
    causes = {rows.causes.get(row, -row) for row in alarms}
    assert len(own) == len(causes)
    cause = rows.causes[own[0]]
    assert set(listed(client, cause=cause, size=500)) == {
        row for row in alarms if rows.causes.get(row) == cause
    }


def test_a_row_shows_its_cells_its_reasons_and_what_is_usual(client):
    anomaly = client.session.result.anomalies[0]
    text = client.get(f"/row/{anomaly.row}").text
    frame = table(600)
    for name in frame.columns:
        assert name in text
    assert str(anomaly.id) in text
    assert "instead of" in text
    assert 'class="strip"' in text
    other = int(np.argmin(client.session.result.scores))
    assert "was not explained" in client.get(f"/row/{other}").text
    assert client.get("/row/99999").status_code == 400


def test_decisions_are_kept_counted_shown_and_taken_back(client):
    row = client.session.result.anomalies[0].row
    made = client.post("/marks", json={"row": row, "verdict": "benign", "why": "<b>known</b>"}).json()
    assert "&lt;b&gt;known" in client.get(f"/row/{row}").text
    assert listed(client, show="benign") == [row]
    assert row not in listed(client, show="undecided", size=500)
    # Somebody else who opens the folder sees it.
    other = client_of(client.session.folder)
    assert listed(other, show="benign") == [row]
    changed = other.post("/marks", json={"row": row, "verdict": "confirmed"}).json()
    assert client.get("/counts").json()["confirmed"] == 1
    assert client.get("/counts").json()["benign"] == 0
    assert other.post("/undo", json={"id": changed["id"]}).status_code == 200
    assert listed(client, show="benign") == [row]
    assert client.post("/undo", json={"id": made["id"]}).status_code == 200
    assert client.get("/counts").json()["benign"] == 0
    assert client.post("/undo", json={"id": made["id"]}).status_code == 400
    assert client.post("/marks", json={"row": row, "verdict": "great"}).status_code == 400
    lines = (client.session.folder / "decisions.jsonl").read_text().splitlines()
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/marks", {}),
        ("/marks", {"row": "x", "verdict": "benign"}),
        ("/marks", {"row": -1, "verdict": "benign"}),
        ("/marks", {"row": 10**9, "verdict": "benign"}),
        ("/marks", {"row": 24, "verdict": "benign", "why": "x" * 3000}),
        ("/marks", [1]),
        ("/undo", {"id": "nobody"}),
        ("/findings", {"finding": 10**6}),
        ("/repairs", {"row": 1, "column": "TSH", "verdict": "accepted"}),
        ("/row/24/what-if", {"changes": [1]}),
        ("/again", {"alarms": "many"}),
        ("/explain", {"files": []}),
        ("/open", {"run": "nowhere"}),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_kept(client, path, told):
    answer = client.post(path, json=told)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
    assert not (client.session.folder / "decisions.jsonl").exists()


def test_nothing_of_strangers_is_markup(tmp_path):
    client = client_of(hostile_folder(tmp_path / "run"))
    pages = [client.get("/").text, client.get("/list", params={"search": HOSTILE[0]}).text]
    pages += [client.get(f"/row/{a.row}").text for a in client.session.result.anomalies[:5]]
    for text in pages:
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert '"onmouseover="' not in text
