"""Files that come in and go out: tables that are dropped onto the page, and what a view shows, as a file."""

from __future__ import annotations

import io
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.page.page import render
from tellwhy.views.server.app_panels import choose_anomalies
from tellwhy.views.server.app_session import Session
from tellwhy.views.server.app_view import View

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_FILES = 20
_PLAIN = re.compile(r"[^\w.\- ()]+")
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "parquet": "application/vnd.apache.parquet",
    "html": "text/html; charset=utf-8",
}


def export(session: Session, form: str, view: View) -> bytes:
    """The rows of a view in a form: all their cells, or (of a workbook and a page) what is told of them."""
    if form not in FORMS:
        raise InvalidParameter(f"A view is saved as one of {', '.join(FORMS)}. Got {form[:20]!r}.")
    return FORMS[form](session, view)


def _write_csv(session: Session, view: View) -> bytes:
    from tellwhy.storage.csv_cells import write_rows

    table = session.rows.rows_of(view)
    held = io.StringIO()
    columns = [column.to_pylist() for column in table.columns]
    write_rows(held, table.column_names, zip(*columns, strict=True))
    return ("\ufeff" + held.getvalue()).encode("utf-8", "backslashreplace")


def _write_parquet(session: Session, view: View) -> bytes:
    import pyarrow.parquet as pq

    held = io.BytesIO()
    pq.write_table(session.rows.rows_of(view), held)
    return held.getvalue()


def _write_workbook(session: Session, view: View) -> bytes:
    from tellwhy.verdicts.run_io import can_write_workbook, write_workbook

    if not can_write_workbook():
        raise InvalidParameter("A workbook needs openpyxl: `pip install 'tellwhy[excel]'`.")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "view.xlsx"
        write_workbook(choose_anomalies(session.result, _explained(session, view)), place)
        return place.read_bytes()


def _write_page(session: Session, view: View) -> bytes:
    return render(choose_anomalies(session.result, _explained(session, view))).encode()


def _explained(session: Session, view: View) -> list[int]:
    """Places of the explained rows of a view, in its order."""
    rows = session.rows.rows_of(view).column("row").to_pylist()
    return [session.places[row] for row in rows if row in session.places]


FORMS: Mapping[str, Callable[[Session, View], bytes]] = {
    "csv": _write_csv,
    "xlsx": _write_workbook,
    "parquet": _write_parquet,
    "html": _write_page,
}


def repaired_table(session: Session) -> bytes:
    """The table as CSV, with the repairs that were accepted."""
    import pandas as pd

    from tellwhy.kinds.decisions import ACCEPTED
    from tellwhy.kinds.repair import apply_changes
    from tellwhy.storage.csv_cells import copy_text

    if session.cells is None:
        raise InvalidParameter("The table is not in this folder, so that it cannot be repaired.")
    accepted = {place for place, d in session.standing().repairs.items() if d.verdict == ACCEPTED}
    changes = [change for change in session.repairs if (change.row, change.column) in accepted]
    frame = apply_changes(pd.read_parquet(session.cells), changes)
    return copy_text(frame).encode("utf-8", "surrogatepass")


class Uploads:
    """Files that were dropped onto the page, in a folder of their own until the server ends."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._folder: Path | None = None
        self._files: dict[str, Path] = {}

    async def take(self, name: str, request: Request) -> dict[str, Any]:
        """Write a file piece by piece; one that is broken off, or too large, leaves nothing."""
        if len(self._files) >= MOST_FILES:
            raise InvalidParameter(f"At most {MOST_FILES} files can be opened together.")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="tellwhy-"))
        number = secrets.token_hex(6)
        place = self._folder / number / (_PLAIN.sub("_", Path(name).name)[-120:] or "table")
        place.parent.mkdir()
        n_bytes = 0
        try:
            with place.open("wb") as file:
                async for piece in request.stream():
                    n_bytes += len(piece)
                    file.write(piece)
        except BaseException:
            place.unlink(missing_ok=True)
            raise
        self._files[number] = place
        return {"id": number, "name": place.name, "bytes": n_bytes}

    def drop(self, number: str) -> None:
        """Forget a file."""
        place = self._files.pop(number, None)
        if place is not None:
            place.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the folder: the server ends."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def paths(self, numbers: list[str]) -> list[Path]:
        """The files by their numbers."""
        if not numbers or any(number not in self._files for number in numbers):
            raise InvalidParameter("Choose at least one file that is on this page.")
        return [self._files[number] for number in numbers]
