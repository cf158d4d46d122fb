"""Which sentences, in which order: of findings, of reasons, of the headline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tellwhy.results.notice import Notice
from tellwhy.results.result import Anomaly, Finding, Headline, Reason
from tellwhy.words.english import reasons as english
from tellwhy.words.english.findings import ROWS, SENTENCES, Sentence
from tellwhy.words.english.notices import NOTICES, UNCERTAIN
from tellwhy.words.numbers import write_cells, write_plain, write_rows

MOST_SURE = 0.995
MOST_CELLS = 4  # of a row, told with what is wrong with them


def _find_sentence(found: Finding) -> Sentence:
    return SENTENCES[found.form or found.kind]


def _write_clause(found: Finding, subject: str = "") -> str:
    """What is wrong, and how sure that is, where it is known; of several rows, the first is the example."""
    name = found.columns[0] if found.columns else ""
    own = dict(found.own[0]) if found.own else {}
    if found.expected:
        own["expected"] = found.expected[0]
    told = replace(found, usual={**found.usual, **own}) if own else found
    words = _find_sentence(found).clause(told, subject or name)
    return f"{words}, {_write_sureness(found)}" if found.probabilities else words


def _write_sureness(found: Finding) -> str:
    """'97 % sure', or 'suspect (72 %)' where the cells were kept for that; of several rows the least sure."""
    least = min(found.probabilities)
    share = "> 99 %" if least > MOST_SURE else f"{100 * least:.0f} %"
    if least < english.SURE:
        return f"suspect ({share})"
    return f"{share} sure" if len(found.probabilities) == 1 or least > MOST_SURE else f"≥ {share} sure"


def _end_sentence(words: str) -> str:
    return words if words.endswith("?") else f"{words}."


def finding(found: Finding) -> str:
    """Return the finding in one line, with the number of its rows.

    Examples
    --------
    >>> finding(Finding("placeholder", ["age"], [3, 77], {"value": 999}, {"low": 18, "high": 94}))
    '2 rows: age = 999, a placeholder (other values 18–94).'
    """
    head = _find_sentence(found).head.format(rows=write_rows(found.n_rows))
    return _end_sentence(f"{head}: {_write_clause(found)}" if head else _write_clause(found))


def finding_without_count(found: Finding) -> str:
    """Return the finding without the number of its rows, for views where that has a place of its own."""
    return _end_sentence(_write_clause(found)) if _find_sentence(found).head == ROWS else finding(found)


def example(found: Finding) -> str:
    """Return cells of one row that the finding is about: 'total = 12, price = 3'."""
    return write_cells(found.cells)


def new_example(found: Finding) -> str:
    """Return the example, unless the finding shows it already."""
    return "" if _find_sentence(found).shows else example(found)


def cause(found: Finding, subject: str = "") -> str:
    """Say what is wrong, and in how many rows, without the number in front.

    Parameters
    ----------
    found
        The finding.
    subject
        What it is told of; by default the column.

    Examples
    --------
    >>> found = Finding("placeholder", ["age"], range(50), {"value": 999}, {"low": 18, "high": 94})
    >>> cause(found)
    'age = 999, a placeholder (other values 18–94); 50 rows'
    """
    sentence = _find_sentence(found)
    words = _write_clause(found, subject)
    if not sentence.head or (found.n_rows == 1 and sentence.head == ROWS):
        return words
    return f"{words}; {sentence.head.format(rows=write_rows(found.n_rows))}"


def of_row(found: Finding, cells: Mapping[str, Any]) -> str:
    """Tell a finding of one of its rows, whose cells come first; how sure it is stands beside a reason.

    Parameters
    ----------
    found
        The finding.
    cells
        Of the row, by column: those that the finding is about.
    """
    found = replace(found, probabilities=())
    told = _write_cell_and_others(cells)
    begins = _find_sentence(found).begins
    if not told or begins == "cell":
        return cause(found)
    if begins == "subject" and len(found.columns) == 1:
        return cause(found, told)  # 'bill = 142 is 10 times too large'
    return f"{told}: {cause(found)}"


def _write_cell_and_others(cells: Mapping[str, Any]) -> str:
    """'total = 12 with price = 3 and quantity = 5'."""
    words = [f"{name} = {write_plain(value)}" for name, value in list(cells.items())[:MOST_CELLS]]
    others = " and ".join(words[1:])
    return f"{words[0]} with {others}" if others else "".join(words)


def reason(told: Reason) -> str:
    """Return a reason in a line, with its share of the score.

    Examples
    --------
    >>> reason(Reason("TSH", 145.0, [0.9, 4.1], 0.71, facts={"column": "number"}))
    'TSH = 145 (usually 0.9–4.1) · 71 %'
    """
    share = told.facts.get("pair_share", told.share)
    return f"{reason_phrase(told)} · {100 * share:.0f} %" if told.is_share else reason_phrase(told)


def reason_phrase(told: Reason) -> str:
    """Return a reason without its share."""
    return english.explain_reason(told) if told.finding is None else of_row(told.finding, told.finding.cells)


def notice(said: Notice) -> str:
    """Return what a notice says, after the files that it is about where these are not all."""
    text = NOTICES[said.kind](said)
    return f"{', '.join(said.facts['files'])}: {text}" if "files" in said.facts else text


def doubt(said: Notice) -> str:
    """Return what is not sure about a row, after the word that it is uncertain."""
    return f"{UNCERTAIN.get(said.kind, '')}{notice(said)}"


def known(anomaly: Anomaly) -> str:
    """Return how the reasons of a row are known."""
    return english.tell_known(anomaly)


def headline(found: Headline) -> list[str]:
    """Return the alarms, the foremost of them, and whether the reasons hold, each in a sentence."""
    more = [notice(each) for each in found.more]
    if found.is_written:
        return more
    if not found.n_explained:
        return [english.tell_no_alarm(found), *more]
    why = "" if found.reason is None else reason_phrase(found.reason)
    return [
        english.count_alarms(found),
        english.name_foremost(found, why),
        english.tell_how_sure(found),
        *more,
    ]
