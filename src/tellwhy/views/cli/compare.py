"""The command `tellwhy compare`: which explainer to trust on a table."""

from __future__ import annotations

from typing import Annotated

import typer

from tellwhy.views.cli import options, screen


def compare_command(
    files: options.Files,
    *,
    sheet: options.Sheet = None,
    db: options.Database = None,
    reference: options.Reference = None,
    normal: options.Normal = None,
    detector: options.Detector = "auto",
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    ignore: options.Ignore = None,
    category: options.Category = None,
    number: options.Number = None,
    date: options.Date = None,
    text: options.Text = None,
    missing: options.Missing = "impute",
    rows: Annotated[int, typer.Option(min=2, help="How many ordinary rows to change.")] = 100,
    changed: Annotated[int, typer.Option(min=1, help="How many columns of each row to change.")] = 1,
    json: options.Json = False,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Measure which explainer to trust on this table, on anomalies injected into its ordinary rows.

    Example: `tellwhy compare data.csv --normal diagnosis=healthy`
    """
    from tellwhy.workflow import compare_table
    from tellwhy.workflow.tables.selection import named_source

    with screen.progress_bar(quiet=quiet), screen.warnings_as_notes():
        result = compare_table(
            named_source(files, sheet=sheet, db=db),
            reference=reference,
            normal=normal,
            detector=detector,
            columns=options.listed(columns),
            exclude=options.listed([*(exclude or []), *(ignore or [])]) or (),
            missing=missing,
            **options.column_kinds(category, number, date, text),
            n_rows=rows,
            n_features=changed,
            random_state=seed,
        )
    if json:
        # JSON has no NaN: what a method did not give is null.
        lines = result.table.astype(object).where(result.table.notna(), None).to_dict("records")
        told = {"methods": lines, "recommendation": result.recommendation, "detector": result.detector}
        screen.print_json(told)
        return
    screen.notes(result.notices, quiet=quiet)
    screen.show_comparison(result)
