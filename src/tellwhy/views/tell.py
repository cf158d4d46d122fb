"""The last step: a result in words, or in another form. A form is one function, entered by `form`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import TypeVar

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.registry import load_entry_points
from tellwhy.results.result import Result
from tellwhy.storage.documents import make_plain

GROUP = "tellwhy.forms"
Form = Callable[[Result], str]
F = TypeVar("F", bound=Form)
FORMS: dict[str, Form] = {}


def form(name: str) -> Callable[[F], F]:
    """Enter a function as the form of this name; another package declares it as an entry point.

    Examples
    --------
    >>> @form("count")
    ... def _write_count(result): return f"{result.n_flagged} alarms"
    >>> tell(Result(source="x.csv", settings={}, anomalies=[], threshold=None), "count")
    '0 alarms'
    >>> del FORMS["count"]
    """

    def enter(write: F) -> F:
        held = FORMS.get(name)
        if held is not None and held.__module__ != write.__module__:
            raise InvalidParameter(f"The form {name!r} is taken by {held.__module__}. Name yours otherwise.")
        FORMS[name] = write
        return write

    return enter


def tell(result: Result, form: str = "text") -> str:
    """Return what was found, for people or for programs.

    Parameters
    ----------
    result
        Of `judge`, or of a run on any kind of data.
    form
        "text", "json" (the document of `result.json`), "csv" (a line for each anomaly), "html" (a page), or
        the name of a form that another package brings.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.kinds.model import fit, judge
    >>> rows = np.random.default_rng(0).normal(size=(200, 3))
    >>> rows[7, 1] = 19.0
    >>> tell(judge(fit(rows), rows)).partition(";")[0]
    '1 of 200 rows is an alarm (at most 10 % false alarms expected)'
    """
    if form not in FORMS:
        load_entry_points(GROUP)
    if form not in FORMS:
        raise InvalidParameter(f"There is no form {form!r}. There are: {', '.join(sorted(FORMS))}.")
    return FORMS[form](result)


@form("text")
def _write_text(result: Result) -> str:
    """What a manager reads, the anomalies with their reasons, and what was done."""
    lines = [*result.headline, ""]
    for rank, anomaly in enumerate(result.anomalies, start=1):
        name = anomaly.id or f"{anomaly.part.kind} {anomaly.row}"
        below = "" if anomaly.is_alarm or result.threshold is None else " (below the threshold)"
        lines.append(f"{rank}. {name}: score {anomaly.score:.4g}{below}")
        lines += [f"   {reason.text}" for reason in anomaly.reasons]
        lines += [f"   {anomaly.note}"] if anomaly.note else []
    lines += ["", *(finding.text for finding in result.findings)] if result.findings else []
    return "\n".join([*lines, "", result.summary]).strip()


@form("json")
def _write_json(result: Result) -> str:
    from tellwhy.results.schema import to_plain

    return json.dumps(make_plain(to_plain(result)), ensure_ascii=False, indent=1)


@form("csv")
def _write_csv(result: Result) -> str:
    from tellwhy.storage.csv_cells import write_rows
    from tellwhy.verdicts.sheet_rows import list_header, list_sheet_rows

    held = io.StringIO()
    write_rows(held, list_header(result), list_sheet_rows(result))
    return held.getvalue()


@form("html")
def _write_page(result: Result) -> str:
    from tellwhy.results.labelled_texts import read_labels
    from tellwhy.results.network_run import read_network
    from tellwhy.views.page.events import render_events
    from tellwhy.views.page.labels import render_texts
    from tellwhy.views.page.media import NAMES, render_media
    from tellwhy.views.page.network import render_network
    from tellwhy.views.page.page import render

    network = read_network(result)
    if network is not None:
        return render_network(network)
    labels = read_labels(result)
    if labels is not None:
        return render_texts(labels)
    if result.kind == "drift":
        from tellwhy.kinds.two_tables import read_difference
        from tellwhy.views.page.drift import render_drift

        return render_drift(read_difference(result))
    if result.kind == "insight":
        from tellwhy.kinds.insight import read_insights
        from tellwhy.views.page.insight import render_insights

        return render_insights(read_insights(result))
    if result.kind == "events":
        return render_events(result)
    return render_media(result) if result.kind in NAMES else render(result)
