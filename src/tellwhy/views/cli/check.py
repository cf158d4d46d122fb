"""The command `tellwhy check`: what is wrong with a table as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tellwhy.views.cli import options, screen

if TYPE_CHECKING:
    from tellwhy.workflow.tables.quality import FileQuality

MOST_LINES = 5


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
    """Check a table as data: placeholders, repeats, broken relations, odd levels, dates, units.

    Example: `tellwhy check orders.csv --reference last_month.csv`
    """
    from tellwhy.workflow.tables.quality import check_file
    from tellwhy.workflow.tables.selection import named_source

    with screen.progress_bar(quiet=quiet), screen.warnings_as_notes():
        checked = check_file(
            named_source(files, sheet=sheet, db=db),
            reference=reference,
            exclude=options.listed([*(exclude or []), *(ignore or [])]) or (),
            **options.column_kinds(category, number, date, text),
        )
    if json:
        screen.print_json(as_json(checked))
        return
    screen.notes(checked.notices, quiet=quiet)
    show_findings(checked)


def as_json(checked: FileQuality) -> dict[str, Any]:
    """The findings as `--json` prints them; `rows` count from 0, `lines` are those of the file."""
    findings = []
    for finding in checked.quality.findings:
        told = {
            "kind": finding.kind,
            "columns": list(finding.columns),
            "rows": list(finding.rows),
            "lines": checked.lines(finding),
            "text": finding.text,
            "example": finding.example,
            "action": finding.action,
            "surprise": finding.surprise,
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
    from tellwhy.views.wording import cleaned, count

    findings = checked.quality.findings
    n_rows, n_columns = checked.table.frame.shape
    size = f"{count(n_rows, 'row')} × {count(n_columns, 'column')}"
    console = screen.out()
    if not findings:
        console.print(f"{escape(checked.table.source)}: {size}, nothing found.")
        return
    table = screen.plain_table()
    for name in ("finding", "example", "lines" if _has_lines(checked) else "rows", "what was done"):
        table.add_column(name, overflow="fold", style="bold" if name == "finding" else "")
    for finding in findings:
        example = escape(cleaned(finding.example))
        table.add_row(escape(cleaned(finding.text)), example, _where(checked, finding), finding.action)
    console.print(table)
    console.print(f"{escape(checked.table.source)}: {size}, {count(len(findings), 'finding')}.")


def _has_lines(checked: FileQuality) -> bool:
    return any(checked.lines(finding, 1) for finding in checked.quality.findings)


def _where(checked: FileQuality, finding: Any) -> str:
    """'7, 12, 19 …': lines of the file, or rows where it has none."""
    shown: list[Any] = checked.lines(finding, MOST_LINES) or list(finding.rows[:MOST_LINES])
    if files := checked.files(finding, MOST_LINES):
        shown = [f"{file}:{line}" for file, line in zip(files, shown, strict=True)]
    return ", ".join(map(str, shown)) + (" …" if len(finding.rows) > MOST_LINES else "")
