"""The manual page: `python docs/site/manual.py > docs/reference/tellwhy.1`."""

from typing import Any

from commands import clean, first_line, list_commands, meaning_of, names_of, shown

import tellwhy

STATUSES = {
    "0": "done",
    "1": "an error, said in one line on stderr",
    "2": "wrong usage",
    "3": "more alarms than --fail-on-alarms allows; everything is written all the same",
    "124": "stopped by --timeout",
    "130": "interrupted; nothing was written",
    "141": "the reader of the output went away; files are written",
}


def write_manual() -> str:
    """The manual page of the command and of all its commands."""
    lines = [
        f'.TH TELLWHY 1 "" "tellwhy {tellwhy.__version__}" "User commands"',
        ".SH NAME",
        "tellwhy \\- find what is odd in your data, and tell why",
        ".SH SYNOPSIS",
        ".B tellwhy",
        "COMMAND [OPTIONS] [ARGUMENTS]",
        ".SH DESCRIPTION",
        "A table in: mistakes and odd rows out, each with its reason. The commands are:",
    ]
    listed = list_commands()
    for name, command in listed.items():
        lines += [".TP", f".B {escape(name)}", escape(first_line(command))]
    for name, command in listed.items():
        lines += [f".SH {escape(name.upper())}", *_describe(command)]
    lines += [".SH EXIT STATUS"]
    for status, words in STATUSES.items():
        lines += [".TP", f".B {status}", escape(words)]
    return "\n".join(lines) + "\n"


def _describe(command: Any) -> list[str]:
    """What a command does, and what it takes."""
    lines = [escape(clean(command.help or "").split("\n\n")[0].replace("\n", " "))]
    for param in shown(command):
        lines += [".TP", f".B {escape(', '.join(names_of(param)))}", escape(meaning_of(param) or "-")]
    return lines


def escape(text: str) -> str:
    """A text that troff leaves as it is."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "").replace("**", "")
    plain = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in plain)
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


if __name__ == "__main__":
    print(write_manual(), end="")
