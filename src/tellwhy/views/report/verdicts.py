"""What a reader acts on first: what is wrong with the data, and how sure each row's reason is."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from tellwhy.views import wording
from tellwhy.views.report.limits import Limits, clipped
from tellwhy.workflow.run import Anomaly, Finding, Run
from tellwhy.workflow.spreadsheets.sheet_rows import shown_places

Text = Markup | str

MOST_PLACES = 6
LEAST_LEFT_OVER = 0.05  # share of a score; less of it is not worth a word
_NO_QUOTES = str.maketrans("", "", "'\"")
SMALLEST_P = 1e-300  # a p-value below is 0 in a computer's arithmetic


@dataclass(frozen=True)
class DataFinding:
    """One cause: how many rows, what is wrong, an example, where, and what was done."""

    n_rows: str
    text: Text
    example: Text
    where: str
    action: str
    links: list[int]  # rows of it that have a card


def findings(run: Run, limits: Limits) -> list[DataFinding]:
    """Return what was found, most important first."""
    with_card = {anomaly.row for anomaly in run.anomalies[: limits.cards]}
    made = []
    for found in run.findings[: limits.findings]:
        made.append(
            DataFinding(
                n_rows=wording.number(len(found.rows)) if found.rows else "",
                text=clipped(_without_count(found.text), 260),
                example=clipped(_new_example(found), 80),
                where=_places(found),
                action=wording.shortened(found.action, 60),
                links=[int(row) for row in found.rows if row in with_card][:1],
            )
        )
    return made


def _new_example(found: Finding) -> str:
    """The example, unless the finding's text says it already."""
    bare = found.text.translate(_NO_QUOTES)
    return "" if found.example.translate(_NO_QUOTES) in bare else found.example


def _without_count(text: str) -> str:
    """The finding without the number of rows in front, which has a column of its own."""
    parts = text.split(": ", maxsplit=1)
    is_count = parts[0].endswith((" row", " rows")) and parts[0][:1].isdigit()
    return parts[1] if len(parts) == 2 and is_count else text


def _places(found: Finding) -> str:
    """'lines 5, 79', or rows where lines are not known."""
    shown = shown_places(found, MOST_PLACES)
    if not shown:
        return "whole column"
    n = len(found.rows)
    word = "line" if found.lines else "row"
    listed = ", ".join(wording.shortened(place, 60) for place in shown)
    more = f" and {wording.number(n - MOST_PLACES)} more" if n > MOST_PLACES else ""
    return f"{word if n == 1 else word + 's'} {listed}{more}"


def place_words(anomaly: Anomaly) -> str:
    """Where a row is to be looked up: 'line 137 of b.csv', 'line 137', or 'row 135'."""
    if anomaly.line is None:
        return f"row {anomaly.row}"
    return f"line {anomaly.line}" + (f" of {anomaly.file}" if anomaly.file else "")


def p_words(p_value: float) -> str:
    """A p-value with two digits.

    Examples
    --------
    >>> p_words(0.0123), p_words(0.0), p_words(4.4e-14)
    ('0.012', '< 10⁻³⁰⁰', '4.4 × 10⁻¹⁴')
    """
    return "< 10⁻³⁰⁰" if p_value < SMALLEST_P else wording.number(p_value, 2)


def sureness(anomaly: Anomaly) -> str:
    """Whether a row's reason was verified; nothing for rows that are no alarms."""
    if not anomaly.above_threshold:
        return ""
    return "reason verified" if anomaly.holds else "reason uncertain"


def note_words(anomaly: Anomaly) -> str:
    """What is not sure about an alarm, without saying again that it is uncertain."""
    if not anomaly.above_threshold:
        return ""
    text = wording.shortened(anomaly.note, 300).removeprefix("reason uncertain").lstrip(": ")
    return text[:1].upper() + text[1:]


def left_over_words(anomaly: Anomaly) -> str:
    """'12 % of the score is not attributed', where it is worth a word."""
    if anomaly.unattributed < LEAST_LEFT_OVER:
        return ""
    return f"{wording.share(anomaly.unattributed)} of the score not attributed"
