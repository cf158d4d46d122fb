"""From a table with a column of texts and a column of labels to a trained model and explained labels."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tellwhy.classifiers.svm import solver as checkpoint
from tellwhy.classifiers.svm.training.job import ESTIMATORS, Job
from tellwhy.classifiers.svm.training.run import train
from tellwhy.classifiers.text_classifier import TextClassifier
from tellwhy.core.errors import InvalidInput
from tellwhy.core.estimator_rows import class_labels
from tellwhy.core.params import real, validate_value
from tellwhy.core.progress import stage
from tellwhy.core.score import Integers
from tellwhy.data import read_table
from tellwhy.kinds.labels import TextLabels, explain_texts
from tellwhy.storage.model_file import check_place

MOST_HELD = 10_000


@dataclass(frozen=True)
class TextColumns:
    """Texts and labels of a table, and what to know of how they were read."""

    texts: list[str]
    labels: NDArray[Any]
    rows: Integers  # of the table
    notes: tuple[str, ...]


@dataclass(frozen=True)
class TextRun:
    """A trained model, the texts that explain it, and notes for the user."""

    model: TextClassifier
    labels: TextLabels
    n_held: int  # texts held out; with none, the labels are of texts trained on
    notes: tuple[str, ...]


def train_on_texts(
    job: Job,
    text: str,
    *,
    ngrams: int = 1,
    held_out: float = 0.1,
    show: Callable[[str], None] = lambda _: None,
) -> TextRun:
    """Train as a job says on the words of a column, check the labels of rows held out, and explain them.

    Parameters
    ----------
    job
        What to train, on which table, and where to put the model. Its label names the column of labels.
    text
        Name of the column of texts.
    ngrams
        1: single words; 2 or 3: also pairs, triples of words that follow each other.
    held_out
        Share of the rows that are not trained on, at most 10,000 rows. With 0, all are, and the page shows
        labels of texts that were trained on.
    show
        Is told the solver's certificates.
    """
    job.validate()
    validate_value("fit-svm", "held_out", held_out, real(0, 0.9, closed="both"))
    check_place(job.out)
    columns = read_text_columns(Path(job.data), text, job.label)
    held = _held(len(columns.texts), held_out, job.seed)
    rest = np.setdiff1d(np.arange(len(columns.texts)), held)
    class_labels(columns.labels[rest], "fit-svm")
    empty = ESTIMATORS[job.loss](
        C=job.C, tol=job.tol, max_epochs=job.max_epochs, fit_intercept=job.fit_intercept, dtype=job.dtype,
        random_state=job.seed,
    )  # fmt: skip
    model = TextClassifier(empty, ngrams=ngrams)
    stage("counting words")
    rows = model.learn_words([columns.texts[i] for i in rest])
    model.adopt(_trained(job, rows, columns.labels[rest], show)).save(job.out)
    checkpoint.remove(job.checkpoint)
    at = held if len(held) else rest
    labels = explain_texts(
        model, [columns.texts[i] for i in at], columns.labels[at],
        rows=columns.rows[at], source=Path(job.data).name,
        notes=(_told(len(held), len(rest)), *columns.notes),
    )  # fmt: skip
    return TextRun(model, labels, len(held), columns.notes)


def read_text_columns(path: Path, text: str, label: str | None) -> TextColumns:
    """Read texts and labels from a table of any kind; rows where one of them is missing are left out."""
    table = read_table(path)
    frame = table.frame
    names = [str(name) for name in frame.columns]
    for option, name in (("--text", text), ("--label", label)):
        if name is None or name not in names:
            got = "none" if name is None else repr(name)
            raise InvalidInput(f"{option} must name a column of {path}: {', '.join(names[:12])}. Got {got}.")
    if text == label:
        raise InvalidInput(f"--text and --label name the same column, {text!r}.")
    if frame[text].dtype.kind in "biufmM":
        raise InvalidInput(
            f"Column {text!r} of {path} holds numbers or dates, not texts. Name another with --text."
        )
    kept = (frame[text].notna() & frame[label].notna()).to_numpy()
    if not kept.any():
        raise InvalidInput(f"No row of {path} has both a text in {text!r} and a label in {label!r}.")
    lost = int((~kept).sum())
    notes = (f"Rows left out, without a text or a label: {lost:,}.",) if lost else ()
    texts = [str(cell) for cell in frame[text].to_numpy()[kept]]
    labels = _as_labels(frame[label].to_numpy()[kept])
    return TextColumns(texts, labels, np.flatnonzero(kept), (*table.notices, *notes))


def _as_labels(column: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers and truths as they are, all else as text."""
    # Whole numbers beside gaps were read as floats; beyond 2⁵³ a float is no longer a certain whole number.
    if column.dtype.kind == "f" and (np.abs(column) < 2**53).all() and (column == np.round(column)).all():
        return column.astype(np.int64)
    return column if column.dtype.kind in "biu" else column.astype(str)


def _held(n: int, share: float, seed: int) -> Integers:
    n_held = min(round(share * n), MOST_HELD, n - 2)  # two are left to learn from, of one class each
    return np.sort(np.random.default_rng(seed).permutation(n)[: max(n_held, 0)])


def _told(n_held: int, n_rest: int) -> str:
    trained = f"Trained on {n_rest:,} texts"
    if n_held:
        return f"{trained}; those counted and shown here are {n_held:,} others, chosen at random."
    return f"{trained}, the same that are counted and shown here: errors on new texts will be more."


def _trained(job: Job, rows: sparse.csr_array, labels: NDArray[Any], show: Callable[[str], None]) -> Any:
    """Train on the features through a file, as any job does: over threads or ranks, with checkpoints."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "words.npz"
        parts = {
            "data": rows.data,
            "indices": rows.indices,
            "indptr": rows.indptr,
            "shape": np.array(rows.shape),
        }
        np.savez(path, y=labels, allow_pickle=False, **parts)
        return train(replace(job, data=str(path), label=None, aside=str(Path(place) / "svm")), show)
