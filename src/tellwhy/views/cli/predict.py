"""The command `tellwhy predict`: labels of the rows of a file, by a saved classifier."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellwhy.views.cli import options, screen

if TYPE_CHECKING:
    from tellwhy.bulk.labels import LabelCounts

MOST_LABELS = 5  # that are told one by one


def predict_command(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A classifier, as `tellwhy fit-svm` writes.")
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Rows as in the training: a table (CSV, Excel, JSON lines, Parquet), libsvm or .npz.",
        ),
    ],
    *,
    text: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of texts; by default the one of the training.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of labels: count how many rows get their own.")
    ] = None,
    id: Annotated[str | None, typer.Option(help="Column that names rows in the output.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Labels for each row, the most probable first.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A .csv or .parquet file; by default CSV on stdout."),
    ] = None,
    expect: options.Expect = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Label the rows of a file with a saved classifier: row, label, probability.

    Rows are read, labelled and written block by block, so that a file may be larger than the memory.
    Probabilities are there where the model is calibrated, which `tellwhy fit-svm` does by itself. With
    --json, the counts alone are printed; the labels go to --out.

    Examples
    --------
    - `tellwhy predict mails-svm.tellwhy june.csv --out june-labels.csv`
    - `tellwhy predict mails-svm.tellwhy june.csv --label topic --json`
    - `tellwhy predict data-svm.tellwhy new.svm --top 3 | head`
    """
    from tellwhy.bulk.labels import (
        LabelCounts,
        LabelsAsked,
        append_csv,
        label_file,
        load_classifier,
        write_labels,
    )

    asked = LabelsAsked(text=text, label=label, id_column=id, top=top)
    counts = LabelCounts()
    with screen.show_work([str(file), str(model)], quiet=quiet, force=force):
        options.check_expected(model, expect)
        tables = label_file(load_classifier(model), file, asked, counts)
        if out is not None:
            write_labels(out, tables)
        else:
            for number, table in enumerate(tables):
                if not json:
                    append_csv(sys.stdout, table, has_header=number == 0)
    if json:
        screen.print_json(_record(counts, model, out))
        return
    lines = _tell(counts)
    if out is not None:
        for line in [*lines, f"Labels: {out}"]:
            screen.print_line(line)
    elif not quiet:
        for line in lines:
            screen.note(line)


def _record(counts: LabelCounts, model: Path, out: Path | None) -> dict[str, Any]:
    compared = {"compared": counts.compared, "agree": counts.agree} if counts.compared else {}
    return {
        "model": str(model),
        "out": None if out is None else str(out),
        "rows": counts.rows,
        "without_text": counts.without,
        "labels": dict(counts.labels.most_common()),
        **compared,
    }


def _tell(counts: LabelCounts) -> list[str]:
    """How many rows got which label, and how many got their own."""
    from tellwhy.words.wording import count, share

    common = counts.labels.most_common(MOST_LABELS)
    more = len(counts.labels) - len(common)
    named = ", ".join(f"{name} {n:,}" for name, n in common) + (f", {more} more labels" if more > 0 else "")
    lines = [f"{count(counts.rows, 'row')}: {named}."]
    if counts.without:
        lines.append(f"Without a text, and so without a label: {counts.without:,}.")
    if counts.compared:
        told = f"{counts.agree:,} of {counts.compared:,} ({share(counts.agree / counts.compared)})"
        lines.append(f"Rows that got the label they came with: {told}.")
    return lines
