"""Arrays in .npz and .npy files, which are looked at before memory is given to them.

A file of a few bytes can say that it holds an array of terabytes, and a packed one can hold gigabytes of
zeros. What each member says of itself must agree with the room that it takes.
"""

from __future__ import annotations

import math
import stat
import zipfile
from collections import Counter
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

LARGEST_UNPACKED = 4 * 2**30  # bytes of arrays that are packed; others take their room on the disk already
_ZIP = b"PK"
_NPY = b"\x93NUMPY"


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
        _check_array(file, size, "the array", start)
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
            _check_array(content, member.file_size, member.filename, 0)


def _check_array(content: IO[bytes], size: int, name: str, start: int) -> None:
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
