"""Text of strangers on a terminal: a header, an id or a file name may hold what a terminal would obey.

Control characters are shown by their code, and so is what a stream cannot encode, unless a plain character
says the same.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
from typing import Any, TextIO

from rich import markup
from rich.console import Console

# Control characters, lone surrogates, and marks that turn the direction of text or break lines.
_SIGNS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff"
_CONTROLS = re.compile(f"[{_SIGNS}]")
_CONTROLS_AND_LINES = re.compile(f"[{_SIGNS}\\n]")
_PLAIN = {
    "…": "...",
    "–": "-",
    "—": "-",
    "−": "-",
    "·": "|",
    "•": "*",
    "×": "x",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "±": "+/-",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "\u202f": " ",
    "\u00a0": " ",
    "√": "sqrt",
    "²": "^2",
    "³": "^3",
    "µ": "u",
    "€": "EUR",
    "£": "GBP",
    "ä": "ae",
    "ö": "oe",
    "ü": "ue",
    "ß": "ss",
}
_HANDLER = "tellwhy.plain"


def _write_code(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")


def make_visible(text: str, *, lines: bool = False) -> str:
    r"""Return text whose control characters are shown by their code; line ends too, unless they may stay.

    Examples
    --------
    >>> make_visible("a\x1b[2Jb\n")
    'a\\x1b[2Jb\\n'
    """
    return (_CONTROLS if lines else _CONTROLS_AND_LINES).sub(_write_code, text)


def escape(text: str) -> str:
    """Return text of strangers for a console: on one line, without controls, and nothing in it is markup."""
    return markup.escape(make_visible(text))


class SafeConsole(Console):
    """A console that obeys its own markup only, whatever is forgotten elsewhere."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command to end when whoever read has seen enough."""
        raise BrokenPipeError

    def render_str(self, text: str, **settings: Any) -> Any:
        """Render text without its control characters."""
        return super().render_str(make_visible(text, lines=True), **settings)


def write_json(value: Any, stream: TextIO) -> str:
    """Return JSON that any terminal and any encoding shows: what they might not is written by its code."""
    is_utf = (getattr(stream, "encoding", None) or "ascii").lower().startswith("utf")
    text = json.dumps(value, indent=2, ensure_ascii=not is_utf, allow_nan=False)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def prepare_streams() -> None:
    """Make stdout and stderr take any text; where one is closed, what is written to it goes nowhere."""
    codecs.register_error(_HANDLER, _explain_plainly)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _explain_plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    text = "".join(_PLAIN.get(sign, sign) for sign in signs)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def abandon(stream: TextIO) -> None:
    """Send what is still to be written to nowhere: Python would fail on it once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    except (OSError, ValueError):
        pass  # it was no file: there is nothing to send elsewhere
    finally:
        os.close(nowhere)
