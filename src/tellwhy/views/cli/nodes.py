"""`tellwhy explain` for grids, sequences and graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tellwhy.core.errors import InvalidParameter
from tellwhy.kinds.graph import explain_graph
from tellwhy.kinds.model import judge
from tellwhy.kinds.table_rows import named_source
from tellwhy.results.result import Result
from tellwhy.storage.model_file import load
from tellwhy.verdicts.run_io import anomaly_record, check_place, save_run
from tellwhy.views.cli import screen
from tellwhy.views.cli.explain import print_run
from tellwhy.views.cli.terminal import escape
from tellwhy.views.page.page import write_report


def check_options(ways: Mapping[str, object], table_only: Mapping[str, object]) -> None:
    """Raise unless exactly one way to read neighbours is given, and nothing that only tables have."""
    given = [name for name, value in ways.items() if value] or ["a model of nodes"]
    if len(given) > 1:
        raise InvalidParameter(f"Give one of {', '.join(ways)}; got {' and '.join(given)}.")
    for name, value in table_only.items():
        if value:
            raise InvalidParameter(
                f"{name} does not go with {given[0]}: what has neighbours is judged beside them. "
                "Leave it out."
            )


def check_grid(names: Sequence[str], asked: Mapping[str, Any]) -> None:
    """Raise unless a grid is one file."""
    is_grid = asked["time"] is None and asked["edges"] is None
    if is_grid and (len(names) != 1 or names[0] == "-"):
        raise InvalidParameter("--grid takes one .npz or .npy file; put all features of a grid into it.")


def explain_and_tell(
    named: Mapping[str, Any],
    folder: Path,
    asked: Mapping[str, Any],
    *,
    model: Path | None = None,
    as_json: bool,
    quiet: bool,
) -> Result:
    """Find odd nodes, write the folder of the run, and print what was found."""
    with screen.working(quiet=quiet):
        check_place(folder)
        if model is None:
            check_grid(named["names"], asked)
        source = named_source(**named)
        run = explain_graph(source, **asked).run if model is None else judge(load(model), source, **asked)
        save_run(run, folder, add=lambda work: write_report(run, work / "report.html"))
    top = run.settings["top"]
    if as_json:
        print_run(run, records(run, top), folder)
        return run
    screen.notes(run.notes, quiet=quiet)
    screen.show_findings(run)
    show_nodes(run, top)
    screen.say(f"Report: {folder / 'report.html'}")
    return run


def records(run: Result, top: int) -> list[dict[str, Any]]:
    """Return the ranked nodes as `--json` prints them: with class and context."""
    extras = run.explanation.extras
    return [
        anomaly_record(anomaly)
        | {"class": int(extras["class"][k]), "context_share": float(extras["context_share"][k])}
        for k, anomaly in enumerate(run.anomalies[:top])
    ]


def show_nodes(run: Result, top: int) -> None:
    """Print the ranked nodes with class, context and reasons."""
    extras = run.explanation.extras
    table = screen.plain_table()
    table.add_column("#", justify="right", style="dim")
    table.add_column("node", style="bold")
    for name in ("class", "score", "of which context"):
        table.add_column(name, justify="right")
    table.add_column("why: column = value (what is usual in its class) · share of the score", overflow="fold")
    for k, anomaly in enumerate(run.anomalies[:top]):
        name = anomaly.id or f"row {anomaly.row}"
        share = f"{extras['context_share'][k]:.0%}"
        cells = (str(k + 1), escape(name), str(extras["class"][k]), f"{anomaly.score:.4g}", share)
        table.add_row(*cells, screen.reasons_of(anomaly) + screen.below_mark(anomaly))
    console = screen.out()
    console.print(table)
    console.print(escape(run.summary))
