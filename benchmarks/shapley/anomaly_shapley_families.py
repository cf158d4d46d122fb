"""When does each general method win? Generated rows by correlation, clusters, repeated values and number of columns.

One cell of each of 60 new rows is moved by one to two standard deviations; a Gaussian mixture scores them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy.detectors import GaussianMixture
from tellwhy.evaluation import inject_anomalies, localisation
from tellwhy.explainers import AnomalyShapley, KernelShap, Marginal

METHODS: dict[str, Callable[[Any], Any]] = {
    "ASH": AnomalyShapley,
    "KSH": KernelShap,
    "wKSH": lambda model: KernelShap(model, baseline="neighbours"),
    "MARG": Marginal,
}
TRAINING, MOVED = 600, 60


class Family(NamedTuple):
    """What rows are like: columns, the share of their variance that few factors hold, clusters, repeated values."""

    columns: int
    shared: float
    clusters: int
    spikes: float  # share of the columns that are 0 in four fifths of the rows

    def drawn(self, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        n, d = TRAINING + MOVED, self.columns
        k = max(2, d // 6)
        loadings = rng.normal(size=(k, d))
        loadings /= np.sqrt((loadings**2).sum(axis=0))
        common = rng.normal(size=(n, k)) @ loadings
        X = np.sqrt(self.shared) * common + np.sqrt(1 - self.shared) * rng.normal(size=(n, d))
        X += (
            3.0
            * rng.normal(size=(self.clusters, d))[rng.integers(self.clusters, size=n)]
            * (self.clusters > 1)
        )
        repeated = rng.random(d) < self.spikes
        return np.where((rng.random((n, d)) < 0.8) & repeated, 0.0, X)


FAMILIES = [
    Family(columns, shared, clusters, spikes)
    for columns in (6, 12, 30)
    for shared, clusters, spikes in ((0.0, 1, 0), (0.6, 1, 0), (0.95, 1, 0), (0.6, 4, 0), (0.6, 1, 0.5))
]


def measured(family: Family, seed: int) -> dict[str, float]:
    """Mean reciprocal rank of the moved cell, by method."""
    rows = family.drawn(seed)
    train, new = rows[:TRAINING], rows[TRAINING:]
    none = np.zeros(family.columns, dtype=bool)
    odd = inject_anomalies(new, 1, random_state=seed, scale=train.std(axis=0), binary=none)
    model = GaussianMixture(regularisation="auto").fit(train)
    found = {}
    for name, method in METHODS.items():
        made = method(model)
        made = made.fit(train) if hasattr(made, "fit") else made
        found[name] = localisation(made.explain(odd.X), odd.truth).mrr
    return found


def main() -> None:
    asked = arguments(__doc__, seeds=2)
    lines = []
    for family in FAMILIES:
        found = pd.DataFrame([measured(family, seed) for seed in range(asked.seeds)]).mean()
        lines.append({**family._asdict(), **found.round(3).to_dict(), "first": found.idxmax()})
        print(lines[-1], flush=True)
    words = (
        f"Mean reciprocal rank of the one cell that was moved, {MOVED} rows, mean of {asked.seeds} draws; {TRAINING} "
        "training rows, a Gaussian mixture with `regularisation='auto'`. 'shared': the share of a column's variance "
        "that few factors hold; 'spikes': the share of columns that are 0 in four fifths of the rows. The standard "
        "error of a figure is about .03."
    )
    publish(
        "anomaly_shapley_families", "Anomaly Shapley: when each method wins", [(words, pd.DataFrame(lines))]
    )


if __name__ == "__main__":
    main()
