"""Marks beside a model: `orders.tellwhy.marks.jsonl`, to which lines are added and from which none is taken.

Each line is what somebody did and when: a mark, with what it covers and why; or that a mark holds no longer.
A line names the model that it is about by its SHA-256: marks of another model do nothing. Fitting a model
again carries its marks over to the new one.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.kinds.marks import Mark
from tellwhy.storage import clock
from tellwhy.storage.documents import make_plain
from tellwhy.storage.journal import append_lines, read_lines
from tellwhy.storage.signature import fingerprint_of

SCHEMA = 1
SUFFIX = ".marks.jsonl"


def path_of_marks(model: str | Path) -> Path:
    """Return where the marks of a model file stand.

    Examples
    --------
    >>> path_of_marks("models/orders.tellwhy").name
    'orders.tellwhy.marks.jsonl'
    """
    place = Path(model)
    return place.with_name(place.name + SUFFIX)


def fingerprint_with_marks(model: str | Path) -> str:
    """Return the SHA-256 of a model file together with the marks beside it, where there are any."""
    marks = read_lines(path_of_marks(model))
    alone = fingerprint_of(model)
    told = json.dumps([alone, marks], sort_keys=True)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest() if marks else alone


def add_marks(model: str | Path, marks: Sequence[Mark], *, run: str = "", who: str = "") -> list[Mark]:
    """Add marks to those of a model, and return them with their numbers, once they are on the disk.

    Parameters
    ----------
    model
        The file of the model.
    marks
        What is no trouble, of `marks_of`.
    run
        The run that showed it, for whoever reads the file.
    who
        Who says so; by default the user's name on this machine.
    """
    name = who or name_of_user()
    made = [replace(each, id=each.id or secrets.token_hex(4), when=clock.stamp(), who=name) for each in marks]
    _append(model, [{"what": "mark", **asdict(each), "run": run} for each in made])
    return made


def forget_marks(model: str | Path, marks: Iterable[Mark], *, why: str = "", who: str = "") -> None:
    """Add that marks hold no longer; what they were stays in the file."""
    told = {"when": clock.stamp(), "who": who or name_of_user(), "why": why}
    _append(
        model,
        [{"what": "forget", "id": mark.id, "cause": mark.cause, **told} for mark in marks],
    )


def marks_beside(model: str | Path, own: Sequence[Mark] = ()) -> list[Mark]:
    """Return the marks that hold for a model: its own, of earlier versions, and those in the file beside it.

    Of two marks with the same cause the later one holds.
    """
    held = {mark.cause: mark for mark in own}
    path = path_of_marks(model)
    entries = read_lines(path)
    fingerprint = fingerprint_of(model) if entries else ""
    for entry in entries:
        if entry.get("model") != fingerprint:
            continue
        if entry.get("what") == "mark":
            mark = _mark_of(path, entry)
            held.pop(mark.cause, None)  # the latest comes last
            held[mark.cause] = mark
        elif entry.get("what") == "forget":
            known = held.get(str(entry.get("cause")))
            if known is not None and known.id == str(entry.get("id", "")):
                del held[known.cause]
    return list(held.values())


def count_other_marks(model: str | Path) -> int:
    """Return how many marks in the file are about another model, and so do nothing."""
    entries = read_lines(path_of_marks(model))
    fingerprint = fingerprint_of(model) if entries else ""
    ours = {entry.get("id") for entry in entries if entry.get("model") == fingerprint}
    return len({e.get("id") for e in entries if e.get("what") == "mark"} - ours)


def carry_marks(model: str | Path, marks: Sequence[Mark]) -> None:
    """Say that marks of the model that stood there before hold for the one that took its place."""
    known = {mark.id for mark in marks_beside(model) if mark.id}
    new = [mark for mark in marks if mark.id not in known or not mark.id]
    carried = [replace(mark, id=mark.id or secrets.token_hex(4)) for mark in new]
    told = {"carried": clock.stamp()}
    _append(model, [{"what": "mark", **asdict(each), **told} for each in carried])


def choose_marks(marks: Sequence[Mark], told: str) -> list[Mark]:
    """Return the mark that a person means, by its place in the list or by its own number (`3f2a90c1`)."""
    if told.isdigit() and 1 <= int(told) <= len(marks):
        return [marks[int(told) - 1]]
    found = [mark for mark in marks if mark.id and mark.id == told]
    if not found:
        raise InvalidParameter(
            f"There is no mark {told}; expected 1 to {len(marks)}, or the id of one of them. "
            "`tellwhy mark` with the model alone lists them."
            if marks
            else f"There is no mark {told}: the model has none."
        )
    return found


def merge_marks(model: str | Path, others: str | Path) -> int:
    """Add the marks of another journal, whatever model they were made with; return how many were new.

    What was forgotten there is not added.
    """
    entries = read_lines(Path(others))
    if not entries:
        raise UnreadableFile(f"{others} holds no marks; expected a file that `tellwhy mark` wrote.")
    gone = {(entry.get("id"), entry.get("model")) for entry in entries if entry.get("what") == "forget"}
    known = {mark.id for mark in marks_beside(model)}
    new: dict[str, Mark] = {}
    for entry in entries:
        if entry.get("what") == "mark" and (entry.get("id"), entry.get("model")) not in gone:
            mark = _mark_of(Path(others), entry)
            if mark.id not in known:
                new[mark.id] = mark
    _append(model, [{"what": "mark", **asdict(each), "merged": clock.stamp()} for each in new.values()])
    return len(new)


def name_of_user() -> str:
    """Return the name of whoever works here; '' where the machine knows none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run as a number without a name
        return ""


def _append(model: str | Path, entries: Sequence[Mapping[str, Any]]) -> None:
    if entries:
        head = {"schema": SCHEMA, "model": fingerprint_of(model)}
        append_lines(path_of_marks(model), [head | make_plain(dict(entry)) for entry in entries])


def _mark_of(path: Path, entry: Mapping[str, Any]) -> Mark:
    texts = {name: entry.get(name, "") for name in ("cause", "words", "why", "id", "when", "who")}
    reach = entry.get("reach", {})
    is_read = all(isinstance(text, str) for text in texts.values()) and isinstance(reach, dict)
    if not is_read or not texts["cause"] or entry.get("schema") != SCHEMA:
        raise UnreadableFile(
            f"{path} holds an unreadable mark: {str(dict(entry))[:80]}…; expected what `tellwhy mark` "
            f"wrote in schema {SCHEMA}. Move the file away, or mend the line."
        )
    try:
        limits = {str(name): (_limit(low), _limit(high)) for name, (low, high) in reach.items()}
    except (TypeError, ValueError) as error:
        raise UnreadableFile(f"{path}, mark {texts['id']}: its limits are no pairs of numbers.") from error
    return Mark(**texts, reach=limits)


def _limit(value: Any) -> float | None:
    return None if value is None else float(value)
