"""Rows in libsvm format, some thousand lines at a time; malformed lines are named by their number."""

from __future__ import annotations

import gzip
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tellwhy.core.errors import UnreadableFile

LINES = 20_000  # read at a time
MOST_FEATURES = 2**31 - 1
LARGEST_LABEL = 2**53
LONGEST_LINE = 2**28  # bytes
SHOWN = 40  # characters of a malformed word
_LINE = re.compile(rb"[^\s:]+(?:\s+[0-9]+:[^\s:]+)*")  # the form alone: what stands for numbers may be none


class Chunk(NamedTuple):
    """Consecutive rows of a file: their labels, CSR rows, and the number of the first."""

    y: Any
    X: Any
    first: int


def libsvm_chunks(path: Path) -> Iterator[Chunk]:
    """The rows of a file, some thousand lines at a time: a file may be larger than the memory."""
    try:
        with _opened(path) as file:
            row = 0
            line = 0
            # A packed file may hold a line of gigabytes.
            each = iter(partial(file.readline, LONGEST_LINE), b"")
            while lines := list(islice(each, LINES)):
                if line == 0:
                    lines[0] = lines[0].removeprefix(BOM_UTF8)
                if max(map(len, lines)) == LONGEST_LINE:
                    raise UnreadableFile(f"{path} has a line of more than {LONGEST_LINE:,} bytes.")
                y, X = _parsed(lines, path, line)
                if len(y):
                    yield Chunk(y, X, row)
                row += len(y)
                line += len(lines)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableFile(f"{path} cannot be read: {error}") from error


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def _parsed(lines: list[bytes], path: Path, before: int) -> tuple[Any, Any]:
    """Parse many lines at once; only if that fails, one by one, to say which is malformed."""
    texts = [text for text in (line.partition(b"#")[0].strip() for line in lines) if text]
    heads = [text.split(None, 1) for text in texts]
    tokens = [head[1].replace(b":", b" ").split() if len(head) == 2 else [] for head in heads]
    counts = np.array([len(t) for t in tokens], dtype=np.int64)
    try:
        labels = np.array([head[0] for head in heads], dtype="S").astype(np.float64) if heads else np.zeros(0)
        flat = np.array([t for ts in tokens for t in ts], dtype="S").astype(np.float64)
        indices = flat[0::2]
        values = flat[1::2]
        at = np.concatenate(([0], np.cumsum(counts // 2)))
        # Features must increase inside a row; the first of a row is compared with 0, not with the row before.
        steps = np.diff(indices, prepend=0.0)
        firsts = at[:-1][counts > 0]
        steps[firsts] = indices[firsts]
        sound = (
            all(map(_LINE.fullmatch, texts))
            and np.isfinite(flat).all()
            and np.isfinite(labels).all()
            and (steps >= 1).all()
            and (indices <= MOST_FEATURES).all()
        )
    except ValueError:
        sound = False
    if not sound:
        _name_the_bad_line(lines, path, before)
    columns = indices.astype(np.int32) - 1
    width = int(columns.max()) + 1 if len(columns) else 0
    _check_labels(labels, heads, path)
    y = labels.astype(np.int64) if (labels == np.floor(labels)).all() else labels
    return y, sparse.csr_array((values, columns, at), shape=(len(texts), width))


def _check_labels(labels: Any, heads: list[list[bytes]], path: Path) -> None:
    """Refuse labels that floats cannot tell apart: two classes would become one."""
    beyond = np.flatnonzero(np.abs(labels) > LARGEST_LABEL)
    if len(beyond):
        raise UnreadableFile(
            f"{path} has the label {_shown(heads[beyond[0]][0])}; labels of more than {LARGEST_LABEL:,} "
            "cannot be told apart. Number the classes anew."
        )


def _name_the_bad_line(lines: list[bytes], path: Path, before: int) -> None:
    for number, line in enumerate(lines, start=before + 1):
        words = line.partition(b"#")[0].split()
        if words and (problem := _problem_with(words)):
            raise UnreadableFile(f"{path}, line {number}: {problem} Expected lines such as '3 1:0.5 7:1'.")
    raise UnreadableFile(f"{path} is malformed between lines {before + 1} and {before + len(lines)}.")


def _problem_with(words: list[bytes]) -> str | None:
    """What is wrong with a line of libsvm format, if anything."""
    if not _is_number(words[0]):
        return f"the label {_shown(words[0])} is not a number."
    last = 0
    for word in words[1:]:
        parts = word.partition(b":")
        index = parts[0]
        if not parts[1] or not index.isdigit() or not _is_number(parts[2]):
            return f"{_shown(word)} is not of the form feature:value with finite numbers."
        # So long a number need not be read to be refused, and Python would refuse to read a longer one.
        if len(index) > 18 or int(index) > MOST_FEATURES:
            return f"feature {_shown(index)} is too large a number; at most {MOST_FEATURES} can be counted."
        if int(index) == 0:
            return (
                "there is a feature 0; features are counted from 1 (in dump_svmlight_file: zero_based=False)."
            )
        if int(index) <= last:
            return (
                f"feature {int(index)} follows feature {last}; features are counted from 1 and must increase."
            )
        last = int(index)
    return None


def _shown(word: bytes) -> str:
    text = word[:SHOWN].decode(errors="replace")
    return repr(text if len(word) <= SHOWN else text + "…")


def _is_number(text: bytes) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
