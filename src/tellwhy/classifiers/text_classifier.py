"""A classifier of texts by their words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tellwhy.classifiers.svm.multiclass_svm import MulticlassSVM, is_calibrated
from tellwhy.classifiers.svm.weston_watkins import WestonWatkinsSVM
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.old_names import takes_old_names
from tellwhy.core.params import Fit, Rules, are_texts, instance_of, integer, none, validate_parameters
from tellwhy.core.score import Floats, Integers
from tellwhy.storage.model_file import SavedModel

Texts = Sequence[str] | ArrayLike  # a list or a column of texts


@dataclass(frozen=True, eq=False)
class TrainedOn:
    """The table whose texts a classifier learned from, its columns, and by what its texts are judged.

    Either some rows were held out (`held`), or every row is judged by a model that has not seen it: `folds`
    are these models, and `fold` says which of them judges each row that has a text and a label (−1: none).
    """

    source: str
    fingerprint: str
    text: str
    label: str
    n_texts: int  # that were trained on
    held: Integers  # rows of the table
    folds: tuple[MulticlassSVM, ...] = ()
    fold: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def _require(self) -> Iterator[Fit]:
        yield "folds", all(isinstance(model, MulticlassSVM) for model in self.folds), True
        yield "fold", bool(((self.fold >= -1) & (self.fold < max(len(self.folds), 1))).all()), True
        yield "text", are_texts(self.source, self.fingerprint, self.text, self.label), True
        yield "n_texts", type(self.n_texts) is int, True
        yield "held", isinstance(self.held, np.ndarray) and self.held.dtype.kind == "i", True


class TextClassifier(SavedModel, ClassifierMixin, BaseEstimator):
    """A multi-class SVM on the words of texts: 1 + log(count) times log of rarity, scaled to unit length.

    Parameters
    ----------
    classifier
        One of the SVMs of `tellwhy.classifiers`; None takes `WestonWatkinsSVM(random_state=0)`.
    ngrams
        1: single words; 2 or 3: also pairs, triples of words that follow each other.
    min_texts
        Texts that a word must occur in to count.
    max_words
        Keep only the most frequent words; None keeps all.

    Attributes
    ----------
    words_
        The words, in the order of the features.
    rarities_
        Their factors 1 + log((1 + n) / (1 + texts with the word)).
    classifier_
        The fitted SVM.
    classes_
        Classes in order.
    trained_on_
        The table and its columns, of one that `tellwhy.fit` trained; `tellwhy.judge` takes it.

    Examples
    --------
    >>> texts = ["the engine will not start", "new brakes for my car", "a rocket to the moon",
    ...          "orbit of the moon"]
    >>> model = TextClassifier().fit(texts, ["autos", "autos", "space", "space"])
    >>> model.predict(["brakes of the engine", "the moon"])
    array(['autos', 'space'], dtype='<U5')
    >>> explanation = model.explain(["a rocket engine for the moon"])
    >>> explanation.feature_names[explanation.values[0].argmax()]
    'moon'
    """

    kind: ClassVar[str] = "labels"  # of the models that `tellwhy.judge` takes

    _parameters: ClassVar[dict[str, Rules]] = {
        "classifier": (none, instance_of(MulticlassSVM, words="an SVM of tellwhy.classifiers")),
        "ngrams": integer(1, 3),
        "min_texts": integer(1),
        "max_words": (none, integer(1)),
    }
    classifier_: MulticlassSVM
    trained_on_: TrainedOn

    def __init__(
        self,
        classifier: MulticlassSVM | None = None,
        *,
        ngrams: int = 1,
        min_texts: int = 1,
        max_words: int | None = None,
    ):
        self.classifier = classifier
        self.ngrams = ngrams
        self.min_texts = min_texts
        self.max_words = max_words

    @property
    def source(self) -> str:
        """What it was trained on."""
        return self.trained_on_.source if hasattr(self, "trained_on_") else "texts"

    def fit(self, X: Texts, y: ArrayLike) -> Self:
        """Learn the words of texts X, and weights for each class of y."""
        rows = self.learn_words(X)
        new = WestonWatkinsSVM(random_state=0) if self.classifier is None else clone(self.classifier)
        return self.adopt(new.fit(rows, y))

    def learn_words(self, X: Texts) -> Any:
        """Learn the words alone, and return the features of the texts (sparse)."""
        validate_parameters(self)
        texts = checked_texts(X)
        vectorizer = self._make_vectorizer(min_df=self.min_texts, max_features=self.max_words)
        try:
            rows = vectorizer.fit_transform(texts)
        except ValueError as error:
            raise InvalidInput(
                f"No word is left to learn from in {len(texts)} texts: {error}. Lower min_texts, or check "
                "the texts."
            ) from error
        self.words_ = np.array(vectorizer.get_feature_names_out(), dtype=object)
        self.rarities_ = np.asarray(vectorizer.idf_, dtype=np.float64)
        return rows

    def adopt(self, classifier: MulticlassSVM) -> Self:
        """Take an SVM that was trained on the features that `learn_words` gave."""
        if hasattr(self, "trained_on_"):
            del self.trained_on_  # it may be another table now
        self.classifier_ = classifier
        self.classes_ = classifier.classes_
        return self

    def transform(self, X: Texts) -> Any:
        """Return the features of texts, sparse, one column per word."""
        check_is_fitted(self, "words_")
        vectorizer = self._make_vectorizer(vocabulary=self.words_.tolist())
        vectorizer.idf_ = self.rarities_
        return vectorizer.transform(checked_texts(X))

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Return the words."""
        check_is_fitted(self, "words_")
        return self.words_

    def decision_function(self, X: Texts) -> Floats:
        """Score of each class; with two classes, how far the second is ahead of the first."""
        check_is_fitted(self)
        return self.classifier_.decision_function(self.transform(X))

    def predict(self, X: Texts) -> Any:
        """Return the class of each text."""
        check_is_fitted(self)
        return self.classifier_.predict(self.transform(X))

    def predict_top_k(self, X: Texts, k: int) -> Any:
        """Return the k classes of each text with the highest scores, best first."""
        check_is_fitted(self)
        return self.classifier_.predict_top_k(self.transform(X), k)

    def calibrate(self, X: Texts, y: ArrayLike) -> Self:
        """Learn from texts that were not trained on how far scores can be trusted.

        `predict_proba` needs this.
        """
        check_is_fitted(self)
        self.classifier_.calibrate(self.transform(X), y)
        return self

    @available_if(lambda model: is_calibrated(model.classifier_))
    def predict_proba(self, X: Texts) -> Floats:
        """Return the probability of each class, once `calibrate` was called."""
        return self.classifier_.predict_proba(self.transform(X))

    @takes_old_names
    def explain(
        self, X: Texts, *, target: Any = None, against: Any = "runner_up", progress: bool | None = None
    ) -> Explanation:
        """Share the lead of each text's class over the runner-up among its words; see `LinearRelevance`."""
        from dataclasses import replace

        check_is_fitted(self)
        settings = {"target": target, "against": against, "feature_names": self.words_.tolist()}
        found = self.classifier_.explain(self.transform(X), **settings, progress=progress)
        return replace(found, data=np.asarray(checked_texts(X), dtype=str))

    def _make_vectorizer(self, **settings: Any) -> TfidfVectorizer:
        # 1 + log(count): the tenth time a word occurs tells less than the first.
        return TfidfVectorizer(ngram_range=(1, self.ngrams), sublinear_tf=True, **settings)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def _require(self) -> Iterator[Fit]:
        """Check that there is one rarity and one column of weights per word, and no word twice."""
        n_words = len(self.words_)
        yield "words_", len(set(self.words_)), n_words
        yield "classifier_", self.classifier_.n_features_in_, n_words
        yield "rarities_", self.rarities_.shape, (n_words,)
        yield "classes_", np.array_equal(self.classifier_.classes_, self.classes_), True
        yield "trained_on_", isinstance(getattr(self, "trained_on_", None), TrainedOn | None), True


def checked_texts(X: Texts) -> list[str]:
    """Return texts as a list, or say which of them is none.

    Examples
    --------
    >>> checked_texts(["one", None])
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidInput: Row 1 is not a text but None; expected a list of texts. Drop or fill
    such rows.
    """
    if isinstance(X, str) or np.ndim(X) != 1:
        shape = "one text" if isinstance(X, str) else f"an array of shape {np.shape(X)}"
        raise InvalidInput(f"Expected a list of texts, or a column of them. Got {shape}.")
    texts: list[Any] = list(X)  # type: ignore[arg-type]  # of one dimension, which was just checked
    if not texts:
        raise InvalidInput("There are no texts: at least one is needed.")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInput(
                f"Row {row} is not a text but {text!r}; expected a list of texts. Drop or fill such rows."
            )
    return texts
