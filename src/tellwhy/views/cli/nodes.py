"""`tellwhy explain` for grids, sequences and graphs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import screen
from tellwhy.views.report import write_report
from tellwhy.workflow import GraphRun, explain_graph, save_run
from tellwhy.workflow.graphs.node_picture import save_picture
from tellwhy.workflow.run_io import anomaly_record


def check_options(ways: Mapping[str, Any], table_only: Mapping[str, Any]) -> None:
    """Raise unless exactly one way to read neighbours is given, and nothing that only tables have."""
    given = [name for name, value in ways.items() if value]
    if len(given) > 1:
        raise InvalidParameter(f"Give one of {', '.join(ways)}; got {' and '.join(given)}.")
    for name, value in table_only.items():
        if value:
            raise InvalidParameter(
                f"{name} does not go with {given[0]}: nodes are compared with their own classes."
            )


def explain_nodes(file: Path, folder: Path, **settings: Any) -> GraphRun:
    """Find and explain odd nodes, and write the folder of the run."""
    found = explain_graph(file, **settings)

    def add(work: Path) -> None:
        save_picture(found.picture, work)
        write_report(found.run, work / "report.html", found.picture)

    save_run(found.run, folder, add=add)
    return found


def records(found: GraphRun, top: int) -> list[dict[str, Any]]:
    """Return the ranked nodes as `--json` prints them: with class and context."""
    extras = found.run.explanation.extras
    return [
        anomaly_record(anomaly)
        | {"class": int(extras["class"][k]), "context_share": float(extras["context_share"][k])}
        for k, anomaly in enumerate(found.run.anomalies[:top])
    ]


def show_nodes(found: GraphRun, top: int) -> None:
    """Print the ranked nodes with class, context and reasons."""
    extras = found.run.explanation.extras
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("#", justify="right", style="dim")
    table.add_column("node", style="bold")
    for name in ("class", "score", "of which context"):
        table.add_column(name, justify="right")
    table.add_column("why: column = value (what is usual in its class) · share of the score", overflow="fold")
    for k, anomaly in enumerate(found.run.anomalies[:top]):
        why = "\n".join(escape(reason.text) for reason in anomaly.reasons) or "no column stands out"
        mark = "" if anomaly.above_threshold else " [dim](below the threshold)[/]"
        share = f"{extras['context_share'][k]:.0%}"
        cells = str(k + 1), escape(anomaly.id or ""), str(extras["class"][k]), f"{anomaly.score:.4g}", share
        table.add_row(*cells, why + mark)
    screen.out().print(table)
    screen.out().print(escape(found.run.summary))


def tell_nodes(found: GraphRun, top: int, folder: Path, *, quiet: bool) -> None:
    """Print notices, the ranked nodes and where the report is."""
    if not quiet:
        for text in found.run.notices:
            screen.note(text)
    show_nodes(found, top)
    typer.echo(f"Report: {folder / 'report.html'}")
