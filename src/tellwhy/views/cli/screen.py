"""What the terminal shows: tables on stdout; progress, notices and errors on stderr."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tellwhy.core.errors import TellwhyWarning
from tellwhy.core.progress import show_with
from tellwhy.storage.overwriting import allowed
from tellwhy.views.cli.terminal import SafeConsole, escape, make_visible, write_json

if TYPE_CHECKING:
    import pandas as pd

    from tellwhy.kinds.comparison import TableComparison
    from tellwhy.results.evidence import Detection
    from tellwhy.results.result import Anomaly, Result
    from tellwhy.verdicts.headline import Entry

MOST_CHANGES = 3
MOST_FINDINGS = 12
MOST_ROWS_NAMED = 3  # of one entry
MOST_BELOW = 3  # entries where nothing is an alarm
LEAST_EVIDENCE = 5  # rows, for the verdict on explanations to be told
PIPE_WIDTH = 160  # a pipe has no width of its own; this keeps reasons on one line
METHOD_COLUMNS = ("name", "family", "needs", "cost", "exactness")


def out() -> SafeConsole:
    """Stdout, as wide as the terminal."""
    return SafeConsole(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def err() -> SafeConsole:
    """Stderr."""
    return SafeConsole(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[None]:
    """Show what is being done on stderr while this block runs, where that is a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TimeElapsedColumn(),
    )
    console = SafeConsole(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def display(label: str, done: int, total: int) -> None:
            bar.update(task, description=escape(label), completed=done, total=total or None)

        with show_with(display):
            yield


@contextmanager
def show_warnings_as_notes(options: Mapping[str, str] | None = None) -> Iterator[None]:
    """Print this library's warnings as one line each on stderr.

    Parameters
    ----------
    options
        From what a warning advises to a caller of Python, to the same in the options of a command.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TellwhyWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, TellwhyWarning):
            text = str(warning.message)
            for advice, option in (options or {}).items():
                text = text.replace(advice, option)
            note(text)
        else:  # a warning of another library keeps its own way out
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


@contextmanager
def show_work(
    inputs: Iterable[str | Path] = (), *, quiet: bool = False, force: bool = False
) -> Iterator[None]:
    """Show progress and warnings on stderr; what is written never takes an input's place."""
    with progress_bar(quiet=quiet), show_warnings_as_notes(), allowed(force=force, inputs=inputs):
        yield


def say_plan(inputs: Iterable[str], *, kind: str, learned: str, written: Path) -> None:
    """Print what a command would read, learn from and write."""
    for name in inputs:
        place = Path(name)
        size = f"{place.stat().st_size:,} bytes" if place.is_file() else "a folder" if place.is_dir() else ""
        print_line(f"read      {name}{f' ({size})' if size else ''}")
    print_line(f"as        {kind}")
    print_line(f"beside    {learned}")
    print_line(f"write     {written}{' (in place of what is there)' if written.exists() else ''}")


def note(text: str) -> None:
    """Print something the user should know on stderr."""
    with suppress(OSError):  # who closed stderr wants no notes
        err().print(f"[yellow]note:[/] {escape(text)}")


def print_notes(texts: Iterable[str], *, quiet: bool) -> None:
    """Print each notice of a run on stderr, unless the user wants none."""
    if not quiet:
        for text in texts:
            note(text)


def fail(text: str) -> None:
    """Print an error on stderr."""
    with suppress(OSError):
        err().print(f"[bold red]error:[/] {escape(text)}")


def print_line(text: str) -> None:
    """Print a line on stdout as it is, whatever the width."""
    sys.stdout.write(make_visible(text) + "\n")


def print_json(value: object) -> None:
    """Print a value as JSON on stdout."""
    from tellwhy.storage.documents import make_plain

    sys.stdout.write(write_json(make_plain(value), sys.stdout) + "\n")


def make_table(**settings: Any) -> Table:
    """Return an empty table in the style of all commands."""
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, **settings)


def show_run(run: Result, top: int) -> None:
    """Print the ranked anomalies with their reasons, one entry a cause."""
    from tellwhy.verdicts.headline import group_entries

    named = any(anomaly.id is not None for anomaly in run.anomalies)
    place = {id(anomaly): at for at, anomaly in enumerate(run.anomalies)}
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("#", justify="right", style="dim")
    table.add_column("id" if named else "row", style="bold", overflow="fold")
    table.add_column("why: column = value (what is usual) · share of the score", overflow="fold")
    table.add_column("how sure", overflow="fold")
    entries = [entry for entry in group_entries(run.anomalies, run.usual) if _is_told(entry.first, run)]
    most = top if run.n_flagged else min(top, MOST_BELOW)
    for rank, entry in enumerate(entries[:most], start=1):
        why = write_reasons(entry.first)
        if entry.first.note and entry.first.above_threshold:
            why += f"\n[yellow]{escape(entry.first.note)}[/]"
        if entry.first.nearest_normal and len(entry.anomalies) == 1 and entry.first.known_by != "rule":
            why += f"\n[dim]{escape(_write_normal(run, place[id(entry.first)]))}[/]"
        table.add_row(
            str(rank), escape(_list_rows(entry, named=named)), why, escape(_write_how_sure(entry.first))
        )
    out().print(table)
    if len(entries) > most:
        out().print(f"[dim]… and {len(entries) - most} more in the report.[/]")


def _is_told(anomaly: Anomaly, run: Result) -> bool:
    """Whether a row is shown: an alarm, or one just below the line; without any alarm, the oddest ones.

    Fewer than one row as odd as one just below the line would be expected by chance.
    """
    if anomaly.is_alarm or not run.n_flagged:
        return True
    return anomaly.p_value is not None and anomaly.p_value * len(run.scores) < 1


def _list_rows(entry: Entry, *, named: bool) -> str:
    """'A17, A20, A31 … (60 rows)': the rows of an entry as people call them."""
    names = ", ".join(_name_of(anomaly, named=named) for anomaly in entry.anomalies[:MOST_ROWS_NAMED])
    return names if entry.n_rows <= MOST_ROWS_NAMED else f"{names} … ({entry.n_rows:,} rows)"


def _name_of(anomaly: Anomaly, *, named: bool) -> str:
    if anomaly.id is not None:
        return anomaly.id
    if anomaly.file is not None:  # several files: a row's number among all of them leads nowhere
        return anomaly.file if anomaly.line is None else f"{anomaly.file}:{anomaly.line}"
    return f"row {anomaly.row}" if named else str(anomaly.row)


def _write_how_sure(anomaly: Anomaly) -> str:
    """How the reasons are known, and how improbable the row is where a model found it."""
    from tellwhy.words import tell
    from tellwhy.words.wording import write_p

    known = tell.known(anomaly)
    if anomaly.known_by == "rule" or anomaly.p_value is None:
        return known
    p_value = write_p(anomaly.p_value)
    return f"{known}, p {p_value}" if p_value.startswith("<") else f"{known}, p = {p_value}"


def write_reasons(anomaly: Anomaly) -> str:
    """The reasons of an anomaly, one a line."""
    return "\n".join(escape(reason.text) for reason in anomaly.reasons) or "no column stands out"


def write_below_mark(anomaly: Anomaly) -> str:
    """What is said of a row that is listed although it is not above the threshold."""
    return "" if anomaly.above_threshold else " [dim](below the threshold)[/]"


def _write_normal(run: Result, at: int) -> str:
    """'would look normal with A = 3.1 instead of 145'."""
    from tellwhy.verdicts.words import make_plain_cell
    from tellwhy.words.numbers import write_plain

    rows = run.explanation.data if run.table_rows is None else run.table_rows
    row = rows.iloc[at]
    parts = [
        f"{name} = {write_plain(value)} instead of {write_plain(make_plain_cell(row[name]))}"
        for name, value in (run.anomalies[at].nearest_normal or {}).items()
    ]
    if len(parts) > MOST_CHANGES:  # the report lists them all
        return f"no small change makes it look normal: {len(parts)} columns would have to differ"
    return f"would look normal with {' and '.join(parts)}"


def show_findings(run: Result) -> None:
    """Print what a manager reads, and what is wrong with the data and told with no row: one line each."""
    console = out()
    for sentence in _shorten_headline(run):
        console.print(f"[bold]{escape(sentence)}[/]")
    from tellwhy.checks.mistakes import is_of_alarms
    from tellwhy.verdicts.headline import write_finding_key

    told = {write_finding_key(r.finding) for a in run.anomalies for r in a.reasons if r.finding is not None}
    shown = [each for each in run.findings if not is_of_alarms(each) and write_finding_key(each) not in told]
    for finding in shown[:MOST_FINDINGS]:
        console.print(f"• {escape(finding.text)} [dim]{escape(finding.action)}[/]")
    if len(shown) > MOST_FINDINGS:
        console.print(f"[dim]… and {len(shown) - MOST_FINDINGS} more findings in the report.[/]")


def _shorten_headline(run: Result) -> list[str]:
    """The headline without the oddest row, which is the first of the list below it.

    That rules found all alarms is not said either: the list says it of each.
    """
    sentences = list(run.headline)
    opening = run.opening
    if opening is None or opening.is_written or not opening.n_explained:
        return sentences
    is_all_by_rules = opening.n_by_finding == opening.n_explained
    return [sentences[0], *sentences[3 if is_all_by_rules else 2 :]]


def show_summary(run: Result) -> None:
    """Print what was done, and how far to trust it."""
    console = out()
    console.print(escape(run.summary))
    area = run.evidence.flipping_area.get(run.explanation.method)
    random = run.evidence.flipping_area.get("RandomAttribution")
    # On a few rows, the order of two areas is chance; what rules found is no matter of scores.
    n_tested = sum(anomaly.is_alarm and anomaly.known_by != "rule" for anomaly in run.anomalies)
    if area is not None and random is not None and area >= random and n_tested >= LEAST_EVIDENCE:
        console.print(
            "Resetting the named columns first lowers the score no better than a random order "
            f"(area {area:.2f} against {random:.2f}; lower is better): take the reasons as hints."
        )
    if run.detection is not None:
        console.print(escape(_write_detection(run.detection)))


def _write_detection(found: Detection) -> str:
    from tellwhy.words.wording import count, label_words

    text = (
        f"Detection against {label_words(found)} ({count(found.n_positive, 'row')}): "
        f"AUROC {found.auroc:.3f}, average precision {found.average_precision:.3f}"
    )
    if found.precision is None:
        return f"{text}; no row is an alarm."
    alarms = count(found.n_alarms, "alarm")
    return f"{text}; precision {found.precision:.3f} and recall {found.recall:.3f} of {alarms}."


def show_comparison(result: TableComparison) -> None:
    """Print the table of methods, best first, and the recommendation."""
    table = make_table()
    table.add_column("method")
    for name in (
        "finds the column",
        "95 % interval",
        "in its top 3",
        "flipping area",
        "unattributed",
        "ms a row",
    ):
        table.add_column(name, justify="right")
    for line in result.table.to_dict("records"):
        table.add_row(*_write_comparison(line))
    console = out()
    console.print(table)
    console.print(escape(result.recommendation))
    console.print(
        f"[dim]Measured on {result.n_rows} ordinary rows of {escape(result.source)}, each with one column "
        f"changed by 1 to 2 standard deviations, scored by a {escape(result.detector)}. 'Finds the column': "
        "mean reciprocal rank of the changed column, 1 = always first.[/]"
    )


def _write_comparison(line: Mapping[str, Any]) -> list[str]:
    if math.isnan(line["mrr"]):  # the method did not apply
        return [line["method"], "—", escape(line["note"]), "", "", "", ""]
    return [
        line["method"],
        f"{line['mrr']:.2f}",
        f"{line['mrr_low']:.2f}–{line['mrr_high']:.2f}",
        f"{100 * line['hits@3']:.0f} %",
        f"{line['flipping']:.2f}",
        _write_unattributed(line["unattributed"]),
        f"{1e3 * line['seconds_per_row']:.2g}",
    ]


def _write_unattributed(share: float) -> str:
    if math.isnan(share):  # a method whose values are no parts of the score
        return ""
    return ">100 %" if share > 1 else f"{100 * share:.0f} %"


def show_methods(methods: pd.DataFrame) -> None:
    """Print the catalogue of explainers."""
    table = make_table(show_lines=True)
    for name in METHOD_COLUMNS:
        table.add_column(name, overflow="fold", style="bold" if name == "name" else "")
    for line in methods.itertuples(index=False):
        table.add_row(*(escape(str(getattr(line, name))) for name in METHOD_COLUMNS))
    out().print(table)
