"""Columns of texts in models that are fitted once, saved, and used on other tables."""

import json

import numpy as np
import pandas as pd
import pytest

from tellwhy.bulk.block import explain_block
from tellwhy.bulk.blocks import plan_blocks
from tellwhy.bulk.parts import PARTS, RECORDS, WORK
from tellwhy.bulk.plan import Job
from tellwhy.core.errors import UnreadableFile
from tellwhy.kinds import table_model
from tellwhy.kinds.new_data import compare_with_model
from tellwhy.kinds.text_columns import TextColumns
from tellwhy.results.result import Reason
from tellwhy.storage.model_file import load, read_model_file, save, write_model_file
from tellwhy.workflow import explain_new, fit_model

USUAL = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "while",
    "rain",
    "fell",
    "and",
    "wind",
    "blew",
    "over",
    "hills",
]
ODD = "send bitcoin to this wallet now please"


def mails(n, seed):
    rng = np.random.default_rng(seed)
    texts = ["hello " + " ".join(rng.choice(USUAL, 8)) for _ in range(n)]
    return pd.DataFrame({"hours": rng.normal(20, 2, n), "price": rng.normal(5, 1, n), "mail": texts})


@pytest.fixture(scope="module")
def model():
    return fit_model(mails(200, 0), text=["mail"])


@pytest.fixture(scope="module")
def new():
    frame = mails(40, 1)
    frame.loc[7, "mail"] = ODD
    frame.loc[9, "hours"] = 60.0
    return frame


def test_a_saved_model_tells_the_words_of_new_texts(model, new, tmp_path):
    again = load(save(model, tmp_path / "mails.tellwhy"))
    run = explain_new(again, new, top=2)
    assert [anomaly.row for anomaly in run.anomalies] == [7, 9]
    assert "“bitcoin”" in run.anomalies[0].reasons[0].text
    assert run.anomalies[0].reasons[0].value == ODD
    assert run.anomalies[1].reasons[0].feature == "hours"
    assert list(run.table_rows["mail"]) == [ODD, new["mail"][9]]
    assert run.settings["text"] == ["mail"]
    before = explain_new(model, new, top=2)
    assert [a.score for a in run.anomalies] == [a.score for a in before.anomalies]


def test_other_ordinary_texts_are_no_alarms_and_nothing_new(model):
    other = mails(150, 2)
    assert explain_new(model, other, top=1).n_flagged == 0
    assert all(each.share < 0.05 for each in compare_with_model(model, other).beyond)


def test_no_text_is_kept_only_words_that_recur(tmp_path):
    frame = mails(200, 0)
    frame.loc[3, "mail"] = "hello the cat confidential"
    place = save(fit_model(frame, text=["mail"]), tmp_path / "mails.tellwhy")
    head, _ = read_model_file(place)
    told = json.dumps(head)
    assert "confidential" not in told
    assert frame["mail"][0] not in told
    assert "wind" in told


def test_the_model_of_a_sample_knows_what_all_rows_held(monkeypatch):
    monkeypatch.setattr(table_model, "MOST_ROWS", 100)
    frame = mails(300, 0)
    found = fit_model(frame, text=["mail"])
    assert found.seen["hours"].n == 300
    assert found.seen["mail"].n == 100
    assert explain_new(found, mails(20, 5), top=1).anomalies[0].row >= 0


def test_texts_in_files_are_judged_block_by_block(model, new, tmp_path):
    place = save(model, tmp_path / "mails.tellwhy")
    new.to_parquet(tmp_path / "new.parquet")
    job = Job(str(place), "", str(tmp_path / "out"))
    for folder in (PARTS, RECORDS, WORK):
        (tmp_path / "out" / folder).mkdir(parents=True)
    for block in plan_blocks([tmp_path / "new.parquet"]):
        explain_block(job, block)
    told = pd.concat(pd.read_parquet(part) for part in (tmp_path / "out").rglob("*alarms*.parquet"))
    row = told[told["row"] == 7].iloc[0]
    assert "“bitcoin”" in row["reason_1"]
    assert json.loads(row["cells"])["mail"] == ODD


def test_a_made_up_list_of_words_is_refused(model, tmp_path):
    place = save(model, tmp_path / "mails.tellwhy")
    head, arrays = read_model_file(place)
    words = head["is"]["is"]["texts"]["is"]["mail"]["is"]["parts"]["is"][0]["is"]
    bag = words["bag"]["is"]
    bag["learned"]["is"]["columns_"]["is"]["cat"] = 10**6
    write_model_file(place, head, arrays)
    with pytest.raises(UnreadableFile):
        load(place)


def test_how_odd_a_text_is_is_no_number_in_the_reasons_of_others(model):
    columns = TextColumns({"mail": ["hello"]}, model.texts, np.array([-1]))
    beside = {"other": "mail", "other_value": 0.3307, "low": 16.19, "high": 23.05}
    reason = Reason("hours", 23.1, (), 0.64, kind="pair", facts=beside)
    told = columns._drop_numbers(reason).text
    assert told == "hours = 23.1 with a mail as odd as this one (there usually 16.19–23.05) · 64 %"
