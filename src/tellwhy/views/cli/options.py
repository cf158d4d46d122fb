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


def stem(file: Path) -> str:
    """Name of a file without its endings, for the folder that is named after it.

    Examples
    --------
    >>> stem(Path("data/orders.csv.gz")), stem(Path(".csv"))
    ('orders', 'run')
    """
    return file.name.partition(".")[0] or "run"
