"""What the terminal shows: tables on stdout; progress, notices and errors on stderr."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tellwhy.core.errors import TellwhyWarning
from tellwhy.core.progress import show_with
from tellwhy.views.wording import percentile
from tellwhy.workflow import Run, TableComparison
from tellwhy.workflow.tables.reasons import cell_words, plain_cell

MOST_CHANGES = 3
PIPE_WIDTH = 160  # a pipe has no width of its own; this keeps reasons on one line


def out() -> Console:
    """Stdout, as wide as the terminal."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def err() -> Console:
    """Stderr."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[None]:
    """Show what is being done on stderr while this block runs, where that is a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def display(label: str, done: int, total: int) -> None:
            bar.update(task, description=label, completed=done, total=total or None)

        with show_with(display):
            yield


@contextmanager
def warnings_as_notes(options: Mapping[str, str] | None = None) -> Iterator[None]:
    """Print this library's warnings as one line each on stderr; `options` put what they advise in a command's words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TellwhyWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, TellwhyWarning):
            text = str(warning.message)
            for advice, option in (options or {}).items():
                text = text.replace(advice, option)
            note(text)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def note(text: str) -> None:
    """Print something the user should know on stderr."""
    err().print(f"[yellow]note:[/] {escape(text)}")


def fail(text: str) -> None:
    """Print an error on stderr."""
    err().print(f"[bold red]error:[/] {escape(text)}")


def show_run(run: Run, top: int) -> None:
    """Print the ranked anomalies with their reasons."""
    named = any(a.id is not None for a in run.anomalies)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("#", justify="right", style="dim")
    table.add_column("id" if named else "row", justify="left" if named else "right", style="bold")
    table.add_column("score", justify="right")
    table.add_column("percentile", justify="right")
    table.add_column("why: column = value (what is usual) · share of the score", overflow="fold")
    for rank, a in enumerate(run.anomalies[:top], start=1):
        mark = "" if a.above_threshold else " [dim](below the threshold)[/]"
        why = "\n".join(escape(r.text) for r in a.reasons) or "no column stands out"
        if a.nearest_normal:
            why += f"\n[dim]{escape(_normal_words(run, rank - 1))}[/]"
        name = f"row {a.row}" if named and a.id is None else escape(a.id or str(a.row))
        table.add_row(str(rank), name, f"{a.score:.4g}", percentile(a.percentile, 1), why + mark)
    out().print(table)


def _normal_words(run: Run, at: int) -> str:
    """'would look normal with A = 3.1 instead of 145'."""
    a, row = run.anomalies[at], run.explanation.data.iloc[at]
    parts = [
        f"{name} = {cell_words(value)} instead of {cell_words(plain_cell(row[name]))}"
        for name, value in (a.nearest_normal or {}).items()
    ]
    if len(parts) > MOST_CHANGES:
        return f"no small change makes it look normal: {len(parts)} columns would have to differ"
    return f"would look normal with {' and '.join(parts)}"


def show_summary(run: Run) -> None:
    """Print what was done, and how far to trust it."""
    console = out()
    console.print(escape(run.summary))
    area, random = run.evidence.flipping_area.get(run.explanation.method), None
    random = run.evidence.flipping_area.get("RandomAttribution")
    if area is not None and random is not None:
        verdict = "better than" if area < random else "no better than"
        console.print(
            f"Evidence: resetting the named columns first lowers the score {verdict} a random order "
            f"(area {area:.2f} against {random:.2f}; lower is better)."
        )
    if run.detection is not None:
        d = run.detection
        console.print(
            f"Detection against {escape(d.label)} = {escape(d.positive)} ({d.n_positive} rows): "
            f"AUROC {d.auroc:.3f}, average precision {d.average_precision:.3f}."
        )


def show_comparison(result: TableComparison) -> None:
    """Print the table of methods, best first, and the recommendation."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, justify in (("method", "left"), ("finds the column", "right"), ("95 % interval", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for name in ("in its top 3", "flipping area", "unattributed", "ms a row"):
        table.add_column(name, justify="right")
    for line in result.table.itertuples(index=False):
        table.add_row(*_comparison_cells(line))
    console = out()
    console.print(table)
    console.print(escape(result.recommendation))
    console.print(
        f"[dim]Measured on {result.n_rows} ordinary rows of {escape(result.source)}, each with one column changed by "
        f"1 to 2 standard deviations, scored by a {escape(result.detector)}. 'Finds the column': mean reciprocal "
        "rank of the changed column, 1 = always first.[/]"
    )


def _comparison_cells(line: Any) -> list[str]:
    if math.isnan(line.mrr):  # the method did not apply
        return [line.method, "—", escape(line.note), "", "", "", ""]
    share = line.unattributed
    unattributed = "" if math.isnan(share) else ">100 %" if share > 1 else f"{100 * share:.0f} %"
    interval = f"{line.mrr_low:.2f}–{line.mrr_high:.2f}"
    top3 = f"{100 * line[4]:.0f} %"
    return [
        line.method,
        f"{line.mrr:.2f}",
        interval,
        top3,
        f"{line.flipping:.2f}",
        unattributed,
        f"{1e3 * line.seconds_per_row:.2g}",
    ]


def show_methods(methods: Any) -> None:
    """Print the catalogue of explainers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=True)
    for name in ("name", "family", "needs", "cost", "exactness"):
        table.add_column(name, overflow="fold", style="bold" if name == "name" else "")
    for line in methods.itertuples(index=False):
        table.add_row(
            *(escape(str(getattr(line, c))) for c in ("name", "family", "needs", "cost", "exactness"))
        )
    out().print(table)
