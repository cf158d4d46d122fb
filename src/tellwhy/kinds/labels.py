"""From a table with a column of texts and a column of labels to a trained model and explained labels."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tellwhy.classifiers.svm import solver as checkpoint
from tellwhy.classifiers.svm.training.job import ESTIMATORS, Job
from tellwhy.classifiers.text_classifier import TextClassifier, checked_texts
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.estimator_rows import class_labels
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import integer, real, validate_value
from tellwhy.core.progress import stage, track
from tellwhy.core.score import Floats, Integers
from tellwhy.data import read_table
from tellwhy.explainers.decomposition.linear_relevance import LinearRelevance, linear_parts, weights_of_all
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
    from tellwhy.classifiers.svm.training.run import train

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


_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Piece:
    """A word of a text, or what stands between two words, and its relevance."""

    text: str
    relevance: float = 0.0


@dataclass(frozen=True)
class MarkedText:
    """The pieces of a text, in order.

    `elsewhere` is the relevance of features whose words are not among the pieces.
    """

    pieces: tuple[Piece, ...]
    elsewhere: float
    is_cut: bool = False


def marked_text(text: str, relevance: Mapping[str, float], *, most: int = 2_000) -> MarkedText:
    """Share the relevance of features out among the words of a text.

    A feature is a word, in lower case, or several words of two letters and more that follow each other, with
    blanks between them. Its relevance is shared equally among its places in the text, and there among its
    words.

    Parameters
    ----------
    text
        The text, as it was given.
    relevance
        Feature -> relevance, for those that the text has.
    most
        Characters to show; the relevance of what follows counts as elsewhere.

    Examples
    --------
    >>> found = marked_text("The Moon, the moon!", {"moon": 2.0, "orbit": 0.5})
    >>> [(piece.text, piece.relevance) for piece in found.pieces if piece.relevance]
    [('Moon', 1.0), ('moon', 1.0)]
    >>> found.elsewhere
    0.5
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    marks = _relevance_of_words([text[start:end].lower() for start, end in spans], relevance)
    pieces = []
    at = 0
    for (start, end), mark in zip(spans, marks, strict=True):
        if end > most:
            break
        pieces += [Piece(text[at:start])] * (start > at) + [Piece(text[start:end], mark)]
        at = end
    pieces += [Piece(text[at:most])] * (at < min(most, len(text)))
    shown = sum(piece.relevance for piece in pieces)
    return MarkedText(tuple(pieces), sum(relevance.values()) - shown, len(text) > most)


def _relevance_of_words(words: list[str], relevance: Mapping[str, float]) -> list[float]:
    places = _places(words, relevance)
    marks = [0.0] * len(words)
    for feature, found in places.items():
        for run in found:
            for k in run:
                marks[k] += relevance[feature] / (len(found) * len(run))
    return marks


def _places(words: list[str], relevance: Mapping[str, float]) -> dict[str, list[list[int]]]:
    """Where each feature stands: for every occurrence, the numbers of its words."""
    longest = max((feature.count(" ") + 1 for feature in relevance), default=1)
    # Vectorizers drop words of one letter before they form pairs: "a moon" and "moon" are the same to them.
    long = [k for k, word in enumerate(words) if len(word) > 1]
    places: dict[str, list[list[int]]] = {}
    for k, word in enumerate(words):
        if word in relevance:
            places.setdefault(word, []).append([k])
    for size in range(2, longest + 1):
        for start in range(len(long) - size + 1):
            run = long[start : start + size]
            feature = " ".join(words[k] for k in run)
            if feature in relevance:
                places.setdefault(feature, []).append(run)
    return places


BATCH = 1_000  # texts scored at once
MOST_CLASSES = 60
WORDS_OF_CLASS = 8
WORDS_OF_TEXT = 6


@dataclass(frozen=True)
class TextReasons:
    """One text: its label, the runner-up, how far the label is ahead, and what each word adds to that."""

    row: int
    label: str
    rival: str
    lead: float
    base: float  # the part of the lead that comes from the intercepts
    truth: str | None  # the label that the text came with
    marked: MarkedText
    words: tuple[tuple[str, float], ...]  # the strongest, for and against
    n_others: int  # further words that the model knows
    others: float  # and what they add together

    @property
    def is_wrong(self) -> bool:
        """Whether the text came with another label."""
        return self.truth is not None and self.truth != self.label


@dataclass(frozen=True)
class ClassWords:
    """A class, how many texts got it, and the words that speak for it most."""

    name: str
    n_texts: int
    words: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class TextLabels:
    """Everything that a page on the labels of texts shows."""

    source: str
    model: str
    n_texts: int
    n_classes: int
    n_words: int
    n_wrong: int | None  # None where the texts came without labels
    order: str  # how the shown texts were chosen, in words
    shown: tuple[TextReasons, ...]
    classes: tuple[ClassWords, ...]
    notes: tuple[str, ...] = ()


def explain_texts(
    model: Any,
    texts: Sequence[str] | NDArray[Any],
    truth: ArrayLike | None = None,
    *,
    rows: ArrayLike | None = None,
    most: int = 60,
    source: str = "texts",
    notes: Sequence[str] = (),
) -> TextLabels:
    """Label texts and explain labels by words, against the runner-up.

    Parameters
    ----------
    model
        A fitted `TextClassifier`, or a pipeline from texts to a linear classifier whose features are words.
    texts
        The texts.
    truth
        The labels that they should have, where known.
    rows
        Number of each text in its source; 0, 1, … by default.
    most
        Texts to explain. If there are more, those are taken whose labels are wrong, the surest first, and
        then those with the smallest lead.
    source
        Where the texts come from, in a few words.
    notes
        Further sentences for the page.

    Examples
    --------
    >>> from tellwhy.classifiers import TextClassifier
    >>> texts = ["the engine will not start", "new brakes for my car"]
    >>> texts += ["a rocket to the moon", "orbit of the moon"]
    >>> labels = ["autos", "autos", "space", "space"]
    >>> found = explain_texts(TextClassifier().fit(texts, labels), ["a new moon"], ["space"])
    >>> found.n_wrong, found.shown[0].label, found.shown[0].rival
    (0, 'space', 'autos')
    >>> [(piece.text, piece.relevance > 0) for piece in found.shown[0].marked.pieces if piece.relevance]
    [('new', False), ('moon', True)]
    """
    validate_value("explain_texts", "most", most, integer(1))
    steps, last = linear_parts(model)
    if steps is None:
        raise UnsupportedModel(
            "explain_texts needs a model that takes texts: a TextClassifier, or a pipeline that begins "
            f"with a vectorizer. Got {type(model).__name__}."
        )
    told = checked_texts(texts)
    own = None if truth is None else _one_each(truth, len(told), "label").astype(str)
    numbers = np.arange(len(told)) if rows is None else _one_each(rows, len(told), "row number")
    labels, leads = _labels_and_leads(steps, last, told)
    wrong = None if own is None else np.flatnonzero(own != labels.astype(str))
    chosen = _chosen(len(told), wrong, leads, most)
    explanation = LinearRelevance(model).explain([told[i] for i in chosen])
    return TextLabels(
        source=source,
        model=type(last).__name__,
        n_texts=len(told),
        n_classes=len(last.classes_),
        n_words=explanation.values.shape[1],
        n_wrong=None if wrong is None else len(wrong),
        order=_order_words(len(told), wrong, len(chosen)),
        shown=tuple(
            _reasons(explanation[k], told[i], int(numbers[i]), None if own is None else str(own[i]))
            for k, i in enumerate(chosen)
        ),
        classes=_class_words(last, labels, explanation),
        notes=tuple(notes),
    )


def _one_each(given: ArrayLike, n: int, what: str) -> Any:
    array = np.asarray(given)
    if array.shape != (n,):
        raise InvalidInput(f"Expected one {what} per text, {n} in all. Got an array of shape {array.shape}.")
    return array


def _labels_and_leads(steps: Any, last: Any, texts: list[str]) -> tuple[Any, Floats]:
    """Return each text's label and how far it is ahead of the runner-up."""
    coef, intercept = weights_of_all(last)
    places = []
    leads = []
    parts = range(0, len(texts), BATCH)
    for start in track(parts, len(parts), "labelling texts"):
        product = sparse.csr_array(steps.transform(texts[start : start + BATCH])) @ coef.T
        scores = (product.toarray() if sparse.issparse(product) else np.asarray(product)) + intercept
        first_two = np.partition(scores, -2, axis=1)[:, -2:]
        places.append(scores.argmax(axis=1))
        leads.append(first_two[:, 1] - first_two[:, 0])
    return np.asarray(last.classes_)[np.concatenate(places)], np.concatenate(leads)


def _chosen(n: int, wrong: Integers | None, leads: Floats, most: int) -> Integers:
    if n <= most:
        return np.arange(n)
    first = np.empty(0, dtype=np.int64) if wrong is None else wrong[np.argsort(-leads[wrong], kind="stable")]
    rest = np.setdiff1d(np.arange(n), first)
    return np.concatenate([first, rest[np.argsort(leads[rest], kind="stable")]])[:most]


def _order_words(n: int, wrong: Integers | None, n_shown: int) -> str:
    if n_shown == n:
        return "All texts, in the order they came."
    closest = "those whose label has the smallest lead"
    if wrong is None or len(wrong) == 0:
        return f"{n_shown} of {n:,} texts: {closest}."
    if len(wrong) >= n_shown:
        return f"{n_shown} of {n:,} texts: those with a wrong label, the surest first."
    return f"{n_shown} of {n:,} texts: first those with a wrong label, the surest first, then {closest}."


def _reasons(explanation: Explanation, text: str, row: int, truth: str | None) -> TextReasons:
    """Reasons of one text, from its explanation."""
    values = explanation.values[0]
    names = explanation.names()
    present = np.flatnonzero(values)
    ranked = present[np.argsort(-np.abs(values[present]), kind="stable")]
    strongest = ranked[:WORDS_OF_TEXT]
    others = ranked[WORDS_OF_TEXT:]
    return TextReasons(
        row=row,
        label=str(explanation.extras["explained"][0]),
        rival=str(explanation.extras["rival"][0]),
        lead=float(explanation.scores[0]),
        base=float(explanation.base_values[0]),
        truth=truth,
        marked=marked_text(text, {names[j]: float(values[j]) for j in present}),
        words=tuple((names[j], float(values[j])) for j in sorted(strongest, key=lambda j: -values[j])),
        n_others=len(others),
        others=float(values[others].sum()),
    )


def _class_words(last: Any, labels: NDArray[Any], explanation: Explanation) -> tuple[ClassWords, ...]:
    """Words of the classes that occur, the most frequent first: weights above the mean of all classes."""
    coef, _ = weights_of_all(last)
    # Adding the same weights to every class changes no label: only what is above the mean tells them apart.
    mean = np.asarray(coef.mean(axis=0)).ravel()
    names = explanation.names()
    named, counts = np.unique(labels.astype(str), return_counts=True)
    number = dict(zip(named.tolist(), counts.tolist(), strict=True))
    ranked = sorted(range(len(last.classes_)), key=lambda c: -number.get(str(last.classes_[c]), 0))
    made = []
    for c in ranked[:MOST_CLASSES]:
        own = coef[[c]]
        weights = (own.toarray() if sparse.issparse(own) else np.asarray(own)).ravel() - mean
        best = np.argsort(-weights, kind="stable")[:WORDS_OF_CLASS]
        words = tuple((names[j], float(weights[j])) for j in best if weights[j] > 0)
        made.append(ClassWords(str(last.classes_[c]), number.get(str(last.classes_[c]), 0), words))
    return tuple(made)
