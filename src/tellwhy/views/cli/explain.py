"""Tellwhy explain.

What `tellwhy explain` was asked, and the kind of run that answers: rows, nodes, pictures, texts.

The command `tellwhy explain`: odd rows of a table, nodes of a graph, pictures, stretches of a series.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellwhy.views.cli import bulk, options, screen

if TYPE_CHECKING:
    from tellwhy.bulk.run import BulkResult
    from tellwhy.results.result import Result


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


def explain_as_asked(request: Request) -> Result | BulkResult:
    """Result what the options ask for: media by what the files are, nodes, blocks of rows, or rows."""
    kind = _choose_media(request)
    if kind not in (None, "graph"):
        return _explain_media(kind, request)
    if kind == "graph" or any(request.nodes[name] not in (None, False) for name in ("grid", "time", "edges")):
        return _explain_nodes(request)
    if bulk.is_bulk(request.named["names"], request.blocks):
        return _explain_blocks(request)
    return _explain_rows(request) if request.model is None else _explain_by_model(request, request.model)


def _choose_media(request: Request) -> str | None:
    """Events, pictures, series or texts; None for a table and for nodes."""
    from tellwhy.kinds.choose_kind import find_kind, is_texts

    if request.model is not None:
        return _read_kind(request.model)
    has_classes = request.nodes["classes"] is not None
    if has_classes or any(request.nodes[name] for name in ("grid", "edges")):
        return None
    files = [] if request.named["db"] is not None else request.named["names"]
    if is_texts(files, request.texts, request.columns["columns"]):
        return "texts"
    return find_kind(files, time=request.nodes["time"], window=request.window)


def _read_kind(path: Path) -> str | None:
    """The kind of a saved model; None for one of a table."""
    from tellwhy.storage.model_file import load, name_of_class

    if name_of_class(path) in ("TableModel", ""):
        return None
    from tellwhy.kinds.model import kind_of_model

    return kind_of_model(load(path))


def _explain_media(kind: str, request: Request) -> Result:
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
        kind,
        request.named,
        request.folder,
        told,
        others,
        model=request.model,
        as_json=request.as_json,
        quiet=request.quiet,
    )


def _explain_nodes(request: Request) -> Result:
    from tellwhy.views.cli import media

    ways = {f"--{name}": request.nodes[name] for name in ("grid", "time", "edges")}
    tables_only = request.table | request.kinds
    if request.model is None and request.nodes["edges"] is None:  # edges are of one table
        tables_only["reference"] = None
    media.check_options(ways, {f"--{name}": value for name, value in tables_only.items()})
    own = {name: request.nodes[name] for name in ("time", "edges", "neighbours")}
    asked = request.common | own | {"n_classes": request.nodes["classes"] or None}
    if request.table["reference"] is not None:
        asked["reference"] = request.table["reference"]
    if request.model is not None:
        asked = {name: value for name, value in asked.items() if value not in (None, (), 0)}
    return media.explain_nodes(
        request.named,
        request.folder,
        asked,
        model=request.model,
        as_json=request.as_json,
        quiet=request.quiet,
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


def _explain_rows(request: Request) -> Result:
    from tellwhy.kinds.table import explain_table
    from tellwhy.kinds.table_rows import read_named
    from tellwhy.verdicts.run_io import check_place, save_run
    from tellwhy.views.page.page import write_report

    with screen.show_work(quiet=request.quiet):
        check_place(request.folder)
        run = explain_table(read_named(**request.named), **request.of_rows)
        save_run(run, request.folder, add=lambda work: write_report(run, work / "report.html"))
    _tell(run, request)
    return run


def _explain_by_model(request: Request, model: Path) -> Result:
    from tellwhy.views.cli import bulk as with_model

    told = with_model.check_asked_of_model(request.of_rows)
    run, new_data = with_model.explain_with_model(
        request.named, model, request.folder, told, quiet=request.quiet
    )
    _tell(run, request, more={"new_data": with_model.record_new_data(new_data)})
    if not request.as_json:
        with_model.show_new_data(new_data, quiet=request.quiet)
    return run


def _tell(run: Result, request: Request, more: dict[str, Any] | None = None) -> None:
    """Print what was found, for people or for programs."""
    top = request.shared["top"]
    if request.as_json:
        from tellwhy.verdicts.run_io import record_anomaly

        print_run(run, [record_anomaly(anomaly) for anomaly in run.anomalies[:top]], request.folder, more)
        return
    screen.print_notes(run.notes, quiet=request.quiet)
    screen.show_findings(run)
    screen.show_run(run, top)
    screen.show_summary(run)
    screen.print_line(f"Report: {request.folder / 'report.html'}")
    if not (request.folder / "anomalies.xlsx").exists():
        told = ["No anomalies.xlsx without openpyxl: `pip install 'tellwhy[excel]'`."]
        screen.print_notes(told, quiet=request.quiet)


def print_run(
    run: Result, found: list[dict[str, Any]], folder: Path, more: dict[str, Any] | None = None
) -> None:
    """Print a run as JSON: what was found, how, and where it was written."""
    from tellwhy.results.schema import to_plain

    detection = None if run.detection is None else vars(run.detection)
    told: dict[str, Any] = {"anomalies": found, "detection": detection, "out": str(folder), **run.settings}
    told |= {"n_flagged": run.n_flagged, "findings": [to_plain(finding) for finding in run.findings]}
    told |= {"headline": list(run.headline), "roles": dict(run.roles)}
    told |= {"threshold": run.threshold, "source": run.source, "notices": run.notes}
    screen.print_json(told | (more or {}))


TOO_MANY = 3  # exit status of --fail-on-alarms


def explain_command(
    files: options.Files,
    *,
    sheet: options.Sheet = None,
    db: options.Database = None,
    reference: options.Reference = None,
    normal: options.Normal = None,
    id: Annotated[
        str | None, typer.Option(metavar="COL", help="Column that names rows in the output.")
    ] = None,
    detector: options.Detector = "auto",
    method: Annotated[str, typer.Option(help="auto, or a name from `tellwhy methods`.")] = "auto",
    top: Annotated[int, typer.Option(min=1, max=10_000, help="How many rows to show.")] = 10,
    alarms: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Raise at most this many alarms.")
    ] = None,
    fdr: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Expected share of false alarms among the alarms; 0.1 by default."
        ),
    ] = None,
    contamination: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Share of all rows to raise as alarms, e.g. 0.02."),
    ] = None,
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    ignore: options.Ignore = None,
    by: options.By = None,
    category: options.Category = None,
    number: options.Number = None,
    date: options.Date = None,
    text: options.Text = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COL[=VALUE]",
            help="Column that marks true anomalies (COL!=VALUE: every other value); never a feature.",
        ),
    ] = None,
    missing: options.Missing = "impute",
    second_opinions: Annotated[
        bool,
        typer.Option("--second-opinions", help="Ask other methods why the same rows are odd."),
    ] = False,
    grid: options.IsGrid = False,
    time: options.Time = None,
    window: options.Window = None,
    edges: options.Edges = None,
    classes: options.Classes = None,
    neighbours: options.Neighbours = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Judge the rows with a model that `tellwhy fit` saved."),
    ] = None,
    expect: options.Expect = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Explain block by block on N processes; FILE may be a folder."),
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", help="Block by block: also write the attributions of every row.")
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Block by block: the most time to spend on one alarm."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Block by block, on the Ray cluster at this address, or 'local'."
        ),
    ] = None,
    to_table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --db and --id: write scores and reasons into a new table."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the run; by default tellwhy-NAME here.")
    ] = None,
    fail_on_alarms: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Exit with status 3 if more than N rows are alarms."),
    ] = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Rank the odd rows of a table and tell why each is odd.

    Writes a folder with `report.html` (a page to send to a colleague), `anomalies.csv` and `anomalies.xlsx`
    (the odd rows with their reasons), `scores.parquet`, `rows.parquet`, `explanation/` and `result.json`.

    Examples
    --------
    - `tellwhy explain data.csv`
    - `tellwhy explain today.csv --reference last_month.csv --id order_id`
    - `tellwhy explain patients.csv --normal diagnosis=healthy --top 20`
    - `tellwhy explain staff.csv --by role`: odd for an intern, though not for a manager
    - `tellwhy explain data.csv --label is_fraud --json`
    - `tellwhy explain today.csv --reference last_month.csv --fail-on-alarms 0`: a check in a nightly job
    - `tellwhy explain today.csv --model orders.tellwhy`: with a model that was fitted earlier
    - `tellwhy explain year/ --model orders.tellwhy --workers 8`: more rows than fit into memory
    - `tellwhy explain north.csv south.csv`, `zcat x.csv.gz | tellwhy explain -`: several files, a pipe
    - `tellwhy explain "SELECT * FROM orders" --db shop.duckdb`, `tellwhy explain book.xlsx --sheet 2`
    - `tellwhy explain "SELECT * FROM orders" --db postgresql://host/shop --id id --to-table odd_orders`
    - `tellwhy explain sensor.csv --time timestamp`: what happened, when, in which channel
    - `tellwhy explain week.csv --time timestamp --model pump.tellwhy`: the same, beside earlier weeks
    - `tellwhy explain cube.npz --grid`, `tellwhy explain s.csv --time at --classes 2`: odd in their context
    - `tellwhy explain new/ --model good.tellwhy`: with a model of pictures; series and texts work alike
    - `tellwhy explain photo.png`, `tellwhy explain new/ --reference good/`: odd pictures, and where they are
    - `tellwhy explain sensor.csv --time timestamp --window 40`: odd stretches, and in which channels
    - `tellwhy explain posts.jsonl --text body`: odd texts, and the words that make them so
    """
    request = Request(
        named={"names": files, "sheet": sheet, "db": db},
        folder=Path(f"tellwhy-{options.name_first_stem(files, db)}") if out is None else out,
        shared={"id_column": id, "top": top, "random_state": seed},
        alarms={"alarms": alarms, "contamination": contamination, "fdr": fdr},
        columns=options.choose_columns(columns, exclude, ignore),
        kinds=options.collect_kinds(category, number, date, text),
        table={
            "reference": reference,
            "normal": normal,
            "by": options.split_options(by) or (),
            "label": label,
        },
        ways={
            "detector": detector,
            "method": method,
            "missing": missing,
            "second_opinions": second_opinions,
        },
        nodes={"grid": grid, "time": time, "edges": edges, "classes": classes, "neighbours": neighbours},
        window=window,
        texts=options.split_options(text),
        model=model,
        blocks={"workers": workers, "all": all, "budget": budget, "ray": ray, "to_table": to_table},
        as_json=json,
        quiet=quiet,
    )
    options.check_expected(model, expect)
    if dry_run:
        show_plan(request)
    else:
        fail_above(explain_as_asked(request), fail_on_alarms)


def show_plan(request: Request) -> None:
    """Say what would be read, learned from and written, and do none of it."""
    from tellwhy.verdicts.run_io import check_place

    files, db = request.named["names"], request.named["db"]
    is_of_nodes = any(request.nodes[name] not in (None, False) for name in ("grid", "edges", "classes"))
    media = _choose_media(request)
    in_blocks = media is None and not is_of_nodes and bulk.is_bulk(files, request.blocks)
    if not in_blocks:
        check_place(request.folder)
    reference = request.table["reference"]
    learned = f"the rows of {reference}" if reference else "the rows themselves, each beside all others"
    what = "nodes" if is_of_nodes else media or "rows of a table"
    screen.say_plan(
        [*files, *([str(db)] if db else []), *([str(reference)] if reference else [])],
        kind=f"{what}, block by block" if in_blocks else what,
        learned=f"what {request.model} learned" if request.model else learned,
        written=request.folder,
    )


def fail_above(run: Result | BulkResult, most: int | None) -> None:
    """Leave with a status of its own where more rows are alarms than a job allows."""
    n_alarms = run.n_flagged
    if most is not None and n_alarms > most:
        kind = getattr(run, "kind", "table")
        what = {"table": "rows", "graph": "nodes"}.get(kind, kind)
        screen.note(
            f"{n_alarms:,} {what} are alarms, more than the {most:,} of --fail-on-alarms: status {TOO_MANY}."
        )
        raise typer.Exit(TOO_MANY)
