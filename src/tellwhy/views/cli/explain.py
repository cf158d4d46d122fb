"""The command `tellwhy explain`: odd rows of a table, nodes of a graph, pictures, stretches of a series."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellwhy.views.cli import options, screen
from tellwhy.views.cli.explaining import Request, explain_as_asked

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
    request = Request(
        named={"names": files, "sheet": sheet, "db": db},
        folder=Path(f"tellwhy-{options.first_stem(files, db)}") if out is None else out,
        shared={"id_column": id, "top": top, "random_state": seed},
        alarms={"alarms": alarms, "contamination": contamination, "fdr": fdr},
        columns=options.chosen_columns(columns, exclude, ignore),
        kinds=options.column_kinds(category, number, date, text),
        table={"reference": reference, "normal": normal, "by": options.listed(by) or (), "label": label},
        ways={"detector": detector, "method": method, "missing": missing},
        nodes={"grid": grid, "time": time, "edges": edges, "classes": classes, "neighbours": neighbours},
        window=window,
        texts=options.listed(text),
        model=model,
        blocks={"workers": workers, "all": all, "budget": budget, "ray": ray},
        as_json=json,
        quiet=quiet,
    )
    fail_above(explain_as_asked(request), fail_on_alarms)


def fail_above(run: Run | MediaRun | BulkResult, most: int | None) -> None:
    """Leave with a status of its own where more rows are alarms than a job allows."""
    n_alarms = run.n_flagged
    if most is not None and n_alarms > most:
        what = getattr(run, "kind", "rows")
        screen.note(
            f"{n_alarms:,} {what} are alarms, more than the {most:,} of --fail-on-alarms: status {TOO_MANY}."
        )
        raise typer.Exit(TOO_MANY)
