"""The command `tellwhy explain`: odd rows of a table, nodes of a graph, pictures, stretches of a series."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellwhy.views.cli import options, screen
from tellwhy.views.cli.models import bulk

if TYPE_CHECKING:
    from tellwhy.workflow import Run
    from tellwhy.workflow.bulk.bulk_run import BulkResult
    from tellwhy.workflow.media.media_run import MediaRun

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
        int | None, typer.Option(min=1, metavar="N", help="At most so many alarms: a budget.")
    ] = None,
    fdr: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Expected share of false alarms among the alarms; 0.1 by default."
        ),
    ] = None,
    contamination: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Share of all rows that are alarms, e.g. 0.02."),
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
    grid: Annotated[
        bool,
        typer.Option(
            "--grid", help="The file is an .npz with one array per feature: judge nodes in context."
        ),
    ] = False,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="Order rows by this column: spikes, shifts, stuck readings, rows odd beside others.",
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            min=2, metavar="N", help="With --time: stretches of N readings that look like no other."
        ),
    ] = None,
    edges: Annotated[
        Path | None,
        typer.Option(help="Table of pairs of rows that are neighbours: row numbers, or names in --id."),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option(min=1, max=127, help="Latent classes of --grid, --time, --edges; found by default."),
    ] = None,
    neighbours: Annotated[
        int | None, typer.Option(help="Of a node of --grid: 4 or 8, in a volume also 6, 26.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Judge the rows by a model that `tellwhy fit` saved."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Explain block by block on N processes; a folder may be named."
        ),
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", help="Block by block: write the attributions of every row as well.")
    ] = False,
    budget: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Block by block: most time for an alarm.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Block by block, as tasks of a Ray cluster; or: local."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the run; by default tellwhy-<name> here.")
    ] = None,
    fail_on_alarms: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Exit with status 3 if more than N rows are alarms."),
    ] = None,
    json: options.Json = False,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Rank the odd rows of a table and tell why each is odd.

    Writes a folder with `report.html` (a page to send to a colleague), `anomalies.csv` and `anomalies.xlsx`
    (the odd rows with their reasons), `scores.parquet`, `rows.parquet`, `explanation/` and `run.json`.

    Examples
    --------
    - `tellwhy explain data.csv`
    - `tellwhy explain today.csv --reference last_month.csv --id order_id`
    - `tellwhy explain patients.csv --normal diagnosis=healthy --top 20`
    - `tellwhy explain staff.csv --by role`: odd for an intern, though not for a manager
    - `tellwhy explain data.csv --label is_fraud --json`
    - `tellwhy explain today.csv --reference last_month.csv --fail-on-alarms 0`: a check in a nightly job
    - `tellwhy explain today.csv --model orders.tellwhy`: by a model that was fitted before
    - `tellwhy explain year/ --model orders.tellwhy --workers 8`: more rows than fit into memory
    - `tellwhy explain north.csv south.csv`, `zcat x.csv.gz | tellwhy explain -`: several files, a pipe
    - `tellwhy explain "SELECT * FROM orders" --db shop.duckdb`, `tellwhy explain book.xlsx --sheet 2`
    - `tellwhy explain cube.npz --grid`, `tellwhy explain sensor.csv --time timestamp`: odd in their context
    - `tellwhy explain photo.png`, `tellwhy explain new/ --reference good/`: odd pictures, and where they are
    - `tellwhy explain sensor.csv --time timestamp --window 40`: odd stretches, and in which channels
    - `tellwhy explain posts.jsonl --text body`: odd texts, and the words that make them so
    """
    folder = Path(f"tellwhy-{options.first_stem(files, db)}") if out is None else out
    asked: dict[str, Any] = {
        "id_column": id,
        "top": top,
        "alarms": alarms,
        "contamination": contamination,
        "fdr": fdr,
        "columns": options.listed(columns),
        "exclude": options.listed([*(exclude or []), *(ignore or [])]) or (),
        "random_state": seed,
    }
    kinds = options.column_kinds(category, number, date, text)
    named: dict[str, Any] = {"names": files, "sheet": sheet, "db": db}
    table_only = {"reference": reference, "normal": normal, "by": options.listed(by) or (), "label": label}
    texts = options.listed(text)
    if (
        db is None
        and model is None
        and (seen := _kind(files, time, window, texts, asked["columns"])) is not None
    ):
        from tellwhy.views.cli import media

        others: dict[str, object] = {
            "--grid": grid,
            "--edges": edges,
            "--classes": classes,
            "--neighbours": neighbours,
        }
        others |= {"--alarms": alarms, "--contamination": contamination, "--sheet": sheet}
        others |= {f"--{name}": value for name, value in (table_only | kinds).items()}
        told = asked | {
            "reference": reference,
            "time": time,
            "window": window,
            "text": texts,
            "normal": normal,
        }
        found = media.explain_and_tell(seen, named, folder, told, others, as_json=json, quiet=quiet)
        fail_above(found, fail_on_alarms)
        return
    if grid or time is not None or edges is not None:
        from tellwhy.views.cli import nodes

        ways = {"--grid": grid, "--time": time, "--edges": edges}
        told = table_only | kinds | {"model": model}
        nodes.check_options(ways, {f"--{name}": value for name, value in told.items()})
        asked |= {"time": time, "edges": edges, "neighbours": neighbours, "n_classes": classes}
        run = nodes.explain_and_tell(named, folder, asked, as_json=json, quiet=quiet)
        fail_above(run, fail_on_alarms)
        return
    asked |= {**table_only, "detector": detector, "method": method, "missing": missing, **kinds}
    blocks = {"workers": workers, "all": all, "budget": budget, "ray": ray}
    if bulk.is_bulk(files, blocks):
        bulk.check_source(sheet)
        done = bulk.explain_in_blocks(files, folder, model, asked, blocks, db=db, as_json=json, quiet=quiet)
        fail_above(done, fail_on_alarms)
        return
    if model is None:
        run = _explain_rows(named, folder, asked, as_json=json, quiet=quiet)
    else:
        run = _explain_by_model(named, model, folder, asked, as_json=json, quiet=quiet)
    fail_above(run, fail_on_alarms)


def _kind(
    files: list[str], time: str | None, window: int | None, text: list[str] | None, columns: list[str] | None
) -> str | None:
    from tellwhy.workflow.media.kinds import is_texts, kind_of

    return "texts" if is_texts(files, text, columns) else kind_of(files, time=time, window=window)


def fail_above(run: Run | MediaRun | BulkResult, most: int | None) -> None:
    """Leave with a status of its own where more rows are alarms than a job allows."""
    n_alarms = run.n_flagged
    if most is not None and n_alarms > most:
        what = getattr(run, "kind", "rows")
        screen.note(
            f"{n_alarms:,} {what} are alarms, more than the {most:,} of --fail-on-alarms: status {TOO_MANY}."
        )
        raise typer.Exit(TOO_MANY)


def _explain_rows(
    named: dict[str, Any], folder: Path, asked: dict[str, Any], *, as_json: bool, quiet: bool
) -> Run:
    from tellwhy.views.report import write_report
    from tellwhy.workflow import explain_table, save_run
    from tellwhy.workflow.tables.selection import named_source

    with screen.progress_bar(quiet=quiet), screen.warnings_as_notes():
        run = explain_table(named_source(**named), **asked)
        save_run(run, folder, add=lambda work: write_report(run, work / "report.html"))
    _tell(run, folder, asked["top"], as_json=as_json, quiet=quiet)
    return run


def _explain_by_model(
    named: dict[str, Any], model: Path, folder: Path, asked: dict[str, Any], *, as_json: bool, quiet: bool
) -> Run:
    from tellwhy.views.cli.models import with_model

    told = with_model.asked_of_model(asked)
    run, new_data = with_model.explain_with_model(named, model, folder, told, quiet=quiet)
    _tell(
        run,
        folder,
        asked["top"],
        as_json=as_json,
        quiet=quiet,
        more={"new_data": with_model.new_data_json(new_data)},
    )
    if not as_json:
        with_model.show_new_data(new_data, quiet=quiet)
    return run


def _tell(
    run: Run, folder: Path, top: int, *, as_json: bool, quiet: bool, more: dict[str, Any] | None = None
) -> None:
    """Print what was found, for people or for programs."""
    if as_json:
        from tellwhy.workflow.run_io import anomaly_record

        print_run(run, [anomaly_record(anomaly) for anomaly in run.anomalies[:top]], folder, more)
        return
    screen.notes(run.notices, quiet=quiet)
    screen.show_findings(run)
    screen.show_run(run, top)
    screen.show_summary(run)
    screen.say(f"Report: {folder / 'report.html'}")
    if not (folder / "anomalies.xlsx").exists():
        screen.notes(["No anomalies.xlsx without openpyxl: `pip install 'tellwhy[excel]'`."], quiet=quiet)


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
