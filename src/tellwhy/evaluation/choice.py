"""Which of several explainers finds cells that were moved in the user's own rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Seed, generator, integer, seed, validate_value
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import random_sample, take_rows
from tellwhy.evaluation.injection import column_scales, inject_anomalies, numbers_of
from tellwhy.evaluation.localisation import localisation

N_ROWS = 50
DOUBT = 2.0  # standard errors: the first explainer stays unless another is better by more than that


@dataclass(frozen=True)
class Choice:
    """What was tried and chosen.

    Attributes
    ----------
    best
        Name of the explainer to take: the first one given, unless another ranks the moved cells better by
        more than two standard errors.
    reciprocal_ranks
        1/rank of the moved cell of each row, by name.
    """

    best: str
    reciprocal_ranks: dict[str, Floats]

    @property
    def means(self) -> dict[str, float]:
        """Mean reciprocal rank by name."""
        return {name: float(ranks.mean()) for name, ranks in self.reciprocal_ranks.items()}

    @property
    def words(self) -> str:
        """What to say of the choice, in a sentence."""
        n = len(self.reciprocal_ranks[self.best])
        told = ", ".join(f"{name} {mean:.2f}" for name, mean in self.means.items())
        return f"{self.best}: mean reciprocal rank of one cell moved in each of {n} rows: {told}"


def choose_by_injection(
    explainers: Mapping[str, Any], X: Any, random_state: Seed = 0, *, n_rows: int = N_ROWS
) -> Choice:
    """Choose between explainers of one model by anomalies that are made from ordinary rows.

    One cell in each of a few rows is moved by one to two standard deviations, or flipped where its column is
    binary. The explainer that ranks these cells highest is the one to take; the first one given stays where
    no other is better by more than two standard errors of the difference.

    Parameters
    ----------
    explainers
        Explainers by name, fitted where they learn; the one to take in case of doubt first.
    X
        Ordinary rows, as the explainers take them, but not those that they were fitted on: one that looks for
        the nearest rows would find the row itself, without the moved cell.
    random_state
        Seed of the rows, cells and moves.
    n_rows
        How many rows to change.

    Examples
    --------
    >>> from tellwhy.explainers import AnomalyShapley, RandomAttribution
    >>> X = np.random.default_rng(0).normal(size=(300, 6)) * [1, 1, 1, 1, 1, 9]
    >>> def distance(rows):
    ...     return ((rows / X.std(axis=0)) ** 2).sum(axis=1)
    >>> tried = {"random": RandomAttribution(distance), "shapley": AnomalyShapley(distance).fit(X[:200])}
    >>> choose_by_injection(tried, X[200:]).best
    'shapley'
    """
    validate_value("choose_by_injection", "random_state", random_state, seed)
    validate_value("choose_by_injection", "n_rows", n_rows, integer(2))
    if not explainers:
        raise InvalidInput("choose_by_injection got no explainers; expected at least one, by name.")
    rng = generator(random_state)
    rows = take_rows(X, np.sort(random_sample(len(X), n_rows, rng)))
    odd = inject_anomalies(rows, 1, rng, scale=np.nan_to_num(column_scales(numbers_of(X))))
    ranks = {
        name: localisation(each.explain(odd.X), odd.truth).reciprocal_ranks
        for name, each in explainers.items()
    }
    return Choice(_best(ranks), ranks)


def _best(ranks: dict[str, Floats]) -> str:
    """Return the name with the highest mean, or the first where that is not reliably higher."""
    first = next(iter(ranks))
    best = max(ranks, key=lambda name: float(ranks[name].mean()))
    gains = ranks[best] - ranks[first]
    return best if gains.mean() > DOUBT * gains.std() / np.sqrt(len(gains)) else first
