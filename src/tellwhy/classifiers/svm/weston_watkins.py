"""The SVMs of Weston and Watkins and of Crammer and Singer: losses that compare the label with others.

The estimators' docstrings hold the problems; `_compiled_steps` solves one example's, `_compiled_pairs` sweeps
over examples. The engine keeps weights by blocks of classes, and dual variables in ragged lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from tellwhy.classifiers.svm import _compiled_pairs as loops
from tellwhy.classifiers.svm._compiled_lists import certify
from tellwhy.classifiers.svm.dual_lists import (
    ClassBlocks,
    DualLists,
    Sums,
    certify_lists,
    examples_of,
    gathered,
    make_aligned_zeros,
    rounds,
    sum_half_squares,
)
from tellwhy.classifiers.svm.multiclass_svm import MulticlassSVM
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.records import Block, Certified, Entries, Examples, Sweep, Swept
from tellwhy.classifiers.svm.solver import Certificate, Visit
from tellwhy.classifiers.svm.threads.row_batches import Workers, find_class_range, ranges
from tellwhy.classifiers.svm.threads.row_sweeps import RowSweeps, row_sweeps
from tellwhy.core.score import Floats, Integers

TENTHS = (
    10  # an epoch goes through all tiles this many times, on fresh tenths of the examples: that mixes them
)

Tile = tuple[int, int]
Found = TypeVar("Found")


class PairEngine:
    """Weights and dual variables of a Weston–Watkins or Crammer–Singer problem in memory.

    The classes are cut into class blocks. Examples whose labels are in block g form group g. The tile (g, b)
    holds the variables of group g against the classes of block b, and its steps touch the weights of these
    two blocks only. In each round of the schedule blocks are paired without overlap: threads work on the
    pairs at the same time, with the same result as one pair after the other. A Crammer–Singer example has one
    cap for all its classes, so that it needs them all at once: one block.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        n_blocks: int | None = None,
        n_jobs: int,
        seed: np.random.Generator,
        exact: bool = True,
    ):
        sizes = np.bincount(problem.labels, minlength=problem.n_classes)
        blocks = ClassBlocks.of_problem(problem, sizes, 1 if problem.loss == "cs" else n_blocks)
        self._set_up(problem, blocks, range(len(blocks)), n_jobs, seed)
        self.exact = exact

    def _set_up(
        self, problem: Problem, blocks: ClassBlocks, held: range, n_jobs: int, seed: np.random.Generator
    ) -> None:
        """Hold the weights of the blocks `held` and the variables of examples with labels in them."""
        self.problem = problem
        self.blocks = blocks
        self.held = held
        self.exact = True
        self._rng = seed
        dtype = problem.dtype
        label_blocks = blocks.block_of(problem.labels)
        self.members = {g: np.flatnonzero(label_blocks == g) for g in held}
        self.groups = {g: examples_of(problem, self.members[g], blocks) for g in held}
        self.W = {b: make_aligned_zeros((problem.n_features, blocks.width), dtype) for b in held}
        self.lists = {
            (g, b): DualLists.empty(len(self.members[g]), dtype) for g in held for b in range(len(blocks))
        }
        self.workers = Workers(n_jobs)
        self.rows: RowSweeps | None = None
        if len(blocks) == 1:
            self.rows = row_sweeps(problem, self.groups[0], self.W[0], self.lists[0, 0], self.workers)

    def dense_epoch(self) -> None:
        """Visit every variable once."""
        if self.rows is not None:
            self.rows.sweep_all(self._rng, self.exact)
        else:
            self._visit_all_tiles(self._dense)

    def epoch(self, negligible: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out examples that were idle for `patience` visits."""
        sweep = Sweep(patience, negligible, self.exact)
        if self.rows is not None:
            return Visit.of([self.rows.sweep(self._rng, sweep)])
        return Visit.of(self._visit_all_tiles(lambda tile, order: self._sparse(tile, order, sweep)))

    def certify(self, slack: float) -> Certificate:
        """Both objectives, and lists of every variable that may have to move."""
        return self._make_certificate(self._certified(self.lists, slack))

    def _certified(self, tiles: Iterable[Tile], slack: float) -> Sums:
        """Losses and dual sums of some tiles, whose lists are made anew."""
        lists = {tile: self.lists[tile] for tile in tiles}
        bases = self._bases({g for g, _ in lists})

        def certify_part(tile: Tile, part: tuple[int, int]) -> Certified:
            g, b = tile
            entries = self.problem.entries
            arrays = lists[tile].arrays
            found: Certified = certify(
                *part, entries, self.groups[g], bases[g], self._block(b), arrays, slack
            )
            return found

        return certify_lists(lists, certify_part, self.workers)

    def _bases(self, groups: Iterable[int]) -> dict[int, Floats]:
        """1 − the score of the label, of the examples of some groups."""
        bases = {g: np.empty(len(self.members[g])) for g in groups}

        def fill(task: tuple[int, tuple[int, int]]) -> None:
            g, part = task
            loops.label_bases(*part, self.problem.entries, self.groups[g], self.W[g], bases[g])

        self.workers.map(fill, [(g, part) for g in bases for part in ranges(len(bases[g]))])
        return bases

    def _make_certificate(self, sums: Sums) -> Certificate:
        norm = sum_half_squares(self.W, self.workers)
        constant = self.problem.constant
        listed = sum(len(lists.classes) for lists in self.lists.values())
        return Certificate(norm + sums.losses + constant, sums.dual_sum + constant - norm, sums.worst, listed)

    def weights(self) -> Any:
        """Weights of all classes, features × classes."""
        return self.blocks.joined(self.W)

    def duals(self) -> Any:
        """Dual variables, examples × classes."""
        parts = [
            lists.nonzeros(self.members[g], self.blocks.members[b]) for (g, b), lists in self.lists.items()
        ]
        return gathered(parts, (self.problem.n_examples, self.problem.n_classes))

    def set_duals(self, table: Any) -> None:
        """Start from given dual variables, examples × classes."""
        for W in self.W.values():
            W[:] = 0
        for g, b in self.lists:
            self._set_tile((g, b), table[self.members[g]][:, self.blocks.members[b]])

    def _set_tile(self, tile: Tile, table: Any) -> None:
        """Set the variables of a tile and add what they contribute to the weights."""
        lists = self.lists[tile]
        lists.set_from(table, self.problem.dtype)
        given = (*self._read(tile), lists.arrays)
        n = self.workers.n_threads
        # Each thread has a range of the columns: their weights are summed in the same order by any number.
        parts = [find_class_range(k, n, 0, self.blocks.width) for k in range(n if lists.used else 0)]
        self.workers.map(lambda part: loops.add_pairs(*given, *part), parts)

    def forget_duals(self) -> None:
        """Free the dual variables: only weights are left."""
        self.lists = {}
        self.rows = None

    def close(self) -> None:
        """End the threads."""
        self.workers.close()

    def _visit_all_tiles(self, visit: Callable[[Tile, Integers], Found]) -> list[Found]:
        """Visit all tiles, one tenth of the examples after the other."""
        orders = {g: self._rng.permutation(len(members)) for g, members in self.members.items()}
        found: list[Found] = []
        for tenth in range(TENTHS):
            found += self._visit_held_tiles(visit, {g: order[tenth::TENTHS] for g, order in orders.items()})
        return found

    def _visit_held_tiles(
        self, visit: Callable[[Tile, Integers], Found], part: dict[int, Integers]
    ) -> list[Found]:
        """Visit the tile of each block with itself, then those of the blocks held here in disjoint pairs."""

        def visit_both(pair: tuple[int, int]) -> list[Found]:
            g = self.held[pair[0]]
            b = self.held[pair[1]]
            first = visit((g, b), part[g])
            return [first] if g == b else [first, visit((b, g), part[b])]

        within = [(i, i) for i in range(len(self.held))]
        between = rounds(len(self.held))
        found: list[Found] = []
        # Rounds in a new order each time, so that no block is always visited after the same other.
        for pairs in [within, *(between[r] for r in self._rng.permutation(len(between)))]:
            for results in self.workers.map(visit_both, pairs):
                found.extend(results)
        return found

    def _block(self, b: int) -> Block:
        return self.blocks.as_block(b, self.W[b])

    def _read(self, tile: Tile) -> tuple[Entries, Examples, Any, Block]:
        """What the compiled loops read of a tile: its rows, and the weights of its labels and classes."""
        g, b = tile
        return self.problem.entries, self.groups[g], self.W[g], self._block(b)

    def _dense(self, tile: Tile, order: Integers) -> None:
        lists = self.lists[tile]
        lists.keep(*loops.sweep_pairs_dense(order, *self._read(tile), lists.arrays, lists.used, self.exact))

    def _sparse(self, tile: Tile, order: Integers, sweep: Sweep) -> Swept:
        found: Swept = loops.sweep_pairs(order, *self._read(tile), self.lists[tile].arrays, sweep)
        return found


class WestonWatkinsSVM(MulticlassSVM):
    r"""All-in-one SVM: the label's score should exceed every other class's by one.

    .. math:: \min_W \tfrac12 \|W\|^2 + \sum_i C_i \sum_{c \ne y_i} [1 - (w_{y_i} - w_c)^\top x_i]_+

    With a 0/1 matrix as y, rows have sets of labels: each label is compared with each class that is none of
    the row's, at the cap C_i / (|Y| |Ȳ|), and a threshold that is learned along tells the labels from the
    others.

    Parameters
    ----------
    C
        Weight of the losses against ½‖W‖².
    tol
        Relative duality gap (P − D) / P at which to stop; with `stopping="violation"` the largest violation
        of an optimality condition (0.1 in the thesis).
    stopping
        'gap' or 'violation'.
    max_epochs
        Most passes over the variables. With few features, a fit that would not end within them takes other
        steps: those of an interior-point method.
    fit_intercept
        Whether to append a constant feature; its weight is regularised as all others are.
    intercept_scaling
        Value of that feature; larger means less regularised.
    class_weight
        None, 'balanced' or a dict: factor of C per class.
    n_jobs
        Threads; None: one per core. The result does not depend on it.
    n_bundles
        Number of blocks (bundles) that the classes are cut into. 'auto' is one: a row is solved for all
        classes at once, and threads share rows or their features. With more, threads work on pairs of blocks,
        at most one for every two blocks, but a row whose classes are cut up takes more epochs. The result
        depends on it within `tol`.
    shrinking
        Whether to leave out variables that are unlikely to move between two certificates.
    dtype
        'float64' or 'float32' (half the memory; gaps below about 1e-5 are out of reach).
    warm_start
        Whether to start the next fit from this one's dual variables (kept in `dual_coef_`).
    random_state
        Seed of the order of visits.

    Attributes
    ----------
    coef_ : (n_classes, n_features), sparse where that pays
    intercept_, classes_
    dual_gap_ : relative duality gap reached, a certificate that the objective is that close to the optimum
    objective_ : primal objective
    n_iter_ : epochs
    history_ : one dict per certificate: epoch, seconds, objective, dual, gap, violation, listed

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X)
    >>> model = WestonWatkinsSVM(C=1.0, random_state=0).fit(X, y)
    >>> model.dual_gap_ <= 1e-3
    True
    >>> float(model.score(X, y)) > 0.95
    True

    References
    ----------
    Weston, Watkins, *Support vector machines for multi-class pattern recognition*, ESANN (1999). Alber,
    Zimmert, Dogan, Kloft, *Distributed optimization of multi-class SVMs*, PLOS ONE 12 (2017).
    """

    _loss = "ww"
    _engine = PairEngine
    _multilabel = True


class CrammerSingerSVM(MulticlassSVM):
    r"""All-in-one SVM: the label's score should exceed the best other class's by one.

    .. math:: \min_W \tfrac12 \|W\|^2 + \sum_i C_i \max_{c \ne y_i} [1 - (w_{y_i} - w_c)^\top x_i]_+

    C means what it means in scikit-learn's `LinearSVC(multi_class="crammer_singer")`. A row's variables share
    one cap, so that all classes are needed at once and `n_bundles` has no effect. Parameters and attributes
    as in `WestonWatkinsSVM`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X)
    >>> float(CrammerSingerSVM(random_state=0).fit(X, y).score(X, y)) > 0.95
    True

    References
    ----------
    Crammer, Singer, *On the algorithmic implementation of multiclass kernel-based vector machines*, JMLR 2
    (2001).
    """

    _loss = "cs"
    _engine = PairEngine
