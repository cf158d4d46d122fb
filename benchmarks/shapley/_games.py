"""Games whose Shapley values are known: models of six kinds, one row against one reference row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, IsolationForest, RandomForestRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.neural_network import MLPRegressor
from sklearn.svm import OneClassSVM

from tellwhy.explainers import TreeShapley

ROWS = 600
ENUMERATED = 16  # players up to which all sets are scored
ORDERS = 40_000  # drawn for the values of larger games, in pairs of an order and its reverse
Worth = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Game:
    """What sets of players (masks) are worth, and the players' Shapley values."""

    name: str
    worth: Worth
    exact: np.ndarray


def table(p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlated columns, and a target of some of them alone and together."""
    rng = np.random.default_rng(seed)
    n_factors = max(3, p // 3)
    factors = rng.normal(size=(ROWS, n_factors)) @ rng.normal(size=(n_factors, p)) / np.sqrt(n_factors)
    X = factors + 0.7 * rng.normal(size=(ROWS, p))
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + np.abs(X[:, 3]) * X[:, 4] + X[:, 5:9].sum(axis=1)
    return X, y + 0.3 * rng.normal(size=ROWS)


def games(p: int, seed: int) -> list[Game]:
    """One game of each kind of model."""
    X, y = table(p, seed)
    rng = np.random.default_rng(seed + 1000)
    row, reference = 1.3 * X[rng.integers(ROWS)], X[rng.integers(ROWS)]
    found = [of_trees(name, model, row, reference) for name, model in trees(X, y).items()]
    svm = OneClassSVM(nu=0.2, gamma=0.5 / p).fit(X)
    found.append(
        Game("one-class SVM", mixed(svm.decision_function, row, reference), of_svm(svm, row, reference))
    )
    mixture = GaussianMixture(3, reg_covar=1e-2, random_state=0).fit(X)
    network = MLPRegressor(hidden_layer_sizes=(32, 32), max_iter=150, random_state=0).fit(X, y)
    plain = {
        "mixture": mixed(lambda Z: -mixture.score_samples(Z), row, reference),
        "network": mixed(network.predict, row, reference),
        "text": text_worth(p, seed),
    }
    return found + [Game(name, worth, values(worth, p)) for name, worth in plain.items()]


def trees(X: np.ndarray, y: np.ndarray) -> dict[str, object]:
    return {
        "random forest": RandomForestRegressor(50, random_state=0).fit(X, y),
        "boosted trees": HistGradientBoostingRegressor(max_iter=60, random_state=0).fit(X, y),
        "isolation forest": IsolationForest(n_estimators=100, random_state=0).fit(X),
    }


def mixed(function: Worth, row: np.ndarray, reference: np.ndarray) -> Worth:
    """A set is worth the model's number for the row with all other columns from the reference."""
    return lambda members: np.asarray(function(np.where(members, row, reference)))


def of_trees(name: str, model: object, row: np.ndarray, reference: np.ndarray) -> Game:
    """Exact by the paths of the trees, on the scale on which trees add up."""
    explainer = TreeShapley(model).fit(reference[None])
    return Game(name, mixed(explainer.score.value, row, reference), explainer.explain(row[None]).values[0])


def of_svm(svm: OneClassSVM, row: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Exact: a sum of products over columns, whose multilinear extension is integrated exactly."""
    inside = np.exp(-svm._gamma * (row - svm.support_vectors_) ** 2)
    outside = np.exp(-svm._gamma * (reference - svm.support_vectors_) ** 2)
    nodes, weights = np.polynomial.legendre.leggauss(len(row) // 2 + 1)
    found = np.zeros(len(row))
    for share, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        factors = share * inside + (1 - share) * outside
        products = np.exp(np.log(factors).sum(axis=1))[:, None] / factors
        found += weight * (svm.dual_coef_[0][:, None] * products * (inside - outside)).sum(axis=0)
    return found


def text_worth(p: int, seed: int) -> Worth:
    """A text of p words by a logistic regression on TF-IDF, whose lengths are made one after words are left out."""
    rng = np.random.default_rng(seed)
    words = np.array([f"w{k}" for k in range(400)])
    is_first = rng.random(300) < 0.5
    topic = np.where(rng.random(400) < 0.3, 3.0, 1.0)
    chances = {True: topic / topic.sum(), False: (4 - topic) / (4 - topic).sum()}
    texts = [" ".join(rng.choice(words, 40, p=chances[bool(first)])) for first in is_first]
    vectorizer = TfidfVectorizer(token_pattern=r"\w+").fit(texts)
    model = LogisticRegression(C=10.0).fit(vectorizer.transform(texts), is_first)
    chosen = rng.choice(sorted(vectorizer.vocabulary_), p, replace=False)
    places = [vectorizer.vocabulary_[word] for word in chosen]
    sizes = vectorizer.idf_[places]
    weights = model.coef_[0][places]

    def worth(members: np.ndarray) -> np.ndarray:
        kept = members * sizes
        lengths = np.maximum(np.linalg.norm(kept, axis=1), 1e-300)
        return 1.0 / (1.0 + np.exp(-(kept @ weights) / lengths - model.intercept_[0]))

    return worth


def values(worth: Worth, p: int) -> np.ndarray:
    """Shapley values by all sets, or by very many orders."""
    return by_sets(worth, p) if p <= ENUMERATED else by_orders(worth, p)


def by_sets(worth: Worth, p: int) -> np.ndarray:
    members = (np.arange(2**p)[:, None] >> np.arange(p)) & 1 == 1
    numbers = np.concatenate([worth(members[k : k + 2**14]) for k in range(0, 2**p, 2**14)])
    sizes = members.sum(axis=1)
    count = np.array([np.prod(np.arange(1, k + 1) / np.arange(p - k, p)) if k else 1.0 for k in range(p)]) / p
    inside = count[np.maximum(sizes - 1, 0)]
    outside = count[np.minimum(sizes, p - 1)]
    return np.array([np.where(members[:, i], inside, -outside) @ numbers for i in range(p)])


def by_orders(worth: Worth, p: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    found = np.zeros(p)
    batch = 100
    for _ in range(ORDERS // (2 * batch)):
        drawn = np.argsort(rng.random((batch, p)), axis=1)
        for order in (drawn, drawn[:, ::-1]):
            members = np.argsort(order, axis=1)[:, None, :] < np.arange(p + 1)[None, :, None]
            steps = np.diff(worth(members.reshape(-1, p)).reshape(batch, p + 1), axis=1)
            np.add.at(found, order.ravel(), steps.ravel())
    return found / ORDERS
