"""Lee–Lin–Wahba and one-vs-rest over several processes with MPI: each rank holds the weights of some classes.

A rank holds all rows, but weights and dual variables of its own classes only; all that travels is the sum of
the weights over classes. The result is that of one process which visits the same blocks in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tellwhy.classifiers.svm.engines.class_blocks import ClassBlocks
from tellwhy.classifiers.svm.engines.single_engine import SingleEngine
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.ranks.exchange import largest, summed
from tellwhy.classifiers.svm.solver import Certificate, Visit
from tellwhy.core.score_function import Integers


class RankSingleEngine(SingleEngine):
    """The part of a Lee–Lin–Wahba or one-vs-rest problem that one rank holds: all rows, some classes.

    `sizes` are the numbers of examples of each class; a rank has so many `blocks`, one for each thread unless
    told.
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

    def leap(self, tol: float) -> Any:  # noqa: ARG002
        """Models that are spread over ranks are too large for it."""
        return None

    @property
    def _may_stretch(self) -> bool:
        """No: a rank has the scores of its own classes only."""
        return False

    def class_rows(self, classes: Integers) -> Any:
        """Weights of some classes × all features, which all ranks put together."""
        return summed(self.comm, super().class_rows(classes))
