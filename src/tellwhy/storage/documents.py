"""The one way to a folder on disk and back: a JSON file, here called the head, beside files of arrays (.npz).

What a folder holds is declared by a `Format`. How it is written and read is here, for all of them:

- A folder appears whole or not at all.
- The head says which version of the format it follows; another version is not read.
- Nothing is ever unpickled, so that a file cannot run code.
- Whatever is wrong with a file is one error, `UnreadableFile`, that names the file and the key in it.
"""

from __future__ import annotations

import json
import math
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tellwhy.core.errors import UnreadableFile
from tellwhy.storage.folders import check_new_folder, find_standing, new_folder

ARRAYS = "arrays.npz"
LARGEST_UNPACKED = 4 * 2**30  # bytes of arrays that are packed; others take their room on the disk already
_ZIP = b"PK"
_NPY = b"\x93NUMPY"
Types = tuple[type, ...]
Arrays = dict[str, Any]  # name -> numpy array

# What numpy and zipfile raise for files that are cut, overwritten or made up. A wrong length of an array can
# ask for more memory than there is.
_DAMAGES = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    NotImplementedError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)
# What constructors and checks raise when they are given the wrong things. PyTorch raises RuntimeError.
_MISFITS = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
)
_WORDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}


@dataclass(frozen=True)
class Format:
    """What one kind of folder holds.

    Attributes
    ----------
    what
        How messages call it: 'a saved detector'.
    head
        Name of the JSON file; a folder with this file is one of ours.
    keys
        What the head must hold beside its version, and of which types.
    arrays
        Names that `arrays.npz` must hold at least.
    schema
        Version of the format.
    is_compressed
        Whether arrays are compressed: smaller, but slower to write.

    Examples
    --------
    >>> import tempfile
    >>> counts = Format("a saved count", "count.json", keys={"of": (str,)}, arrays=("counts",))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = counts.write(Path(place) / "apples", {"of": "apples"}, {"counts": np.array([3, 4])})
    ...     head, arrays = counts.read(folder)
    >>> head["of"], arrays["counts"]
    ('apples', array([3, 4]))
    """

    what: str
    head: str
    keys: Mapping[str, Types]
    arrays: tuple[str, ...] = ()
    schema: int = 1
    is_compressed: bool = True

    def write(
        self,
        folder: Path,
        head: Mapping[str, Any],
        arrays: Mapping[str, Any],
        *,
        add: Callable[[Path], None] | None = None,
    ) -> Path:
        """Write the folder, whole or not at all; `add(folder)` may write more into it before it appears."""
        with self.new_folder(folder) as work:
            self.write_head(work, head)
            write_arrays(work / ARRAYS, arrays, is_compressed=self.is_compressed)
            if add is not None:
                add(work)
        return folder

    @contextmanager
    def new_folder(self, folder: Path) -> Iterator[Path]:
        """Give a folder to write into, which takes its place when the block ends without an error."""
        with new_folder(folder, marker=self.head) as work:
            yield work

    def check_place(self, folder: Path) -> None:
        """Raise now what `write` would raise: before work that takes long, not after it."""
        check_new_folder(folder, marker=self.head)

    def write_head(self, folder: Path, head: Mapping[str, Any]) -> None:
        """Write the head, with its version."""
        write_json(folder / self.head, {"schema": self.schema, **head})

    def is_in(self, folder: Path) -> bool:
        """Whether a folder says that it holds this."""
        return (find_standing(folder) / self.head).is_file()

    def read(self, folder: Path) -> tuple[dict[str, Any], Arrays]:
        """Return the head and the arrays, or raise `UnreadableFile`."""
        folder = find_standing(folder)
        self._check_folder(folder)
        return self.read_head(folder), read_arrays(folder / ARRAYS, self.arrays)

    @contextmanager
    def reading(self, folder: Path, key: str) -> Iterator[None]:
        """Turn what goes wrong while a key's value is used into `UnreadableFile`."""
        try:
            with at_key(key):
                yield
        except Misfit as misfit:
            raise UnreadableFile(
                f"{folder / self.head} (with {ARRAYS} beside it) is damaged: key {misfit.key!r}, "
                f"{misfit.why}."
            ) from misfit

    def read_head(self, folder: Path) -> dict[str, Any]:
        """Return the head after checking its version and its keys."""
        path = find_standing(folder) / self.head
        head = read_versioned(path, self.schema, self.what)
        for key, types in self.keys.items():
            check_type(path, key, head.get(key, _ABSENT), types)
        return head

    def _check_folder(self, folder: Path) -> None:
        """Say that there is no folder, or that something else is in it."""
        if not folder.is_dir():
            found = "is a file" if folder.exists() else "is not there"
            raise UnreadableFile(f"{folder} {found}; expected the folder of {self.what}.")
        if not self.is_in(folder):
            names = sorted(path.name for path in folder.iterdir())
            held = ", ".join(names[:5]) or "nothing"
            raise UnreadableFile(f"{folder} is not {self.what}: {self.head} is missing. It holds {held}.")


@dataclass(frozen=True)
class _Absent:
    """Stands for a key that is not there, because None is what JSON's null becomes."""


_ABSENT = _Absent()


class Misfit(ValueError):
    """Something in a file that cannot be what it should be, and the key that it is under."""

    def __init__(self, why: str, key: str):
        super().__init__(why)
        self.why = why
        self.key = key


@contextmanager
def at_key(key: str) -> Iterator[None]:
    """Turn what goes wrong inside into a `Misfit` with this key, unless a key farther inside is known."""
    try:
        yield
    except Misfit:
        raise
    except KeyError as error:
        raise Misfit(f"{error} is missing", key) from error
    except _MISFITS as error:
        raise Misfit(str(error) or type(error).__name__, key) from error


def check_type(path: Path, key: str, value: object, types: Types) -> None:
    """Raise `UnreadableFile` unless a value of the head is of one of some types."""
    # JSON has one kind of number: 3.0 may come back as 3. True is no number, though Python counts with it.
    is_number = float in types and isinstance(value, int) and not isinstance(value, bool)
    if is_number or type(value) in types:
        return
    expected = " or ".join(_WORDS[kind] for kind in types)
    if value is _ABSENT:
        raise UnreadableFile(f"{path} lacks {key!r}; expected {expected}.")
    raise UnreadableFile(f"{path} lacks {key!r} as {expected}: it holds {_show_value(value)} there.")


def _show_value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}…"


def write_json(path: Path, value: object) -> None:
    """Write indented JSON in UTF-8."""
    text = json.dumps(make_plain(value), indent=2, ensure_ascii=False) + "\n"
    # A file's name may hold bytes that are no text: JSON writes such halves of characters by their code.
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def read_versioned(path: Path, schema: int, what: str) -> dict[str, Any]:
    """Read a JSON object that says which version it follows, or raise `UnreadableFile`."""
    try:
        check_regular(path)
        head = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:  # a file of 100,000 brackets is valid JSON
        raise UnreadableFile(f"{path} cannot be read as {what}: it is nested too deeply.") from error
    except (OSError, ValueError) as error:
        raise UnreadableFile(f"{path} cannot be read as {what}: {error}.") from error
    got = head.get("schema") if isinstance(head, dict) else type(head).__name__
    if got != schema:
        raise UnreadableFile(f"{path} has schema {got!r}; this version of tellwhy reads schema {schema}.")
    return dict(head)


def write_arrays(path: Path, arrays: Mapping[str, Any], *, is_compressed: bool = True) -> None:
    """Write arrays of numbers or text to an .npz file."""
    # Looked up when called, so that a test can stand in for numpy's function.
    write = np.savez_compressed if is_compressed else np.savez
    write(path, allow_pickle=False, **arrays)


def read_arrays(path: Path, required: Iterable[str] = ()) -> Arrays:
    """Read all arrays of an .npz file, among them the required ones, or raise `UnreadableFile`."""
    try:
        check_regular(path)
        with open(path, "rb") as file:
            check_arrays(file)  # numpy takes a file with another beginning for a pickle
            stored = np.load(file, allow_pickle=False)
            if isinstance(stored, np.ndarray):
                raise ValueError("it holds one array, as in an .npy file")
            arrays = {name: stored[name] for name in stored.files}
    except _DAMAGES as error:
        raise UnreadableFile(f"{path} is missing or damaged: {error}.") from error
    for name in required:
        if name not in arrays:
            raise UnreadableFile(f"{path} lacks {name!r}; it holds {sorted(arrays)[:10]}.")
    return arrays


def make_plain(value: object) -> Any:
    """Turn numpy scalars, arrays, paths and tuples into what JSON can hold."""
    if isinstance(value, dict):
        return {str(k): make_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [make_plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return make_plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)  # JSON has no notation for NaN and infinity
    return value if isinstance(value, (str, int, float)) or value is None else str(value)


def check_regular(path: Path) -> None:
    """Raise OSError for a pipe or a device: reading one may wait for ever, or never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path.name} is a folder, a pipe or a device; expected a file")


def check_arrays(file: IO[bytes]) -> None:
    """Raise ValueError for a file whose arrays are not what they say that they are.

    The file is left where it was. `zipfile.BadZipFile` and the like become ValueError too.
    """
    start = file.tell()
    try:
        _check_content(file, start)
    except (OSError, ValueError, MemoryError):
        raise
    except Exception as error:  # a damaged header is given to Python's parser, which fails in its own ways
        raise ValueError(str(error) or type(error).__name__) from error
    finally:
        file.seek(start)


def _check_content(file: IO[bytes], start: int) -> None:
    head = file.read(6)
    size = file.seek(0, 2) - start
    file.seek(start)
    if head.startswith(_NPY):
        check_array(file, size, "the array", start)
    elif head.startswith(_ZIP):
        with zipfile.ZipFile(file) as archive:
            _check_members(archive)
    else:
        raise ValueError("it is no .npz file")


def _check_members(archive: zipfile.ZipFile) -> None:
    members = archive.infolist()
    twice = [name for name, n in Counter(m.filename.removesuffix(".npy") for m in members).items() if n > 1]
    if twice:
        raise ValueError(f"it holds {twice[0]!r} more than once")
    packed = sum(m.file_size for m in members if m.compress_type != zipfile.ZIP_STORED)
    if packed > LARGEST_UNPACKED:
        raise ValueError(f"it unpacks to more than {LARGEST_UNPACKED / 2**30:g} GiB")
    for member in members:
        with archive.open(member) as content:
            check_array(content, member.file_size, member.filename)


def check_array(content: IO[bytes], size: int, name: str, start: int = 0) -> None:
    """Raise ValueError where the array of an opened .npy file does not take the room that it says."""
    version = npy.read_magic(content)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    declares = read(content)
    shape = declares[0]
    dtype = declares[2]
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are never loaded")
    declared = math.prod(shape) * dtype.itemsize
    held = size - (content.tell() - start)
    if min(shape, default=1) < 0 or declared != held:
        raise ValueError(f"{name} says that it takes {declared:,} bytes, but holds {held:,}")


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file by name, or the one of an .npy file under the file's own name.

    Raises
    ------
    OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error
        What numpy and zipfile raise for content that is damaged; ValueError for what is made up.
    """
    check_regular(path)
    with path.open("rb") as file:
        check_arrays(file)
        stored = np.load(file, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            return {path.name.partition(".")[0]: stored}
        with stored:
            return {name: stored[name] for name in stored.files}


def write_stored_table(frame: Any, path: Path, **settings: Any) -> None:
    """Write a pandas frame with a checksum for each page: a bit that flips on the disk is noticed."""
    frame.to_parquet(path, write_page_checksum=True, **settings)


def read_stored_table(path: Path) -> Any:
    """Read a pandas frame, or raise `UnreadableFile` with the file's name."""
    import pandas as pd
    import pyarrow as pa

    try:
        check_regular(path)
        return pd.read_parquet(path, page_checksum_verification=True)
    except (OSError, pa.ArrowException, ValueError, TypeError, LookupError, AttributeError) as error:
        # What the file says of its columns goes through pandas, which trusts it.
        raise UnreadableFile(f"{path} is missing or damaged: {error}.") from error
