"""Rows of a query, kept as a Parquet file beside the parts: read in blocks, and again after a stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.core.progress import stage
from tellwhy.data.queries import write_query
from tellwhy.storage.folders import new_file

ROWS = "query.parquet"
QUERY = "query.json"


def rows_of_query(query: str, db: Path, out: Path) -> Path:
    """Ask a DuckDB file once, and return the file of rows; a run that goes on reads those it began with."""
    told = {"query": query, "db": str(Path(db).resolve())}
    target = out / ROWS
    if (out / QUERY).exists() and target.exists():
        if _asked(out / QUERY) != told:
            raise CannotWrite(f"{out} holds a run of another query: choose another folder, or remove it.")
        return target
    if out.exists() and any(path.name not in (ROWS, QUERY, "model.tellwhy") for path in out.iterdir()):
        raise CannotWrite(f"{out} exists and holds something else than this run: choose another folder.")
    stage(f"asking {db}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"Cannot write to {out}: {error.strerror or error}.") from error
    if not write_query(query, db, target):
        raise UnreadableFile(f"The query of {db} gave no rows; expected at least one. Check its conditions.")
    with new_file(out / QUERY) as work:
        work.write_text(json.dumps(told) + "\n", encoding="utf-8")
    return target


def _asked(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
