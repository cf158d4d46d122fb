"""Ragged lists of dual variables: what is not listed is zero, and is not swept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from tellwhy.classifiers.svm.engines._compiled_lists import count_nonzero, drop_zeros
from tellwhy.classifiers.svm.engines.records import ListArrays
from tellwhy.classifiers.svm.threads.workers import Workers, ranges
from tellwhy.core.score_function import Integers

EXAMPLES_A_TASK = 1024


class Part(NamedTuple):
    """New lists of consecutive examples first … last, whose `starts` count from the part's own beginning."""

    first: int
    last: int
    classes: Any
    duals: Any


class Nonzeros(NamedTuple):
    """Example, class and value of variables that are not zero."""

    examples: Integers
    classes: Integers
    duals: Any


@dataclass
class DualLists:
    """Dual variables of some examples: those of example e are entries starts[e] … starts[e] + lengths[e]."""

    starts: Integers
    lengths: Any
    classes: Any
    duals: Any
    idle: Any  # for how many visits in a row an example had only a negligible violation
    used: int = 0

    @classmethod
    def empty(cls, n: int, dtype: DTypeLike) -> DualLists:
        """All variables at zero."""
        return cls(
            np.zeros(n, dtype=np.int64),
            np.zeros(n, dtype=np.int32),
            np.zeros(0, dtype=np.int32),
            np.zeros(0, dtype=dtype),
            np.zeros(n, dtype=np.int8),
        )

    @property
    def arrays(self) -> ListArrays:
        """The arrays as the compiled loops take them."""
        return ListArrays(self.starts, self.lengths, self.classes, self.duals, self.idle)

    def keep(self, arrays: ListArrays, used: int) -> None:
        """Take lists that a compiled loop has made longer."""
        self.classes = arrays.classes
        self.duals = arrays.duals
        self.used = used

    def replace_parts(self, parts: list[Part], workers: Workers | None = None) -> None:
        """Take the lists of consecutive parts of the examples.

        `parts` is empty afterwards: lists can be larger than the weights, so that nothing is kept twice.
        """
        places = np.cumsum([0, *(len(part.classes) for part in parts)])
        n = int(places[-1])
        dtype = parts[0].duals.dtype
        self.classes = None  # freed before the new ones are there
        self.duals = None
        self.classes = np.empty(n, dtype=np.int32)
        self.duals = np.empty(n, dtype=dtype)
        self.used = n
        self.idle[:] = 0
        left: list[Part | None] = [*parts]
        parts.clear()

        def take(k: int) -> None:
            part = left[k]
            left[k] = None
            if part is not None:
                self._take_part(part, int(places[k]))

        (workers or Workers(1)).map(take, range(len(left)))

    def _take_part(self, part: Part, at: int) -> None:
        end = at + len(part.classes)
        self.starts[part.first : part.last] += at
        self.classes[at:end] = part.classes
        self.duals[at:end] = part.duals

    def make_room(self, more: int) -> None:
        """Have room for more entries behind those that are used."""
        if self.used + more <= len(self.classes):
            return
        size = max(self.used + more, 2 * len(self.classes))
        self.classes = _longer(self.classes, self.used, size)
        self.duals = _longer(self.duals, self.used, size)

    def drop_zeros(self, workers: Workers | None = None) -> None:
        """List only variables that are not zero."""
        workers = workers or Workers(1)
        parts = ranges(len(self.starts), EXAMPLES_A_TASK)
        counts = workers.map(lambda part: count_nonzero(*part, self.arrays), parts)
        places = np.cumsum([0, *counts])
        kept = int(places[-1])
        classes = np.empty(kept, dtype=np.int32)
        duals = np.empty(kept, dtype=self.duals.dtype)
        arrays = self.arrays
        workers.map(
            lambda k: drop_zeros(*parts[k], arrays, int(places[k]), classes, duals), range(len(parts))
        )
        self.classes = classes
        self.duals = duals
        self.used = kept

    def nonzeros(self, examples: Integers, classes: Integers) -> Nonzeros:
        """Every variable that is not zero; `examples` and `classes` are the numbers of those listed here."""
        ends = np.cumsum(self.lengths, dtype=np.int64)
        n = ends[-1] if len(ends) else 0
        at = np.arange(n) + np.repeat(self.starts - ends + self.lengths, self.lengths)
        held = self.duals[at] != 0
        return Nonzeros(
            np.repeat(examples, self.lengths)[held], classes[self.classes[at]][held], self.duals[at][held]
        )

    def set_from(self, table: Any, dtype: DTypeLike) -> None:
        """Take variables from a sparse matrix, examples × classes."""
        table = sparse.csr_array(table)
        table.sort_indices()  # as everywhere: threads look for their classes in a list
        self.starts[:] = table.indptr[:-1]
        self.lengths[:] = np.diff(table.indptr)
        self.classes = table.indices.astype(np.int32)
        self.duals = table.data.astype(dtype)
        self.idle[:] = 0
        self.used = len(self.classes)


def _longer(array: Any, used: int, size: int) -> Any:
    found = np.empty(size, dtype=array.dtype)
    found[:used] = array[:used]
    return found


def gathered(parts: list[Nonzeros], shape: tuple[int, int]) -> Any:
    """Variables of several lists as one sparse matrix, examples × classes."""
    examples = np.concatenate([part.examples for part in parts])
    classes = np.concatenate([part.classes for part in parts])
    duals = np.concatenate([part.duals for part in parts])
    return sparse.csr_array((duals, (examples, classes)), shape=shape)
