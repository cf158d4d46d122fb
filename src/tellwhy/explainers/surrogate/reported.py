"""What is reported of a fit, by draw: quantities on which chains must agree for it to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tellwhy.core.score_function import Floats
from tellwhy.explainers.surrogate.convergence import BESIDE

if TYPE_CHECKING:
    from tellwhy.explainers.surrogate.conditionals.state import Data
    from tellwhy.explainers.surrogate.sampler import Chain

WATCHED = 10  # columns whose mean coefficients are watched, the largest


def spread_of(data: Data) -> Floats:
    """Standard deviation of each column, the one of ones left out."""
    return np.asarray(data.X[:, 1:].std(axis=0))


def quantities(chains: Sequence[Chain], spread: Floats) -> dict[str, Floats]:
    """What is reported of the kept draws, whatever the components' numbers: each (chains, draws).

    The mean of the rows' coefficients in the columns of the largest effects, which columns these are, and,
    beside them, the mean logarithm of the rows' variances. An effect is a coefficient times the column's
    `spread`: a pixel that is nearly always black may have any coefficient. Single rows carry a split-R̂ of
    their own.
    """
    J = chains[0].kept.coef.shape[1]
    means = []
    variances = []
    for chain in chains:
        z = chain.kept.z[: chain.n_kept]
        shares = np.array([(z == j).mean(axis=1) for j in range(J)]).T  # (draws, J)
        means.append(np.einsum("dj,djk->dk", shares, chain.kept.coef[: chain.n_kept])[:, 1:])
        variances.append((shares * np.log(chain.kept.sigma2[: chain.n_kept])).sum(axis=1))
    mean = np.array(means) * spread  # effects, (chains, draws, p)
    found = {BESIDE: np.array(variances)}
    if not mean.shape[2]:
        return found
    order = np.argsort(-np.abs(mean.mean(axis=(0, 1))), kind="stable")
    first = order[:WATCHED]
    found |= {f"effect {k + 1} by size": mean[:, :, column] for k, column in enumerate(first)}
    if mean.shape[2] > WATCHED:
        leading = np.argpartition(-np.abs(mean), WATCHED, axis=2)[:, :, :WATCHED]
        found["features that come first"] = np.isin(leading, first).mean(axis=2)
    return found
