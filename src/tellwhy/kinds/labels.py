"""Texts with labels: a classifier of their words is trained, and the labels that it gives are explained."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import logsumexp

from tellwhy.classifiers.out_of_fold import group_by_fold, label_out_of_fold
from tellwhy.classifiers.svm import solver as checkpoint
from tellwhy.classifiers.svm.training.job import Job
from tellwhy.classifiers.svm.training.judged import choose_c_of_job
from tellwhy.classifiers.text_classifier import TextClassifier, TrainedOn, checked_texts
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.estimator_rows import find_classes
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import integer, none, real, validate_value
from tellwhy.core.progress import stage, track
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.decomposition.linear_relevance import (
    LinearRelevance,
    read_linear_parts,
    read_weights_of_all,
)
from tellwhy.kinds.label_columns import TextColumns, hold_out, read_text_columns
from tellwhy.kinds.model import kind
from tellwhy.kinds.table_rows import read_source
from tellwhy.results.labelled_texts import (
    ClassWords,
    LabelDoubt,
    Labelled,
    TextLabels,
    TextReasons,
    as_result,
    mark_text,
)
from tellwhy.results.notice import Notice, as_notices
from tellwhy.results.result import Result
from tellwhy.storage.model_file import check_place

MOST_SHOWN = 60
BATCH = 1_000  # texts scored at once
MOST_CLASSES = 60
WORDS_OF_CLASS = 8
WORDS_OF_TEXT = 6
CHANGEABLE = ("text", "label", "top")
TRAINING = {field.name for field in fields(Job)} - {"data", "out", "label", "scale", "aside"}


@dataclass(frozen=True, eq=False)
class LabelsRequest:
    """What is asked of texts with labels.

    Attributes
    ----------
    text, label
        Names of the columns of texts and of labels.
    ngrams
        1: single words; 2 or 3: also pairs, triples of words that follow each other.
    folds
        Every row is judged by a model that has not seen it: as many further models, each without a part of
        the rows.
    held_out
        In place of that, the share of the rows that are not trained on and judged alone, at most 10,000 rows.
        With 0, all are trained on, and judging the same table shows labels of texts that were trained on.
    Cs
        Values of C, of which cross-validation takes the best; () takes the C that was given.
    out
        Where the model is written as soon as it is trained, and beside which checkpoints are kept.
    show
        Is told the solver's certificates.
    """

    text: str
    label: str | None = None
    ngrams: int = 1
    folds: int = 5
    held_out: float | None = None
    Cs: tuple[float, ...] = ()
    out: str | Path | None = None
    show: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, eq=False)
class LabelledTexts:
    """Texts with the labels that a model gives them, and how far these are ahead.

    Attributes
    ----------
    behind
        How far the label that a text came with is behind the best other one.
    own, told
        Probabilities of the label that a text came with, and of the one that it got; NaN of a model that is
        not calibrated.
    """

    read: TextColumns
    labels: NDArray[Any]
    leads: Floats
    behind: Floats
    own: Floats
    told: Floats
    top: int = MOST_SHOWN


@kind("labels")
class LabelsKind:
    """Labels of texts: which words decided, against the runner-up."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool) -> TextClassifier:  # noqa: ARG002
        """Train on the words of the texts; what further settings there are stands at `Job`."""
        own = {field.name for field in fields(LabelsRequest)}
        known = own | TRAINING
        unknown = sorted(set(settings) - known)
        if unknown or "text" not in settings:
            what = f"have no setting {unknown[0]!r}" if unknown else "need the setting 'text'"
            raise InvalidParameter(f"Labels of texts {what}. There are: {', '.join(sorted(known))}.")
        request = LabelsRequest(**{name: value for name, value in settings.items() if name in own})
        told = {name: value for name, value in settings.items() if name in TRAINING}
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "model" if request.out is None else request.out
            name = str(source) if isinstance(source, (str, Path)) else "texts"
            return train_on_texts(Job(data=name, out=str(out), label=request.label, **told), source, request)

    def read(self, model: TextClassifier, source: Any, settings: Mapping[str, Any]) -> LabelledTexts:
        """Read texts, and label them; of the table that was trained on, those that were held out."""
        kept = getattr(model, "trained_on_", None)
        asked = {name: value for name, value in settings.items() if value is not None}
        unknown = sorted(set(asked) - set(CHANGEABLE))
        if unknown:
            raise InvalidParameter(f"Of labels, only {', '.join(CHANGEABLE)} can be asked. Got {unknown[0]}.")
        return _label_texts(model, _read_others(kept, source, asked), asked.get("top", MOST_SHOWN))

    def check(self, model: TextClassifier, batch: LabelledTexts) -> LabelledTexts:  # noqa: ARG002
        """Texts were checked as they were read."""
        return batch

    def score(self, model: TextClassifier, batch: LabelledTexts) -> Floats:  # noqa: ARG002
        """How far the label of each text is ahead of the runner-up."""
        return batch.leads

    def explain(self, model: TextClassifier, batch: LabelledTexts, scores: Floats) -> Result:
        """Share the lead of a label out among the words of its text; nothing is an alarm."""
        found = _explain_labels(model, batch)
        settings = {"model": found.model, "top": batch.top}
        return as_result(Labelled(found, batch.read.rows, scores, settings, batch.read.fingerprint))


def train_on_texts(job: Job, source: Any, request: LabelsRequest) -> TextClassifier:
    """Train as a job says on the words of a column, and write the model where the job says."""
    job.validate()
    validate_value("fit-svm", "held_out", request.held_out, (none, real(0, 0.9, closed="both")))
    validate_value("fit-svm", "folds", request.folds, integer(2))
    check_place(job.out)
    columns = read_text_columns(source, request.text, request.label)
    if columns.labels is None:
        raise AssertionError("without a column of labels it is an error")
    held = hold_out(columns.labels, request.held_out or 0.0, job.seed)
    rest = np.setdiff1d(np.arange(len(columns.texts)), held)
    own = columns.labels[rest]
    find_classes(own, "fit-svm")
    model = TextClassifier(job.make_estimator(), ngrams=request.ngrams)
    stage("counting words")
    rows = model.learn_words([columns.texts[i] for i in rest])
    if request.Cs:
        stage("choosing C")
        job = replace(job, C=choose_c_of_job(job, rows, own, request.Cs))
    model.adopt(_train(job, rows, own, request.show)).set_params(classifier=job.make_estimator())
    kept = TrainedOn(
        columns.source, columns.fingerprint, request.text, str(request.label), len(rest), columns.rows[held]
    )
    if request.held_out is None:
        stage("labelling each text without itself")
        found = label_out_of_fold(
            job.make_estimator(), rows, own, folds=request.folds, n_jobs=job.threads, seed=job.seed
        )
        for judge in (model.classifier_, *found.models):
            judge.temperature_ = found.temperature
        kept = replace(kept, folds=found.models, fold=found.fold)
    elif len(held):
        model.calibrate([columns.texts[i] for i in held], columns.labels[held])
    model.trained_on_ = kept
    model.save(job.out)
    checkpoint.remove(job.checkpoint)
    return model


def _read_others(kept: TrainedOn | None, source: Any, asked: Mapping[str, Any]) -> TextColumns:
    """Read texts to be labelled: a list, or a column of a table, beside their labels where it has them."""
    if isinstance(source, list):
        texts = checked_texts(source)
        return TextColumns(texts, None, np.arange(len(texts)), "texts")
    table = read_source(source)
    text = asked.get("text", None if kept is None else kept.text)
    label = asked.get("label")
    if label is None and kept is not None and kept.label in table.frame.columns:
        label = kept.label
    read = read_text_columns(table, text, label, needs_labels=False)
    if kept is None or (kept.fingerprint, kept.text) != (table.fingerprint, text):
        return read
    if len(kept.fold) == len(read.texts):
        return _take_out_of_fold(kept, read)
    at = np.flatnonzero(np.isin(read.rows, kept.held)) if len(kept.held) else np.arange(len(read.rows))
    return replace(
        read,
        texts=[read.texts[i] for i in at],
        labels=None if read.labels is None else read.labels[at],
        rows=read.rows[at],
        said=(Notice("trained_on", {"n": kept.n_texts, "n_held": len(kept.held)}), *read.said),
    )


def _take_out_of_fold(kept: TrainedOn, read: TextColumns) -> TextColumns:
    """The texts that were trained on, each to be judged by the model that has not seen it."""
    at = np.flatnonzero(kept.fold >= 0)
    said = [Notice("judged_out_of_fold", {"n": kept.n_texts})]
    alone = len(read.texts) - len(at)
    if alone:
        said.append(Notice("labels_alone", {"n": alone}))
    return replace(
        read,
        texts=[read.texts[i] for i in at],
        labels=None if read.labels is None else read.labels[at],
        rows=read.rows[at],
        said=(*said, *read.said),
        judges=kept.folds,
        fold=kept.fold[at],
    )


def _train(job: Job, rows: sparse.csr_array, labels: NDArray[Any], show: Callable[[str], None]) -> Any:
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


def explain_texts(
    model: Any,
    texts: Sequence[str] | NDArray[Any],
    truth: ArrayLike | None = None,
    *,
    rows: ArrayLike | None = None,
    most: int = MOST_SHOWN,
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
    told = checked_texts(texts)
    own = None if truth is None else _check_one_each(truth, len(told), "label")
    numbers = np.arange(len(told)) if rows is None else _check_one_each(rows, len(told), "row number")
    return _explain_labels(
        model, _label_texts(model, TextColumns(told, own, numbers, source, as_notices(notes)), most)
    )


def _label_texts(model: Any, read: TextColumns, top: int) -> LabelledTexts:
    """Return texts with their labels; `top` of them are to be explained."""
    validate_value("explain_texts", "most", top, integer(1))
    steps, last = read_linear_parts(model)
    if steps is None:
        raise UnsupportedModel(
            "explain_texts needs a model that takes texts: a TextClassifier, or a pipeline that begins "
            f"with a vectorizer. Got {type(model).__name__}."
        )
    labels = np.empty(len(read.texts), dtype=np.asarray(last.classes_).dtype)
    numbers = np.zeros((4, len(read.texts)))
    for judge, at in _list_judges(last, read):
        given = None if read.labels is None else read.labels[at]
        labels[at], numbers[:, at] = _label_batches(steps, judge, [read.texts[i] for i in at], given)
    return LabelledTexts(read, labels, numbers[0], numbers[1], numbers[2], numbers[3], top)


def _list_judges(last: Any, read: TextColumns) -> list[tuple[Any, Integers]]:
    """Which model judges which texts: those that have not seen them, or one for all."""
    if not read.judges:
        return [(last, np.arange(len(read.texts)))]
    return [(read.judges[fold], at) for fold, at in group_by_fold(read.fold)]


def _explain_labels(model: Any, batch: LabelledTexts) -> TextLabels:
    """Explain the labels of texts by words; if there are many, those that are worth looking at first."""
    last = read_linear_parts(model)[1]
    read = batch.read
    n = len(read.texts)
    own = None if read.labels is None else read.labels.astype(str)
    wrong = None if own is None else np.flatnonzero(own != batch.labels.astype(str))
    chosen = _choose_texts(n, wrong, batch.leads, batch.behind, batch.top)
    explained = _explain_texts(model, read, chosen)
    return TextLabels(
        source=read.source,
        model=type(last).__name__,
        n_texts=n,
        n_classes=len(last.classes_),
        n_words=explained[0].values.shape[1],
        n_wrong=None if wrong is None else len(wrong),
        ordering=_tell_order(n, wrong, len(chosen)),
        shown=tuple(
            _make_reasons(explanation, read.texts[i], int(read.rows[i]), None if own is None else str(own[i]))
            for explanation, i in zip(explained, chosen, strict=True)
        ),
        classes=_find_class_words(last, batch.labels, explained[0]),
        said=read.said,
        doubts=() if wrong is None else _list_doubts(batch, wrong),
    )


def _list_doubts(batch: LabelledTexts, wrong: Integers) -> tuple[LabelDoubt, ...]:
    """Texts whose label is contradicted, the surest first."""
    order = wrong[np.argsort(-batch.behind[wrong], kind="stable")]
    given = batch.read.labels
    if given is None:
        raise AssertionError("what came without labels contradicts none")
    return tuple(
        LabelDoubt(
            int(batch.read.rows[i]),
            str(given[i]),
            str(batch.labels[i]),
            None if np.isnan(batch.own[i]) else float(batch.own[i]),
            None if np.isnan(batch.told[i]) else float(batch.told[i]),
        )
        for i in order
    )


def _explain_texts(model: Any, read: TextColumns, chosen: Integers) -> list[Explanation]:
    """One explanation a text, of the model that judges it."""
    told: dict[int, Explanation] = {}
    for judge, at in _list_judges(None, read):
        some = [int(i) for i in chosen if i in set(at.tolist())]
        if some:
            reader = model if judge is None else copy(model).adopt(judge)
            found = LinearRelevance(reader).explain([read.texts[i] for i in some])
            told |= {i: found[k] for k, i in enumerate(some)}
    return [told[int(i)] for i in chosen]


def _check_one_each(given: ArrayLike, n: int, what: str) -> Any:
    array = np.asarray(given)
    if array.shape != (n,):
        raise InvalidInput(f"Expected one {what} per text, {n} in all. Got an array of shape {array.shape}.")
    return array


def _label_batches(
    steps: Any, last: Any, texts: list[str], given: NDArray[Any] | None
) -> tuple[NDArray[Any], Floats]:
    """Label texts; return the labels, and in four lines the leads and what `LabelledTexts` has beside."""
    coef, intercept = read_weights_of_all(last)
    names = np.asarray(last.classes_)
    labels = []
    numbers = []
    parts = range(0, len(texts), BATCH)
    for start in track(parts, len(parts), "labelling texts"):
        product = sparse.csr_array(steps.transform(texts[start : start + BATCH])) @ coef.T
        scores = (product.toarray() if sparse.issparse(product) else np.asarray(product)) + intercept
        mine = (
            np.full(len(scores), -1) if given is None else _place_labels(names, given[start : start + BATCH])
        )
        labels.append(names[scores.argmax(axis=1)])
        numbers.append(_measure_labels(scores, mine, getattr(last, "temperature_", None)))
    return np.concatenate(labels), np.concatenate(numbers, axis=1)


def _measure_labels(scores: Floats, mine: Integers, temperature: float | None) -> Floats:
    """Leads, how far own labels are behind, and probabilities of own labels and of the best ones."""
    at = np.arange(len(scores))
    first_two = np.partition(scores, -2, axis=1)[:, -2:]
    leads = first_two[:, 1] - first_two[:, 0]
    own = np.where(mine >= 0, scores[at, np.maximum(mine, 0)], -np.inf)
    behind = np.where(own == first_two[:, 1], -leads, first_two[:, 1] - own)
    if temperature is None:
        return np.stack([leads, behind, np.full(len(at), np.nan), np.full(len(at), np.nan)])
    whole = logsumexp(scores / temperature, axis=1)
    chances = [np.exp(each / temperature - whole) for each in (own, first_two[:, 1])]
    return np.stack([leads, behind, *chances])


def _place_labels(names: NDArray[Any], own: NDArray[Any]) -> Integers:
    """The number of each label among the classes, −1 for one that is none of them."""
    place = {str(name): i for i, name in enumerate(names.tolist())}
    return np.array([place.get(str(label), -1) for label in own.tolist()])


def _choose_texts(n: int, wrong: Integers | None, leads: Floats, behind: Floats, most: int) -> Integers:
    if n <= most:
        return np.arange(n)
    first = np.empty(0, dtype=np.int64) if wrong is None else wrong[np.argsort(-behind[wrong], kind="stable")]
    rest = np.setdiff1d(np.arange(n), first)
    return np.concatenate([first, rest[np.argsort(leads[rest], kind="stable")]])[:most]


def _tell_order(n: int, wrong: Integers | None, n_shown: int) -> Notice:
    n_wrong = 0 if wrong is None else min(len(wrong), n_shown)
    return Notice("texts_shown", {"n": n, "n_shown": n_shown, "n_wrong": n_wrong})


def _make_reasons(explanation: Explanation, text: str, row: int, truth: str | None) -> TextReasons:
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
        marked=mark_text(text, {names[j]: float(values[j]) for j in present}),
        words=tuple((names[j], float(values[j])) for j in sorted(strongest, key=lambda j: -values[j])),
        n_others=len(others),
        others=float(values[others].sum()),
    )


def _find_class_words(last: Any, labels: NDArray[Any], explanation: Explanation) -> tuple[ClassWords, ...]:
    """Words of the classes that occur, the most frequent first: weights above the mean of all classes."""
    coef, _ = read_weights_of_all(last)
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
