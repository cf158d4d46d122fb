"""The command `tellwhy mark`: say that an alarm is no trouble, so that its like is not raised again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import options, screen

if TYPE_CHECKING:
    from tellwhy.workflow import Run


def mark_command(
    run_dir: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="Folder that `tellwhy explain --model` wrote.")
    ],
    *,
    row: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Row of the table, as the run names it.")
    ] = None,
    benign: Annotated[
        str | None, typer.Option(metavar="WHY", help="It is no trouble, and why: 'known supplier'.")
    ] = None,
    forget: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Remove the mark with this number in the list.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The model; by default the one of the run.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Mark an alarm as no trouble; without --row, list the marks.

    Marks are kept in the model, by what made the row odd: another row that is odd for the same cause is held
    back by the next run, which says how many it held back. A row that is odd for something else is raised.

    Example: `tellwhy mark tellwhy-feb --row 17 --benign "known supplier"`
    """
    from tellwhy.workflow.models.files import load_table_model, save
    from tellwhy.workflow.models.marks import marks_of, with_marks

    if (row is None) != (benign is None):
        raise InvalidParameter("Give --row and --benign together: which row, and why it is no trouble.")
    run = _run(run_dir)
    place = _model(run_dir, run, model)
    found = load_table_model(place)
    if row is not None and benign is not None:
        new = marks_of(run, row, benign)
        found = with_marks(found, new)
        save(found, place)
        if not json:
            for mark in new:
                screen.say(f"Marked: {mark.words}")
    if forget is not None:
        if forget > len(found.marks):
            raise InvalidParameter(f"There is no mark {forget}; {place} has {len(found.marks)}.")
        found = found.with_marks([m for i, m in enumerate(found.marks, start=1) if i != forget])
        save(found, place)
    if json:
        screen.print_json({"model": str(place), "marks": [vars(mark) for mark in found.marks]})
    elif row is None:
        _list(place, found.marks)


def _run(run_dir: Path) -> Run:
    from tellwhy.workflow import load_run

    inside = run_dir / "run"  # of a run block by block
    return load_run(inside if (inside / "run.json").exists() else run_dir)


def _model(run_dir: Path, run: Run, told: Path | None) -> Path:
    known = str(run.settings.get("model") or "")
    if told is None and not known:
        raise InvalidParameter(
            f"{run_dir} was made without a model, in which a mark could be kept. Fit one "
            "(`tellwhy fit data.csv --save m.tellwhy`), explain with it, and mark rows of that run."
        )
    return told or Path(known)


def _list(place: Path, marks: Any) -> None:
    screen.say(f"{place} has {len(marks)} mark{'s' if len(marks) != 1 else ''}.")
    for number, mark in enumerate(marks, start=1):
        screen.say(f"{number}. {mark.why}: {mark.words}")
