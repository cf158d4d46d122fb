"""Tellwhy explain with a model, and by blocks.

`tellwhy explain --model`: new rows, judged by a model that was fitted before.

`tellwhy explain` of more rows than fit into memory: block by block, on several processes, or on Ray.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import screen
from tellwhy.views.cli.terminal import escape

if TYPE_CHECKING:
    from tellwhy.bulk.run import BulkResult
    from tellwhy.kinds.new_data import NewData
    from tellwhy.kinds.table_model import TableModel
    from tellwhy.results.result import Result


NEW_DATA = "new_data.json"
MOST_BEYOND = 8
_NOTHING: tuple[Any, ...] = (None, (), [])
_USUAL = {"detector": "auto", "missing": "impute", "random_state": 0}  # where nothing was asked


def check_asked_of_model(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What may be asked of new rows; raise for an option that was decided in fitting."""
    from tellwhy.kinds.table import CHANGEABLE

    decided = [
        name
        for name, value in asked.items()
        if name not in CHANGEABLE and value not in _NOTHING and value != _USUAL.get(name)
    ]
    if decided:
        words = ", ".join("--seed" if name == "random_state" else f"--{name}" for name in decided)
        raise InvalidParameter(
            f"{words} cannot be used with --model: the model decided it when it was fitted. Leave it out, or "
            "run `tellwhy fit` again."
        )
    told = {name: asked[name] for name in CHANGEABLE}
    if told["id_column"] is None:  # the model knows which column names rows
        del told["id_column"]
    return told


def explain_with_model(
    named: Mapping[str, Any], model_file: Path, folder: Path, asked: dict[str, Any], *, quiet: bool
) -> tuple[Result, NewData]:
    """Judge and explain new rows, compare them with those of the fitting, and write the folder."""
    from tellwhy.kinds.table import explain_and_compare
    from tellwhy.kinds.table_model import load_table_model
    from tellwhy.kinds.table_rows import read_named
    from tellwhy.storage.documents import write_json
    from tellwhy.verdicts.run_io import check_place, save_run
    from tellwhy.views.page.page import write_report

    with screen.show_work(quiet=quiet):
        check_place(folder)
        model: TableModel = load_table_model(model_file)
        run, new_data = explain_and_compare(model, read_named(**named), model_file=model_file, **asked)

        def add(work: Path) -> None:
            write_report(run, work / "report.html")
            write_json(work / NEW_DATA, record_new_data(new_data))

        save_run(run, folder, add=add)
    return run, new_data


def record_new_data(found: NewData) -> dict[str, Any]:
    """How new rows compare with those of the fitting, as JSON."""
    from tellwhy.views.cli.tables import record_difference as as_json

    return {**as_json(found.difference), "beyond": [vars(each) for each in found.beyond]}


def show_new_data(found: NewData, *, quiet: bool) -> None:
    """Print what is new in the rows beside those of the fitting; nothing where nothing is."""
    difference = found.difference
    lines = [f"{name}: is read differently, {a} → {b}" for name, (a, b) in difference.changed.items()]
    lines += [f"{drift.column}: {drift.text}" for drift in difference.drifted]
    drifted = {drift.column for drift in difference.drifted} | set(difference.ordering)
    lines += [f"{each.column}: {each.text}" for each in found.beyond if each.column not in drifted]
    if difference.new_columns:
        lines.append(f"columns that the model does not know: {', '.join(difference.new_columns[:10])}")
    if quiet or not lines:
        return
    console = screen.out()
    console.print("[bold]Since the model was fitted:[/]")
    for line in lines[:MOST_BEYOND]:
        console.print(f"• {escape(line)}")
    if len(lines) > MOST_BEYOND:
        console.print(f"[dim]… and {len(lines) - MOST_BEYOND} more in {NEW_DATA}.[/]")


def show_beyond(found: NewData) -> None:
    """Print the columns with cells that the rows of the fitting had none like."""
    console = screen.out()
    for each in found.beyond:
        console.print(f"• {escape(each.column)}: {escape(each.text)}")


MODEL = "model.tellwhy"
LARGE = 512 * 2**20  # bytes of files from which a model is fitted in passes over them
PARTLY = 1  # exit status where something could not be read


def is_bulk(files: Sequence[str], options: Mapping[str, Any]) -> bool:
    """Whether a command asks for the rows to be explained block by block."""
    return any(value not in (None, False) for value in options.values()) or any(
        Path(name).is_dir() for name in files
    )


def is_large(files: Sequence[str]) -> bool:
    """Whether files are better read in passes than at once."""
    paths = [Path(name) for name in files]
    sizes = [path.stat().st_size for path in paths if path.is_file()]
    return any(path.is_dir() for path in paths) or sum(sizes) > LARGE


def check_source(sheet: str | None) -> None:
    """Raise for what cannot be asked of files that are read block by block."""
    if sheet is not None:
        raise InvalidParameter(
            "--sheet cannot be used block by block; name Parquet or text files, or folders of them."
        )


def explain_in_blocks(
    files: Sequence[str],
    folder: Path,
    model: Path | None,
    asked: Mapping[str, Any],
    told: Mapping[str, Any],
    *,
    db: str | None = None,
    as_json: bool,
    quiet: bool,
) -> BulkResult:
    """Explain files block by block; fit a model first where none is given."""
    from tellwhy.bulk.run import RUN, explain_bulk
    from tellwhy.views.page.page import write_report

    _check(asked)
    name = told.get("to_table")
    _check_table(name, db, asked["id_column"])
    with _tell_how_to_resume(folder), screen.progress_bar(quiet=quiet), screen.show_warnings_as_notes():
        names = list(files) if db is None else [_write_queried(files, db, folder)]
        place = _fit_model(names, folder, asked) if model is None else model
        settings = {"method": asked["method"], "id_column": asked["id_column"]}
        if model is not None:
            check_asked_of_model(asked)
        result = explain_bulk(
            names,
            model=place,
            out=folder,
            workers=told["workers"] or 1,
            explain_all=told["all"],
            budget=told["budget"] or 0.0,
            ray=told["ray"],
            is_own=model is None,
            **settings,
        )
        if result.run is not None:
            write_report(result.run, folder / RUN / "report.html")
        if name is not None and db is not None:
            from tellwhy.bulk.to_table import write_run

            write_run(folder, result.n_blocks, asked["id_column"], db, name)
    _tell(result, folder, asked["top"], as_json=as_json, quiet=quiet)
    if result.failed:
        raise typer.Exit(PARTLY)
    return result


def _check_table(name: str | None, db: str | None, id_column: str | None) -> None:
    """Raise before anything is read for a table that could not be written."""
    if name is None:
        return
    from tellwhy.data.databases import check_table_name

    check_table_name(name)
    if db is None:
        raise InvalidParameter("--to-table goes with --db: the new table stands where the query was asked.")
    if id_column is None:
        raise InvalidParameter("--to-table needs --id, the column by which the rows of the table are known.")


@contextmanager
def _tell_how_to_resume(folder: Path) -> Iterator[None]:
    """Say, when a run is interrupted, how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Interrupted. What was finished is in {folder}; run the same command again to go on."
        ) from None


def _check(asked: Mapping[str, Any]) -> None:
    named = [name for name in ("alarms", "contamination", "fdr", "label") if asked[name] is not None]
    if named:
        words = ", ".join(f"--{name}" for name in named)
        raise InvalidParameter(
            f"{words} cannot be used block by block: where alarms begin is decided in fitting. Say so to "
            "`tellwhy fit`, and pass its model."
        )


def _write_queried(files: Sequence[str], db: str, folder: Path) -> str:
    """Write the rows of a query beside the parts; those of an earlier run that goes on are used."""
    from tellwhy.bulk.run import write_rows_of_query

    if len(files) != 1:
        raise InvalidParameter(f"With --db, give one query and nothing else to read; got {len(files)}.")
    return str(write_rows_of_query(files[0], db, folder))


def _fit_model(files: Sequence[str], folder: Path, asked: Mapping[str, Any]) -> Path:
    """Fit a model to the same rows and keep it beside the parts; an earlier one of the same run is used."""
    from tellwhy.bulk.fit import fit_bulk
    from tellwhy.storage.model_file import save

    place = folder / MODEL
    if place.exists():  # a run that goes on
        return place
    if asked["reference"] is not None or asked["normal"] is not None:
        raise InvalidParameter(
            "--reference and --normal cannot be used block by block: fit a model to the ordinary rows first, "
            "with `tellwhy fit ordinary.csv --clean --save m.tellwhy`."
        )
    names = ("id_column", "detector", "columns", "exclude", "by", "missing", "random_state")
    kinds = ("category", "number", "date", "text")
    model = fit_bulk(list(files), **{name: asked[name] for name in (*names, *kinds)})
    folder.mkdir(parents=True, exist_ok=True)
    return save(model, place)


def _tell(result: BulkResult, folder: Path, top: int, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        from tellwhy.verdicts.run_io import record_anomaly

        anomalies = [] if result.run is None else result.run.anomalies[:top]
        told = {name: value for name, value in vars(result).items() if name != "run"}
        screen.print_json({**told, "anomalies": [record_anomaly(each) for each in anomalies]})
        return
    if result.run is not None:
        screen.print_notes(result.run.notes, quiet=quiet)
        screen.show_findings(result.run)
        screen.show_run(result.run, top)
        screen.print_line(result.run.summary)
        screen.print_line(f"Report: {folder / 'run' / 'report.html'}")
    if result.n_resumed:
        screen.print_line(f"{result.n_resumed:,} of {result.n_blocks:,} blocks were done before.")
    if result.failed:
        screen.fail(
            f"Pieces that could not be explained: {len(result.failed)}, the first: {result.failed[0][0]}: "
            f"{result.failed[0][1]} All are named in {folder / 'parts.json'}; the others are delivered. "
            "Mend them and run the same command again."
        )
