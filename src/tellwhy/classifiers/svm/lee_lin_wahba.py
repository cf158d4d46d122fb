"""The SVM of Lee, Lin and Wahba, and one binary SVM per class: losses that judge each class alone.

The estimators' docstrings hold the problems; `_compiled_steps` solves one example's, `_compiled_singles`
sweeps over examples. The engine keeps what all classes share at the centre.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_matrix

from tellwhy.classifiers.svm import _compiled_singles as loops
from tellwhy.classifiers.svm._compiled_lists import certify
from tellwhy.classifiers.svm.accelerated_ascent import (
    Primal,
    accelerated_ascent,
    find_best_length,
    is_possible,
)
from tellwhy.classifiers.svm.dual_lists import (
    ClassBlocks,
    DualLists,
    certify_lists,
    examples_of,
    gathered,
    sum_half_squares,
)
from tellwhy.classifiers.svm.interior_point import interior_point, is_small
from tellwhy.classifiers.svm.multiclass_svm import MulticlassSVM
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.records import Block, Certified, Entries, Examples, Sweep, Swept
from tellwhy.classifiers.svm.solver import Certificate, Progress, Visit
from tellwhy.classifiers.svm.threads.row_batches import Workers, ranges
from tellwhy.core.score import Floats, Integers

RECENTRINGS = 10  # an epoch: with a stale mean, classes would be judged by scores that do not sum to zero

_SAME_OBJECTIVE = 1e-7  # share of an objective that rounding may change unsaid

Found = TypeVar("Found")


class SingleEngine:
    """Weights and dual variables of a Lee–Lin–Wahba or one-vs-rest problem in memory.

    Classes are independent of each other given w̄, so that blocks of them are swept at the same time. For
    Lee–Lin–Wahba the weights are w_c = v_c + w̄ with v_c = −Σ_i α_ic x_i and w̄ = −mean_c v_c: `W` holds v_c,
    `centre` holds w̄, and `class_sums` the sum of each block's v_c. One-vs-rest has w̄ = 0.
    """

    def __init__(
        self, problem: Problem, *, n_blocks: int | None = None, n_jobs: int, seed: np.random.Generator
    ):
        sizes = np.bincount(problem.own.classes, minlength=problem.n_classes)
        blocks = ClassBlocks.of_problem(problem, sizes, n_blocks)
        self._set_up(problem, blocks, range(len(blocks)), n_jobs, seed)

    def _set_up(
        self, problem: Problem, blocks: ClassBlocks, held: range, n_jobs: int, seed: np.random.Generator
    ) -> None:
        """Hold weights and variables of the blocks `held`."""
        self.problem = problem
        self.blocks = blocks
        self.held = held
        self._rng = seed
        dtype = problem.dtype
        self.examples = examples_of(problem, np.arange(problem.n_examples), blocks)
        self.W = {b: np.zeros((problem.n_features, blocks.width), dtype=dtype) for b in held}
        self.class_sums = {b: np.zeros(problem.n_features) for b in held}
        self.centre = np.zeros(problem.n_features)
        self.lists = {b: DualLists.empty(problem.n_examples, dtype) for b in held}
        self.workers = Workers(n_jobs)
        self.length = 1.0  # of the weights, times that of the weights that follow from the variables

    @property
    def _is_centred(self) -> bool:
        return self.problem.loss == "llw"

    def dense_epoch(self) -> None:
        """Visit every variable once."""
        self._visit_all_blocks(self._dense)

    def epoch(self, negligible: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out examples that were idle for `patience` visits."""
        sweep = Sweep(patience, negligible, is_exact=True)
        return Visit.of(self._visit_all_blocks(lambda b, order: self._sparse(b, order, sweep)))

    def certify(self, slack: float) -> Certificate:
        """Both objectives, and lists of every variable that may have to move."""
        # With a mean from before the latest steps the dual objective would be that of other weights, and the
        # gap could come out negative.
        self.recentre()
        bases = self._bases()

        def certify_part(b: int, part: tuple[int, int]) -> Certified:
            entries = self.problem.entries
            arrays = self.lists[b].arrays
            found: Certified = certify(*part, entries, self.examples, bases, self._block(b), arrays, slack)
            return found

        sums = certify_lists(self.lists, certify_part, self.workers)
        norm = self.half_norm()
        constant = self.problem.constant
        listed = sum(len(lists.classes) for lists in self.lists.values())
        primal = norm + sums.losses + constant
        if self._may_stretch:
            self.length, primal = find_best_length(Primal(self.problem), self._compute_unstretched())
        return Certificate(primal, sums.dual_sum + constant - norm, sums.worst, listed)

    @property
    def _may_stretch(self) -> bool:
        """Whether weights of another length than that of the variables are tried."""
        return is_possible(self.problem) and not is_small(self.problem)

    def _compute_unstretched(self) -> Floats:
        """The weights that follow from the variables, features × classes."""
        self.length = 1.0
        return np.asarray(self.class_rows(np.arange(self.problem.n_classes)).T, dtype=np.float64)

    def _bases(self) -> Floats:
        """1 + w̄ᵀx of all examples."""
        bases = np.empty(self.problem.n_examples)
        self.workers.map(
            lambda part: loops.centre_bases(*part, self.problem.entries, self.centre, bases),
            ranges(len(bases)),
        )
        return bases

    def _sum_over_classes(self) -> Floats:
        """Sum of v_c over the classes held here."""
        return np.asarray(np.stack(list(self.class_sums.values())).sum(axis=0))

    def recentre(self) -> None:
        """Set w̄ so that the weights of all classes sum to zero."""
        if self._is_centred:
            self.centre = -self._sum_over_classes() / self.problem.n_classes

    def half_norm(self) -> float:
        """½ Σ_c ‖v_c + w̄‖² over the classes held here."""
        n_classes = sum(self.blocks.n_classes(b) for b in self.held)
        across = float(self._sum_over_classes() @ self.centre)
        return (
            sum_half_squares(self.W, self.workers)
            + across
            + 0.5 * n_classes * float(self.centre @ self.centre)
        )

    def weights(self) -> Any:
        """Weights of all classes, features × classes."""
        self.recentre()
        return self.class_rows(np.arange(self.problem.n_classes)).T

    def class_rows(self, classes: Integers) -> Any:
        """Weights of some classes × features; zeros for classes that are not held here."""
        found = np.zeros((len(classes), self.problem.n_features), dtype=self.problem.dtype)
        at = self.blocks.position[classes]
        for b in self.held:
            mine = np.flatnonzero(at // self.blocks.width == b)
            found[mine] = self.W[b][:, at[mine] % self.blocks.width].T
            if self._is_centred:
                found[mine] += self.centre.astype(found.dtype)
        found *= self.length
        return found

    def switch_method(self, tol: float) -> Any:
        """Dual variables by a method for large C, or None where there is none, or no room for it."""
        if is_small(self.problem):
            return interior_point(self.problem, tol)
        return accelerated_ascent(self.problem, self.duals(), tol) if is_possible(self.problem) else None

    def restart(self, seed: np.random.Generator) -> None:
        """Forget everything but the dual variables, as a training that begins with them."""
        self._rng = seed
        self.set_duals(self.duals())

    def duals(self) -> Any:
        """Dual variables, examples × classes."""
        examples = np.arange(self.problem.n_examples)
        parts = [lists.nonzeros(examples, self.blocks.members[b]) for b, lists in self.lists.items()]
        return gathered(parts, (self.problem.n_examples, self.problem.n_classes))

    def set_duals(self, table: Any) -> None:
        """Start from given dual variables, examples × classes."""
        for b, lists in self.lists.items():
            self.W[b][:] = 0
            self.class_sums[b][:] = 0
            lists.set_from(table[:, self.blocks.members[b]], self.problem.dtype)
            class_sum = self.class_sums[b]
            loops.add_singles(self.problem.entries, self.examples, self._block(b), class_sum, lists.arrays)

    def forget_duals(self) -> None:
        """Free the dual variables: only weights are left."""
        self.recentre()
        self.lists = {}

    def close(self) -> None:
        """End the threads."""
        self.workers.close()

    def _visit_all_blocks(self, visit: Callable[[int, Integers], Found]) -> list[Found]:
        """Visit all blocks, recentring before each part of the examples."""
        order = self._rng.permutation(self.problem.n_examples)
        found: list[Found] = []
        n_parts = RECENTRINGS if self._is_centred else 1
        for first in range(n_parts):
            self.recentre()
            found += self._visit_blocks(visit, order[first::n_parts])
        return found

    def _visit_blocks(self, visit: Callable[[int, Integers], Found], part: Integers) -> list[Found]:
        return self.workers.map(lambda b: visit(b, part), self.held)

    def _block(self, b: int) -> Block:
        return self.blocks.as_block(b, self.W[b])

    def _read(self, b: int) -> tuple[Entries, Examples, Block, Floats, Floats]:
        """What the compiled sweeps read and write of a block, besides its lists."""
        return self.problem.entries, self.examples, self._block(b), self.centre, self.class_sums[b]

    def _dense(self, b: int, order: Integers) -> None:
        lists = self.lists[b]
        lists.keep(*loops.sweep_singles_dense(order, *self._read(b), lists.arrays, lists.used))

    def _sparse(self, b: int, order: Integers, sweep: Sweep) -> Swept:
        found: Swept = loops.sweep_singles(order, *self._read(b), self.lists[b].arrays, sweep)
        return found


class LeeLinWahbaSVM(MulticlassSVM):
    r"""All-in-one SVM: scores sum to zero over classes, and those of all wrong classes should be below −1.

    .. math:: \min_W \tfrac12 \|W\|^2 + \sum_i C_i \sum_{c \ne y_i} [1 + w_c^\top x_i]_+, \quad \sum_c w_c = 0

    Consistent for classification, but it needs a large C (10 to 10,000) and its weights are never sparse.
    Parameters and attributes as in `WestonWatkinsSVM`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X)
    >>> model = LeeLinWahbaSVM(C=10.0, random_state=0).fit(X, y)
    >>> bool(abs(model.coef_.sum(axis=0)).max() < 1e-9)
    True

    References
    ----------
    Lee, Lin, Wahba, *Multicategory support vector machines*, Journal of the American Statistical Association
    99 (2004).
    """

    _loss = "llw"
    _engine = SingleEngine

    def _check_objective(self, problem: Problem, learned: Any, progress: Progress) -> None:
        """Measure the objective once more where rounding took it away from that of the weights.

        Weights are differences of sums over all examples, which for large values and a large C are many
        times as large as the weights themselves.
        """
        entries = problem.entries
        rows = csr_matrix(
            (entries.values, entries.indices, entries.indptr), shape=(-1 + len(entries.indptr), len(learned))
        )
        losses = np.maximum(1.0 + np.asarray(rows[problem.rows] @ learned), 0.0)
        losses[np.arange(len(losses)), problem.own.classes] = 0.0
        objective = (
            0.5 * float(np.square(learned).sum())
            + float(problem.caps @ losses.sum(axis=1))
            + problem.constant
        )
        last = progress.last
        if abs(objective - last["objective"]) > _SAME_OBJECTIVE * abs(objective):
            dual = last["objective"] * (1.0 - last["gap"])
            progress.history[-1] = {**last, "objective": objective, "gap": max(1.0 - dual / objective, 0.0)}


class OneVsRestSVM(MulticlassSVM):
    r"""One binary SVM with the hinge loss per class, all solved in one go.

    .. math:: \min_W \tfrac12 \|W\|^2 + \sum_i C_i \sum_c [1 - y_{ic}\, w_c^\top x_i]_+, \quad y_{ic} = \pm 1

    Rows may have sets of labels, as a 0/1 matrix. Parameters and attributes as in `WestonWatkinsSVM`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X)
    >>> float(OneVsRestSVM(random_state=0).fit(X, y).score(X, y)) > 0.9
    True
    """

    _loss = "ovr"
    _engine = SingleEngine
    _multilabel = True
