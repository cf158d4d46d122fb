"""Texts as a column of a table beside numbers."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.workflow import explain_table

USUAL = [
    "please",
    "send",
    "the",
    "invoice",
    "for",
    "my",
    "last",
    "order",
    "to",
    "this",
    "address",
    "again",
    "thank",
    "you",
]


def tickets(n=200, seed=0):
    rng = np.random.default_rng(seed)
    bodies = ["hello " + " ".join(rng.choice(USUAL, 8)) for _ in range(n)]
    return pd.DataFrame({"hours": rng.normal(20, 2, n), "price": rng.normal(50, 5, n), "body": bodies})


def planted():
    frame = tickets()
    frame.loc[40, "body"] = "hello transfer bitcoin into wallet immediately or else"
    frame.loc[90, "price"] = 250.0
    return frame


def by_row(run):
    return {anomaly.row: anomaly for anomaly in run.anomalies}


def test_words_are_told_inside_the_share_of_their_column():
    run = explain_table(planted(), text=["body"], top=5)
    told = by_row(run)
    reason = told[40].reasons[0]
    assert reason.feature == "body"
    assert "“bitcoin”" in reason.text
    assert reason.text.startswith("body: ")
    assert reason.text.endswith(" %")
    assert reason.share > 0.5
    assert str(reason.value).startswith("hello transfer")
    assert told[90].reasons[0].feature == "price"
    assert "body" in run.columns
    assert run.settings["text"] == ["body"]
    assert run.table_rows["body"].iloc[[a.row for a in run.anomalies].index(40)].startswith("hello transfer")
    assert not any("Left out 'body'" in notice for notice in run.notes)
    assert all("body" not in (a.nearest_normal or {}) for a in run.anomalies)


def test_a_text_that_lacks_what_all_others_have_and_an_empty_one_say_so():
    frame = tickets(seed=1)
    frame.loc[10, "body"] = ""
    new = frame.iloc[[10, 11]].reset_index(drop=True)
    new.loc[1, "body"] = new.loc[1, "body"].removeprefix("hello ")
    new.loc[1, "hours"] = new.loc[0, "hours"] = 20.0
    run = explain_table(new, reference=tickets(seed=2), text=["body"], top=2)
    reasons = {row: [r.text for r in a.reasons if r.feature == "body"] for row, a in by_row(run).items()}
    assert reasons[0][0].startswith("body: no text")
    assert "lacks “hello”" in reasons[1][0]


def test_the_headline_names_words_too():
    frame = planted().drop(index=90).reset_index(drop=True)
    run = explain_table(frame, text=["body"], top=2)
    assert run.anomalies[0].row == 40
    told = [*run.headline, *(finding.text for finding in run.findings)]
    assert any("body: “" in line and "“bitcoin”" in line for line in run.headline)
    assert not any("body = " in line for line in told)


def test_texts_of_normal_rows_are_learned_from():
    frame = planted().assign(state="done")
    frame.loc[40, "state"] = "new"
    run = explain_table(frame, text=["body"], normal="state=done", top=3)
    assert by_row(run)[40].reasons[0].feature == "body"


def test_a_column_without_recurring_words_is_left_out_as_before():
    frame = tickets().assign(order=[f"no{k}x" for k in range(200)])
    run = explain_table(frame, text=["order"], top=2)
    assert "order" not in run.columns
    assert any("'order'" in notice for notice in run.notes)
    with pytest.raises(InvalidInput, match="nowhere"):
        explain_table(frame, text=["nowhere"])


def test_the_users_table_is_not_changed():
    frame = planted()
    before = frame.copy(deep=True)
    explain_table(frame, text=["body"], top=2)
    pd.testing.assert_frame_equal(frame, before)
