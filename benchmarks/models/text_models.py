"""Claim: models of texts are explained exactly by their words, and DeepLift gives the values of Captum.

Every text model is explained by the plain one-liner and compared with Shapley values of words by their definition, with
all texts written out. The sentences are made from a few templates: what is compared is arithmetic, not taste.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import captum.attr as captum
import numpy as np
import pandas as pd
import torch
from sklearn import ensemble, linear_model, naive_bayes, neighbors, neural_network, pipeline, svm, tree
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from torch import nn

import tellwhy
from benchmarks.models._checks import EXACT, Line, tried
from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy.explainers import DeepLift, DeepLiftShap

SUBJECTS = ("the film", "this book", "the hotel", "our guide", "that meal")
VERDICTS = (
    ("was wonderful and bright", 1),
    ("was dull and slow", 0),
    ("made us happy", 1),
    ("was not bad at all", 1),
    ("wasted our time", 0),
    ("left us cold and bored", 0),
)
TEXTS = [f"{subject} {words}" for subject, (words, _) in itertools.product(SUBJECTS, VERDICTS)]
LABELS = np.array(["fine" if good else "poor" for _, (_, good) in itertools.product(SUBJECTS, VERDICTS)])
RATINGS = np.array(
    [len(text) % 7 + 3.0 * (label == "fine") for text, label in zip(TEXTS, LABELS, strict=True)]
)
ASKED = ("the film was not dull", "our guide made us happy", "that meal was bad and cold")

CLASSIFIERS: tuple[Any, ...] = (
    naive_bayes.MultinomialNB(),
    naive_bayes.ComplementNB(),
    ensemble.RandomForestClassifier(20, random_state=0),
    ensemble.ExtraTreesClassifier(20, random_state=0),
    tree.DecisionTreeClassifier(random_state=0),
    neighbors.KNeighborsClassifier(3),
    neural_network.MLPClassifier((8,), max_iter=300, random_state=0),
    svm.SVC(random_state=0),
)
LINEAR = (linear_model.LogisticRegression(), linear_model.SGDClassifier(random_state=0), svm.LinearSVC())
REGRESSORS: tuple[Any, ...] = (
    linear_model.Ridge(),
    neighbors.KNeighborsRegressor(3),
    ensemble.RandomForestRegressor(20, random_state=0),
    svm.SVR(),
)


def _of_strings(value: Callable[[list[str]], Any]) -> Callable[[Any], tuple[str, str, str]]:
    """A check against Shapley values of words, with texts written out."""

    def check(found: Any) -> tuple[str, str, str]:
        worst = 0.0
        for row, text in enumerate(ASKED):
            words = text.split()
            exact = _shapley_of_words(value, words)
            gap = max(
                float(np.abs(found.values[row, : len(words)] - exact).max()),
                abs(float(found.scores[row]) - float(np.ravel(value([text]))[0])),
            )
            worst = max(worst, gap / max(float(np.abs(exact).max()), 1e-9))
        return ("exact" if worst < EXACT else "wrong"), "enumeration of texts", f"{worst:.0e}"

    return check


def _shapley_of_words(value: Callable[[list[str]], Any], words: Sequence[str]) -> np.ndarray:
    d = len(words)
    sets = [s for size in range(d + 1) for s in itertools.combinations(range(d), size)]
    worth = dict(zip(sets, np.ravel(value([" ".join(words[i] for i in s) for s in sets])), strict=True))
    values = np.zeros(d)
    for i in range(d):
        for members in (s for s in sets if i not in s):
            weight = math.factorial(len(members)) * math.factorial(d - len(members) - 1) / math.factorial(d)
            values[i] += weight * float(worth[tuple(sorted((*members, i)))] - worth[members])
    return values


def _name(*parts: Any) -> str:
    return " → ".join(type(part).__name__ for part in parts)


def classifiers() -> Iterator[Line]:
    """Pipelines of scikit-learn, by the probability or the margin of one class."""
    for vectoriser in (TfidfVectorizer(), HashingVectorizer(n_features=256, alternate_sign=False)):
        for last in (*CLASSIFIERS, *LINEAR):
            model = pipeline.make_pipeline(vectoriser, last).fit(TEXTS, LABELS)
            has_chance = hasattr(model, "predict_proba")
            asked = {"output": "probability"} if has_chance else {"pieces": "words"}
            value: Callable[[list[str]], Any] = model.decision_function if not has_chance else _chance(model)
            call = lambda m=model, a=asked: tellwhy.explain(m, list(ASKED), target="poor", **a)  # noqa: E731
            yield tried("texts", _name(vectoriser, last), call, _of_strings(value))


def _chance(model: Any) -> Callable[[list[str]], Any]:
    return lambda texts: model.predict_proba(texts)[:, 1]


def numbers() -> Iterator[Line]:
    """Regressors, detectors and functions of texts."""
    for vectoriser, last in itertools.product((TfidfVectorizer(), CountVectorizer(binary=True)), REGRESSORS):
        model = pipeline.make_pipeline(vectoriser, last).fit(TEXTS, RATINGS)
        call = lambda m=model: tellwhy.explain(m, list(ASKED), pieces="words")  # noqa: E731
        yield tried("texts", _name(vectoriser, last), call, _of_strings(model.predict))
    forest = pipeline.make_pipeline(
        CountVectorizer(), TruncatedSVD(4, random_state=0), ensemble.IsolationForest(random_state=0)
    ).fit(TEXTS)
    call = lambda: tellwhy.explain(forest, list(ASKED))  # noqa: E731
    yield tried("texts", _name(*forest), call, _of_strings(lambda texts: -forest.score_samples(texts)))
    functions: dict[str, Callable[[list[str]], Any]] = {
        "number of characters": lambda texts: [float(len(text)) for text in texts],
        "a rule with a negation": lambda texts: [
            float("bad" in t) - 2.0 * ("not" in t and "bad" in t) for t in texts
        ],
        "longest word": lambda texts: [float(max(map(len, t.split()), default=0)) for t in texts],
        "number of different letters": lambda texts: [float(len(set(t))) for t in texts],
        "share of vowels": lambda texts: [sum(c in "aeiou" for c in t) / (1 + len(t)) for t in texts],
    }
    for name, function in functions.items():
        call = lambda f=function: tellwhy.explain(f, list(ASKED))  # noqa: E731
        yield tried("texts", name, call, _of_strings(function))
    labelled = lambda texts: [  # noqa: E731
        [{"label": "fine", "score": 1 / (1 + len(t))}, {"label": "poor", "score": len(t) / (1 + len(t))}]
        for t in texts
    ]
    call = lambda: tellwhy.explain(labelled, list(ASKED), target="poor")  # noqa: E731
    value = lambda texts: [len(t) / (1 + len(t)) for t in texts]  # noqa: E731
    yield tried("texts", "labels with scores, as transformers.pipeline gives them", call, _of_strings(value))


def networks() -> Iterator[Line]:
    """DeepLift and its mean over reference rows next to Captum's, on feed-forward networks."""
    x, rows = torch.randn(4, 6).double(), torch.randn(8, 6).double()
    for activation in (nn.ReLU, nn.ELU, nn.LeakyReLU, nn.Sigmoid, nn.Tanh, nn.Softplus):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 9), activation(), nn.Linear(9, 7), activation(), nn.Linear(7, 3))
        model = model.double().eval()
        one = captum.DeepLift(model).attribute(x, rows[:1], target=1).detach().numpy()
        call = lambda m=model: DeepLift(m, target=1, baseline=rows[0]).explain(x)  # noqa: E731
        yield tried("networks", f"DeepLift, {activation.__name__}", call, _of_captum(one))
        mean = captum.DeepLiftShap(model).attribute(x, rows, target=1).detach().numpy()
        call = lambda m=model: DeepLiftShap(m, target=1).fit(rows).explain(x)  # noqa: E731
        yield tried("networks", f"DeepLiftShap, {activation.__name__}", call, _of_captum(mean))


def _of_captum(theirs: np.ndarray) -> Callable[[Any], tuple[str, str, str]]:
    def check(found: Any) -> tuple[str, str, str]:
        gap = float(np.abs(found.values - theirs).max() / np.abs(theirs).max())
        return ("exact" if gap < 1e-5 else "wrong"), "Captum", f"{gap:.0e}"

    return check


def main() -> None:
    """Try every model, and write the table."""
    warnings.simplefilter("ignore")  # of captum's hooks
    lines = [line for part in (classifiers, numbers, networks) for line in part()]
    table = pd.DataFrame([line.cells() for line in lines])
    counts = table.groupby(["family", "outcome"]).size().rename("models").reset_index()
    publish(
        "text_models",
        "Models of texts, and DeepLift beside Captum",
        [
            (f"{len(table)} models by what came out.", counts),
            ("Each of them. Errors are shares of the largest value.", table),
        ],
        peers=("captum", "torch"),
    )


if __name__ == "__main__":
    arguments(__doc__)
    main()
