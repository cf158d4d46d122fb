"""Universal Binary JSON, in which XGBoost saves models: numbers after a letter that tells their type."""

from __future__ import annotations

from typing import Any

import numpy as np

from tellwhy.core.errors import UnreadableFile

_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_CONSTANTS = {"Z": None, "T": True, "F": False}
_DEEPEST = 64  # levels of objects inside each other; models have a dozen


def decode(content: bytes) -> Any:
    r"""Return what the bytes hold: dictionaries, lists, arrays, texts and numbers.

    Examples
    --------
    >>> decode(b"{U\x01aSU\x02hiU\x01b[$U#U\x02\x07\x08}")
    {'a': 'hi', 'b': array([7, 8], dtype=uint8)}
    """
    return _Reader(content).value(0)


class _Reader:
    """Goes through the bytes once, from the beginning to the end."""

    def __init__(self, content: bytes):
        self._content = content
        self._at = 0

    def value(self, depth: int, kind: str | None = None) -> Any:
        """Read one value, of a kind that was told before, or after the letter of its own."""
        if depth > _DEEPEST:
            raise self._broken("objects inside each other without end")
        kind = self._letter() if kind is None else kind
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in _NUMBERS:
            return self._numbers(kind, 1)[0].item()
        if kind == "S":
            return self._text()
        if kind == "{":
            return self._object(depth)
        if kind == "[":
            return self._array(depth)
        raise self._broken(f"no value begins with {kind!r}")

    def _letter(self) -> str:
        return chr(self._bytes(1)[0])

    def _bytes(self, n: int) -> bytes:
        taken = self._content[self._at : self._at + n]
        if n < 0 or len(taken) < n:
            raise self._broken("it ends too early")
        self._at += n
        return taken

    def _numbers(self, kind: str, n: int) -> Any:
        dtype = np.dtype(_NUMBERS[kind])
        return np.frombuffer(self._bytes(n * dtype.itemsize), dtype=dtype).astype(dtype.newbyteorder("="))

    def _count(self) -> int:
        kind = self._letter()
        if kind not in "iUIlL":
            raise self._broken(f"a number of entries cannot begin with {kind!r}")
        return int(self._numbers(kind, 1)[0])

    def _text(self) -> str:
        return self._bytes(self._count()).decode(errors="replace")

    def _next_is(self, letter: str) -> bool:
        """Whether the next letter is this one, which is then taken."""
        if self._content[self._at : self._at + 1] != letter.encode():
            return False
        self._at += 1
        return True

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self._next_is("}"):
            name = self._text()
            found[name] = self.value(depth + 1)
        return found

    def _array(self, depth: int) -> Any:
        kind = self._letter() if self._next_is("$") else None
        if not self._next_is("#"):
            found = []
            while not self._next_is("]"):
                found.append(self.value(depth + 1, kind))
            return found
        n = self._count()
        if kind in _NUMBERS:
            return self._numbers(kind, n)
        return [self.value(depth + 1, kind) for _ in range(n)]

    def _broken(self, what: str) -> UnreadableFile:
        return UnreadableFile(f"This is no XGBoost model in UBJSON: {what}, at byte {self._at:,}.")
