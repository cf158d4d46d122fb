"""Very many classes by trees of small multi-class SVMs: the time grows with the logarithm of their number.

A tree halves the classes again and again, so that classes whose rows are alike stay together (balanced
2-means of the classes' mean rows), down to leaves of at most `max_leaf` classes. At each branching a
certified SVM tells the halves apart, in each leaf another tells its classes apart, each from the rows of its
own classes alone. A row goes down the most probable ways, and trees vote with their probabilities.

Prabhu, Kag, Harsola, Agrawal and Varma, "Parabel: partitioned label trees for extreme classification with
application to dynamic search advertising", The Web Conference (2018): what is different here stands at
`LabelTreeSVM`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from tellwhy.classifiers.grown_tree import (
    Members,
    Node,
    find_temperatures,
    fit_node,
    grow_tree,
    mean_rows,
)
from tellwhy.classifiers.svm.multiclass_svm import (
    MulticlassSVM,
    check_rows_and_labels,
    checked_rows,
    read_labels,
)
from tellwhy.classifiers.svm.weston_watkins import WestonWatkinsSVM
from tellwhy.core.errors import NotConverged
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Extras
from tellwhy.core.params import (
    Fit,
    Rules,
    Seed,
    generator,
    instance_of,
    integer,
    none,
    one_of,
    seed,
    validate_parameters,
    validate_value,
)
from tellwhy.core.progress import shown, track
from tellwhy.core.running import map_in_threads
from tellwhy.core.score import Floats, Integers
from tellwhy.storage.model_file import SavedModel

ROWS_AT_ONCE = 2_000


@dataclass(frozen=True)
class PathStep:
    """One decision on the way of a row to its class.

    Attributes
    ----------
    chosen, left
        Some of the classes on the way that was taken, and of those on the best other way.
    lead
        How far the first is ahead of the second.
    words
        The features that add most to the lead or take most from it, with what they add.
    """

    chosen: tuple[Any, ...]
    left: tuple[Any, ...]
    lead: float
    words: tuple[tuple[str, float], ...]


class _Ways(NamedTuple):
    """Ways that rows go: the row, the node or class that each leads to, and its log probability."""

    row: Integers
    to: Integers
    logp: Floats

    def some(self, which: Any) -> _Ways:
        """Return some of them."""
        return _Ways(self.row[which], self.to[which], self.logp[which])


class LabelTreeSVM(SavedModel, ClassifierMixin, BaseEstimator):
    """Classes by the thousand: trees that halve them, with a certified SVM at each branching and leaf.

    Training takes time in the order of rows × log(classes), and so does labelling a row. Other than in
    Parabel, the SVMs compare classes with each other (Weston–Watkins) rather than each with the rest, every
    one of them is solved to a stated duality gap, and scores become probabilities by two temperatures that
    are found on rows that were not trained on, one for branchings and one for leaves.

    Parameters
    ----------
    svm
        The SVM of each branching and leaf; None takes `WestonWatkinsSVM(tol=0.01, random_state=0)`: where
        trees vote, closer gaps take time and change nothing.
    max_leaf
        Classes of a leaf at most.
    n_trees
        Trees, which vote; they differ by where 2-means starts.
    beam
        Ways that a row may still go at each level.
    n_jobs
        Threads that fit nodes; None: one per core. Results do not depend on it.
    random_state
        Seed of the starts of 2-means.

    Attributes
    ----------
    classes_
        Classes in order.
    coef_, intercept_
        Weights of the ways that leave the nodes, sparse, ways × features, and what is added.
    first_way_, leads_to_
        The first way of each node (and the number of ways); the node that a way leads to, or −1 − class.
    roots_
        The first node of each tree.
    temperatures_
        Of branchings, and of leaves.
    dual_gap_
        The largest gap of any of the SVMs.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LabelTreeSVM(max_leaf=3, n_trees=2).fit(X[:1200] / 16, y[:1200])
    >>> float(model.score(X[1200:] / 16, y[1200:])) > 0.85
    True
    >>> [len(step.left) for step in model.explain_path(X[1200:1201] / 16)]
    [5, 2, 1]
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "svm": (none, instance_of(MulticlassSVM, words="an SVM of tellwhy.classifiers")),
        "max_leaf": integer(2),
        "n_trees": integer(1),
        "beam": integer(1),
        "n_jobs": (none, one_of(-1), integer(1)),
        "random_state": seed,
    }

    def __init__(
        self,
        svm: MulticlassSVM | None = None,
        *,
        max_leaf: int = 100,
        n_trees: int = 3,
        beam: int = 10,
        n_jobs: int | None = None,
        random_state: Seed = 0,
    ):
        self.svm = svm
        self.max_leaf = max_leaf
        self.n_trees = n_trees
        self.beam = beam
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Grow the trees and train an SVM at each of their nodes."""
        validate_parameters(self)
        rows, y = check_rows_and_labels(self, X, y, takes_sets=False)
        found = read_labels(y, takes_sets=False, owner=type(self).__name__)
        numbers = found.labels.classes
        self.classes_ = found.classes
        rng = generator(self.random_state)
        centroids = mean_rows(rows, numbers, len(self.classes_))
        trees = [grow_tree(centroids, self.max_leaf, rng) for _ in range(self.n_trees)]
        self._number_ways(trees)
        nodes = [node for tree in trees for node in tree]
        model = WestonWatkinsSVM(tol=0.01, random_state=0) if self.svm is None else self.svm
        members = Members.of(numbers, len(self.classes_))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)  # of single nodes; what it comes to is told once
            fitted = map_in_threads(partial(fit_node, model, rows, members), nodes, self.n_jobs)
        self.coef_ = sparse.csr_array(sparse.vstack([each.coef for each in fitted], format="csr"))
        self.intercept_ = np.concatenate([each.intercept for each in fitted])
        self.dual_gap_ = max(each.gap for each in fitted)
        self.temperatures_ = find_temperatures(model, rows, members, trees[0])
        if self.dual_gap_ > model.tol:
            warnings.warn(
                f"Some nodes of the {self.n_trees} trees ended at a relative duality gap of up to "
                f"{self.dual_gap_:.2g}; asked for {model.tol:g}. Raise max_epochs or tol of the SVM, or "
                "lower C.",
                NotConverged,
                stacklevel=2,
            )
        return self

    def _number_ways(self, trees: Sequence[Sequence[Node]]) -> None:
        before = np.cumsum([0] + [len(tree) for tree in trees])
        leads = [
            way + offset if way >= 0 else way
            for tree, offset in zip(trees, before[:-1].tolist(), strict=True)
            for node in tree
            for way in node.to
        ]
        sizes = [len(node.to) for tree in trees for node in tree]
        self.roots_ = before[:-1].astype(np.int64)
        self.leads_to_ = np.array(leads, dtype=np.int64)
        self.first_way_ = np.cumsum([0, *sizes]).astype(np.int64)

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row."""
        return self.predict_top_k(X, 1)[:, 0]

    def predict_top_k(self, X: Any, k: int) -> Any:
        """Return the k most probable classes of each row, best first: rows × k."""
        return self.find_top_k(X, k)[0]

    def find_top_k(self, X: Any, k: int) -> tuple[Any, Floats]:
        """Return the k most probable classes of each row and their probabilities, both rows × k.

        Classes that no tree had among the ways it followed have probability 0; they fill up what is left.
        """
        check_is_fitted(self)
        most = len(self.classes_)
        validate_value(f"{type(self).__name__}.find_top_k", "k", k, integer(1, most))
        rows = checked_rows(self, X)
        places = np.empty((rows.shape[0], k), dtype=np.int64)
        chances = np.zeros((rows.shape[0], k))
        weights = self._cut_weights()
        for start in range(0, rows.shape[0], ROWS_AT_ONCE):
            part = slice(start, min(start + ROWS_AT_ONCE, rows.shape[0]))
            places[part], chances[part] = self._find_best(rows[part], weights, k)
        return self.classes_[places], chances

    def _cut_weights(self) -> list[Any]:
        """Weights of the ways of each node, features × ways."""
        ends = self.first_way_
        return [self.coef_[ends[i] : ends[i + 1]].T.tocsr() for i in range(len(ends) - 1)]

    def _find_best(self, rows: Any, weights: list[Any], k: int) -> tuple[Integers, Floats]:
        """The k most probable classes of some rows: what the trees give each, together."""
        n = rows.shape[0]
        n_classes = len(self.classes_)
        found = _join([self._go_down(rows, weights, int(root)) for root in self.roots_])
        keys, inverse = np.unique(found.row * n_classes + found.to, return_inverse=True)
        chance = np.bincount(inverse, np.exp(found.logp)) / len(self.roots_)
        owner, label = np.divmod(keys, n_classes)
        order = np.lexsort((label, -chance, owner))
        place = np.arange(len(keys)) - np.searchsorted(owner, np.arange(n))[owner]
        best = np.full((n, k), -1, dtype=np.int64)
        chances = np.zeros((n, k))
        kept = place < k
        best[owner[kept], place[kept]] = label[order][kept]
        chances[owner[kept], place[kept]] = chance[order][kept]
        for row in np.flatnonzero((best < 0).any(axis=1)):
            have = best[row][best[row] >= 0]
            best[row, len(have) :] = np.setdiff1d(np.arange(n_classes), have)[: k - len(have)]
        return best, chances

    def _go_down(self, rows: Any, weights: list[Any], root: int) -> _Ways:
        """The classes to which a tree leads each row, by the most probable ways."""
        n = rows.shape[0]
        now = _Ways(np.arange(n), np.full(n, root), np.zeros(n))
        done = []
        while len(now.row):
            now = _join([self._branch(rows, weights, i, now.some(at)) for i, at in _by_node(now.to)])
            ended = now.some(now.to < 0)
            done.append(ended._replace(to=-1 - ended.to))
            now = _keep_best(now.some(now.to >= 0), self.beam)
        return _join(done)

    def _branch(self, rows: Any, weights: list[Any], node: int, now: _Ways) -> _Ways:
        """Where some rows may go from a node, and how probable that is."""
        ways = np.arange(self.first_way_[node], self.first_way_[node + 1])
        is_leaf = int(self.leads_to_[ways[0]] < 0)
        chance = self._score_ways(rows[now.row], weights[node], ways) / self.temperatures_[is_leaf]
        chance -= chance.max(axis=1, keepdims=True)
        chance -= np.log(np.exp(chance).sum(axis=1, keepdims=True))
        to = np.tile(self.leads_to_[ways], len(now.row))
        return _Ways(np.repeat(now.row, len(ways)), to, (now.logp[:, None] + chance).ravel())

    def _score_ways(self, rows: Any, weights: Any, ways: Integers) -> Floats:
        return np.asarray((rows @ weights).toarray()) + self.intercept_[ways]

    def explain(
        self, X: Any, *, feature_names: Sequence[str] | None = None, progress: bool | None = None
    ) -> Explanation:
        """Share among the features how far the way to each row's class is ahead, summed along the way.

        At each node of the way the score is the lead of the way that was taken over the best other one. Of
        several trees, the one that is surest of the class is explained. `explain_path` tells the steps.
        `progress` shows how far it is, or does not; None: on a terminal and in notebooks, after two seconds.
        """
        rows = checked_rows(self, X)
        with shown(progress):
            return self._explain_rows(rows, X, feature_names)

    def _explain_rows(self, rows: Any, X: Any, feature_names: Sequence[str] | None) -> Explanation:
        labels = self.find_top_k(rows, 2)[0]
        values = np.zeros(rows.shape)
        base = np.zeros(len(labels))
        places = np.searchsorted(self.classes_, labels[:, 0])
        rivals = labels[:, 1].copy()
        for i, place in track(enumerate(places), len(places), "explaining rows"):
            for chosen, other in self._find_path(rows[[i]], int(place)):
                values[i] += self._lead_of(rows[[i]], chosen, other)
                base[i] += self.intercept_[chosen] - self.intercept_[other]
                if self.leads_to_[other] < 0:
                    rivals[i] = self.classes_[-1 - self.leads_to_[other]]
        names = list(feature_names) if feature_names is not None else self._name_features()
        return Explanation(
            values=values,
            scores=values.sum(axis=1) + base,
            base_values=base,
            data=X,
            feature_names=names,
            method="LabelTreeSVM",
            kind="attribution",
            params={"explains": "lead of the way to the class over the best other way, at each node, summed"},
            extras=Extras({"output": places, "explained": labels[:, 0], "rival": rivals}),
        )

    def explain_path(
        self, x: Any, *, feature_names: Sequence[str] | None = None, most: int = 5
    ) -> list[PathStep]:
        """Tell the decisions on the way of one row to its class, with the features that made them."""
        row = checked_rows(self, x)
        validate_value("LabelTreeSVM.explain_path", "x", row.shape[0], integer(1, 1))
        names = list(feature_names) if feature_names is not None else self._name_features()
        place = int(np.searchsorted(self.classes_, self.predict(row)[0]))
        steps = []
        for chosen, other in self._find_path(row, place):
            values = self._lead_of(row, chosen, other)
            strong = np.argsort(-np.abs(values), kind="stable")[:most]
            words = tuple((str(names[j]), float(values[j])) for j in strong if values[j])
            lead = float(values.sum() + self.intercept_[chosen] - self.intercept_[other])
            steps.append(PathStep(self._list_classes(chosen), self._list_classes(other), lead, words))
        return steps

    def _name_features(self) -> list[str]:
        named = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if named is None else list(map(str, named))

    def _lead_of(self, row: Any, chosen: int, other: int) -> Floats:
        weights = self.coef_[[chosen]] - self.coef_[[other]]
        return np.asarray(weights.multiply(row).toarray()).ravel()

    def _find_path(self, row: Any, place: int) -> list[tuple[int, int]]:
        """The ways from a root to a class, each with the best other way, in the tree that is surest of it."""
        best: tuple[float, list[tuple[int, int]]] = (-np.inf, [])
        for root in self.roots_:
            logp = 0.0
            steps = []
            node = int(root)
            for way in self._ways_to(node, place):
                at = int(np.searchsorted(self.first_way_, way, side="right")) - 1
                ways = np.arange(self.first_way_[at], self.first_way_[at + 1])
                scores = self._score_ways(row, self.coef_[ways].T, ways)[0]
                tempered = scores / self.temperatures_[int(self.leads_to_[way] < 0)]
                mine = way - ways[0]
                logp += tempered[mine] - np.logaddexp.reduce(tempered)
                if len(ways) > 1:
                    others = np.delete(ways, mine)
                    steps.append((way, int(others[np.argmax(np.delete(scores, mine))])))
            if logp > best[0]:
                best = (logp, steps)
        return best[1]

    def _ways_to(self, root: int, place: int) -> list[int]:
        """The ways that lead from a root to a class."""
        leads = self.leads_to_
        last = np.searchsorted(self.roots_, root, side="right")
        end = self.roots_[last] if last < len(self.roots_) else len(self.first_way_) - 1
        inside = slice(self.first_way_[root], self.first_way_[end])
        way = int(np.flatnonzero(leads[inside] == -1 - place)[0] + inside.start)
        found = [way]
        while (node := int(np.searchsorted(self.first_way_, way, side="right")) - 1) != root:
            way = int(np.flatnonzero(leads[inside] == node)[0] + inside.start)
            found.append(way)
        return found[::-1]

    def _list_classes(self, way: int) -> tuple[Any, ...]:
        """Classes that a way leads to."""
        waiting = [int(self.leads_to_[way])]
        found: list[int] = []
        while waiting:
            to = waiting.pop()
            if to < 0:
                found.append(-1 - to)
            else:
                waiting += self.leads_to_[self.first_way_[to] : self.first_way_[to + 1]].tolist()
        return tuple(self.classes_[sorted(found)].tolist())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _require(self) -> Iterator[Fit]:
        n_ways = len(self.leads_to_)
        n_nodes = len(self.first_way_) - 1
        yield "coef_", self.coef_.shape, (n_ways, self.n_features_in_)
        yield "intercept_", self.intercept_.shape, (n_ways,)
        yield "temperatures_", self.temperatures_.shape, (2,)
        yield "temperatures_", bool((self.temperatures_ > 0).all()), True
        yield "first_way_", (self.first_way_[0], self.first_way_[-1]), (0, n_ways)
        yield "first_way_", bool((np.diff(self.first_way_) > 0).all()), True
        yield "roots_", bool(((self.roots_ >= 0) & (self.roots_ < n_nodes)).all()), True
        # A way leads on to a later node of its own tree, so that every way down ends.
        owner = np.repeat(np.arange(n_nodes), np.diff(self.first_way_))
        on = self.leads_to_ >= 0
        yield "leads_to_", bool(((self.leads_to_ > owner) | ~on).all()), True
        yield "leads_to_", bool((self.leads_to_[on] < n_nodes).all()), True
        ends = np.bincount(-1 - self.leads_to_[~on], minlength=len(self.classes_))
        yield "leads_to_", ends.tolist(), [len(self.roots_)] * len(self.classes_)


def _by_node(node: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield each node with the places that name it."""
    order = np.argsort(node, kind="stable")
    starts = np.flatnonzero(np.diff(node[order], prepend=node[order[0]] - 1))
    for part in np.split(order, starts[1:]):
        yield int(node[part[0]]), part


def _join(parts: Sequence[_Ways]) -> _Ways:
    return _Ways(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _keep_best(now: _Ways, most: int) -> _Ways:
    """Keep the most probable ways of each row."""
    order = np.lexsort((-now.logp, now.row))
    rows = now.row[order]
    return now.some(order[np.arange(len(order)) - np.searchsorted(rows, rows) < most])
