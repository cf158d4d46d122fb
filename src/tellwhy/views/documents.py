"""Results as documents for programs that ask: a page of them at a time, of a size that can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tellwhy.results.result import Finding, Result
from tellwhy.results.schema import ADDRESS, make_json_schema, to_plain
from tellwhy.storage.documents import make_plain

MOST_NAMED = 20  # rows that a finding names in a document; its `n` counts all
Document = dict[str, Any]
WHOLE = {"type": "integer", "minimum": 0}
PAGE: Document = {
    "type": "object",
    "description": "Which part of a list this is: `first` counts from 0, `next` begins the next page.",
    "properties": {
        "first": WHOLE,
        "n": WHOLE,
        "of": WHOLE,
        "next": {"anyOf": [WHOLE, {"type": "null"}]},
    },
    "required": ["first", "n", "of", "next"],
}


def page_of(items: Sequence[Any], first: int, most: int) -> tuple[list[Any], Document]:
    """Return some of the items, and which they are.

    Examples
    --------
    >>> page_of("abcde", 2, 2)
    (['c', 'd'], {'first': 2, 'n': 2, 'of': 5, 'next': 4})
    """
    some = list(items[first : first + most])
    end = first + len(some)
    following = end if end < len(items) else None
    return some, {"first": first, "n": len(some), "of": len(items), "next": following}


def paged_result(result: Result, first: int, most: int) -> tuple[Result, Document]:
    """Return the same result with some of its anomalies, and which they are; findings come with the first."""
    anomalies, page = page_of(result.anomalies, first, most)
    findings = result.findings if first == 0 else ()
    return replace(result, anomalies=anomalies, findings=[short(each) for each in findings]), page


def short(finding: Finding) -> Finding:
    """The same finding, of the first of its rows."""
    if len(finding.rows) <= MOST_NAMED:
        return finding
    lines = finding.lines[:MOST_NAMED]
    files = finding.files[:MOST_NAMED]
    some = finding.of_rows(range(MOST_NAMED))
    return replace(some, n=finding.n_rows, lines=lines, files=files)


def result_document(result: Result) -> Document:
    """The document of a result, as `result.json` holds it."""
    return dict(make_plain(to_plain(result)))


def result_schema(also: Mapping[str, Any], required: Sequence[str] = ()) -> Document:
    """The JSON Schema of that document, with more properties."""
    whole = make_json_schema()
    return {
        **whole,
        "properties": {**whole["properties"], **also},
        "required": [*whole["required"], *required],
    }


def object_schema(properties: Mapping[str, Any], parts: Sequence[str] = ()) -> Document:
    """The JSON Schema of an object that has all of these properties; `parts` are those of a result."""
    known = make_json_schema()["$defs"] if parts else {}
    return {
        "$schema": ADDRESS,
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        **({"$defs": known} if known else {}),
    }
