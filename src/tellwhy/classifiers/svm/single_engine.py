"""Dual ascent on losses that judge each class on its own: Lee–Lin–Wahba and one-vs-rest."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tellwhy.classifiers.svm import _compiled_sweeps as kernels
from tellwhy.classifiers.svm.blocks import Bundles, Lists, Workers, gathered, ranges
from tellwhy.classifiers.svm.problem import Labels, Problem
from tellwhy.classifiers.svm.solver import Certificate, Visit
from tellwhy.core.score_function import Integers

RECENTRINGS = 10  # an epoch


class SingleEngine:
    """Weights and dual variables of a Lee–Lin–Wahba or one-vs-rest problem in memory.

    Classes are independent of each other given w̄, so that bundles of them are swept at the same time. For
    Lee–Lin–Wahba the weights are w_c = v_c + w̄ with v_c = −Σ_i α_ic x_i and w̄ = −mean_c v_c: `W` holds v_c,
    `centre` holds w̄, and `tallies` the sum of each bundle's v_c. One-vs-rest has w̄ = 0.
    """

    def __init__(self, problem: Problem, *, n_bundles: int, n_jobs: int, seed: np.random.Generator):
        sizes = np.bincount(problem.owned.owned, minlength=problem.n_classes)
        bundles = Bundles.of(sizes, n_bundles, problem.values.dtype.itemsize)
        self._set_up(problem, bundles, range(len(bundles)), n_jobs, seed)

    def _set_up(
        self, problem: Problem, bundles: Bundles, own: range, n_jobs: int, seed: np.random.Generator
    ) -> None:
        """Hold weights and variables of the bundles `own`."""
        self.problem, self.bundles, self.own, self._rng = problem, bundles, own, seed
        dtype, d = problem.values.dtype, problem.n_features
        self.owned = Labels(problem.owned.at, bundles.position[problem.owned.owned])
        self.W = {b: np.zeros((d, bundles.width), dtype=dtype) for b in own}
        self.tallies, self.centre = np.zeros((len(own), d)), np.zeros(d)
        self.lists = {b: Lists.empty(problem.n_examples, dtype) for b in own}
        self.workers = Workers(n_jobs)

    @property
    def _centred(self) -> bool:
        return self.problem.loss == "llw"

    def dense_epoch(self) -> None:
        """Visit every variable once."""
        self._pass(self._dense)

    def epoch(self, calm: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out rows that were calm before."""
        found = self._pass(partial(self._sparse, calm=calm, patience=patience))
        worst, summed, visited = (np.array([f[i] for f in found]) for i in range(3))
        return Visit(float(worst.max()), float(summed.sum() / max(visited.sum(), 1)), int(visited.sum()))

    def certify(self, slack: float) -> Certificate:
        """Both objectives, and lists of every variable that may have to move."""
        self.recentre()
        for piece in self.lists.values():
            piece.drop_zeros()
        tasks = [(b, *part) for b in self.own for part in ranges(self.problem.n_examples)]
        parts = self.workers.map(lambda task: self._certify(task[0], task[1], task[2], slack), tasks)
        norm, constant = self.half_norm(), self.problem.constant
        losses, mass = sum(p[2] for p in parts) + constant, sum(p[3] for p in parts) + constant
        worst = max(p[4] for p in parts)
        by_bundle: dict[int, list[Any]] = {b: [] for b in self.own}
        for (b, first, last), part in zip(tasks, parts, strict=True):
            by_bundle[b].append((first, last, part[0], part[1]))
        del parts, part
        for b, pieces in by_bundle.items():
            self.lists[b].replace_parts(pieces)
        listed = sum(len(piece.cls) for piece in self.lists.values())
        return Certificate(norm + losses, mass - norm, worst, listed)

    def recentre(self) -> None:
        """Set w̄ so that the weights of all classes sum to zero."""
        if self._centred:
            self.centre = -self.tallies.sum(axis=0) / self.problem.n_classes

    def half_norm(self) -> float:
        """½ Σ_c ‖v_c + w̄‖² over the classes held here."""
        raw = float(sum(np.einsum("fc,fc->", w, w, dtype=np.float64) for w in self.W.values()))
        total, n_classes = self.tallies.sum(axis=0), sum(len(self.bundles.members[b]) for b in self.own)
        return 0.5 * (raw + 2 * float(total @ self.centre) + n_classes * float(self.centre @ self.centre))

    def weights(self) -> Any:
        """Weights of all classes, features × classes."""
        self.recentre()
        flat = np.concatenate(list(self.W.values()), axis=1)[:, self.bundles.position]
        return flat + self.centre[:, None].astype(flat.dtype) if self._centred else flat

    def duals(self) -> Any:
        """Dual variables, examples × classes."""
        examples = np.arange(self.problem.n_examples)
        pieces = [piece.entries(examples, self.bundles.members[b]) for b, piece in self.lists.items()]
        return gathered(pieces, (self.problem.n_examples, self.problem.n_classes))

    def set_duals(self, table: Any) -> None:
        """Start from given dual variables, examples × classes."""
        p = self.problem
        self.tallies[:] = 0
        for b, piece in self.lists.items():
            self.W[b][:] = 0
            piece.set_from(table[:, self.bundles.members[b]], p.values.dtype)
            kernels.add_singles(
                self.owned.at, self.owned.owned, b * self.bundles.width, not self._centred, p.indptr, p.indices,
                p.values, self.W[b], self._tally(b), piece.start, piece.count, piece.cls, piece.val,
            )  # fmt: skip

    def forget_duals(self) -> None:
        """Free the dual variables: only weights are left."""
        self.lists = {}

    def close(self) -> None:
        """End the threads."""
        self.workers.close()

    def _pass(self, visit: Any) -> list[Any]:
        """Visit all bundles, recentring after each part of the examples."""
        order = self._rng.permutation(self.problem.n_examples)
        found: list[Any] = []
        parts = RECENTRINGS if self._centred else 1
        for start in range(parts):
            self.recentre()
            part = order[start::parts]
            found.extend(self.workers.map(partial(visit, order=part), self.own))
        return found

    def _tally(self, b: int) -> Any:
        return self.tallies[b - self.own.start]

    def _block(self, b: int) -> Any:
        p = self.problem
        return (
            self.owned.at, self.owned.owned, b * self.bundles.width, len(self.bundles.members[b]), not self._centred,
            p.indptr, p.indices, p.values, self.W[b], self.centre,
        )  # fmt: skip

    def _dense(self, b: int, order: Integers) -> None:
        p, piece = self.problem, self.lists[b]
        held = (self._tally(b), piece.start, piece.count, piece.cls, piece.val, piece.used)
        arguments: Any = (order, p.norms, p.caps, *self._block(b), *held)
        piece.cls, piece.val, piece.used = kernels.sweep_singles_dense(*arguments)

    def _sparse(self, b: int, order: Integers, calm: float, patience: int) -> Any:
        p, piece = self.problem, self.lists[b]
        held = (self._tally(b), piece.start, piece.count, piece.cls, piece.val, piece.idle)
        arguments: Any = (order, p.norms, p.caps, *self._block(b), *held, patience, calm)
        return kernels.sweep_singles(*arguments)

    def _certify(self, b: int, first: int, last: int, slack: float) -> Any:
        piece = self.lists[b]
        held = (piece.start, piece.count, piece.cls, piece.val)
        arguments: Any = (first, last, self.problem.caps, *self._block(b), *held, slack)
        return kernels.certify_singles(*arguments)
