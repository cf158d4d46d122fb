"""The command line of a benchmark: one call names its options, and those of many benchmarks are written here once."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.shared.places import running


def option(default: Any, words: str = "", **more: Any) -> dict[str, Any]:
    """What `add_argument` is given; the default, or a type where there is none, says what kind the option has."""
    if isinstance(default, bool):
        kind: dict[str, Any] = {"action": "store_true"}
    elif isinstance(default, type):
        kind = {"type": default, "default": None}
    elif isinstance(default, (list, tuple)):
        kind = {"nargs": "+", "default": list(default), "type": type(default[0]) if default else str}
    else:
        kind = {"type": type(default), "default": default}
    return {**kind, "help": words or None, **more}


COMMON: dict[str, dict[str, Any]] = {
    "archive": option(Path, "an .npz file with both sets of pictures"),
    "cores": option(0, "processes, each on a core of its own"),
    "device": option("cpu", "where networks compute"),
    "minutes": option(1e9, "start nothing new after this time"),
    "note": option("", "a sentence about the figures, for the page"),
    "only_page": option(False, "measure nothing: write the page from what is kept"),
    "save": option(Path, "keep the figures here as JSON, and write no page"),
    "seconds": option(float("inf"), "start nothing new after this time"),
    "texts": option(Path, "folder of the queries"),
    "workers": option(1, "processes"),
}


def arguments(description: str | None, *common: str, **own: Any) -> argparse.Namespace:
    """Read the command line: options of `COMMON` by name, and a script's own by default or `option`.

    `kept` is spelt `--from`: figures that were kept before, of which the page is written.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {running()}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    told = {name: COMMON[name] for name in common} | own
    for name, what in told.items():
        given = what if isinstance(what, dict) else option(what)
        flag = "--from" if name == "kept" else f"--{name.replace('_', '-')}"
        parser.add_argument(flag, dest=name, **given)
    return parser.parse_args()
