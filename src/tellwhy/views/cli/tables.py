"""Tellwhy check, repair, compare, diff.

The command `tellwhy check`: what is wrong with a table as data.

The command `tellwhy repair`: the table with its sure mistakes repaired, and what was changed.

The command `tellwhy compare`: which explainer to trust on a table.

The command `tellwhy diff`: what changed from one table to another.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import options, screen

if TYPE_CHECKING:
    from tellwhy.kinds.checked_file import FileQuality
    from tellwhy.kinds.drift import Difference
    from tellwhy.kinds.repair import Repaired
    from tellwhy.verdicts.column_drift import Drift


MOST_LINES = 5
MOST_CHANGES = 20


def check_command(
    files: options.Files,
    *,
    sheet: options.Sheet = None,
    db: options.Database = None,
    reference: options.Reference = None,
    exclude: options.Exclude = None,
    ignore: options.Ignore = None,
    category: options.Category = None,
    number: options.Number = None,
    date: options.Date = None,
    text: options.Text = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Look for mistakes in a table: placeholders, repeated rows, broken relations, odd levels, dates, units.

    Example: `tellwhy check orders.csv --reference last_month.csv`
    """
    from tellwhy.kinds.checked_file import check_file
    from tellwhy.kinds.table_rows import read_named

    with screen.progress_bar(quiet=quiet), screen.show_warnings_as_notes():
        checked = check_file(
            read_named(files, sheet=sheet, db=db),
            reference=reference,
            exclude=options.split_options([*(exclude or []), *(ignore or [])]) or (),
            **options.collect_kinds(category, number, date, text),
        )
    if json:
        screen.print_json(record_quality(checked))
        return
    screen.print_notes(checked.notices, quiet=quiet)
    show_findings(checked)


def record_quality(checked: FileQuality) -> dict[str, Any]:
    """The findings as `--json` prints them; `rows` count from 0, `lines` are those of the file."""
    findings = []
    for finding in checked.quality.findings:
        told = {
            "kind": finding.kind,
            "columns": list(finding.columns),
            "rows": list(finding.rows),
            "lines": checked.lines(finding),
            "facts": dict(finding.facts),
            "usual": dict(finding.usual),
            "text": finding.text,
            "example": finding.example,
            "action": finding.action,
            "surprise": finding.surprise,
            "probabilities": list(finding.probabilities),
            "expected": list(finding.expected),
        }
        if files := checked.files(finding):
            told["files"] = files
        findings.append(told)
    n_rows, n_columns = checked.table.frame.shape
    return {
        "source": checked.table.source,
        "n_rows": n_rows,
        "n_columns": n_columns,
        "findings": findings,
        "n_cells_set_missing": sum(int(mask.sum()) for mask in checked.quality.explained.values()),
        "notices": checked.notices,
    }


def show_findings(checked: FileQuality) -> None:
    """Print one line per finding: what, an example, where, and what was done."""
    from tellwhy.views.cli.terminal import escape
    from tellwhy.words.wording import clean, count

    findings = checked.quality.findings
    n_rows, n_columns = checked.table.frame.shape
    size = f"{count(n_rows, 'row')} × {count(n_columns, 'column')}"
    console = screen.out()
    if not findings:
        console.print(f"{escape(checked.table.source)}: {size}, nothing found.")
        return
    table = screen.make_table()
    for name in ("finding", "example", "lines" if _has_lines(checked) else "rows", "what was done"):
        table.add_column(name, overflow="fold", style="bold" if name == "finding" else "")
    for finding in findings:
        example = escape(clean(finding.example))
        table.add_row(escape(clean(finding.text)), example, _list_where(checked, finding), finding.action)
    console.print(table)
    console.print(f"{escape(checked.table.source)}: {size}, {count(len(findings), 'finding')}.")


def _has_lines(checked: FileQuality) -> bool:
    return any(checked.lines(finding, 1) for finding in checked.quality.findings)


def _list_where(checked: FileQuality, finding: Any) -> str:
    """'7, 12, 19 …': lines of the file, or rows where it has none."""
    shown: list[Any] = checked.lines(finding, MOST_LINES) or list(finding.rows[:MOST_LINES])
    if files := checked.files(finding, MOST_LINES):
        shown = [f"{file}:{line}" for file, line in zip(files, shown, strict=True)]
    return ", ".join(map(str, shown)) + (" …" if len(finding.rows) > MOST_LINES else "")


def repair_command(
    files: options.Files,
    *,
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The repaired table: .csv, or .parquet; changes stand beside it."),
    ],
    threshold: Annotated[
        float, typer.Option(help="Repair a cell only if it is wrong with at least this probability.")
    ] = 0.95,
    sheet: options.Sheet = None,
    db: options.Database = None,
    reference: options.Reference = None,
    exclude: options.Exclude = None,
    ignore: options.Ignore = None,
    category: options.Category = None,
    number: options.Number = None,
    date: options.Date = None,
    text: options.Text = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a new file in which cells that are surely wrong are repaired, and a list of the changes.

    Example: `tellwhy repair orders.csv --out clean.csv`, which writes `clean.changes.csv` as well
    """
    from tellwhy.kinds.repair import check_targets, repair_table
    from tellwhy.kinds.table_rows import read_named

    with screen.show_work([*files, *([db] if db else [])], quiet=quiet, force=force):
        check_targets(out)
        repaired = repair_table(
            read_named(files, sheet=sheet, db=db),
            threshold=threshold,
            reference=reference,
            exclude=options.split_options([*(exclude or []), *(ignore or [])]) or (),
            **options.collect_kinds(category, number, date, text),
        )
        listed = repaired.save(out)
    if json:
        screen.print_json(_record_repairs(repaired, out, listed))
        return
    screen.print_notes(repaired.notices, quiet=quiet)
    _show_repairs(repaired, out, listed)


def _record_repairs(repaired: Repaired, out: Path, listed: Path) -> dict[str, Any]:
    names = ("row", "line", "file", "column", "old", "new", "why", "probability")
    return {
        "out": str(out),
        "changes_file": str(listed),
        "changes": [{name: getattr(change, name) for name in names} for change in repaired.changes],
        "taken_back": [{name: getattr(change, name) for name in names} for change in repaired.taken_back],
        "n_unsure": repaired.n_unsure,
        "notices": list(repaired.notices),
    }


def _show_repairs(repaired: Repaired, out: Path, listed: Path) -> None:
    """Print the first changes, and what was written."""
    from tellwhy.views.cli.terminal import escape
    from tellwhy.words.wording import cell, clean, count

    console = screen.out()
    changes = repaired.changes
    if changes:
        table = screen.make_table()
        for name in ("line" if changes[0].line is not None else "row", "column", "old", "new", "why"):
            table.add_column(name, overflow="fold", style="bold" if name == "new" else "")
        for change in changes[:MOST_CHANGES]:
            place = change.row if change.line is None else change.line
            told = (change.column, cell(change.old), cell(change.new), clean(change.why))
            table.add_row(str(place), *map(escape, told))
        console.print(table)
    more = f" (the first {MOST_CHANGES} are shown)" if len(changes) > MOST_CHANGES else ""
    n_others = repaired.n_unsure
    stay = "stays as it is" if n_others == 1 else "stay as they are"
    others = f" {count(n_others, 'other cell')} with a finding {stay}." if n_others else ""
    console.print(
        escape(f"{count(len(changes), 'cell')} repaired{more}: {out}; the changes: {listed}.{others}")
    )


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
    """Measure which explainer to trust on a table, by injecting anomalies into its ordinary rows.

    Example: `tellwhy compare data.csv --normal diagnosis=healthy`
    """
    from tellwhy.kinds.comparison import compare_table
    from tellwhy.kinds.table_rows import read_named

    with screen.progress_bar(quiet=quiet), screen.show_warnings_as_notes():
        result = compare_table(
            read_named(files, sheet=sheet, db=db),
            reference=reference,
            normal=normal,
            detector=detector,
            columns=options.split_options(columns),
            exclude=options.split_options([*(exclude or []), *(ignore or [])]) or (),
            missing=missing,
            **options.collect_kinds(category, number, date, text),
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
    screen.print_notes(result.notices, quiet=quiet)
    screen.show_comparison(result)


MODEL = ".tellwhy"  # ending of a file that `tellwhy fit` saved


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
    by: options.By = None,
    level: Annotated[
        float, typer.Option(help="Chance of saying that something drifted although nothing did.")
    ] = 0.01,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page (.html).")] = None,
    force: options.Force = False,
    json: options.Json = False,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Show what changed from one table to another: values, levels, missing cells, columns, how they are read.

    Examples: `tellwhy diff jan.csv feb.csv`, `tellwhy diff jan.csv feb.csv --by country`,
    `tellwhy diff orders.tellwhy feb.csv`
    """
    from tellwhy.kinds.two_tables import diff_tables

    if old.suffix == MODEL:
        kinds = options.collect_kinds(category, number, date, text)
        told = options.split_options(
            [*(exclude or []), *(ignore or []), *(by or []), *(name for k in kinds.values() for name in k)]
        )
        _diff_with_model(old, new, told, level=level, out=out, as_json=json, quiet=quiet)
        return
    with screen.show_work([old, new], quiet=quiet, force=force):
        if out is not None:
            from tellwhy.views.page.shell import check_page

            check_page(out)
        found = diff_tables(
            old,
            new,
            exclude=options.split_options([*(exclude or []), *(ignore or [])]) or (),
            **options.collect_kinds(category, number, date, text),
            by=options.split_options(by) or (),
            level=level,
            random_state=seed,
        )
        if out is not None:
            from tellwhy.views.page.drift import write_drift_report

            write_drift_report(found, out)
    if json:
        screen.print_json(record_difference(found))
        return
    screen.print_notes(found.notices, quiet=quiet)
    show_difference(found)
    if out is not None:
        screen.print_line(f"Report: {out}")


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
    from tellwhy.kinds.new_data import compare_with_model
    from tellwhy.kinds.table_model import load_table_model
    from tellwhy.views.cli.bulk import record_new_data, show_beyond

    if told or out is not None:
        raise InvalidParameter(
            "With a model, give no columns and no --out: how columns are read was decided in fitting."
        )
    with screen.progress_bar(quiet=quiet), screen.show_warnings_as_notes():
        found = compare_with_model(load_table_model(model), new, level=level)
    if as_json:
        screen.print_json(record_new_data(found))
        return
    show_difference(found.difference)
    show_beyond(found)


def record_difference(found: Difference) -> dict[str, Any]:
    """What `--json` prints."""
    changed = [{"column": name, "old": a, "new": b} for name, (a, b) in found.changed.items()]
    return {
        "old": {"source": found.old, "n_rows": found.n_rows[0]},
        "new": {"source": found.new, "n_rows": found.n_rows[1]},
        "level": found.level,
        "n_drifted": len(found.drifted),
        "drifts": [{**vars(drift), "moved": vars(drift.moved), "text": drift.text} for drift in found.drifts],
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
    from tellwhy.views.page.drift import difference_words

    console = screen.out()
    if found.drifted:
        table = screen.make_table()
        for name in ("column", "size", "chance", "what changed"):
            table.add_column(name, overflow="fold", style="bold" if name == "column" else "")
        for drift in found.drifted:
            table.add_row(*map(escape, write_drift_cells(drift)))
        console.print(table)
    for line in difference_words(found):
        console.print(escape(line))


def write_drift_cells(drift: Drift) -> tuple[str, str, str, str]:
    """The column, the size of its change, the chance of it, and the change in words."""
    from tellwhy.views.page.drift import chance

    what = "" if drift.what in ("values", "missing cells") else f"{drift.what}: "
    return drift.name, f"{drift.size:.2f}", chance(drift.p_adjusted), f"{what}{drift.text}"
