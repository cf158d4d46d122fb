"""Commands of `tellwhy`. Exit status: 0 done, 1 an error (said on stderr), 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

import tellwhy
from tellwhy.core.errors import TellwhyError
from tellwhy.core.registry import cards
from tellwhy.core.storage.files import plain
from tellwhy.views.cli import nodes, screen
from tellwhy.views.cli.fit_svm import fit_svm_command
from tellwhy.views.cli.insight import insight_command
from tellwhy.views.report import write_report
from tellwhy.workflow import Run, compare_table, explain_table, load_run, save_run
from tellwhy.workflow.explain import methods
from tellwhy.workflow.graphs.node_picture import load_picture
from tellwhy.workflow.run_io import anomaly_record

app = typer.Typer(
    name="tellwhy",
    help="Find what is odd in your data, and tell why.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

INTERRUPTED = 130

File = Annotated[
    Path, typer.Argument(help="A table: CSV, TSV, Parquet, JSON lines or Excel; .gz and .zip too.")
]
Reference = Annotated[Path | None, typer.Option(help="A table of ordinary rows to compare with.")]
Normal = Annotated[
    str | None, typer.Option(metavar="COL=VALUE", help="Rows with this value are the ordinary ones.")
]
Detector = Annotated[str, typer.Option(help=f"auto, {', '.join(c.name for c in cards('detector'))}.")]
Columns = Annotated[
    list[str] | None, typer.Option(help="Use only this column; repeat for more, or separate by commas.")
]
Exclude = Annotated[
    list[str] | None, typer.Option(help="Do not use this column; repeat, or separate by commas.")
]
Missing = Annotated[str, typer.Option(help="Missing cells: impute (by the median), drop (the row) or error.")]
Seed = Annotated[int, typer.Option(help="Seed of every random draw.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notices.")]


P = ParamSpec("P")


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn this library's errors and Ctrl-C into a line on stderr and an exit status."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt as stop:
            screen.fail(str(stop) or "Interrupted; nothing was written.")
            raise typer.Exit(INTERRUPTED) from None
        except TellwhyError as error:
            screen.fail(str(error))
            raise typer.Exit(1) from None

    return run


@app.callback(invoke_without_command=True)
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself."""
    if version:
        typer.echo(f"tellwhy {tellwhy.__version__}")
        raise typer.Exit


@app.command("explain")
@guarded
def explain_command(
    file: File,
    *,
    reference: Reference = None,
    normal: Normal = None,
    id: Annotated[
        str | None, typer.Option(metavar="COL", help="Column that names rows in the output.")
    ] = None,
    detector: Detector = "auto",
    method: Annotated[str, typer.Option(help="auto, or a name from `tellwhy methods`.")] = "auto",
    top: Annotated[int, typer.Option(min=1, max=10_000, help="How many rows to show.")] = 10,
    contamination: Annotated[
        float | None,
        typer.Option(help="Share of rows above the threshold, e.g. 0.02; by default a robust fence."),
    ] = None,
    columns: Columns = None,
    exclude: Exclude = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COL[=VALUE]", help="Column that marks true anomalies; never a feature."),
    ] = None,
    missing: Missing = "impute",
    grid: Annotated[
        bool,
        typer.Option(
            "--grid", help="The file is an .npz with one array per feature: judge nodes in context."
        ),
    ] = False,
    time: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Order rows by this column, and judge each beside its neighbours."),
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
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the run; by default tellwhy-<name> here.")
    ] = None,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Rank the odd rows of a table and tell why each is odd.

    Writes a folder with `report.html` (a page to send to a colleague), `anomalies.csv`, `scores.parquet`,
    `explanation/` and `run.json`.

    Examples
    --------
    - `tellwhy explain data.csv`
    - `tellwhy explain today.csv --reference last_month.csv --id order_id`
    - `tellwhy explain patients.csv --normal diagnosis=healthy --top 20`
    - `tellwhy explain data.csv --label is_fraud --json`
    - `tellwhy explain cube.npz --grid`, `tellwhy explain sensor.csv --time timestamp`: odd in their context
    """
    folder = Path(f"tellwhy-{_stem(file)}") if out is None else out
    asked: dict[str, Any] = {
        "id_column": id,
        "top": top,
        "contamination": contamination,
        "columns": _listed(columns),
        "exclude": _listed(exclude) or (),
        "random_state": seed,
    }
    if grid or time is not None or edges is not None:
        nodes.check_options(
            {"--grid": grid, "--time": time, "--edges": edges},
            {"--reference": reference, "--normal": normal, "--label": label},
        )
        asked |= {"time": time, "edges": edges, "neighbours": neighbours, "n_classes": classes}
        _explain_nodes(file, folder, asked, as_json=json, quiet=quiet)
        return
    with screen.progress_bar(quiet=quiet), screen.warnings_as_notes():
        run = explain_table(
            file,
            reference=reference,
            normal=normal,
            detector=detector,
            method=method,
            label=label,
            missing=missing,
            **asked,
        )
        save_run(run, folder, add=lambda work: write_report(run, work / "report.html"))
    _tell(run, top, folder, as_json=json, quiet=quiet)


@app.command("compare")
@guarded
def compare_command(
    file: File,
    *,
    reference: Reference = None,
    normal: Normal = None,
    detector: Detector = "auto",
    columns: Columns = None,
    exclude: Exclude = None,
    missing: Missing = "impute",
    rows: Annotated[int, typer.Option(min=2, help="How many ordinary rows to change.")] = 100,
    changed: Annotated[int, typer.Option(min=1, help="How many columns of each row to change.")] = 1,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Measure which explainer to trust on this table, on anomalies injected into its ordinary rows.

    Example: `tellwhy compare data.csv --normal diagnosis=healthy`
    """
    with screen.progress_bar(quiet=quiet), screen.warnings_as_notes():
        result = compare_table(
            file,
            reference=reference,
            normal=normal,
            detector=detector,
            columns=_listed(columns),
            exclude=_listed(exclude) or (),
            missing=missing,
            n_rows=rows,
            n_features=changed,
            random_state=seed,
        )
    if json:
        lines = result.table.astype(object).where(result.table.notna(), None).to_dict("records")
        _print_json({"methods": lines, "recommendation": result.recommendation, "detector": result.detector})
        return
    if not quiet:
        _print_notices(result.notices)
    screen.show_comparison(result)


@app.command("report")
@guarded
def report_command(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Folder that `tellwhy explain` wrote.")],
    *,
    out: Annotated[Path | None, typer.Option(help="File to write; by default RUN_DIR/report.html.")] = None,
) -> None:
    """Build the page of a run again, from its folder."""
    path = write_report(
        load_run(run_dir), run_dir / "report.html" if out is None else out, load_picture(run_dir)
    )
    typer.echo(str(path))


@app.command("methods")
@guarded
def methods_command(*, json: Json = False) -> None:
    """List the explainers: what each needs, costs and cites."""
    table = methods()
    if json:
        _print_json(table.to_dict("records"))
        return
    screen.show_methods(table)


app.command("insight")(guarded(insight_command))
app.command("fit-svm")(guarded(fit_svm_command))


def main() -> None:
    """Run the command line."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _explain_nodes(file: Path, folder: Path, asked: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
    with screen.progress_bar(quiet=quiet), screen.warnings_as_notes():
        found = nodes.explain_nodes(file, folder, **asked)
    if as_json:
        _print_run(found.run, nodes.records(found, asked["top"]), folder)
        return
    nodes.tell_nodes(found, asked["top"], folder, quiet=quiet)


def _tell(run: Run, top: int, folder: Path, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        _print_run(run, [anomaly_record(a) for a in run.anomalies[:top]], folder)
        return
    if not quiet:
        _print_notices(run.notices)
    screen.show_run(run, top)
    screen.show_summary(run)
    typer.echo(f"Report: {folder / 'report.html'}")


def _print_run(run: Run, found: list[dict[str, Any]], folder: Path) -> None:
    detection = None if run.detection is None else vars(run.detection)
    settings = {
        **run.settings,
        "threshold": run.threshold,
        "source": run.source,
        "notices": list(run.notices),
    }
    _print_json({"anomalies": found, "detection": detection, "out": str(folder), **settings})


def _print_notices(notices: object) -> None:
    for text in notices:  # type: ignore[attr-defined]
        screen.note(text)


def _print_json(value: object) -> None:
    typer.echo(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def _listed(options: list[str] | None) -> list[str] | None:
    """Flatten repeated options whose values may hold several names separated by commas."""
    if not options:
        return None
    return [name.strip() for option in options for name in option.split(",") if name.strip()]


def _stem(file: Path) -> str:
    return file.name.partition(".")[0] or "run"
