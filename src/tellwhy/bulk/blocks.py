"""Cut and read.

Large files of delimited text, cut between rows into parts that are read by themselves.

What is to be read, cut into blocks of about equally many rows.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tellwhy.core.errors import UnreadableFile
from tellwhy.data import Table
from tellwhy.data.places import FileLines, mark_files
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.bytes import ByteSource, check_is_file, locate
from tellwhy.data.reading.delimited import read_delimited
from tellwhy.data.reading.dialect import Dialect, detect_dialect
from tellwhy.data.reading.parquet import name_damages
from tellwhy.data.sources import read_table

PART_BYTES = 16 * 2**20
_SCANNED = 8 * 2**20
_SAMPLE = 4 * 2**20


class Cut(NamedTuple):
    """One part of a text file: its bytes, and the rows before it."""

    begin: int
    end: int
    first_row: int
    n_rows: int


@dataclass(frozen=True)
class TextPart(ByteSource):
    """Some rows of a text file, below its header; opened as if they were a file."""

    begin: int = 0
    end: int = 0
    header_end: int = 0

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Give the header and the rows as one stream."""
        yield io.BytesIO(self._content())

    def blocks(self) -> Iterator[bytes]:
        """Yield the content at once: it was cut to be small."""
        yield self._content()

    def head(self, size: int) -> bytes:
        """Return the first bytes."""
        return self._content()[:size]

    def _content(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                header = file.read(self.header_end)
                file.seek(self.begin)
                rows = file.read(self.end - self.begin)
        except OSError as error:
            raise UnreadableFile(f"{self.path} cannot be read: {error.strerror or error}.") from error
        if len(header) + len(rows) < self.header_end + self.end - self.begin:
            raise UnreadableFile(f"{self.path} became shorter while it was read.")
        return header + rows


@dataclass(frozen=True)
class TextLayout:
    """How a text file is written, so that each of its parts is read alike."""

    delimiter: str
    decimal: str
    encoding: str
    header_end: int


def detect_layout(path: Path) -> TextLayout | None:
    """Find out how a file is written; None where it cannot be cut: packed, or without a header."""
    source = locate(path)
    head = source.head(_SAMPLE)
    if source.packing != "none" or b"\n" not in head or head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    encoding = _detect_encoding(head)
    dialect: Dialect = detect_dialect(source, encoding)
    if dialect.n_header_lines == 0:
        return None
    end = 0
    for _ in range(dialect.n_header_lines):
        end = head.find(b"\n", end) + 1
        if end == 0:
            return None
    return TextLayout(dialect.delimiter, dialect.decimal, encoding, end)


def _detect_encoding(head: bytes) -> str:
    try:
        head[: head.rfind(b"\n")].decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def find_cuts(path: Path, layout: TextLayout, part_bytes: int = PART_BYTES) -> list[Cut]:
    """Cut a file after rows, into parts of about so many bytes; a quoted cell may hold line ends."""
    cuts: list[Cut] = []
    begin = layout.header_end
    first_row = 0
    n_rows = 0
    for end, n_so_far in _find_row_ends(path, layout.header_end, part_bytes):
        n_rows = n_so_far
        cuts.append(Cut(begin, end, first_row, n_rows - first_row))
        begin = end
        first_row = n_rows
    return [cut for cut in cuts if cut.n_rows]


def _find_row_ends(path: Path, start: int, part_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield (offset after a row, rows so far) about every `part_bytes` bytes, and at the end."""
    with path.open("rb") as file:
        file.seek(start)
        yield from _scan(file, start, part_bytes)


def _scan(file: IO[bytes], start: int, part_bytes: int) -> Iterator[tuple[int, int]]:
    offset = start
    is_quoted = False
    n_rows = 0
    wanted = start + part_bytes
    line_has_text = False  # whether the line that a piece ended in has any character yet
    while piece := file.read(_SCANNED):
        block = np.frombuffer(piece, dtype=np.uint8)
        parity = (np.cumsum(block == ord('"')) + is_quoted) & 1
        feeds = np.flatnonzero((block == ord("\n")) & (parity == 0))
        is_row = _are_rows(block, feeds, line_has_text)
        rows_after = n_rows + np.cumsum(is_row)
        for place in _choose_ends(feeds, offset, wanted, part_bytes):
            yield offset + int(feeds[place]) + 1, int(rows_after[place])
            wanted = offset + int(feeds[place]) + 1 + part_bytes
        n_rows += int(is_row.sum())
        rest = block[feeds[-1] + 1 :] if len(feeds) else block
        line_has_text = (line_has_text and not len(feeds)) or _has_text(rest)
        is_quoted = bool(parity[-1])
        offset += len(block)
    if offset > start:
        yield offset, n_rows + line_has_text


def _choose_ends(feeds: np.ndarray, offset: int, wanted: int, part_bytes: int) -> Iterator[int]:
    """Places of the line ends to cut at."""
    place = int(np.searchsorted(feeds, wanted - offset))
    while place < len(feeds):
        yield place
        after = int(feeds[place]) + 1 + part_bytes
        place = int(np.searchsorted(feeds, after))


def _are_rows(block: np.ndarray, feeds: np.ndarray, began: bool) -> np.ndarray:
    """Whether the line before each line end holds anything: blank lines are no rows."""
    starts = np.concatenate([[0], feeds[:-1] + 1]) if len(feeds) else feeds
    lengths = feeds - starts
    before = block[np.maximum(feeds - 1, 0)]
    is_blank = (lengths == 0) | ((lengths == 1) & (before == ord("\r")))
    if len(is_blank) and began:
        is_blank[0] = False
    return ~is_blank


def _has_text(rest: np.ndarray) -> bool:
    return bool(((rest != ord("\r")) & (rest != ord("\n"))).any())


BLOCK_ROWS = 65_536
FEW = 16  # blocks: of fewer none is cut smaller
SMALLER = 4  # parts of one of the last blocks; what is learned of the model anew in each costs half a second
_PARQUET = (".parquet", ".pq")
_TEXT = (".csv", ".tsv", ".tab", ".txt")
_OTHERS = (".jsonl", ".ndjson", ".json", ".xlsx", ".gz", ".zip")


@dataclass(frozen=True)
class Piece:
    """Rows that are read in one go: a row group of Parquet or a part of it, a part of a text file, a file.

    Attributes
    ----------
    file
        The file.
    kind
        'parquet', 'text' or 'file'.
    first_row, n_rows
        Number of its first row in the file, and its rows; −1 where they are not known before it is read.
    group, skipped
        Of Parquet: the row group, and rows of it that come before.
    begin, end, header_end, delimiter, decimal, encoding
        Of text: the bytes, the end of the header, and how it is written.
    """

    file: str
    kind: str
    first_row: int
    n_rows: int
    group: int = 0
    skipped: int = 0
    begin: int = 0
    end: int = 0
    header_end: int = 0
    delimiter: str = ","
    decimal: str = "."
    encoding: str = ""

    @property
    def words(self) -> str:
        """The piece as an error names it."""
        if self.kind == "parquet":
            return f"row group {self.group} of {self.file}"
        return f"bytes {self.begin:,} to {self.end:,} of {self.file}" if self.kind == "text" else self.file

    def read(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read the rows; of Parquet, some columns alone if wanted. What is damaged is an `UnreadableFile`."""
        if self.kind == "parquet":
            return self._read_group(columns)
        if self.kind == "text":
            part = TextPart(
                Path(self.file),
                Path(self.file).name,
                "part",
                begin=self.begin,
                end=self.end,
                header_end=self.header_end,
            )
            return read_delimited(
                part, delimiter=self.delimiter, decimal=self.decimal, encoding=self.encoding or None
            )[0]
        return read_table(self.file).frame

    def _read_group(self, columns: Sequence[str] | None) -> pd.DataFrame:
        path = Path(self.file)
        with name_damages(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            wanted = None if columns is None else [c for c in file.schema_arrow.names if c in columns]
            batches = file.iter_batches(
                batch_size=BLOCK_ROWS, row_groups=[self.group], columns=wanted, use_threads=False
            )
            table = pa.Table.from_batches(_slice_batches(batches, self.skipped, self.n_rows))
        if table.num_rows != self.n_rows:
            raise UnreadableFile(f"{self.words} no longer has the rows that it had; it was changed.")
        return frame_from_arrow(table)


def _slice_batches(batches: Iterator[pa.RecordBatch], skipped: int, n_rows: int) -> list[pa.RecordBatch]:
    """Rows `skipped` to `skipped` + `n_rows` of some batches; those after them are not decoded."""
    found = []
    first = 0
    for batch in batches:
        begin = max(skipped - first, 0)
        end = min(skipped + n_rows - first, batch.num_rows)
        if begin < end:
            found.append(batch.slice(begin, end - begin))
        first += batch.num_rows
        if first >= skipped + n_rows:
            break
    return found


@dataclass(frozen=True)
class Block:
    """Pieces that are judged together: a large one, or several small ones."""

    number: int
    pieces: tuple[Piece, ...]

    def record(self) -> dict[str, Any]:
        """The block as JSON."""
        return {"number": self.number, "pieces": [asdict(piece) for piece in self.pieces]}

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Block:
        """The block of `record`."""
        return cls(int(record["number"]), tuple(Piece(**each) for each in record["pieces"]))


@dataclass(frozen=True, eq=False)
class ReadBlock:
    """The rows of a block that could be read.

    Attributes
    ----------
    table
        The rows; None where no piece could be read.
    files, rows
        File, and number in it, of each row.
    failed
        Pieces that could not be read, and why.
    """

    table: Table | None
    files: list[str]
    rows: list[int]
    failed: list[tuple[str, str]]


def read_block(
    block: Block, columns: Sequence[str] | None = None, *, required: Sequence[str] = ()
) -> ReadBlock:
    """Read every piece of a block; one that is damaged, or lacks columns, costs its own rows only."""
    frames: list[pd.DataFrame] = []
    marks: list[FileLines] = []
    files: list[str] = []
    rows: list[int] = []
    failed: list[tuple[str, str]] = []
    for piece in block.pieces:
        try:
            frame = piece.read(columns)
            _check_columns(frame, required)
        except UnreadableFile as error:
            failed.append((piece.words, str(error)))
            continue
        first = max(piece.first_row, 0)
        frames.append(frame)
        marks.append(FileLines(piece.file, None, len(frame)))
        files += [piece.file] * len(frame)
        rows += list(range(first, first + len(frame)))
    if not frames:
        return ReadBlock(None, [], [], failed)
    joined = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    mark_files(joined, marks)
    source = block.pieces[0].file
    return ReadBlock(Table(joined, source), files, rows, failed)


def _check_columns(frame: pd.DataFrame, required: Sequence[str]) -> None:
    absent = [name for name in required if name not in frame.columns]
    if absent:  # joined with other files, its cells would look as if they were merely missing
        raise UnreadableFile(
            f"It lacks {len(absent)} column(s) that the model uses: {', '.join(map(repr, absent[:5]))}."
        )


def plan_blocks(names: Sequence[str | Path]) -> list[Block]:
    """Cut files, and the files of folders, into blocks of about 65,536 rows, always in the same way.

    The last blocks of many are smaller: whoever has finished finds something small left to do, and many
    processes end at nearly the same time.
    """
    grouped = _group_pieces((piece for path in list_files(names) for piece in _list_pieces(path)), BLOCK_ROWS)
    n_last = _count_last(len(grouped))
    size = max(1, BLOCK_ROWS // SMALLER)
    last = (
        part for group in grouped[len(grouped) - n_last :] for piece in group for part in _cut(piece, size)
    )
    groups = [*grouped[: len(grouped) - n_last], *_group_pieces(last, size)]
    return [Block(number, tuple(group)) for number, group in enumerate(groups)]


def _group_pieces(pieces: Iterable[Piece], most: int) -> list[list[Piece]]:
    """Join pieces as long as they have no more than so many rows together."""
    groups: list[list[Piece]] = []
    size = 0
    for piece in pieces:
        n = piece.n_rows if piece.n_rows >= 0 else _estimate_rows(piece)
        if not groups or size + n > most:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += n
    return groups


def _count_last(n_blocks: int) -> int:
    """How many blocks are cut smaller; it may depend on nothing but the files: the bytes depend on it."""
    return 0 if n_blocks < FEW else min(max(n_blocks // 16, min(8, n_blocks // 8)), 1024)


def _cut(piece: Piece, size: int) -> Iterator[Piece]:
    """A piece of Parquet in smaller ones; others stay whole."""
    if piece.kind != "parquet":
        yield piece
        return
    for start in range(0, piece.n_rows, size):
        n = min(size, piece.n_rows - start)
        yield replace(piece, first_row=piece.first_row + start, n_rows=n, skipped=piece.skipped + start)


def list_files(names: Sequence[str | Path]) -> list[Path]:
    """The files that were named, and those below the folders that were; sorted by their names."""
    found: list[Path] = []
    for name in names:
        path = Path(name)
        if not path.is_dir():
            check_is_file(path)
            found.append(path)
            continue
        inside = [p for p in sorted(path.rglob("*")) if p.is_file() and _is_table(p)]
        if not inside:
            raise UnreadableFile(
                f"The folder {path} holds no table; expected files ending in {', '.join(_PARQUET + _TEXT)}."
            )
        found += inside
    return found


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in _PARQUET + _TEXT + _OTHERS and not path.name.startswith((".", "_"))


def _list_pieces(path: Path) -> Iterator[Piece]:
    check_is_file(path)
    if path.suffix.lower() in _PARQUET:
        yield from _list_row_groups(path)
        return
    layout = (
        detect_layout(path) if path.suffix.lower() in _TEXT and path.stat().st_size > PART_BYTES else None
    )
    if layout is None:
        yield Piece(str(path), "file", 0, -1)
        return
    for cut in find_cuts(path, layout):
        yield Piece(
            str(path),
            "text",
            cut.first_row,
            cut.n_rows,
            begin=cut.begin,
            end=cut.end,
            header_end=layout.header_end,
            delimiter=layout.delimiter,
            decimal=layout.decimal,
            encoding=layout.encoding,
        )


def _list_row_groups(path: Path) -> Iterator[Piece]:
    try:
        with name_damages(path):
            metadata = pq.read_metadata(path)
            sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    except UnreadableFile:  # told when it is read, so that the other files are delivered
        yield Piece(str(path), "file", 0, -1)
        return
    first = 0
    for group, n_rows in enumerate(sizes):
        for skipped in range(0, n_rows, BLOCK_ROWS):
            n = min(BLOCK_ROWS, n_rows - skipped)
            yield Piece(str(path), "parquet", first + skipped, n, group=group, skipped=skipped)
        first += n_rows


def _estimate_rows(piece: Piece) -> int:
    """Rows of a file that was not counted, from its size."""
    return max(1, Path(piece.file).stat().st_size // 50)
