"""How a tree over classes grows: which classes stay together, and the SVM of each of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from tellwhy.classifiers.out_of_fold import label_out_of_fold
from tellwhy.classifiers.svm.multiclass_svm import MulticlassSVM
from tellwhy.core.score import Floats, Integers

ROUNDS = 20  # of 2-means, at most
SETTLED = 1e-4  # gain of the mean similarity that ends them
FOLDS = 3  # by which the temperatures are found
MOST_CALIBRATING = 20_000  # rows of the root and of the largest leaf that temperatures are found on


@dataclass(frozen=True, eq=False)
class Node:
    """What a node decides between: a child node, or a class (−1 − its number), each with its classes."""

    to: list[int]
    groups: list[Integers]


def split_classes(centroids: Any, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Halve classes by balanced 2-means of their mean rows of unit length: True for those of the second half.

    Examples
    --------
    >>> alike = sparse.csr_array(np.repeat(np.eye(2), 3, axis=0))
    >>> halves = split_classes(alike, np.random.default_rng(1))
    >>> len(set(halves[:3])), len(set(halves[3:])), int(halves.sum())
    (1, 1, 3)
    """
    n = centroids.shape[0]
    start = _dense(centroids[[int(rng.integers(n))]])
    # The other start is drawn from what is far from the first, as k-means++ does.
    away = np.maximum(1.0 - np.asarray(centroids @ start), 0.0)
    far = rng.choice(n, p=away / away.sum()) if away.sum() > 0 else rng.integers(n)
    difference = start - _dense(centroids[[int(far)]])
    before = -np.inf
    halves = np.zeros(n, dtype=bool)
    for _ in range(ROUNDS):
        nearer = centroids @ difference
        halves = np.ones(n, dtype=bool)
        halves[np.argsort(-nearer, kind="stable")[: (n + 1) // 2]] = False
        centres = [_unit(_dense(centroids[half].sum(axis=0))) for half in (~halves, halves)]
        similarity = (
            float((centroids[~halves] @ centres[0]).sum() + (centroids[halves] @ centres[1]).sum()) / n
        )
        if similarity - before < SETTLED:
            break
        before = similarity
        difference = centres[0] - centres[1]
    return halves


def _dense(row: Any) -> Floats:
    return np.asarray(row.toarray() if sparse.issparse(row) else row, dtype=np.float64).ravel()


def _unit(row: Floats) -> Floats:
    length = float(np.linalg.norm(row))
    return row / length if length > 0 else row


def grow_tree(centroids: Any, max_leaf: int, rng: np.random.Generator) -> list[Node]:
    """Return the nodes of a tree over the classes, the root first."""
    nodes: list[Node] = []
    waiting = [np.arange(centroids.shape[0])]
    while waiting:
        classes = waiting.pop(0)
        if len(classes) <= max_leaf:
            nodes.append(Node([-1 - int(c) for c in classes], [classes[[k]] for k in range(len(classes))]))
            continue
        halves = split_classes(centroids[classes], rng)
        first = len(nodes) + len(waiting) + 1  # nodes are numbered in the order in which they wait
        nodes.append(Node([first, first + 1], [classes[~halves], classes[halves]]))
        waiting += nodes[-1].groups
    return nodes


@dataclass(frozen=True, eq=False)
class Fitted:
    """Weights of the ways of a node, ways × features."""

    coef: Any
    intercept: Floats
    gap: float


@dataclass(frozen=True, eq=False)
class Members:
    """The rows of each class: those of class c are `order[ends[c]:ends[c + 1]]`."""

    order: Integers
    ends: Integers

    @classmethod
    def of(cls, numbers: Integers, n_classes: int) -> Members:
        """Sort rows by their class."""
        ends = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=n_classes))])
        return cls(np.argsort(numbers, kind="stable"), ends)

    def of_groups(self, groups: Sequence[Integers]) -> tuple[Integers, Integers]:
        """Rows of groups of classes, and the group of each."""
        parts = [
            np.concatenate([self.order[self.ends[c] : self.ends[c + 1]] for c in group]) for group in groups
        ]
        return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def fit_node(model: MulticlassSVM, rows: Any, members: Members, node: Node) -> Fitted:
    """Train the SVM of a node on the rows of its classes, and the features that these have."""
    n_features = rows.shape[1]
    if len(node.to) == 1:
        return Fitted(sparse.csr_array((1, n_features)), np.zeros(1), 0.0)
    own, group = members.of_groups(node.groups)
    part = rows[own]
    columns = np.unique(part.indices)
    fitted = clone(model).set_params(n_jobs=1).fit(part[:, columns], group)
    inside = sparse.coo_array(fitted.coef_)
    at = (inside.coords[0], columns[inside.coords[1]])
    coef = sparse.csr_array((inside.data, at), shape=(len(node.to), n_features))
    return Fitted(coef, fitted.intercept_, float(fitted.dual_gap_))


def find_temperatures(
    model: MulticlassSVM, rows: Any, members: Members, tree: Sequence[Node]
) -> NDArray[np.float64]:
    """Temperatures of branchings and of leaves, by the root and the largest leaf of a tree."""
    leaves = [node for node in tree if node.to[0] < 0 and len(node.to) > 1]
    largest = max(leaves, key=lambda node: sum(len(members.of_groups([g])[0]) for g in node.groups))
    found = [_temperature_of(model, rows, members, node) for node in (tree[0], largest)]
    return np.array(found)


def _temperature_of(model: MulticlassSVM, rows: Any, members: Members, node: Node) -> float:
    own, group = members.of_groups(node.groups)
    if len(own) > MOST_CALIBRATING:
        kept = np.sort(np.random.default_rng(0).choice(len(own), MOST_CALIBRATING, replace=False))
        own, group = own[kept], group[kept]
    if np.bincount(group).max(initial=0) < 2 or len(np.unique(group)) < 2:
        return 1.0
    part = rows[own]
    return label_out_of_fold(model, part, group, folds=FOLDS, n_jobs=1).temperature


def mean_rows(rows: Any, numbers: Integers, n_classes: int) -> Any:
    """Mean row of each class, scaled to unit length."""
    n = len(numbers)
    sums = sparse.csr_array((np.ones(n), (numbers, np.arange(n))), shape=(n_classes, n)) @ rows
    lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1)).ravel())
    return sparse.csr_array(sparse.diags_array(1.0 / np.where(lengths > 0, lengths, 1.0)) @ sums)
