"""`read_sources`: what was named on a command line, in; one table, out."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.progress import stage
from tellwhy.data.reading.read_table import read_table
from tellwhy.data.sources.queries import read_query
from tellwhy.data.sources.several import join_tables
from tellwhy.data.sources.standard_input import read_standard_input
from tellwhy.data.table import Table

STANDARD_INPUT = "-"


def read_sources(
    names: Sequence[str | os.PathLike[str]],
    *,
    sheet: str | int | None = None,
    db: str | os.PathLike[str] | None = None,
) -> Table:
    r"""Read one table from a file, several files, standard input ('-'), or a query of a database.

    Parameters
    ----------
    names
        Files of the same columns, whose rows are joined in this order; or, with `db`, one query.
    sheet
        Of workbooks: a name, a number from 1 as text, or a number from 0.
    db
        A DuckDB or SQLite file that the query is asked of; it is opened for reading only.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("city,mm\nOslo,3\nRome,1\n", encoding="utf-8")
    >>> _ = (folder / "b.csv").write_text("mm,city\n7,Bern\n", encoding="utf-8")
    >>> table = read_sources([folder / "a.csv", folder / "b.csv"])
    >>> table.frame["mm"].tolist(), table.source
    ([3, 1, 7], 'a.csv, b.csv')
    """
    words = [os.fspath(name) for name in names]
    if not words:
        raise InvalidParameter("Name at least one file to read; got none.")
    if db is not None:
        if len(words) != 1 or sheet is not None:
            got = "a sheet" if len(words) == 1 else f"{len(words)} arguments"
            raise InvalidParameter(f"With --db, give one query and nothing else to read; got {got}.")
        stage(f"asking {db}")
        return read_query(words[0], db)
    _check_no_query(words)
    if words.count(STANDARD_INPUT) > 1:
        raise InvalidParameter("Standard input ('-') can be read once; it was named more than once.")
    tables = [_read(word, sheet) for word in words]
    return tables[0] if len(tables) == 1 else join_tables(tables)


def _read(name: str, sheet: str | int | None) -> Table:
    stage("reading standard input" if name == STANDARD_INPUT else f"reading {name}")
    return read_standard_input(sheet=sheet) if name == STANDARD_INPUT else read_table(name, sheet=sheet)


def is_query(name: str) -> bool:
    """Whether a name reads like a query rather than like a file.

    Examples
    --------
    >>> is_query("select * from t"), is_query("with.csv")
    (True, False)
    """
    return re.match(r"\s*(select|with)\s", name, re.IGNORECASE) is not None


def _check_no_query(names: Sequence[str]) -> None:
    for name in names:
        if is_query(name) and not os.path.exists(name):
            raise InvalidParameter(
                f"{name[:60]!r} looks like a query; say which database to ask: --db FILE (DuckDB or SQLite)."
            )
