"""Dual ascent on losses that compare the label with each other class: Weston–Watkins and Crammer–Singer."""

from __future__ import annotations

from typing import Any

import numpy as np

from tellwhy.classifiers import _compiled as kernels
from tellwhy.classifiers.blocks import Bundles, Group, Lists, Workers, gathered, ranges
from tellwhy.classifiers.problem import Problem
from tellwhy.classifiers.schedule import rounds
from tellwhy.classifiers.solver import Certificate, Visit
from tellwhy.core.score_function import Integers

TENTHS = 10  # an epoch meets all pairs of bundles this many times, on fresh tenths of the examples: that mixes them


class PairEngine:
    """Weights and dual variables of a Weston–Watkins or Crammer–Singer problem in memory.

    Examples with a label in bundle a form group a. The block (a, b) holds the variables of group a against the classes
    of bundle b, and its steps touch the weights of these two bundles only: in each round of the schedule bundles meet
    in disjoint pairs, which threads work on at the same time with the same result as one after the other. A
    Crammer–Singer row has one cap for all its classes, so that it needs them all at once: one bundle.
    """

    def __init__(self, problem: Problem, *, n_bundles: int, n_jobs: int, seed: np.random.Generator, exact: bool = True):
        self.problem, self.exact, self._rng = problem, exact, seed
        sizes = np.bincount(problem.labels, minlength=problem.n_classes)
        self.bundles = Bundles.of(sizes, 1 if problem.loss == "cs" else n_bundles, problem.values.dtype.itemsize)
        n = len(self.bundles)
        home = self.bundles.position[problem.labels] // self.bundles.width
        self.groups = [Group.of(problem, np.flatnonzero(home == g), self.bundles) for g in range(n)]
        dtype = problem.values.dtype
        self.W = np.zeros((n, problem.n_features, self.bundles.width), dtype=dtype)
        self.lists = {(g, b): Lists.empty(len(self.groups[g].rows), dtype) for g in range(n) for b in range(n)}
        self.workers = Workers(n_jobs)

    def dense_epoch(self) -> None:
        """Visit every variable once."""
        self._meet(self._dense)

    def epoch(self, calm: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out rows that were calm before."""
        found = self._meet(lambda block, order: self._sparse(block, order, calm, patience))
        worst, summed, visited = (np.array([f[i] for f in found]) for i in range(3))
        return Visit(float(worst.max()), float(summed.sum() / max(visited.sum(), 1)), int(visited.sum()))

    def certify(self, slack: float) -> Certificate:
        """Both objectives, and lists of every variable that may have to move."""
        tasks = [(block, *part) for block in self.lists for part in ranges(len(self.groups[block[0]].rows))]
        parts = self.workers.map(lambda task: self._certify(task[0], task[1], task[2], slack), tasks)
        by_block: dict[Any, list[Any]] = {}
        for (block, first, last), part in zip(tasks, parts, strict=True):
            by_block.setdefault(block, []).append((first, last, part[0], part[1]))
        for block, pieces in by_block.items():
            self.lists[block].replace_parts(pieces)
        norm = 0.5 * float(sum(np.einsum("fc,fc->", w, w, dtype=np.float64) for w in self.W))
        losses = sum(p[2] for p in parts) + self.problem.constant
        mass = sum(p[3] for p in parts) + self.problem.constant
        listed = sum(len(piece.cls) for piece in self.lists.values())
        return Certificate(norm + losses, mass - norm, max(p[4] for p in parts), listed)

    def weights(self) -> Any:
        """Weights of all classes, features × classes."""
        flat = np.concatenate(list(self.W), axis=1)
        return flat[:, self.bundles.position]

    def duals(self) -> Any:
        """Dual variables, examples × classes."""
        pieces = [
            piece.entries(self.groups[g].examples, self.bundles.members[b]) for (g, b), piece in self.lists.items()
        ]
        return gathered(pieces, (self.problem.n_examples, self.problem.n_classes))

    def set_duals(self, table: Any) -> None:
        """Start from given dual variables, examples × classes."""
        p, dtype = self.problem, self.W.dtype
        self.W[:] = 0
        for (g, b), piece in self.lists.items():
            group = self.groups[g]
            piece.set_from(table[group.examples][:, self.bundles.members[b]], dtype)
            kernels.add_pairs(
                group.rows, group.labels, p.indptr, p.indices, p.values, self.W[g], self.W[b],
                piece.start, piece.count, piece.cls, piece.val,
            )  # fmt: skip

    def close(self) -> None:
        """End the threads."""
        self.workers.close()

    def _meet(self, visit: Any) -> list[Any]:
        """Let all pairs of bundles meet, one tenth of the examples after the other."""
        n = len(self.bundles)
        orders = [self._rng.permutation(len(group.rows)) for group in self.groups]
        if n == 1:
            return [visit((0, 0), orders[0])]
        found: list[Any] = []
        for tenth in range(TENTHS):
            part = [order[tenth::TENTHS] for order in orders]

            def both(pair: tuple[int, int], part: list[Integers] = part) -> list[Any]:
                a, b = pair
                return [visit((a, b), part[a]), *([visit((b, a), part[b])] if a != b else [])]

            at_home, away = [(a, a) for a in range(n)], rounds(n)
            for pairs in [at_home, *(away[r] for r in self._rng.permutation(len(away)))]:
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
