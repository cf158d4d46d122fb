"""A JSON list, one element after the other: a large one is never held whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

_PIECE = 2**20  # characters that are read at a time
LARGEST_ELEMENT = 2**28  # characters
_NEAR_END = 64  # an error this close to the end of what was read may be due to the end alone
_SPACE = " \t\n\r"


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; one that has a name twice would lose a value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} occurs more than once in an object")
    return found


class _Text:
    """Text that is read on when more of it is needed."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.held = ""
        self.at = 0
        self.is_whole = False

    def more(self) -> bool:
        """Read on, as much again as is held; False at the end."""
        rest = len(self.held) - self.at
        piece = self.stream.read(max(_PIECE, rest))
        self.held = self.held[self.at :] + piece
        self.at = 0
        self.is_whole = not piece
        return not self.is_whole

    def sign(self) -> str:
        """The next character that is no space, which is not passed; nothing at the end."""
        while True:
            while self.at < len(self.held):
                if self.held[self.at] not in _SPACE:
                    return self.held[self.at]
                self.at += 1
            if not self.more():
                return ""


def list_elements(stream: TextIO) -> Iterator[Any]:
    """Yield the elements of a JSON list; what is wrong with it is a ValueError or a RecursionError."""
    text = _Text(stream)
    decoder = json.JSONDecoder(object_pairs_hook=unique_names)
    if text.sign() != "[":
        raise ValueError("expected a list")
    text.at += 1
    if text.sign() != "]":
        while True:
            text.sign()
            yield _element(text, decoder)
            if text.sign() != ",":
                break
            text.at += 1
    if (sign := text.sign()) != "]":
        raise ValueError(f"found {sign!r} after an element; expected ',' or ']'" if sign else "it ends early")
    text.at += 1
    if sign := text.sign():
        raise ValueError(f"found {sign!r} after the end of the list")


def _element(text: _Text, decoder: json.JSONDecoder) -> Any:
    while True:
        try:
            value, end = decoder.raw_decode(text.held, text.at)
        except json.JSONDecodeError as error:
            is_cut = error.pos >= len(text.held) - _NEAR_END or error.msg.startswith("Unterminated")
            if not is_cut or len(text.held) - text.at > LARGEST_ELEMENT or not text.more():
                raise
            continue
        if end == len(text.held) and not text.is_whole:  # a number may go on
            text.more()
            continue
        text.at = end
        return value
