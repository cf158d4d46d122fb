"""Options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tellwhy.core.catalogue import METHODS

DETECTORS = tuple(card.name for card in METHODS if card.role == "detector")


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="A table: CSV, TSV, Parquet, JSON lines or Excel; .gz and .zip too. Several files of "
        "the same columns are joined; - is standard input; with --db, a query: 'SELECT …'.",
    ),
]
Sheet = Annotated[
    str | None, typer.Option(metavar="NAME|N", help="Sheet of a workbook: its name, or its number from 1.")
]
Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="FILE|ADDRESS",
        help="DuckDB or SQLite file, or postgresql://host/name, or env:VARIABLE, to run the query on; it is "
        "only read.",
    ),
]
Reference = Annotated[Path | None, typer.Option(help="A table of ordinary rows to compare with.")]
Normal = Annotated[
    str | None, typer.Option(metavar="COL=VALUE", help="Rows with this value are the ordinary ones.")
]
Detector = Annotated[str, typer.Option(help=f"auto, {', '.join(DETECTORS)}.")]
Columns = Annotated[
    list[str] | None, typer.Option(help="Use only this column; repeat for more, or separate by commas.")
]
Exclude = Annotated[
    list[str] | None, typer.Option(help="Do not use this column; repeat, or separate by commas.")
]
Ignore = Annotated[list[str] | None, typer.Option(help="The same as --exclude.")]
By = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COL",
        help="Compare rows with those of the same COL, such as a role or a machine; repeat for narrower "
        "segments, or separate by commas.",
    ),
]
_NAMES = "repeat, or separate by commas."
Category = Annotated[
    list[str] | None, typer.Option(metavar="COL", help=f"Read this column as categories; {_NAMES}")
]
Number = Annotated[
    list[str] | None, typer.Option(metavar="COL", help=f"Read this column as numbers; {_NAMES}")
]
Date = Annotated[
    list[str] | None,
    typer.Option(metavar="COL[=FORMAT]", help="Read this column as dates, such as day=%d.%m.%Y; repeat."),
]
Text = Annotated[
    list[str] | None, typer.Option(metavar="COL", help=f"Read this column as free text; {_NAMES}")
]
IsGrid = Annotated[
    bool,
    typer.Option(
        "--grid", help="The file is an .npz with one array per feature: judge nodes beside their neighbours."
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="COL",
        help="Rows are readings in the order of this column: find what happened, when, in which channel.",
    ),
]
Window = Annotated[
    int | None,
    typer.Option(min=2, metavar="N", help="With --time: find stretches of N readings unlike any other."),
]
Edges = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|near:X,Y",
        help="Table of pairs of neighbouring rows, row numbers or names from --id; or near:X,Y: the six "
        "nearest by these columns (near: by the places of GeoJSON).",
    ),
]
Classes = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=127,
        help="With --grid, --edges, --time: number of latent classes; 0: find it.",
    ),
]
Neighbours = Annotated[
    int | None, typer.Option(help="With --grid: neighbours of a node, 4 or 8; in a volume also 6 or 26.")
]
Missing = Annotated[
    str, typer.Option(help="Missing cells: impute (with the median), drop (the row) or error.")
]
Seed = Annotated[int, typer.Option(help="Seed of every random draw.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
Force = Annotated[
    bool, typer.Option("--force", help="Replace the output file even if tellwhy did not write it.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be read, learned from and written; do nothing.")
]
Sign = Annotated[
    Path | None,
    typer.Option(metavar="KEY", help="File with a secret: sign the model with it, in FILE.signature."),
]
Expect = Annotated[
    str | None,
    typer.Option(
        metavar="SHA256|KEY",
        help="Use the model only if it has this SHA-256, or was signed with the secret in this file.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no notices.")]


def check_expected(model: Path | None, expected: str | None) -> None:
    """Raise unless the model is the one that the user expects."""
    if expected is None:
        return
    from tellwhy.core.errors import InvalidParameter
    from tellwhy.storage.signature import check_expected as check

    if model is None:
        raise InvalidParameter("--expect says which model to use: give --model with it.")
    check(model, expected)


def split_options(options: list[str] | None) -> list[str] | None:
    """Flatten repeated options whose values may hold several names separated by commas.

    Examples
    --------
    >>> split_options(["a, b", "c,"]), split_options([])
    (['a', 'b', 'c'], None)
    """
    if not options:
        return None
    return [name.strip() for option in options for name in option.split(",") if name.strip()]


def choose_columns(
    columns: list[str] | None, exclude: list[str] | None, ignore: list[str] | None
) -> dict[str, Any]:
    """Which columns are looked at, and which are not, as `explain_table` takes them."""
    return {
        "columns": split_options(columns),
        "exclude": split_options([*(exclude or []), *(ignore or [])]) or (),
    }


def collect_kinds(
    category: list[str] | None, number: list[str] | None, date: list[str] | None, text: list[str] | None
) -> dict[str, list[str]]:
    """Return the kinds that were told of columns, as `explain_table` takes them.

    A format of dates may hold commas, so that a date is not taken apart.
    """
    told = {
        "category": split_options(category),
        "number": split_options(number),
        "date": date,
        "text": split_options(text),
    }
    return {kind: names or [] for kind, names in told.items()}


def name_stem(file: Path) -> str:
    """Name of a file without its endings, for the folder that is named after it.

    Examples
    --------
    >>> name_stem(Path("data/orders.csv.gz")), name_stem(Path(".csv"))
    ('orders', 'run')
    """
    return file.name.partition(".")[0] or "run"


def name_first_stem(files: list[str], db: str | None) -> str:
    """The same for what was named to read: the first of several files, a pipe, a database.

    Examples
    --------
    >>> name_first_stem(["a.csv", "b.csv"], None), name_first_stem(["-"], None)
    ('a', 'stdin')
    >>> name_first_stem(["SELECT 1"], "s.db")
    's'
    """
    return name_stem(Path(db.partition("?")[0] if db else "stdin" if files[0] == "-" else files[0]))
