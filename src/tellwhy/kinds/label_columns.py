"""Texts and labels of a table: which columns hold them, and which rows are kept for checking."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Integers
from tellwhy.data import Table
from tellwhy.data.spellings import keep_spellings
from tellwhy.kinds.table_rows import read_source
from tellwhy.results.notice import Notice

MOST_HELD = 10_000


@dataclass(frozen=True)
class TextColumns:
    """Texts and labels of a table, and what to know of how they were read."""

    texts: list[str]
    labels: NDArray[Any] | None
    rows: Integers  # of the table
    source: str
    said: tuple[Notice, ...] = ()
    fingerprint: str = ""
    judges: tuple[Any, ...] = ()  # models that have not seen some of the texts
    fold: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # which of them judges each


def read_text_columns(
    source: Any, text: str | None, label: str | None, *, needs_labels: bool = True
) -> TextColumns:
    """Read texts and labels from a table of any kind; rows where one of them is missing are left out."""
    table = read_source(source)
    frame = table.frame
    asked = (
        [("--text", text), ("--label", label)] if needs_labels or label is not None else [("--text", text)]
    )
    _check_columns(table, asked)
    kept = frame[[name for _, name in asked]].notna().all(axis=1).to_numpy()
    what = f"both a text in {text!r} and a label in {label!r}" if len(asked) == 2 else f"a text in {text!r}"
    if not kept.any():
        raise InvalidInput(f"No row of {table.source} has {what}.")
    lost = int((~kept).sum())
    said = (Notice("texts_left_out", {"n": lost, "has_labels": len(asked) == 2}),) if lost else ()
    texts = [str(cell) for cell in frame[text].to_numpy()[kept]]
    labels = None
    if len(asked) == 2 and label is not None:
        labels = _make_labels(keep_spellings(table, label).to_numpy()[kept])
    return TextColumns(
        texts,
        labels,
        np.flatnonzero(kept),
        Path(table.source).name,
        (*table.said, *said),
        table.fingerprint,
    )


def _check_columns(table: Table, asked: list[tuple[str, str | None]]) -> None:
    """Raise unless the columns that are asked for are there, and the first of them may hold texts."""
    names = [str(name) for name in table.frame.columns]
    for option, name in asked:
        if name is None or name not in names:
            got = "none" if name is None else repr(name)
            raise InvalidInput(
                f"{option} must name a column of {table.source}: {', '.join(names[:12])}. Got {got}."
            )
    text = asked[0][1]
    if len(asked) == 2 and text == asked[1][1]:
        raise InvalidInput(f"--text and --label name the same column, {text!r}.")
    if table.frame[text].dtype.kind in "biufmM":
        raise InvalidInput(
            f"Column {text!r} of {table.source} holds numbers or dates, not texts. Name another with --text."
        )


def _make_labels(column: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers and truths as they are, all else as text."""
    # Whole numbers beside gaps were read as floats; beyond 2⁵³ a float is no longer a certain whole number.
    if column.dtype.kind == "f" and (np.abs(column) < 2**53).all() and (column == np.round(column)).all():
        return column.astype(np.int64)
    return column if column.dtype.kind in "biu" else column.astype(str)


def hold_out(labels: NDArray[Any], share: float, seed: int) -> Integers:
    """Draw texts to check labels on; of every class, one at least is left to learn from."""
    n = len(labels)
    n_held = min(round(share * n), MOST_HELD, n - 2)  # two are left to learn from, of one class each
    drawn = np.random.default_rng(seed).permutation(n)
    held = drawn[: max(n_held, 0)]
    lost = np.setdiff1d(labels[held], labels[drawn[len(held) :]])
    back = [np.flatnonzero(labels[held] == name)[0] for name in lost]
    return np.sort(np.delete(held, back))
