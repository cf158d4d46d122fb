"""Labels that texts got, and the words that decided: what `fit-svm --text` and `explain_texts` found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.old_names import update_names
from tellwhy.core.optional import versions
from tellwhy.core.score import Floats, Integers
from tellwhy.results.notice import Notice, as_notices, say_all
from tellwhy.results.result import AlarmRule, Anomaly, Headline, Part, Reason, Result
from tellwhy.storage import clock
from tellwhy.storage.documents import make_plain

LABELS = "labels"  # a kind of result, and where its facts stand


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
class LabelDoubt:
    """A text whose label is contradicted: what it came with, what it got, and how probable these are."""

    row: int
    given: str
    label: str
    own: float | None
    told: float | None


@dataclass(frozen=True)
class TextLabels:
    """Everything that a page on the labels of texts shows."""

    source: str
    model: str
    n_texts: int
    n_classes: int
    n_words: int
    n_wrong: int | None  # None where the texts came without labels
    ordering: Notice  # how the shown texts were chosen
    shown: tuple[TextReasons, ...]
    classes: tuple[ClassWords, ...]
    said: tuple[Notice, ...] = ()
    doubts: tuple[LabelDoubt, ...] = ()  # all of them, the surest first

    @property
    def order(self) -> str:
        """How the shown texts were chosen."""
        return self.ordering.text

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the texts, one sentence each."""
        return tuple(say_all(self.said))

    @property
    def headline(self) -> Notice:
        """How many texts got another label than they came with."""
        return Notice("labelled_texts", {"n": self.n_texts, "n_wrong": self.n_wrong})


@dataclass(frozen=True, eq=False)
class Labelled:
    """All texts that got a label: their rows, how far each label is ahead, and what was read."""

    found: TextLabels
    rows: Integers
    leads: Floats
    settings: Mapping[str, Any]
    fingerprint: str = ""


def as_result(labelled: Labelled) -> Result:
    """Return what was found as the one result that all kinds have; a score is the lead of a label."""
    found = labelled.found
    alarms = AlarmRule("", 0, 0.0)  # nothing says which leads are ordinary
    return Result(
        kind=LABELS,
        source=found.source,
        settings=dict(labelled.settings),
        anomalies=[_make_anomaly(reasons) for reasons in found.shown],
        scores=labelled.leads,
        rows=labelled.rows,
        threshold=None,
        alarms=alarms,
        opening=Headline(found.n_texts, alarms, is_written=True, more=[found.headline]),
        notices=found.said,
        own={LABELS: make_plain(asdict(found))},
        versions=versions(),
        fingerprint=labelled.fingerprint,
        created=clock.stamp(),
    )


def _make_anomaly(reasons: TextReasons) -> Anomaly:
    """A text with its lead, and the words that speak for its label."""
    told = [_make_reason(reasons, word, value) for word, value in reasons.words if value > 0]
    label = {"label": reasons.label, "rival": reasons.rival, "came_with": reasons.truth}
    return Anomaly(
        Part("text", row=reasons.row),
        reasons.lead,
        None,
        reasons=told,
        doubt=Notice("label_of_text", label),
    )


def _make_reason(reasons: TextReasons, word: str, value: float) -> Reason:
    """A word that is in the text, and its part of all that words add to the lead or take from it."""
    total = sum(abs(each) for _, each in reasons.words)
    facts = {"is_present": True, "relevance": value}
    return Reason(word, None, [], value / total, kind="word", facts=facts, part=Part("word", name=word))


def read_labels(result: Result) -> TextLabels | None:
    """Return what was found of the labels of texts; None for a result of other data."""
    record = result.own.get(LABELS)
    if record is None:
        return None
    try:
        shown = tuple(_read_text(dict(text)) for text in record["shown"])
        classes = tuple(
            ClassWords(**{**each, "words": _read_pairs(each["words"])}) for each in record["classes"]
        )
        doubts = tuple(LabelDoubt(**each) for each in record.get("doubts", ()))
        head = update_names(TextLabels, record)
        (ordering,) = as_notices([head["ordering"]])
        made = {"shown": shown, "classes": classes, "ordering": ordering, "doubts": doubts}
        return TextLabels(**{**head, **made, "said": as_notices(head["said"])})
    except (LookupError, TypeError, ValueError) as error:
        raise UnreadableFile(f"The labels of {result.source} are damaged: {error!r}.") from error


def _read_text(text: dict[str, Any]) -> TextReasons:
    marked = dict(text["marked"])
    pieces = tuple(Piece(**piece) for piece in marked["pieces"])
    return TextReasons(
        **{**text, "marked": MarkedText(**{**marked, "pieces": pieces}), "words": _read_pairs(text["words"])}
    )


def _read_pairs(words: Any) -> tuple[tuple[str, float], ...]:
    return tuple((str(word), float(value)) for word, value in words)


_WORD = re.compile(r"\w+")


def mark_text(text: str, relevance: Mapping[str, float], *, most: int = 2_000) -> MarkedText:
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
    >>> found = mark_text("The Moon, the moon!", {"moon": 2.0, "orbit": 0.5})
    >>> [(piece.text, piece.relevance) for piece in found.pieces if piece.relevance]
    [('Moon', 1.0), ('moon', 1.0)]
    >>> found.elsewhere
    0.5
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    marks = _share_relevance([text[start:end].lower() for start, end in spans], relevance)
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


def _share_relevance(words: list[str], relevance: Mapping[str, float]) -> list[float]:
    places = _find_features(words, relevance)
    marks = [0.0] * len(words)
    for feature, found in places.items():
        for run in found:
            for k in run:
                marks[k] += relevance[feature] / (len(found) * len(run))
    return marks


def _find_features(words: list[str], relevance: Mapping[str, float]) -> dict[str, list[list[int]]]:
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
