"""Dual ascent on losses that compare the label with each other class: Weston–Watkins and Crammer–Singer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.classifiers.svm import _compiled_sweeps as kernels
from tellwhy.classifiers.svm.blocks import (
    Bundles,
    Group,
    Lists,
    Workers,
    aligned_zeros,
    gathered,
    ranges,
    unbundled,
)
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.schedule import rounds
from tellwhy.classifiers.svm.solver import SLACK, Certificate, Visit
from tellwhy.classifiers.svm.threads.row_team import row_team
from tellwhy.core.score_function import Integers

TENTHS = 10  # an epoch meets all pairs of bundles this many times, on fresh tenths of the examples: that mixes them


@dataclass(frozen=True)
class Sums:
    """Σ losses and Σ α of some blocks, and their largest violation."""

    losses: float
    mass: float
    worst: float


class PairEngine:
    """Weights and dual variables of a Weston–Watkins or Crammer–Singer problem in memory.

    Examples with a label in bundle a form group a. The block (a, b) holds the variables of group a against
    the classes of bundle b, and its steps touch the weights of these two bundles only: in each round of the
    schedule bundles meet in disjoint pairs, which threads work on at the same time with the same result as
    one after the other. A Crammer–Singer row has one cap for all its classes, so that it needs them all at
    once: one bundle.
    """

    def __init__(
        self, problem: Problem, *, n_bundles: int, n_jobs: int, seed: np.random.Generator, exact: bool = True
    ):
        sizes = np.bincount(problem.labels, minlength=problem.n_classes)
        bundles = Bundles.of(sizes, 1 if problem.loss == "cs" else n_bundles, problem.values.dtype.itemsize)
        self._set_up(problem, bundles, range(len(bundles)), n_jobs, seed)
        self.exact = exact

    def _set_up(
        self, problem: Problem, bundles: Bundles, own: range, n_jobs: int, seed: np.random.Generator
    ) -> None:
        """Hold the weights of the bundles `own` and the variables of examples with labels in them."""
        self.problem, self.bundles, self.own, self._rng, self.exact = problem, bundles, own, seed, True
        home, dtype = bundles.position[problem.labels] // bundles.width, problem.values.dtype
        self.groups = {g: Group.of(problem, np.flatnonzero(home == g), bundles) for g in own}
        self.W = {b: aligned_zeros((problem.n_features, bundles.width), dtype) for b in own}
        self.lists = {
            (g, b): Lists.empty(len(self.groups[g].rows), dtype) for g in own for b in range(len(bundles))
        }
        self.workers = Workers(n_jobs)
        alone = len(bundles) == 1
        self.team = (
            row_team(problem, self.groups[0], self.W[0], self.lists[0, 0], self.workers) if alone else None
        )

    def dense_epoch(self) -> None:
        """Visit every variable once."""
        if self.team is not None:
            self.team.sweep_all(self._rng, self.exact)
        else:
            self._meet(self._dense)

    def epoch(self, calm: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out rows that were calm before."""
        if self.team is not None:
            found = self.team.sweep(self._rng, calm, patience, self.exact)
        else:
            found = self._meet(lambda block, order: self._sparse(block, order, calm, patience))
        worst, summed, visited = (np.array([f[i] for f in found]) for i in range(3))
        return Visit(float(worst.max()), float(summed.sum() / max(visited.sum(), 1)), int(visited.sum()))

    def certify(self, slack: float) -> Certificate:
        """Both objectives, and lists of every variable that may have to move."""
        if self.problem.loss == "cs":
            slack = max(
                slack, SLACK
            )  # counted from the largest violation, which alone would be listed without any
        return self._certificate(self._certified(self.lists, slack))

    def _certified(self, blocks: Iterable[tuple[int, int]], slack: float) -> Sums:
        """Losses and dual sums of some blocks, whose lists are made anew."""
        blocks = list(blocks)
        for block in blocks:
            self.lists[block].drop_zeros()
        tasks = [(block, *part) for block in blocks for part in ranges(len(self.groups[block[0]].rows))]
        parts = self.workers.map(lambda task: self._certify(task[0], task[1], task[2], slack), tasks)
        sums = Sums(
            sum(p[2] for p in parts), sum(p[3] for p in parts), max((p[4] for p in parts), default=0.0)
        )
        by_block: dict[tuple[int, int], list[Any]] = {}
        for (block, first, last), part in zip(tasks, parts, strict=True):
            by_block.setdefault(block, []).append((first, last, part[0], part[1]))
        del parts, part
        for block, pieces in by_block.items():
            self.lists[block].replace_parts(pieces)
        return sums

    def _certificate(self, sums: Sums) -> Certificate:
        norm, constant = self.half_norm(), self.problem.constant
        listed = sum(len(piece.cls) for piece in self.lists.values())
        return Certificate(norm + sums.losses + constant, sums.mass + constant - norm, sums.worst, listed)

    def half_norm(self) -> float:
        """½ ‖W‖² of the bundles held here."""
        return 0.5 * float(
            sum(np.einsum("fc,fc->", self.W[b], self.W[b], dtype=np.float64) for b in self.own)
        )

    def weights(self) -> Any:
        """Weights of all classes, features × classes."""
        return unbundled(self.W, self.bundles)

    def duals(self) -> Any:
        """Dual variables, examples × classes."""
        pieces = [
            piece.entries(self.groups[g].examples, self.bundles.members[b])
            for (g, b), piece in self.lists.items()
        ]
        return gathered(pieces, (self.problem.n_examples, self.problem.n_classes))

    def set_duals(self, table: Any) -> None:
        """Start from given dual variables, examples × classes."""
        for w in self.W.values():
            w[:] = 0
        for g, b in self.lists:
            self._set_block((g, b), table[self.groups[g].examples][:, self.bundles.members[b]])

    def _set_block(self, block: tuple[int, int], table: Any) -> None:
        """Set the variables of a block and add what they contribute to the weights."""
        (g, b), p = block, self.problem
        group, piece = self.groups[g], self.lists[block]
        piece.set_from(table, p.values.dtype)
        if len(piece.cls):
            kernels.add_pairs(
                group.rows, group.labels, p.indptr, p.indices, p.values, self.W[g], self.W[b],
                piece.start, piece.count, piece.cls, piece.val,
            )  # fmt: skip

    def forget_duals(self) -> None:
        """Free the dual variables: only weights are left."""
        self.lists, self.team = {}, None

    def close(self) -> None:
        """End the threads."""
        self.workers.close()

    def _meet(self, visit: Any) -> list[Any]:
        """Let all pairs of bundles meet, one tenth of the examples after the other."""
        orders = {g: self._rng.permutation(len(group.rows)) for g, group in self.groups.items()}
        found: list[Any] = []
        for tenth in range(TENTHS):
            found += self._meet_at_home(visit, {g: order[tenth::TENTHS] for g, order in orders.items()})
        return found

    def _meet_at_home(self, visit: Any, part: dict[int, Integers]) -> list[Any]:
        """Each bundle with itself, then the bundles held here in disjoint pairs."""

        def both(pair: tuple[int, int]) -> list[Any]:
            a, b = self.own[pair[0]], self.own[pair[1]]
            return [visit((a, b), part[a]), *([visit((b, a), part[b])] if a != b else [])]

        within, between = [(a, a) for a in range(len(self.own))], rounds(len(self.own))
        found: list[Any] = []
        for pairs in [within, *(between[r] for r in self._rng.permutation(len(between)))]:
            for results in self.workers.map(both, pairs):
                found.extend(results)
        return found

    def _dense(self, block: tuple[int, int], order: Integers) -> None:
        (g, b), p = block, self.problem
        group, piece = self.groups[g], self.lists[block]
        piece.cls, piece.val, piece.used = kernels.sweep_pairs_dense(
            order, group.rows, group.labels, group.norms, group.tops, group.totals, group.owned.at, group.owned.owned,
            b * self.bundles.width, len(self.bundles.members[b]), p.indptr, p.indices, p.values, self.W[g], self.W[b],
            piece.start, piece.count, piece.cls, piece.val, piece.used, self.exact,
        )  # fmt: skip

    def _sparse(self, block: tuple[int, int], order: Integers, calm: float, patience: int) -> Any:
        (g, b), p = block, self.problem
        group, piece = self.groups[g], self.lists[block]
        return kernels.sweep_pairs(
            order, group.rows, group.labels, group.norms, group.tops, group.totals, len(self.bundles.members[b]),
            p.indptr, p.indices, p.values, self.W[g], self.W[b],
            piece.start, piece.count, piece.cls, piece.val, piece.idle, patience, calm, self.exact,
        )  # fmt: skip

    def _certify(self, block: tuple[int, int], first: int, last: int, slack: float) -> Any:
        (g, b), p = block, self.problem
        group, piece = self.groups[g], self.lists[block]
        return kernels.certify_pairs(
            first, last, group.rows, group.labels, group.tops, group.totals, group.owned.at, group.owned.owned,
            b * self.bundles.width, len(self.bundles.members[b]), p.indptr, p.indices, p.values, self.W[g], self.W[b],
            piece.start, piece.count, piece.cls, piece.val, slack,
        )  # fmt: skip
