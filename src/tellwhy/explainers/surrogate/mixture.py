"""A fitted mixture, in the user's units: what it says of a row, with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.surrogate.columns import Columns, Gate, choose_columns, choose_gate
from tellwhy.explainers.surrogate.conditionals.state import design
from tellwhy.explainers.surrogate.convergence import effective_draws, rank_r_hat
from tellwhy.explainers.surrogate.modes import mode_coefficients
from tellwhy.explainers.surrogate.priors import Priors
from tellwhy.explainers.surrogate.sampler import Posterior, Settings, sample

LARGEST = 1e150  # squares of larger numbers overflow
LEADING = 10  # values of a row whose agreement between chains is watched
DIGITS = 8  # of the scaled target that are kept: a model's rounding errors must not steer the draws


@dataclass(frozen=True)
class Plan:
    """How a surrogate is fitted; the parameters of `DMMMEN` of the same names say what they mean.

    `n_used` is the most columns that are used, None for all that vary.
    """

    settings: Settings
    priors: Priors
    n_used: int | None = None
    scale: str = "columns"
    gating: str = "none"
    assignment: str = "component"
    n_jobs: int = -1


class Explained(NamedTuple):
    """What is explained of each row: the output of its target, and the number of that target."""

    scores: Floats
    targets: Integers


@dataclass(frozen=True, eq=False)
class Local:
    """What a surrogate says of one row, per column: coefficient, contribution, and their uncertainty.

    `stderr` is the error of the means for having drawn no more; `deviation` is how unsure the values are.
    """

    coefficients: Floats
    values: Floats
    stderr: Floats
    deviation: Floats
    interval: Floats  # (p, 2), of the values
    coefficient_interval: Floats  # (p, 2)
    base: float
    weights: Floats  # (J,) mean posterior probability of each component
    r_hat: float  # largest split-R̂ of the leading values


@dataclass(frozen=True, eq=False)
class RowFits:
    """What mixtures say of many rows: values per column (or cell), standard errors, base values, evidence."""

    values: Floats
    stderr: Floats
    base: Floats
    extras: dict[str, Floats | Integers]


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A mixture of regressions that stands in for one output of a model.

    Attributes
    ----------
    columns
        The columns it sees.
    centre, unit
        Mean and standard deviation of the output over the fitted rows.
    posterior
        Draws, in scaled columns and scaled output.
    coef
        Coefficients that explain: those of the posterior, or their averages over modes, shape (D, J, 1 + p).
    gate
        Where components apply, with gating.
    origin
        Row that contributions are counted from, in all columns.
    """

    columns: Columns
    centre: float
    unit: float
    posterior: Posterior
    coef: Floats
    gate: Gate | None
    origin: Floats

    def probabilities(self, X: Floats, y: Floats) -> Floats:
        """Posterior probability of each component, for each draw: shape (n, D, J)."""
        Z = self.columns.scaled(X)
        target = (y - self.centre) / self.unit
        post = self.posterior
        fitted = post.coef[:, :, 0] + np.einsum("ip,djp->idj", Z, post.coef[:, :, 1:])
        misfit = (target[:, None, None] - fitted) ** 2 / post.sigma2
        logits = post.log_pi - 0.5 * np.log(post.sigma2) - 0.5 * misfit
        if self.gate is not None:
            place = self.gate.of(Z)[:, None, None, :]
            gates = np.log(post.gate_var) + (place - post.gate_mean) ** 2 / post.gate_var
            logits = logits - 0.5 * gates.sum(axis=-1)
        return np.asarray(np.exp(logits - logsumexp(logits, axis=2, keepdims=True)))

    def predict(self, X: Floats, y: Floats) -> Floats:
        """Mean prediction for rows whose output y is known: it tells which component they belong to."""
        weights = self.probabilities(X, y)  # (n, D, J)
        coef = np.einsum("idj,djk->ik", weights, self.coef) / len(self.coef)
        scaled = coef[:, 0] + (self.columns.scaled(X) * coef[:, 1:]).sum(axis=1)
        return np.asarray(self.centre + self.unit * scaled)

    def local(
        self, x: Floats, y: float, *, uniforms: Floats, credibility: float, owner: Integers | None
    ) -> Local:
        """Say what the mixture says of one row x, whose output is y.

        In every draw, the row belongs to component z with probability p(z | x, y). The mean coefficients
        E[β_z] and their contributions β·(x − origin) are averages over z; for the intervals, one z is chosen
        per draw, since an average of two components may lie where neither is.

        Parameters
        ----------
        x, y
            A row in all columns, and the model's output for it.
        uniforms
            Numbers in [0, 1), one per draw, that choose the components.
        credibility
            Probability of the intervals.
        owner
            The user's column that each column was made from, whose contributions are added up; None: each
            column is its own.
        """
        weights = self.probabilities(x[None], np.array([y]))[0]
        expected = np.einsum("dj,djk->dk", weights, self.coef)
        below = (weights.cumsum(axis=1) < uniforms[:, None]).sum(axis=1)
        chosen = np.minimum(below, weights.shape[1] - 1)  # rounding may leave the sum of weights below 1
        drawn_slopes = self.slopes(self.coef[np.arange(len(chosen)), chosen])
        slopes = self.slopes(expected)
        steps = x - self.origin
        values = _by_owner(slopes * steps, owner)
        drawn_values = _by_owner(drawn_slopes * steps, owner)
        draws = effective_draws(self.posterior.by_chain(values))
        tail = 0.5 * (1.0 - credibility)
        return Local(
            coefficients=slopes.mean(axis=0),
            values=values.mean(axis=0),
            stderr=values.std(axis=0) / np.sqrt(draws),
            deviation=drawn_values.std(axis=0),
            interval=np.quantile(drawn_values, [tail, 1.0 - tail], axis=0).T,
            coefficient_interval=np.quantile(drawn_slopes, [tail, 1.0 - tail], axis=0).T,
            base=float(self._at_origin(expected.mean(axis=0))),
            weights=weights.mean(axis=0),
            r_hat=self._agreement(values),
        )

    def _agreement(self, values: Floats) -> float:
        """Largest split-R̂ of the values (draws, columns) that matter most; infinite for too few draws."""
        draws = self.posterior.by_chain(values)
        if draws.shape[1] < 4:
            return float(np.inf)
        leading = np.argsort(-np.abs(values.mean(axis=0)), kind="stable")[:LEADING]
        return float(rank_r_hat(draws[:, :, leading]).max(initial=1.0))

    def slopes(self, coef: Floats) -> Floats:
        """Coefficients (…, 1 + p) as slopes in the user's units, over all columns."""
        return self.columns.spread(coef[..., 1:] * (self.unit / self.columns.unit))

    def _at_origin(self, coef: Floats) -> Floats:
        """Prediction for the row that contributions are counted from."""
        origin = self.columns.scaled(self.origin[None])[0]
        return np.asarray(self.centre + self.unit * (coef[0] + origin @ coef[1:]))


def _by_owner(values: Floats, owner: Integers | None) -> Floats:
    """Add up the values of columns that were made from the same column of the user's."""
    if owner is None:
        return values
    found = np.zeros((int(owner.max()) + 1, len(values)))
    np.add.at(found, owner, values.T)
    return found.T


def _check_sizes(what: str, values: Floats) -> None:
    """Raise for numbers whose squares would overflow."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest > LARGEST:
        raise InvalidInput(
            f"Among {what} is a number of size {largest:.3g}; sizes up to {LARGEST:.0e} can be fitted, as "
            "squares must be finite. Divide them by a constant, or take logarithms."
        )


def fit_surrogate(
    X: Floats,
    y: Floats,
    plan: Plan,
    *,
    rng: np.random.Generator,
    origin: Floats | None = None,
    folder: Path | None = None,
    label: str = "sampling the mixture",
) -> Surrogate:
    """Fit a mixture to rows and a model's outputs for them.

    Parameters
    ----------
    X, y
        Rows, and the output of the model for each.
    plan
        How to fit.
    rng
        Random numbers of the chains.
    origin
        Row that contributions are counted from; the mean of the rows by default.
    folder
        For checkpoints.
    label
        What to show while it takes long.
    """
    _check_sizes("the rows", X)
    _check_sizes("the model's outputs", y)
    centre = float(y.mean())
    spread = float(y.std())
    unit = spread if spread > 1e-9 * max(1.0, abs(centre)) else 1.0  # outputs that are equal but for rounding
    target = np.round((y - centre) / unit, DIGITS)  # mean 0 and variance 1, as the priors expect
    columns = choose_columns(X, target, n_used=plan.n_used, scale=plan.scale)
    Z = columns.scaled(X)
    gate = choose_gate(Z) if plan.gating == "gaussian" else None
    data = design(Z, target, None if gate is None else gate.of(Z))
    posterior = sample(
        data, plan.priors, plan.settings, rng=rng, n_jobs=plan.n_jobs, folder=folder, label=label
    )
    coef = posterior.coef if plan.assignment == "component" else mode_coefficients(posterior, data)
    origin = X.mean(axis=0) if origin is None else origin
    return Surrogate(columns, centre, unit, posterior, coef, gate, origin)
