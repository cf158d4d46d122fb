"""One mixture per class (or one for a score), fitted to all rows: fitting it, and explaining rows by it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tellwhy.core.errors import DataNotice, InvalidInput, NotConverged
from tellwhy.core.parallel import tracked_batches
from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.surrogate.convergence import R_HAT
from tellwhy.explainers.surrogate.mixture import (
    Explained,
    Plan,
    RowFits,
    Surrogate,
    fit_surrogate,
)

LEAST_DRAWS = 20  # effective ones: with fewer, the ends of intervals are a matter of chance


class TargetRows(NamedTuple):
    """What the mixture of one target is fitted to: the rows that the model puts there, and its outputs."""

    name: str
    X: Floats
    y: Floats


def fit_target(
    rows: TargetRows, plan: Plan, *, rng: np.random.Generator, folder: Path | None, label: str
) -> Surrogate:
    """Fit one mixture; say, at the line that called `DMMMEN.fit`, where its intervals cannot be trusted."""
    y = rows.y
    if np.ptp(y) <= 1e-9 * max(1.0, float(np.abs(y).max())):
        warnings.warn(
            f"The model gives {y[0]:.4g} for all {len(y)} rows of {rows.name!r}: no feature can matter "
            "there.",
            DataNotice,
            stacklevel=5,
        )
    fitted = fit_surrogate(rows.X, y, plan, rng=rng, folder=folder, label=label)
    agreement = fitted.posterior.convergence
    if agreement.worst_r_hat > R_HAT or agreement.least_ess < LEAST_DRAWS:
        warnings.warn(
            f"The chains of {rows.name!r} do not agree yet ({agreement.words()}; expected R̂ < {R_HAT} and "
            f"at least {LEAST_DRAWS} effective draws): intervals may be too narrow. Raise n_burn and "
            "n_sweeps, or lower n_components.",
            NotConverged,
            stacklevel=5,
        )
    return fitted


def explain_by_class(
    X: Floats,
    explained: Explained,
    surrogates: Mapping[int, Surrogate],
    *,
    seed: int,
    credibility: float,
    owner: Integers | None,
) -> RowFits:
    """Explain each row by the mixture of its target; rows of a target share the draws of its components."""
    n_draws = len(next(iter(surrogates.values())).coef)
    # The same uniforms for every row: the explanation of a row does not depend on the others.
    uniforms = np.random.default_rng(seed).random(n_draws)
    found = []
    for batch in tracked_batches(len(X), 8 * n_draws * X.shape[1], "explaining by the mixture"):
        for i in range(batch.start, batch.stop):
            surrogate = surrogates[int(explained.targets[i])]
            found.append(
                surrogate.local(
                    X[i], explained.scores[i], uniforms=uniforms, credibility=credibility, owner=owner
                )
            )
    return RowFits(
        values=np.array([row.values for row in found]),
        stderr=np.array([row.stderr for row in found]),
        base=np.array([row.base for row in found]),
        extras={
            "coefficients": np.array([row.coefficients for row in found]),
            "interval": np.array([row.interval for row in found]),
            "coefficient_interval": np.array([row.coefficient_interval for row in found]),
            "r_hat": np.array([row.r_hat for row in found]),
        },
    )


def check_targets(targets: Integers, surrogates: Mapping[int, Surrogate], names: list[str]) -> None:
    """Raise for the first row of a target that has no mixture."""
    lacking = sorted(set(targets.tolist()) - set(surrogates))
    if lacking:
        row = int(np.argmax(targets == lacking[0]))
        raise InvalidInput(
            f"Row {row} belongs to {names[lacking[0]]!r} by the model, of which fit saw fewer than 2 rows. "
            "Fit with rows of that class."
        )
