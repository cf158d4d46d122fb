"""What is tried on a row: what if, ordinary rows near it, other opinions; and marks beside the model."""

import shutil

import numpy as np
import pytest
from views.server.opened import client_of, judged_folder, judged_table

pytest.importorskip("starlette")
pytest.importorskip("duckdb")

from tellwhy.kinds.mark_file import marks_beside


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("judged")
    judged_folder(place)
    return place


@pytest.fixture
def client(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    with client_of(tmp_path / "copy" / "run") as client:
        yield client


def test_a_folder_that_was_moved_finds_the_model_beside_it(client):
    assert client.session.model_file.parent == client.session.folder.parent


def test_what_if_tells_score_p_value_reasons_and_verdict(client):
    row = client.session.result.anomalies[0].row
    assert row == 70
    told = client.post(f"/row/{row}/what-if", json={"changes": {"size": "0.2"}})
    assert told.status_code == 200
    assert "no alarm any more" in told.text
    assert "p-value" in told.text
    again = client.post(f"/row/{row}/what-if", json={"changes": {"size": "12"}, "checked": True})
    assert "still be an alarm" in again.text
    assert "size = 12" in again.text
    assert client.post(f"/row/{row}/what-if", json={"changes": {"size": "big"}}).status_code == 400
    assert client.post(f"/row/{row}/what-if", json={"changes": {"colour": "1"}}).status_code == 400


def test_a_row_that_was_not_explained_is_asked_about(client):
    explained = {anomaly.row for anomaly in client.session.result.anomalies}
    row = next(row for row in range(300) if row not in explained)
    assert f'data-fetch="/row/{row}/explained"' in client.get(f"/row/{row}").text
    told = client.get(f"/row/{row}/explained").text
    assert "p-value" in told
    assert 'class="factors"' in told


def test_ordinary_rows_stand_beside_the_row(client):
    told = client.get("/row/70/neighbours").text
    assert told.count("<tr") == 7
    assert "11" in told


def test_another_opinion_says_where_it_disagrees(client):
    names = client.get("/methods").json()
    assert {"Occlusion", "AnomalyContribution"} <= set(names)
    told = client.get("/row/70/opinion", params={"method": "Occlusion"}).text
    assert "Both name the same column first" in told
    assert "random order" in told
    assert "of the score" in told
    error = client.get("/row/70/opinion", params={"method": "AnomalyContribution"}).text
    assert "±" in error
    assert client.get("/row/70/opinion", params={"method": "Magic"}).status_code == 400


def test_a_benign_cause_is_marked_beside_the_model_and_forgotten_with_it(client):
    model = client.session.model_file
    made = client.post("/marks", json={"row": 70, "verdict": "benign", "why": "known"}).json()
    [mark] = marks_beside(model)
    assert (mark.why, "size" in mark.cause) == ("known", True)
    again = client.post("/marks", json={"row": 7, "verdict": "benign"}).json()
    assert len(marks_beside(model)) == 1  # the same cause
    client.post("/undo", json={"id": again["id"]})
    assert [each.why for each in marks_beside(model)] == ["known"]  # the first one still stands
    client.post("/undo", json={"id": made["id"]})
    assert marks_beside(model) == []


def test_a_row_whose_cause_is_known_says_so(client):
    client.post("/marks", json={"row": 70, "verdict": "benign", "why": "known supplier"})
    assert "known to be no trouble: known supplier" in client.get("/row/7").text
    assert "known to be no trouble" not in client.get("/row/170").text  # it is low, not high


def test_the_result_is_that_of_the_command_line(client):
    from tellwhy.kinds.table import explain_table

    run = explain_table(judged_table(), top=12)
    found = client.session.result
    assert [a.row for a in found.anomalies] == [a.row for a in run.anomalies]
    np.testing.assert_allclose(found.scores, run.scores, rtol=1e-9)
