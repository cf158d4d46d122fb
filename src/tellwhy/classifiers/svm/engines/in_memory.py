"""The engine of a problem whose weights fit into the memory of one process."""

from __future__ import annotations

import numpy as np

from tellwhy.classifiers.svm.engines.pair_engine import PairEngine
from tellwhy.classifiers.svm.engines.single_engine import SingleEngine
from tellwhy.classifiers.svm.problem import Problem, memory_for

PAIR_LOSSES = ("ww", "cs")
FEW_CLASSES = 8  # with fewer there is too little work in a block for a thread of its own
MANY_CLASSES = 256


def engine_in_memory(
    problem: Problem, *, n_blocks: int | None = None, n_jobs: int, seed: np.random.Generator
) -> PairEngine | SingleEngine:
    """Return the engine of a problem's loss, with so many class blocks (None: as many as are good for it)."""
    pairs = problem.loss in PAIR_LOSSES
    n = default_blocks(problem.n_classes, pairs=pairs) if n_blocks is None else n_blocks
    kind = PairEngine if pairs else SingleEngine
    with memory_for(problem):
        return kind(problem, n_blocks=min(n, problem.n_classes), n_jobs=n_jobs, seed=seed)


def default_blocks(n_classes: int, *, pairs: bool) -> int:
    """How many blocks to cut classes into.

    A Weston–Watkins row is solved for all classes at once where they form one block; cut into several, it
    takes more epochs, up to many more where every class is in play. Losses that judge each class on its own
    take few more epochs with more blocks, which threads share.
    """
    if pairs or n_classes < FEW_CLASSES:
        return 1
    return 4 if n_classes < MANY_CLASSES else 8
