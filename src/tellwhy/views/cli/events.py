"""Events of a series on the terminal and in JSON: a line each."""

from __future__ import annotations

from typing import Any

from tellwhy.results.result import Anomaly, Result
from tellwhy.storage.documents import plain
from tellwhy.views.cli import screen
from tellwhy.views.cli.terminal import escape
from tellwhy.words import tell
from tellwhy.words.english.events import how_sure


def event_record(event: Anomaly) -> dict[str, Any]:
    """One event as `--json` prints it."""
    reason = event.reasons[0]
    facts = reason.facts
    told: dict[str, Any] = plain(
        {
            "row": event.row,
            "start": facts["first"],
            "end": facts["last"],
            "readings": facts["n"],
            "channel": reason.feature,
            "other_channels": list(facts["others"]),
            "kind": facts["what"],
            "size": facts["size"],
            "value": reason.value,
            "expected": facts["expected"],
            "usual": list(reason.typical),
            "expected_false": facts["expected_false"],
            "told": event.is_alarm,
            "text": reason.text,
        }
    )
    return told


def show_events(run: Result) -> None:
    """Print the headline, the events with when, what and how sure, and what was done."""
    console = screen.out()
    console.print(f"[bold]{escape(' '.join(run.headline))}[/]")
    if run.anomalies:
        table = screen.plain_table()
        table.add_column("#", justify="right", style="dim")
        table.add_column("when", style="bold", overflow="fold")
        table.add_column("what", overflow="fold")
        table.add_column("false ones to expect", overflow="fold")
        for rank, event in enumerate(run.anomalies, start=1):
            sure = how_sure(event.reasons[0].facts["expected_false"])
            mark = "" if event.is_alarm else " [dim](to watch)[/]"
            what = escape(tell.reason_phrase(event.reasons[0])) + mark
            table.add_row(str(rank), escape(str(event.id)), what, sure)
        console.print(table)
    console.print(escape(run.summary))
