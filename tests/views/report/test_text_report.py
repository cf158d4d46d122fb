"""The page on labels of texts: colours where they belong, nothing in or out, whatever the texts hold."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner
from views.chromium import Browser

from tellwhy.classifiers import TextClassifier, load
from tellwhy.views.cli.main import app
from tellwhy.views.page import shell as limits
from tellwhy.views.page.labels import render_texts, write_text_report
from tellwhy.workflow import TextLabels, explain_texts

TEXTS = [
    "The engine will not start",
    "New brakes for my old car",
    "A rocket to the moon",
    "Orbit of the moon",
]
LABELS = ["autos", "autos", "space", "space"]
HOSTILE = [
    "<script>document.title='in'</script> moon & \"rocket\" <img src=https://x.invalid/a.png onerror=alert(1)>",
    "\u202emoon\u202c \ud800 \x00 moon\u2028new line\r\nthe end",
    "{{ 7 * 7 }} {% raw %} </style><style>*{display:none}</style> engine",
    "moon " * 20_000,
    "",
]


def page_of(texts: list[str], labels: list[str] | None = None) -> str:
    return render_texts(explain_texts(TextClassifier().fit(TEXTS, LABELS), texts, labels))


@cache
def hostile() -> TextLabels:
    labels = ["<b>autos</b>", "space</script><script>alert(1)</script>"]
    model = TextClassifier(ngrams=2).fit([*TEXTS, *HOSTILE[:3]], np.array(labels)[[0, 0, 1, 1, 0, 1, 0]])
    return explain_texts(
        model, HOSTILE, [*labels, *labels, "'\"><i>"], source="<i>mails</i>.csv", notes=["<u>note</u>"]
    )


def test_words_are_coloured_for_and_against() -> None:
    page = page_of(["The moon, a new moon!"], ["autos"])
    assert re.search(r'<mark class="for-5" title="\+[\d.]+">moon</mark>, a <mark class="against-\d"', page)
    assert "1 of 1 text gets another label than it came with" in page
    assert "came with the label autos" in page
    assert page.count("<article") == 1
    assert "None of its words is known" in page_of(["zzz"])
    assert "came with" not in page_of(["moon"])


def test_lines_and_tabs_stay_and_empty_lines_are_few() -> None:
    page = page_of(["zzz\tyyy\r\n\r\n \r\n\r\nxxx\u2028www"])
    assert "zzz yyy\n\nxxx\nwww" in page
    assert "\ufffd" not in page


def test_every_class_has_its_words() -> None:
    page = page_of(TEXTS, LABELS)
    assert "All 4 texts got the label they came with." in page
    assert "The text got the label it came with." in page_of(TEXTS[:1], LABELS[:1])
    classes = page[page.index('id="classes"') :]
    assert classes.index("moon") < classes.index("Settings")
    assert classes.count("2 texts") == 2


class Tags(HTMLParser):
    """How often each element is opened, and with which attributes."""

    def __init__(self, page: str):
        super().__init__()
        self.count: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1
        self.attributes |= {name for name, _ in attrs}


@pytest.mark.parametrize("known", [True, False], ids=["words known", "words unknown"])
def test_hostile_texts_and_labels_stay_text(known: bool) -> None:
    page = render_texts(hostile()) if known else page_of(HOSTILE)
    found, plain = Tags(page), Tags(page_of(TEXTS))
    assert (found.count["script"], found.count["style"], found.count["img"]) == (2, 1, 0)
    assert set(found.count) <= set(plain.count) | {"mark", "aside"}
    assert found.attributes <= plain.attributes
    assert "{{ 7 * 7 }}" in page.replace("</mark>", "").replace("&#39;", "'")
    assert not re.search("[\u202a-\u202e\ud800-\udfff\x00]", page)
    assert len(page) < 200_000
    assert not re.search(r"https?://(?!www\.w3\.org)", re.sub(r"https://x\.invalid", "", page))


def test_long_sources_and_notes_are_cut() -> None:
    model = TextClassifier().fit(TEXTS, LABELS)
    found = explain_texts(model, ["moon"], source="s" * 1_000_000, notes=["n" * 1_000_000] * 50)
    assert len(render_texts(found)) < 100_000


def test_a_page_that_would_be_too_large_shows_fewer_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_BYTES", 60_000)
    page = page_of(["moon " * 300] * 8)
    shown = page.count("<article")
    assert 0 < shown < 8
    assert f"The first {shown} fit on this page." in page
    assert re.search(rf"<dt>explained below</dt><dd>{shown}</dd>", page)


def test_the_page_is_written_whole(tmp_path: Path) -> None:
    path = write_text_report(hostile(), tmp_path / "texts.html")
    assert path.read_text(encoding="utf-8") == render_texts(hostile())
    assert [p.name for p in tmp_path.iterdir()] == ["texts.html"]


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    path = tmp_path / "mails.csv"
    pd.DataFrame({"body": TEXTS * 10, "topic": LABELS * 10}).to_csv(path, index=False)
    return path


def test_the_command_writes_model_and_report(mails: Path) -> None:
    out = mails.with_name("model")
    arguments = [
        "fit-svm",
        str(mails),
        "--text",
        "body",
        "--label",
        "topic",
        "--out",
        str(out),
        "--held-out",
        "0.25",
    ]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["texts"], told["wrong"], told["held_out"]) == (10, 0, 10)
    assert load(out).predict(["a new moon"]).tolist() == ["space"]
    assert "moon</mark>" in Path(told["report"]).read_text(encoding="utf-8")
    done = CliRunner().invoke(app, arguments)
    assert "0 of the 10 texts held out get another label" in done.stdout
    done = CliRunner().invoke(app, [*arguments, "--scale"])
    assert done.exit_code == 1
    assert "--scale is for tables of numbers" in done.stderr
    done = CliRunner().invoke(app, ["fit-svm", str(mails), "--text", "subject", "--label", "topic"])
    assert done.exit_code == 1
    assert "--text must name a column" in done.stderr


def test_other_texts_are_labelled_by_the_model_of_the_command(mails: Path) -> None:
    out = mails.with_name("model")
    trained = ["fit-svm", str(mails), "--text", "body", "--label", "topic", "--out", str(out)]
    assert CliRunner().invoke(app, trained).exit_code == 0
    new = mails.with_name("new.csv")
    new.write_text("body\na new moon\nthe old engine\n")
    folder = mails.with_name("labelled")
    arguments = ["explain", str(new), "--model", str(out), "--out", str(folder)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    told = " ".join(done.stdout.split())
    assert "2 texts labelled." in told
    assert "text 0" in told
    assert "labelled space, ahead of autos" in told
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "moon</mark>" in page
    again = CliRunner().invoke(app, ["report", str(folder), "--out", str(mails.with_name("again.html"))])
    assert again.exit_code == 0, again.output
    assert mails.with_name("again.html").read_text(encoding="utf-8") == page
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert (found["kind"], found["n_flagged"]) == ("labels", 0)
    assert found["anomalies"][1]["note"] == "labelled autos, ahead of space"
    refused = CliRunner().invoke(app, [*arguments, "--id", "body"])
    assert "--id does not go with a model of labels" in " ".join(refused.stderr.split())


def test_texts_of_one_class_are_refused_in_words_of_the_user(mails: Path) -> None:
    table = pd.read_csv(mails)
    table.assign(topic="space").to_csv(mails, index=False)
    done = CliRunner().invoke(
        app, ["fit-svm", str(mails), "--text", "body", "--label", "topic", "--out", str(mails) + "-m"]
    )
    assert done.exit_code == 1
    assert "at least two classes" in " ".join(done.stderr.split())
    assert "words.npz" not in done.stderr


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 360])
def test_browser_requests_nothing_and_does_not_complain(browser: Browser, width: int, tmp_path: Path) -> None:
    path = write_text_report(hostile(), tmp_path / "texts.html")
    browser.open(path, width=width)
    assert browser.requests() == [path.as_uri()]
    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.title").startswith("Why these labels")
    assert (
        browser.run("getComputedStyle(document.querySelector('mark.for-5')).backgroundColor")
        != "rgba(0, 0, 0, 0)"
    )
