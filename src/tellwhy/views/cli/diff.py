"""The command `tellwhy diff`: what changed from one table to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import options, screen

MODEL = ".tellwhy"  # ending of a file that `tellwhy fit` saved

if TYPE_CHECKING:
    from tellwhy.workflow import Difference
    from tellwhy.workflow.drift.column_drift import Drift


def diff_command(
    old: Annotated[
        Path,
        typer.Argument(
            help="The earlier table: CSV, TSV, Parquet, JSON lines or Excel; or a model fitted to it."
        ),
    ],
    new: Annotated[Path, typer.Argument(help="The later table, of the same kind.")],
    *,
    exclude: options.Exclude = None,
    ignore: options.Ignore = None,
    category: options.Category = None,
    number: options.Number = None,
    date: options.Date = None,
    text: options.Text = None,
    level: Annotated[
        float, typer.Option(help="Chance that anything is called drifted though nothing is.")
    ] = 0.01,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page (.html) as well.")] = None,
    json: options.Json = False,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Tell what changed from one table to another: values, levels, missing cells, columns, how they are read.

    Examples: `tellwhy diff jan.csv feb.csv`, `tellwhy diff orders.tellwhy feb.csv`
    """
    from tellwhy.workflow import diff_tables

    if old.suffix == MODEL:
        kinds = options.column_kinds(category, number, date, text)
        told = options.listed(
            [*(exclude or []), *(ignore or []), *(name for k in kinds.values() for name in k)]
        )
        _diff_with_model(old, new, told, level=level, out=out, as_json=json, quiet=quiet)
        return
    with screen.progress_bar(quiet=quiet), screen.warnings_as_notes():
        found = diff_tables(
            old,
            new,
            exclude=options.listed([*(exclude or []), *(ignore or [])]) or (),
            **options.column_kinds(category, number, date, text),
            level=level,
            random_state=seed,
        )
    if out is not None:
        from tellwhy.views.report.drift_page import write_drift_report

        write_drift_report(found, out)
    if json:
        screen.print_json(as_json(found))
        return
    screen.notes(found.notices, quiet=quiet)
    show_difference(found)
    if out is not None:
        screen.say(f"Report: {out}")


def _diff_with_model(
    model: Path,
    new: Path,
    told: list[str] | None,
    *,
    level: float,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Tell what is new in a table beside the one that a model was fitted to."""
    from tellwhy.views.cli.models.with_model import new_data_json, show_beyond
    from tellwhy.workflow.models.files import load_table_model
    from tellwhy.workflow.models.new_data import compare_with_model

    if told or out is not None:
        raise InvalidParameter(
            "With a model, give no columns and no --out: how columns are read was decided in fitting."
        )
    with screen.progress_bar(quiet=quiet), screen.warnings_as_notes():
        found = compare_with_model(load_table_model(model), new, level=level)
    if as_json:
        screen.print_json(new_data_json(found))
        return
    show_difference(found.difference)
    show_beyond(found)


def as_json(found: Difference) -> dict[str, Any]:
    """What `--json` prints."""
    changed = [{"column": name, "old": a, "new": b} for name, (a, b) in found.changed.items()]
    return {
        "old": {"source": found.old, "n_rows": found.n_rows[0]},
        "new": {"source": found.new, "n_rows": found.n_rows[1]},
        "level": found.level,
        "n_drifted": len(found.drifted),
        "drifts": [{**vars(drift)} for drift in found.drifts],
        "new_columns": found.new_columns,
        "gone_columns": found.gone_columns,
        "changed": changed,
        "ordering": found.ordering,
        "not_compared": found.not_compared,
        "roles": found.roles,
        "notices": found.notices,
    }


def show_difference(found: Difference) -> None:
    """Print what changed: first the columns themselves, then what is in them, the largest first."""
    from tellwhy.views.cli.terminal import escape
    from tellwhy.views.drift_wording import difference_words

    console = screen.out()
    if found.drifted:
        table = screen.plain_table()
        for name in ("column", "size", "chance", "what changed"):
            table.add_column(name, overflow="fold", style="bold" if name == "column" else "")
        for drift in found.drifted:
            table.add_row(*map(escape, drift_cells(drift)))
        console.print(table)
    for line in difference_words(found):
        console.print(escape(line))


def drift_cells(drift: Drift) -> tuple[str, str, str, str]:
    """The column, the size of its change, the chance of it, and the change in words."""
    from tellwhy.views.drift_wording import chance

    what = "" if drift.what in ("values", "missing cells") else f"{drift.what}: "
    return drift.column, f"{drift.size:.2f}", chance(drift.p_adjusted), f"{what}{drift.text}"
