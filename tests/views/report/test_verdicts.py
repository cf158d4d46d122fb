"""What the top of the page says: sentences, sureness of reasons, findings with their lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views.example_run import example_run
from views.report.test_page import Page
from zoo.anomalies import moved

from tellwhy.results.notice import Notice
from tellwhy.results.result import AlarmRule, Finding, Headline, Run
from tellwhy.views.page.anomalies import place_words
from tellwhy.views.page.overview import list_findings
from tellwhy.views.page.page import make_evidence, render
from tellwhy.views.page.scores import make_columns
from tellwhy.views.page.shell import Limits
from tellwhy.words.wording import THIN, write_p


@pytest.fixture(scope="module")
def run() -> Run:
    """The example, with verdicts: the first alarm verified, the second uncertain, the others verified."""
    plain = example_run()
    anomalies = []
    for rank, anomaly in enumerate(plain.anomalies):
        holds = anomaly.above_threshold and rank != 1
        reasons = [replace(reason, holds=holds) for reason in anomaly.reasons]
        doubt = None if holds else Notice("odd_together")
        placed = moved(anomaly, line=anomaly.row + 2)
        told = replace(placed, reasons=reasons, doubt=doubt, p_value=10.0 ** -(9 - rank / 9))
        anomalies.append(replace(told, unattributed=0.3 if rank == 1 else 0.0))
    rows = [anomaly.row for anomaly in anomalies[:3]]
    found = [
        Finding(
            "placeholder",
            ["T3"],
            rows,
            {"value": -9.0},
            {"low": 0.5, "high": 4.0},
            {"T3": -9.0},
            action="treated as missing",
        ),
        Finding(
            "drift", ["<b>TSH</b>"], [], {"size": 1.0, "first": "Monday", "last": "Friday"}, {}, {"TSH": 1.0}
        ),
    ]
    found[0] = replace(found[0], lines=[row + 2 for row in rows])
    alarms = AlarmRule("at most 10 % false alarms expected", 25, 1.0)
    first = anomalies[0].reasons[0]
    opening = Headline(3772, alarms, "row 1", first, n_explained=25, n_holding=24)
    return replace(
        plain,
        anomalies=anomalies,
        findings=found,
        alarms=AlarmRule("at most 10 % false alarms expected", 25, 1.0),
        opening=opening,
        roles={"TSH": "money in $", "patient": "names of rows"},
    )


@pytest.fixture(scope="module")
def page(run: Run) -> Page:
    return Page(render(run))


def test_sections_come_in_the_order_of_reading(page: Page) -> None:
    ids = page.ids()
    order = ["summary", "trust", "findings", "anomalies", "scores", "columns", "evidence", "settings"]
    assert [name for name in ids if name in order] == order
    assert "groups" not in ids  # findings gather rows with one cause better


def test_the_sentences_stand_on_top(run: Run, page: Page) -> None:
    words = page.texts["summary"]
    places = [words.index(sentence) for sentence in run.headline]
    assert places == sorted(places)
    assert places[-1] < words.index(run.summary)
    assert "different causes" in words or "explained by" in words


def test_findings_have_count_example_lines_and_what_was_done(run: Run, page: Page) -> None:
    first, second = list_findings(run, Limits())
    lines = ", ".join(str(line) for line in run.findings[0].lines)
    text = "T3 = −9, a placeholder (other values 0.5–4)."
    assert (first.n_rows, first.text, first.where) == ("3", text, f"lines {lines}")
    assert (first.example, first.action) == ("", "treated as missing")  # the text says the example already
    assert (second.n_rows, second.where, second.example) == ("", "whole column", "TSH = 1")
    assert (
        "<b>TSH</b> slowly rises by 1 from Monday to Friday." in page.texts["findings"]
    )  # shown as written, not as markup
    many = replace(run, findings=[run.findings[0]] * 50)
    assert "The first 40 of 50 findings are shown" in Page(render(many)).texts["findings"]


def test_each_alarm_says_how_sure_its_reason_is(run: Run, page: Page) -> None:
    words = page.texts["ranked"]
    assert words.count("verified") - words.count("not verified") == 24
    assert words.count("not verified") == 1
    assert "Only the combination of several columns is odd" in words
    assert f"30{THIN}% of the score not attributed" in words
    assert words.count("not attributed") > words.count("of the score not attributed") == 1
    assert "1 × 10⁻⁹" in words
    assert "Percentile" not in words
    assert f"line {run.anomalies[0].line}" in words


def test_places_and_chances_in_words(run: Run) -> None:
    anomaly = moved(run.anomalies[0], line=17, file="b.csv")
    assert place_words(anomaly) == "line 17 of b.csv"
    assert place_words(moved(anomaly, file=None)) == "line 17"
    assert place_words(moved(anomaly, line=None)) == f"row {anomaly.row}"
    assert [write_p(p) for p in (1.0, 0.05, 2.34e-7, 0.0)] == ["1", "0.05", "2.3 × 10⁻⁷", "< 10⁻³⁰⁰"]


def test_columns_show_their_roles_and_what_is_not_attributed(run: Run, page: Page) -> None:
    bars = make_columns(run, Limits())
    assert next(bar for bar in bars if bar.name == "TSH").role == "money in $"
    assert bars[-1].name == "not attributed"
    plain = {
        bar.name: bar.share for bar in make_columns(replace(run, anomalies=[run.anomalies[0]]), Limits())
    }
    assert "not attributed" not in plain
    half = replace(run, anomalies=[replace(run.anomalies[0], unattributed=0.5)])
    scaled = {bar.name: bar.share for bar in make_columns(half, Limits())}
    assert scaled["not attributed"] == f"50{THIN}%"
    assert scaled["TSH"] != plain["TSH"]
    assert "names of rows" in page.texts["settings"]


@pytest.mark.parametrize(("n_held", "verdict"), [(25, "strong"), (23, "strong"), (22, "fair"), (12, "weak")])
def test_the_share_of_verified_reasons_is_judged(run: Run, n_held: int, verdict: str) -> None:
    anomalies = []
    for rank, anomaly in enumerate(run.anomalies):
        reasons = [replace(reason, holds=rank < n_held) for reason in anomaly.reasons]
        anomalies.append(replace(anomaly, reasons=reasons))
    found = make_evidence(replace(run, anomalies=anomalies)).findings[0]
    assert (found.title, found.verdict) == ("Do the reasons hold?", verdict)
    assert found.figure == f"{n_held} of 25 alarms of the model"
