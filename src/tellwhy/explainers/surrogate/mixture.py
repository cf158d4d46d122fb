"""A fitted mixture, in the user's units: what it says of a row, with its uncertainty.

The surrogate sees columns without the constant ones, scaled, in an order of their own. Components that
overlap are merged into modes, and labels of components made to agree between draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from scipy.special import logsumexp, softmax

from tellwhy.core.arrays import ColumnSpread, sort_columns, spread_evenly
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.surrogate.chains import Data, Priors, count_effective_draws, design, rank_r_hat
from tellwhy.explainers.surrogate.sampler import Posterior, Settings, sample

MOST_GATES = 4  # coordinates of a place; more would drown the output, which tells components apart too


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns in use, with their centres and units.

    Attributes
    ----------
    used
        Numbers of the columns in use. Their order depends on their contents only, so that the draws do not
        depend on the order in which columns are given.
    centre, unit
        Mean of each used column, and what it is divided by.
    n_columns
        How many there are in all.
    """

    used: Integers
    centre: Floats
    unit: Floats
    n_columns: int

    def scaled(self, X: Floats) -> Floats:
        """Return the used columns, centred and scaled."""
        return np.asarray((X[:, self.used] - self.centre) / self.unit)

    def spread(self, values: Floats) -> Floats:
        """Put numbers of used columns (…, p) into all columns, zero elsewhere."""
        found = np.zeros((*values.shape[:-1], self.n_columns))
        found[..., self.used] = values
        return found


def choose_columns(X: Floats, y: Floats, *, n_used: int | None, scale: str) -> Columns:
    """Return the columns that vary; only the `n_used` most correlated with y, where that is fewer.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0, 5.0], [1.0, 1.0, 4.0], [1.0, 2.0, 5.0]])
    >>> choose_columns(X, np.array([0.0, 1.0, 2.0]), n_used=1, scale="columns").used
    array([1])
    """
    spread = ColumnSpread.of(X)
    centre = spread.mean
    deviation = spread.deviation
    # A column far from zero may vary by no more than its rounding errors.
    varying = np.flatnonzero(deviation > 1e-12 * (np.abs(centre) + deviation.max(initial=0.0)))
    unit = deviation[varying]
    if scale == "common":
        unit = np.full(len(varying), np.sqrt((deviation[varying] ** 2).mean()) if len(varying) else 1.0)
    Z = (X[:, varying] - centre[varying]) / unit
    order = sort_columns(Z)
    if n_used is not None and n_used < len(order):
        correlation = ((y - y.mean())[:, None] * (Z / Z.std(axis=0))).sum(axis=0)  # times a constant
        strongest = np.argsort(-np.abs(correlation)[order], kind="stable")[:n_used]
        order = order[np.sort(strongest)]
    chosen = varying[order]
    return Columns(chosen, centre[chosen], unit[order], X.shape[1])


@dataclass(frozen=True, eq=False)
class Gate:
    """Leading principal directions of the scaled rows, each to variance 1: where in the data a row lies."""

    directions: Floats  # (p, q)

    def of(self, Z: Floats) -> Floats:
        """Coordinates of scaled rows, shape (n, q)."""
        return np.asarray(Z @ self.directions)


def choose_gate(Z: Floats) -> Gate:
    """Return up to four principal directions of scaled rows that vary."""
    found = np.linalg.svd(Z, full_matrices=False)
    varies = 1e-9 * max(found.S.max(initial=0.0), 1e-300) < found.S
    kept = min(MOST_GATES, int(varies.sum()))
    return Gate(found.Vh[:kept].T * (np.sqrt(len(Z)) / found.S[:kept]))


OVERLAP = 0.25  # components confused this often are one mode
MOST_ROWS = 500  # that overlaps are estimated from


def estimate_confusion(probabilities: Floats) -> Floats:
    """Estimated probability that a row of component j would be given to k, from probabilities (n, J).

    The directly estimated misclassification probabilities of Hennig (2010).

    Examples
    --------
    >>> estimate_confusion(np.array([[0.9, 0.1], [0.2, 0.8]])).round(2)
    array([[0.82, 0.18],
           [0.11, 0.89]])
    """
    given = probabilities == probabilities.max(axis=1, keepdims=True)
    total = probabilities.sum(axis=0)
    return np.asarray((probabilities.T @ given) / np.where(total > 0, total, 1.0)[:, None])


def find_mode_coefficients(posterior: Posterior, data: Data) -> Floats:
    """Coefficients of each component's mode: in every draw, the average of the components that overlap.

    A mode is a set of components that rows are often confused between. Its members count by their shares π.
    """
    some = spread_evenly(len(data.y), MOST_ROWS)
    X = data.X[some]
    y = data.y[some]
    merged = posterior.coef.copy()
    for d, coef in enumerate(posterior.coef):
        logits = posterior.log_pi[d] - 0.5 * np.log(posterior.sigma2[d])
        probabilities = softmax(logits - 0.5 * (y[:, None] - X @ coef.T) ** 2 / posterior.sigma2[d], axis=1)
        confused = estimate_confusion(probabilities)
        occupied = probabilities.max(axis=0) > 0.5  # a component that no row belongs to joins nothing
        linked = (np.maximum(confused, confused.T) > OVERLAP) & occupied[:, None] & occupied
        # Overlap is handed on: components that overlap with a third one are one mode with it.
        _, mode = connected_components(linked, directed=False)
        for m in np.unique(mode):
            members = np.flatnonzero(mode == m)
            weights = softmax(posterior.log_pi[d, members])
            merged[d, members] = weights @ coef[members]
    return merged


def relabel(z: NDArray[np.integer], n_components: int, *, n_rounds: int = 5) -> Integers:
    """Return new numbers for the components of each draw, by which draws agree (Cron and West, 2011).

    A sampler may swap the numbers of components from draw to draw. Every draw's rows are matched with a
    reference, which then becomes the commonest label of each row; and again, until the reference stays.

    Examples
    --------
    >>> relabel(np.array([[0, 0, 1], [1, 1, 0], [0, 0, 1]]), 2)
    array([[0, 1],
           [1, 0],
           [0, 1]])
    """
    reference = z[-1].astype(np.int64)  # the newest draw is the one furthest from the start
    permutations = np.tile(np.arange(n_components), (len(z), 1))
    for _ in range(n_rounds):
        before = reference
        for d, labels in enumerate(z):
            counts = np.bincount(
                labels.astype(np.int64) * n_components + reference, minlength=n_components**2
            )
            table = counts.reshape(n_components, n_components)
            # The little on the diagonal lets components that share no row keep their numbers.
            permutations[d] = linear_sum_assignment(-table - 1e-9 * np.eye(n_components))[1]
        agreed = permutations[np.arange(len(z))[:, None], z]
        votes = np.array([(agreed == j).sum(axis=0) for j in range(n_components)])
        reference = votes.argmax(axis=0)
        if np.array_equal(reference, before):
            break
    return permutations


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
    n_jobs: int | None = None


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
        values = _sum_by_owner(slopes * steps, owner)
        drawn_values = _sum_by_owner(drawn_slopes * steps, owner)
        draws = count_effective_draws(self.posterior.by_chain(values))
        tail = 0.5 * (1.0 - credibility)
        return Local(
            coefficients=slopes.mean(axis=0),
            values=values.mean(axis=0),
            stderr=values.std(axis=0) / np.sqrt(draws),
            deviation=drawn_values.std(axis=0),
            interval=np.quantile(drawn_values, [tail, 1.0 - tail], axis=0).T,
            coefficient_interval=np.quantile(drawn_slopes, [tail, 1.0 - tail], axis=0).T,
            base=float(self._predict_at_origin(expected.mean(axis=0))),
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

    def _predict_at_origin(self, coef: Floats) -> Floats:
        """Prediction for the row that contributions are counted from."""
        origin = self.columns.scaled(self.origin[None])[0]
        return np.asarray(self.centre + self.unit * (coef[0] + origin @ coef[1:]))


def _sum_by_owner(values: Floats, owner: Integers | None) -> Floats:
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
    coef = posterior.coef if plan.assignment == "component" else find_mode_coefficients(posterior, data)
    origin = X.mean(axis=0) if origin is None else origin
    return Surrogate(columns, centre, unit, posterior, coef, gate, origin)
