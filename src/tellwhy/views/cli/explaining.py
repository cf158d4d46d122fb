"""What `tellwhy explain` was asked, and the kind of run that answers: rows, nodes, pictures, texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellwhy.views.cli import screen
from tellwhy.views.cli.models import bulk

if TYPE_CHECKING:
    from tellwhy.workflow import Run
    from tellwhy.workflow.bulk.bulk_run import BulkResult
    from tellwhy.workflow.media.media_run import MediaRun


@dataclass(frozen=True)
class Request:
    """The options of the command, together by what takes them.

    Attributes
    ----------
    named
        What to read: `names`, `sheet`, `db`.
    folder
        Where the run is written.
    shared, alarms, columns
        What every run of rows or nodes takes: the name of rows, how many, the seed; where alarms begin; which
        columns.
    kinds, table, ways
        What only tables take: what columns are, what rows are compared with, how they are judged.
    nodes
        What makes rows neighbours.
    window, texts
        Length of the stretches of a series, and columns of text.
    model
        A saved model to judge by.
    blocks
        How to go block by block.
    as_json, quiet
        How to print.
    """

    named: dict[str, Any]
    folder: Path
    shared: dict[str, Any]
    alarms: dict[str, Any]
    columns: dict[str, Any]
    kinds: dict[str, Any]
    table: dict[str, Any]
    ways: dict[str, Any]
    nodes: dict[str, Any]
    window: int | None
    texts: list[str] | None
    model: Path | None
    blocks: dict[str, Any]
    as_json: bool
    quiet: bool

    @property
    def common(self) -> dict[str, Any]:
        """What every run of rows or nodes takes."""
        return {**self.shared, **self.alarms, **self.columns}

    @property
    def of_rows(self) -> dict[str, Any]:
        """What a run of the rows of a table takes."""
        return {**self.common, **self.table, **self.ways, **self.kinds}


def explain_as_asked(request: Request) -> Run | MediaRun | BulkResult:
    """Run what the options ask for: media by what the files are, nodes, blocks of rows, or rows."""
    if (kind := _kind_of_media(request)) is not None:
        return _explain_media(kind, request)
    if any(request.nodes[name] not in (None, False) for name in ("grid", "time", "edges")):
        return _explain_nodes(request)
    if bulk.is_bulk(request.named["names"], request.blocks):
        return _explain_blocks(request)
    return _explain_rows(request) if request.model is None else _explain_by_model(request, request.model)


def _kind_of_media(request: Request) -> str | None:
    """Pictures, series or texts; None for a table, a query and what a saved model judges."""
    from tellwhy.workflow.media.kinds import is_texts, kind_of

    if request.named["db"] is not None or request.model is not None:
        return None
    files = request.named["names"]
    if is_texts(files, request.texts, request.columns["columns"]):
        return "texts"
    return kind_of(files, time=request.nodes["time"], window=request.window)


def _explain_media(kind: str, request: Request) -> MediaRun:
    from tellwhy.views.cli import media

    others: dict[str, object] = {
        f"--{name}": value for name, value in request.nodes.items() if name != "time"
    }
    others |= {f"--{name}": request.alarms[name] for name in ("alarms", "contamination")}
    others["--sheet"] = request.named["sheet"]
    others |= {f"--{name}": value for name, value in (request.table | request.kinds).items()}
    told = request.common | {name: request.table[name] for name in ("reference", "normal")}
    told |= {"time": request.nodes["time"], "window": request.window, "text": request.texts}
    return media.explain_and_tell(
        kind, request.named, request.folder, told, others, as_json=request.as_json, quiet=request.quiet
    )


def _explain_nodes(request: Request) -> Run:
    from tellwhy.views.cli import nodes

    ways = {f"--{name}": request.nodes[name] for name in ("grid", "time", "edges")}
    tables_only = request.table | request.kinds | {"model": request.model}
    nodes.check_options(ways, {f"--{name}": value for name, value in tables_only.items()})
    own = {name: request.nodes[name] for name in ("time", "edges", "neighbours")}
    asked = request.common | own | {"n_classes": request.nodes["classes"]}
    return nodes.explain_and_tell(
        request.named, request.folder, asked, as_json=request.as_json, quiet=request.quiet
    )


def _explain_blocks(request: Request) -> BulkResult:
    bulk.check_source(request.named["sheet"])
    return bulk.explain_in_blocks(
        request.named["names"],
        request.folder,
        request.model,
        request.of_rows,
        request.blocks,
        db=request.named["db"],
        as_json=request.as_json,
        quiet=request.quiet,
    )


def _explain_rows(request: Request) -> Run:
    from tellwhy.views.report import write_report
    from tellwhy.workflow import explain_table, save_run
    from tellwhy.workflow.tables.selection import named_source

    with screen.progress_bar(quiet=request.quiet), screen.warnings_as_notes():
        run = explain_table(named_source(**request.named), **request.of_rows)
        save_run(run, request.folder, add=lambda work: write_report(run, work / "report.html"))
    _tell(run, request)
    return run


def _explain_by_model(request: Request, model: Path) -> Run:
    from tellwhy.views.cli.models import with_model

    told = with_model.asked_of_model(request.of_rows)
    run, new_data = with_model.explain_with_model(
        request.named, model, request.folder, told, quiet=request.quiet
    )
    _tell(run, request, more={"new_data": with_model.new_data_json(new_data)})
    if not request.as_json:
        with_model.show_new_data(new_data, quiet=request.quiet)
    return run


def _tell(run: Run, request: Request, more: dict[str, Any] | None = None) -> None:
    """Print what was found, for people or for programs."""
    top = request.shared["top"]
    if request.as_json:
        from tellwhy.workflow.run_io import anomaly_record

        print_run(run, [anomaly_record(anomaly) for anomaly in run.anomalies[:top]], request.folder, more)
        return
    screen.notes(run.notices, quiet=request.quiet)
    screen.show_findings(run)
    screen.show_run(run, top)
    screen.show_summary(run)
    screen.say(f"Report: {request.folder / 'report.html'}")
    if not (request.folder / "anomalies.xlsx").exists():
        told = ["No anomalies.xlsx without openpyxl: `pip install 'tellwhy[excel]'`."]
        screen.notes(told, quiet=request.quiet)


def print_run(
    run: Run, found: list[dict[str, Any]], folder: Path, more: dict[str, Any] | None = None
) -> None:
    """Print a run as JSON: what was found, how, and where it was written."""
    detection = None if run.detection is None else vars(run.detection)
    told: dict[str, Any] = {"anomalies": found, "detection": detection, "out": str(folder), **run.settings}
    told |= {"n_flagged": run.n_flagged, "findings": [vars(finding) for finding in run.findings]}
    told |= {"headline": list(run.headline), "roles": dict(run.roles)}
    told |= {"threshold": run.threshold, "source": run.source, "notices": list(run.notices)}
    screen.print_json(told | (more or {}))
