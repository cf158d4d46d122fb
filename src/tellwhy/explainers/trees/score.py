"""The number that a model of trees gives each row: one of its outputs, on the scale on which trees add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.trees.model import Trees
from tellwhy.explainers.trees.shares import outputs

PREDICTED = "predicted"


class Group(NamedTuple):
    """Rows of which the same is explained: an output, its sign, and the places of the rows."""

    output: int
    sign: float
    rows: Integers


class Targets(NamedTuple):
    """What is explained of each row: an output of the model, and its sign.

    A classifier of two classes has one output, that of the second class; the first has minus that.
    """

    output: Integers
    sign: Floats

    def groups(self) -> list[Group]:
        """Rows of which the same is explained."""
        kinds = sorted(set(zip(self.output.tolist(), self.sign.tolist(), strict=True)))
        return [Group(k, s, np.flatnonzero((self.output == k) & (self.sign == s))) for k, s in kinds]


@dataclass(frozen=True, eq=False)
class TreeScore:
    """One output of a model of trees as a score function.

    Parameters
    ----------
    trees
        The model.
    target
        A class by its label, 'predicted' (the class that the model gives each row), or the number of an
        output. None: of a classifier of two classes the second, of one of more classes the predicted one,
        of other models their only output.
    """

    trees: Trees
    target: Any = None

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return (self.trees.n_columns,)

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Names of the columns, where known."""
        return self.trees.names

    @property
    def threshold(self) -> float | None:
        """Output above which a row is anomalous, of a detector."""
        return self.trees.threshold

    @property
    def describes(self) -> str:
        """Which number this is."""
        trees = self.trees
        if trees.classes is None:
            return trees.explains if trees.n_outputs == 1 else f"{trees.explains}, output {self._number()}"
        if self._is_predicted:
            return trees.explains.replace("of a class", "of the predicted class")
        return trees.explains.replace("of a class", f"of class {trees.classes[self._place()]!r}")

    @property
    def _is_predicted(self) -> bool:
        classes = self.trees.classes
        by_default = self.target is None and classes is not None and len(classes) > 2
        return by_default or (isinstance(self.target, str) and self.target == PREDICTED)

    def value(self, X: Any) -> Floats:
        """Return the output of each row, as the user has it."""
        return self.of_numbers(self.trees.read(X))

    def of_numbers(self, Z: Floats, n_jobs: int = -1) -> Floats:
        """Return the output of each row of numbers."""
        targets = self.targets(Z, n_jobs)
        found = np.empty(len(Z))
        for group in targets.groups():
            chosen = self.trees.chosen(group.output)
            found[group.rows] = group.sign * outputs(self.trees.nodes, chosen, Z[group.rows], n_jobs)
        return found

    def targets(self, Z: Floats, n_jobs: int = -1) -> Targets:
        """Return what is explained of each row of numbers."""
        n = len(Z)
        if self.trees.classes is None:
            return Targets(np.full(n, self._number()), np.ones(n))
        place = self._predicted(Z, n_jobs) if self._is_predicted else np.full(n, self._place())
        if self.trees.n_outputs == 1:
            return Targets(np.zeros(n, dtype=np.int64), np.where(place == 1, 1.0, -1.0))
        return Targets(place, np.ones(n))

    def labels(self, targets: Targets) -> Any:
        """Return the class that is explained of each row; None for models without classes."""
        if self.trees.classes is None:
            return None
        place = (targets.sign > 0).astype(np.int64) if self.trees.n_outputs == 1 else targets.output
        return np.asarray(self.trees.classes)[place]

    def _predicted(self, Z: Floats, n_jobs: int) -> Integers:
        """Place of the class that the model predicts of each row."""
        nodes = self.trees.nodes
        each = [outputs(nodes, self.trees.chosen(k), Z, n_jobs) for k in range(self.trees.n_outputs)]
        return (each[0] > 0).astype(np.int64) if len(each) == 1 else np.argmax(each, axis=0)

    def _place(self) -> int:
        """Place of the asked class among the classes."""
        classes = list(self.trees.classes or [])
        if self.target is None:
            return len(classes) - 1
        for place, label in enumerate(classes):
            if type(label) is type(self.target) and label == self.target:
                return place
        for place, label in enumerate(classes):  # 1 for 1.0, or a number of numpy's
            if np.ndim(self.target) == 0 and label == self.target:
                return place
        raise InvalidParameter(
            f"The 'target' parameter must be one of the classes {classes} or {PREDICTED!r}. "
            f"Got {self.target!r}."
        )

    def _number(self) -> int:
        """Number of the asked output of a model without classes."""
        n = self.trees.n_outputs
        if self.target is None and n == 1:
            return 0
        is_number = isinstance(self.target, (int, np.integer)) and not isinstance(self.target, bool)
        if is_number and 0 <= self.target < n:
            return int(self.target)
        raise InvalidParameter(
            f"The 'target' parameter must be the number of an output, 0 to {n - 1}. Got {self.target!r}."
        )
