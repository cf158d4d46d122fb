"""Inputs in which some features were changed to tell what a model goes by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score_function import Floats, Integers


@dataclass(frozen=True, eq=False)
class ChangedInputs:
    """Inputs after the same features were changed in four ways.

    Attributes
    ----------
    nullified
        Rows of the class with the features set to the baseline.
    replaced
        Other rows with the features set to the mean of the class.
    crafted
        New inputs: the features as in a row of the class, every other one as in a row drawn at random.
    alone
        The same, but every other feature is at the baseline.
    """

    nullified: Floats
    replaced: Floats
    crafted: Floats
    alone: Floats

    def by_procedure(self) -> dict[str, Floats]:
        """All four by their names."""
        return {
            "nullified": self.nullified,
            "replaced": self.replaced,
            "crafted": self.crafted,
            "alone": self.alone,
        }


@dataclass(frozen=True, eq=False)
class InputSample:
    """Rows to be changed, all flat: rows of a class, other rows, and rows mixed from cells of many.

    Attributes
    ----------
    inside, outside
        Rows that the model puts into the class, and the others.
    mixed
        As many as `inside`; every cell is that of a row drawn at random.
    mean
        Mean of the rows of the class.
    baseline
        Value of a nullified feature.
    shape
        Of one input.
    """

    inside: Floats
    outside: Floats
    mixed: Floats
    mean: Floats
    baseline: float
    shape: tuple[int, ...]

    @classmethod
    def of(
        cls,
        X: Floats,
        is_inside: NDArray[np.bool_],
        everyone: Floats,
        *,
        baseline: float,
        rng: np.random.Generator,
    ) -> InputSample:
        """Take rows apart by class; mixed rows take their cells from `everyone`."""
        flat = X.reshape(len(X), -1)
        inside = flat[is_inside]
        source = everyone.reshape(len(everyone), -1)
        drawn = rng.integers(
            len(source), size=inside.shape
        )  # a row for each cell: columns become independent
        return cls(
            inside=inside,
            outside=flat[~is_inside],
            mixed=source[drawn, np.arange(source.shape[1])],
            mean=inside.mean(axis=0) if len(inside) else np.zeros(flat.shape[1]),
            baseline=baseline,
            shape=X.shape[1:],
        )

    def changed(self, features: Integers) -> ChangedInputs:
        """Return the inputs with some features changed, in the shape that they came in."""
        nullified = self.inside.copy()
        nullified[:, features] = self.baseline
        replaced = self.outside.copy()
        replaced[:, features] = self.mean[features]
        crafted = self.mixed.copy()
        crafted[:, features] = self.inside[:, features]
        alone = np.full_like(self.inside, self.baseline)
        alone[:, features] = self.inside[:, features]
        return ChangedInputs(*(self._shaped(flat) for flat in (nullified, replaced, crafted, alone)))

    def _shaped(self, flat: Floats) -> Floats:
        return flat.reshape(len(flat), *self.shape)
