"""Folders of earlier versions are read, or refused in a sentence."""

import json
import zipfile
from pathlib import Path

import pytest

from tellwhy.core.errors import UnreadableFile
from tellwhy.results.store import load_result, save_result

SAVED = Path(__file__).parent / "saved"


@pytest.fixture
def run_of_schema_2(tmp_path):
    with zipfile.ZipFile(SAVED / "run_2.zip") as archive:
        archive.extractall(tmp_path / "run")
    return tmp_path / "run"


def test_a_run_of_schema_2_is_read(run_of_schema_2):
    head = json.loads((run_of_schema_2 / "run.json").read_text(encoding="utf-8"))
    found = load_result(run_of_schema_2)
    assert found.schema == 3
    assert (found.summary, found.notes) == (head["summary"], head["notices"])
    assert found.headline[:2] == head["headline"][:2]
    assert found.headline[2] == "Both alarms were found by rules about the data."  # as it is said today
    assert {anomaly.known_by for anomaly in found.anomalies if anomaly.is_alarm} == {"rule"}
    for anomaly, held in zip(found.anomalies, head["anomalies"], strict=True):
        assert (anomaly.row, anomaly.line, anomaly.id) == (held["row"], held["line"], held["id"])
        assert anomaly.is_alarm is held["above_threshold"]
        assert [reason.text for reason in anomaly.reasons] == [reason["text"] for reason in held["reasons"]]
    assert [finding.text for finding in found.findings] == [finding["text"] for finding in head["findings"]]
    assert found.usual["age"].quantiles == head["typical"]["age"]["quantiles"]
    assert len(found.explanation) == len(found.table_rows) == 3


def test_its_folder_is_replaced_by_a_result_of_today(run_of_schema_2):
    found = load_result(run_of_schema_2)
    save_result(found, run_of_schema_2)
    assert not (run_of_schema_2 / "run.json").exists()
    assert load_result(run_of_schema_2).anomalies == found.anomalies


@pytest.mark.parametrize("change", [{"schema": 1}, {"anomalies": [{}]}, {"findings": 3}])
def test_what_is_no_run_is_refused_in_a_sentence(run_of_schema_2, change):
    path = run_of_schema_2 / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UnreadableFile, match=r"run\.json (has schema|lacks something|is damaged)"):
        load_result(run_of_schema_2)
