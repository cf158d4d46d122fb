"""Odd texts, and the words that make them so."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.kinds.text_columns import TextModel
from tellwhy.kinds.texts import explain_documents
from tellwhy.views.cli.main import app
from tellwhy.workflow import load_run, save_run

WORDS = [f"word{chr(97 + k)}" for k in range(20)]


def posts(n=200, seed=0):
    """Texts of usual words; every one has the word 'dear'."""
    rng = np.random.default_rng(seed)
    texts = ["dear " + " ".join(rng.choice(WORDS, 10)) for _ in range(n)]
    return pd.DataFrame({"name": [f"p{k}" for k in range(n)], "body": texts, "likes": rng.integers(0, 9, n)})


def spoiled():
    frame = posts()
    frame.loc[50, "body"] = "dear <script>zorgon zorgons attack</script> worda wordb"
    frame.loc[60, "body"] = frame.loc[60, "body"].removeprefix("dear ")
    return frame


def test_new_words_are_told_where_they_stand():
    run = explain_documents(spoiled(), text="body", id_column="name", top=3)
    first = run.anomalies[0]
    assert (first.id, first.row) == ("p50", 50)
    assert first.is_alarm
    assert {word.feature for word in first.reasons[:4]} == {"script", "zorgon", "zorgons", "attack"}
    strongest = sorted(first.shown["words"], key=lambda word: -word[1])[:3]
    assert {word for word, _ in strongest} <= {"script", "zorgon", "zorgons", "attack"}


def lacking(item):
    return [reason.feature for reason in item.reasons if not reason.facts["is_present"]]


def test_a_word_that_is_missing_is_told_as_missing():
    run = explain_documents(spoiled(), text="body", top=200)
    told = next(item for item in run.anomalies if item.row == 60)
    assert "dear" in lacking(told)
    others = [item for item in run.anomalies if item.row != 60]
    assert not any("dear" in lacking(item) for item in others)


def test_of_ordinary_texts_as_many_are_alarms_as_is_stated():
    """Of texts that are all ordinary one in twenty is an alarm, and the run says that chance gives so many."""
    runs = [explain_documents(posts(seed=seed), text="body", top=1) for seed in range(5)]
    stated = sum(run.alarms.expected_false for run in runs)
    assert stated == pytest.approx(0.05 * 5 * 200)
    assert sum(run.n_flagged for run in runs) <= 1.5 * stated


def test_a_reference_is_learned_from():
    frame = spoiled().iloc[45:65].reset_index(drop=True)
    run = explain_documents(frame, text="body", reference=posts(seed=1), top=2)
    assert run.anomalies[0].row == 5
    assert run.anomalies[0].is_alarm


def test_empty_and_unknown_texts_have_an_answer():
    frame = posts()
    frame.loc[3, "body"] = None
    frame.loc[4, "body"] = "   "
    frame.loc[5, "body"] = "κανένα γνωστό"
    run = explain_documents(frame, text="body", top=200)
    assert "2 texts are empty." in run.notes
    notices = {item.row: [notice.kind for notice in item.notices] for item in run.anomalies}
    assert notices[3] == notices[4] == ["empty_text"]
    assert notices[5] == ["all_words_new"]


@pytest.mark.parametrize(
    ("frame", "settings", "match"),
    [
        (posts(), {"text": "nothing"}, "no column 'nothing' of texts"),
        (posts(), {"text": "body", "id_column": "x"}, "no column 'x' that names texts"),
        (pd.DataFrame({"body": ["", None]}), {"text": "body"}, "every cell is empty"),
        (pd.DataFrame({"body": ["hello there"]}), {"text": "body"}, "one text to compare with"),
        (posts(), {"text": "body", "reference": posts()[:1]}, "one text to compare with"),
    ],
)
def test_what_cannot_be_judged_is_told(frame, settings, match):
    with pytest.raises(InvalidInput, match=match):
        explain_documents(frame, **settings)


def test_scores_that_follow_the_number_of_words_are_told():
    rng = np.random.default_rng(0)
    many = [f"w{k}" for k in range(400)]
    texts = [" ".join(rng.choice(many, 1 + k % 60)) for k in range(200)]
    frame = pd.DataFrame({"body": texts})
    run = explain_documents(frame, text="body", top=1, likeness="paper")
    assert any("Scores follow the number of words" in notice for notice in run.notes)
    assert "one-class SVM of binary words" in run.summary
    chosen = explain_documents(frame, text="body", top=1)
    assert "how surprising their letters are" in chosen.summary
    assert not any("Scores follow" in notice for notice in chosen.notes)
    alike = [" ".join(rng.choice(many, 30, replace=False)) for _ in range(200)]
    even = explain_documents(pd.DataFrame({"body": alike}), text="body", top=1)
    assert not any("Scores follow" in notice for notice in even.notes)


def test_runs_are_saved_and_read_again(tmp_path):
    run = explain_documents(spoiled(), text="body", top=2)
    again = load_run(save_run(run, tmp_path / "run"))
    assert again.anomalies[0].shown == run.anomalies[0].shown
    assert again.names == run.names


def test_posts_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spoiled().to_json("posts.jsonl", orient="records", lines=True)
    words = ["explain", "posts.jsonl", "--text", "body", "--id", "name", "--top", "2", "--out", "run"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "zorgon" in done.stdout
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<script>zorgon" not in page
    assert '<mark class="against-' in page
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert told["kind"] == "texts"
    assert told["anomalies"][0]["name"] == "p50"
    done = CliRunner().invoke(app, [*words, "--label", "likes"])
    assert "--label does not go with texts" in done.stderr


def test_texts_marked_as_normal_are_learned_from():
    frame = spoiled().assign(kind="good")
    frame.loc[[50, 60], "kind"] = "new"
    run = explain_documents(frame, text="body", normal="kind=good", top=3)
    assert {item.row for item in run.anomalies[:2]} == {50, 60}
    assert "with kind = good" in run.summary
    with pytest.raises(InvalidParameter, match="names a column alone"):
        explain_documents(frame, text="body", normal="kind")
    with pytest.raises(InvalidParameter, match="either a reference"):
        explain_documents(frame, text="body", normal="kind=good", reference=frame)
    with pytest.raises(InvalidParameter, match="'likeness'"):
        explain_documents(frame, text="body", likeness="euclid")


def test_two_texts_of_unknown_words_are_not_alike_because_of_them():
    """What no other text has is shared with none: texts of new words stay odd however many rare ones there are."""
    rng = np.random.default_rng(1)
    usual = [f"word{k}" for k in range(30)]
    rare = [" ".join([*rng.choice(usual, 4), *(f"rare{i}x{k}" for k in range(4))]) for i in range(60)]
    plain = [" ".join(rng.choice(usual, 8)) for _ in range(60)]
    new = pd.DataFrame({"body": [" ".join(f"new{k}" for k in range(8)), plain[0]]})
    run = explain_documents(new, text="body", reference=pd.DataFrame({"body": rare + plain}), top=2)
    assert run.anomalies[0].row == 0
    assert run.anomalies[0].is_alarm
    assert not run.anomalies[1].is_alarm


@pytest.mark.parametrize("likeness", ["auto", "cosine", "paper"])
def test_every_text_is_judged_without_itself(likeness):
    frame = spoiled()
    model = TextModel.learn(list(frame["body"]), likeness=likeness)
    own = np.arange(len(frame))
    with_themselves = model.scores(list(frame["body"]), np.full(len(frame), -1))
    without = model.scores(list(frame["body"]), own)
    assert (without >= with_themselves - 1e-9).all()
    assert without.mean() > with_themselves.mean()
    np.testing.assert_array_equal(without, model.scores_of_learned())
    for k in range(5):
        told = model.relevance(frame["body"][k], k)
        own = np.array([k])
        each = [
            law.value(part.scores([frame["body"][k]], own))[0]
            for part, law in zip(model.parts, model.laws, strict=True)
        ]
        assert told.total == pytest.approx(sum(each))
        words = {word.text: word.value for word in told.words(50, 0.0)}
        assert sum(words.values()) == pytest.approx(told.total)
        if likeness != "auto":  # every text has it
            assert words.get("dear", 0.0) < 0.02 * told.total
