"""A table that comes through a pipe."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tellwhy.core.errors import TellwhyError, UnreadableFile
from tellwhy.data.reading.read_table import read_table
from tellwhy.data.table import Table

NAME = "standard input"


def read_standard_input(*, sheet: str | int | None = None) -> Table:
    """Read a table from standard input, of any format that files have; the content tells which.

    Readers go over a table more than once, so what comes through the pipe is kept in a temporary file.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise UnreadableFile(
            "Standard input is a terminal; expected a table. Pipe one in (`zcat x.csv.gz | tellwhy …`), or "
            "name a file instead of '-'."
        )
    with tempfile.TemporaryDirectory(prefix="tellwhy-") as folder:
        path = Path(folder) / "stdin"
        try:
            with path.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        except OSError as error:  # what never ends fills the disk
            raise UnreadableFile(f"{NAME} cannot be read: {error.strerror or error}.") from error
        try:
            return replace(read_table(path, sheet=sheet), source=NAME)
        except TellwhyError as error:  # the temporary name means nothing to anybody
            raise type(error)(str(error).replace(str(path), NAME)) from error
