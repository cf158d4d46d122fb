"""Options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellwhy.workflow.detector_names import DETECTORS

File = Annotated[
    Path, typer.Argument(help="A table: CSV, TSV, Parquet, JSON lines or Excel; .gz and .zip too.")
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
_NAMES = "repeat, or separate by commas."
Category = Annotated[
    list[str] | None, typer.Option(metavar="COL", help=f"Take this column for categories; {_NAMES}")
]
Number = Annotated[
    list[str] | None, typer.Option(metavar="COL", help=f"Take this column for numbers; {_NAMES}")
]
Date = Annotated[
    list[str] | None,
    typer.Option(metavar="COL[=FORMAT]", help="Take this column for dates, such as day=%d.%m.%Y; repeat."),
]
Text = Annotated[
    list[str] | None, typer.Option(metavar="COL", help=f"Take this column for free text; {_NAMES}")
]
Missing = Annotated[str, typer.Option(help="Missing cells: impute (by the median), drop (the row) or error.")]
Seed = Annotated[int, typer.Option(help="Seed of every random draw.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notices.")]


def listed(options: list[str] | None) -> list[str] | None:
    """Flatten repeated options whose values may hold several names separated by commas.

    Examples
    --------
    >>> listed(["a, b", "c,"]), listed([])
    (['a', 'b', 'c'], None)
    """
    if not options:
        return None
    return [name.strip() for option in options for name in option.split(",") if name.strip()]


def column_kinds(
    category: list[str] | None, number: list[str] | None, date: list[str] | None, text: list[str] | None
) -> dict[str, list[str]]:
    """Return the kinds that were told of columns, as `explain_table` takes them.

    A format of dates may hold commas, so that a date is not taken apart.
    """
    told = {"category": listed(category), "number": listed(number), "date": date, "text": listed(text)}
    return {kind: names or [] for kind, names in told.items()}


def stem(file: Path) -> str:
    """Name of a file without its endings, for the folder that is named after it.

    Examples
    --------
    >>> stem(Path("data/orders.csv.gz")), stem(Path(".csv"))
    ('orders', 'run')
    """
    return file.name.partition(".")[0] or "run"
