"""`tellwhy explain --model`: new rows, judged by a model that was fitted before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import screen
from tellwhy.views.cli.terminal import escape

if TYPE_CHECKING:
    from tellwhy.workflow import Run, TableModel
    from tellwhy.workflow.models.new_data import NewData

NEW_DATA = "new_data.json"
CHANGEABLE = ("id_column", "label", "method", "top", "alarms", "contamination", "fdr")
MOST_BEYOND = 8
_NOTHING: tuple[Any, ...] = (None, (), [])
_USUAL = {"detector": "auto", "missing": "impute", "random_state": 0}  # where nothing was asked


def asked_of_model(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What may be asked of new rows; raise for an option that was decided in fitting."""
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
) -> tuple[Run, NewData]:
    """Judge and explain new rows, compare them with those of the fitting, and write the folder."""
    from tellwhy.storage.documents import write_json
    from tellwhy.views.report import write_report
    from tellwhy.workflow import save_run
    from tellwhy.workflow.models.explain_new import explain_and_compare
    from tellwhy.workflow.models.files import load_table_model
    from tellwhy.workflow.tables.selection import named_source

    with screen.progress_bar(quiet=quiet), screen.warnings_as_notes():
        model: TableModel = load_table_model(model_file)
        run, new_data = explain_and_compare(model, named_source(**named), model_file=model_file, **asked)

        def add(work: Path) -> None:
            write_report(run, work / "report.html")
            write_json(work / NEW_DATA, new_data_json(new_data))

        save_run(run, folder, add=add)
    return run, new_data


def new_data_json(found: NewData) -> dict[str, Any]:
    """How new rows compare with those of the fitting, as JSON."""
    from tellwhy.views.cli.diff import as_json

    return {**as_json(found.difference), "beyond": [vars(each) for each in found.beyond]}


def show_new_data(found: NewData, *, quiet: bool) -> None:
    """Print what is new in the rows beside those of the fitting; nothing where nothing is."""
    difference = found.difference
    lines = [f"{name}: is read otherwise, {a} → {b}" for name, (a, b) in difference.changed.items()]
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
