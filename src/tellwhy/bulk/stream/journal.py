"""What a watch must not forget: how far it has read, what it has found, which alarms it has told.

All of it stands in one SQLite file and changes in one transaction: after a kill at any moment, either an
event was read and its alarm is kept, or neither. The file of alarms is completed from it at the start.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from tellwhy.core.errors import CannotWrite, UnreadableFile

JOURNAL = "watch.sqlite"
LOCK = "at-work"
SCHEMA = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS state (one INTEGER PRIMARY KEY CHECK (one = 1), told TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS alarms (n INTEGER PRIMARY KEY, line TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS printed (one INTEGER PRIMARY KEY CHECK (one = 1), n INTEGER NOT NULL);
"""


@dataclass(frozen=True)
class State:
    """How far a watch has come.

    Attributes
    ----------
    source, model
        What is watched, and the file of the model that judges now.
    offset
        Where the next event begins, as the source counts; None at the very start.
    n_events, n_unreadable, n_lines
        Events that were judged, those that could not be read, and lines that were told.
    rule
        What the rule of alarms remembers.
    """

    source: str
    model: str
    offset: Any = None
    n_events: int = 0
    n_unreadable: int = 0
    n_lines: int = 0
    rule: dict[str, Any] = field(default_factory=dict)


class Journal:
    """The journal of a watch, in its folder; one process writes it at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / LOCK).open("a")
        except OSError as error:
            raise CannotWrite(f"Cannot write to {folder}: {error.strerror or error}.") from error
        self._take_lock()
        try:
            self._connection = sqlite3.connect(folder / JOURNAL, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")  # a commit is on the disk
            self._connection.executescript(_TABLES)
        except sqlite3.Error as error:
            self.close()
            raise UnreadableFile(f"{folder / JOURNAL} is no journal of a watch: {error}.") from error

    def _take_lock(self) -> None:
        import fcntl

        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise CannotWrite(f"Another process watches with {self.folder}; stop it first.") from error

    def close(self) -> None:
        """Close the file, and let others in."""
        self._connection.close()
        self._lock.close()

    def read(self) -> State | None:
        """How far an earlier watch came; None where there was none."""
        found = self._connection.execute("SELECT told FROM state").fetchone()
        if found is None:
            return None
        told = json.loads(found[0])
        if told.pop("schema", None) != SCHEMA:
            raise UnreadableFile(f"{self.folder / JOURNAL} was written by another version of tellwhy.")
        return State(**told)

    def keep(self, state: State, lines: Sequence[str] = ()) -> State:
        """Keep how far the watch has come, and the lines it has to tell, in one transaction."""
        kept = replace(state, n_lines=state.n_lines + len(lines))
        told = json.dumps({"schema": SCHEMA, **vars(kept)})
        with self._transaction():
            numbered = [(state.n_lines + k, line) for k, line in enumerate(lines, start=1)]
            self._connection.executemany("INSERT INTO alarms VALUES (?, ?)", numbered)
            self._connection.execute("INSERT OR REPLACE INTO state VALUES (1, ?)", (told,))
        return kept

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def mark_printed(self, n: int) -> None:
        """Remember that lines were printed, up to this one: what was printed cannot be looked at again."""
        self._connection.execute("INSERT OR REPLACE INTO printed VALUES (1, ?)", (n,))

    def count_printed(self) -> int:
        """How many lines are known to have been printed."""
        found = self._connection.execute("SELECT n FROM printed").fetchone()
        return 0 if found is None else int(found[0])

    def lines_after(self, n: int) -> Iterator[str]:
        """Lines that were kept, behind the first n of them."""
        for (line,) in self._connection.execute("SELECT line FROM alarms WHERE n > ? ORDER BY n", (n,)):
            yield line


class Outlet:
    """Where lines are told: a file, to which each is added exactly once, or a stream such as stdout."""

    def __init__(self, target: Path | TextIO) -> None:
        self._path = target if isinstance(target, Path) else None
        self._file: Any = None if isinstance(target, Path) else target

    def resume(self, journal: Journal) -> None:
        """Complete the file from the journal; what a kill cut off is written anew.

        A stream cannot be asked what it got: lines that were not marked as printed are printed again, each
        with the number it had.
        """
        if self._path is None:
            n_printed = journal.count_printed()
            lines = list(journal.lines_after(n_printed))
            self.tell(lines)
            self.mark(journal, n_printed + len(lines))
            return
        n_there = _cut_to_whole_lines(self._path)
        self._file = self._path.open("a", encoding="utf-8")
        self.tell(list(journal.lines_after(n_there)))

    def tell(self, lines: Sequence[str]) -> None:
        """Write lines, up to the disk where it is a file."""
        if not lines:
            return
        self._file.write("".join(f"{line}\n" for line in lines))
        self._file.flush()
        if self._path is not None:
            os.fdatasync(self._file.fileno())

    def mark(self, journal: Journal, n: int) -> None:
        """Have the journal remember what was printed; a file is looked at instead."""
        if self._path is None:
            journal.mark_printed(n)

    def close(self) -> None:
        """Close the file."""
        if self._path is not None and self._file is not None:
            self._file.close()


def _cut_to_whole_lines(path: Path) -> int:
    """Cut what follows the last line end of a file, and count its lines."""
    if not path.exists():
        return 0
    n_lines = 0
    end = 0
    with path.open("rb+") as file:
        for line in file:
            if line.endswith(b"\n"):
                n_lines += 1
                end += len(line)
        file.truncate(end)
    return n_lines
