"""Multi-class SVMs over several processes with MPI: each rank holds the weights of some classes.

Weston–Watkins: a rank holds the rows of its classes, their dual variables and the weights of its classes, in
two halves of several class blocks. Ranks meet in the rounds of the same schedule as blocks do. When two ranks
meet, each sends rows of one half to one half of the other's classes, as guests: their host tells their
scores, the rank they come from solves for their variables, and the host adds the steps to its weights. As
they send to opposite halves, both work at the same time on disjoint weights. All that travels are the rows
that are visited, scores and steps of listed variables.

Lee–Lin–Wahba and one-vs-rest: a rank holds all rows, but weights and dual variables of its own classes only;
all that travels is the sum of the weights over classes.

The result is that of one process which visits the same blocks in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tellwhy.classifiers.svm.engines.class_blocks import ClassBlocks
from tellwhy.classifiers.svm.engines.single_engine import SingleEngine
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.ranks.messages import largest, summed
from tellwhy.classifiers.svm.ranks.rank_pair_engine import RankPairEngine
from tellwhy.classifiers.svm.solver import Certificate, Visit
from tellwhy.core.score_function import Integers

__all__ = ["RankPairEngine", "RankSingleEngine"]


class RankSingleEngine(SingleEngine):
    """The part of a Lee–Lin–Wahba or one-vs-rest problem that one rank holds: all rows, some classes.

    Parameters are those of `RankPairEngine`; a rank has so many `blocks`, one for each thread unless told.
    """

    def __init__(
        self,
        problem: Problem,
        sizes: Integers,
        *,
        comm: Any,
        n_jobs: int,
        seed: np.random.Generator,
        blocks: int | None = None,
    ):
        self.comm = comm
        each = blocks or n_jobs
        cut = ClassBlocks.of(sizes, each * comm.size, problem.dtype.itemsize)
        self._set_up(problem, cut, range(each * comm.rank, each * (comm.rank + 1)), n_jobs, seed)

    def epoch(self, negligible: float, patience: int) -> Visit:
        """Visit the listed variables once, leaving out examples that were idle before."""
        mine = super().epoch(negligible, patience)
        total = summed(self.comm, np.array([mine.mean * mine.visited, mine.visited], dtype=np.float64))
        return Visit(largest(self.comm, mine.worst), float(total[0] / max(total[1], 1)), int(total[1]))

    def certify(self, slack: float) -> Certificate:
        """Both objectives over all ranks, and lists of every variable that may have to move."""
        mine = super().certify(slack)
        constant = self.problem.constant
        ours = np.array([mine.primal - constant, mine.dual - constant, mine.listed], dtype=np.float64)
        total = summed(self.comm, ours)
        return Certificate(
            float(total[0]) + constant,
            float(total[1]) + constant,
            largest(self.comm, mine.worst),
            int(total[2]),
        )

    def recentre(self) -> None:
        """Set w̄ from the sum of the weights over the classes of all ranks."""
        if self._is_centred:
            self.centre = -summed(self.comm, self._class_sum()) / self.problem.n_classes

    def own_weights(self) -> tuple[Integers, Any]:
        """Classes held here and their weights, features × classes."""
        self.recentre()
        classes = np.concatenate([self.blocks.members[b] for b in self.held])
        columns = [self.W[b][:, : self.blocks.n_classes(b)] for b in self.held]
        centre = self.centre[:, None].astype(self.problem.dtype)
        return classes, np.concatenate(columns, axis=1) + centre
