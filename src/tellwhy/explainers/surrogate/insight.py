"""Generalisable insights: what each component of the mixture says, of which rows, how surely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.arrays import ColumnSpread, spread_evenly
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.surrogate.chains import Convergence, convergence
from tellwhy.explainers.surrogate.mixture import Surrogate, relabel

if TYPE_CHECKING:
    import pandas as pd

LEAST_SHARE = 0.01  # of the rows: a component that describes fewer is no insight
MOST_EXAMPLES = 32  # rows that an insight carries with it
APART = 0.25  # standard deviations between the means of rows that a feature sets apart, at least
CHANCE = 3.0  # times the standard error of that difference, at least: less is seen where nothing is


@dataclass(frozen=True, eq=False)
class Insight:
    """A pattern that a model has learned: one regression of the mixture, or the average of all.

    Attributes
    ----------
    target
        Name of the class, or 'score'.
    component
        Number of the component, largest first; −1 for the average over the rows of the target.
    share, share_interval
        Part of the target's rows that it describes.
    coefficients, interval
        Change of the output per unit of each feature, shaped like one input; with credible limits in a last
        axis.
    effects
        Coefficient × standard deviation of the feature among the rows: what the features are ranked by.
    top
        Numbers of the main features in the flattened input, largest effect first.
    names
        Names of the main features, in the same order.
    centre
        Mean of the rows it describes, shaped like one input.
    rows
        The fitted rows that belong to it more often than to any other component.
    applies
        Where it applies: (feature, 10 % quantile, 90 % quantile) of its rows, in the features that set them
        apart.
    credibility
        Probability of the intervals.
    r_hat, n_effective
        Largest split-R̂ and least effective number of draws of its main coefficients. Infinite and 0 where
        the component is not there in every draw: then it is no sure pattern.
    examples, others
        Some of the rows it describes, and some of the rows of other targets (or, without any, of other
        components).
    """

    target: str
    component: int
    share: float
    share_interval: tuple[float, float]
    coefficients: Floats
    interval: Floats
    effects: Floats
    top: Integers
    names: tuple[str, ...]
    centre: Floats
    rows: Integers
    applies: tuple[tuple[str, float, float], ...]
    credibility: float
    examples: Floats
    others: Floats
    r_hat: float = np.nan
    n_effective: float = np.nan

    def ranking(self, baseline: float = 0.0) -> Integers:
        """Features by what their mean value adds to the output against a baseline, largest first."""
        added = self.coefficients * (self.centre - baseline)
        return np.argsort(-added.ravel(), kind="stable")

    def to_frame(self) -> pd.DataFrame:
        """One line per main feature: its coefficient, its limits and its effect."""
        import pandas as pd

        limits = self.interval.reshape(-1, 2)[self.top]
        return pd.DataFrame(
            {
                "feature": self.names,
                "coefficient": self.coefficients.ravel()[self.top],
                "low": limits[:, 0],
                "high": limits[:, 1],
                "effect": self.effects.ravel()[self.top],
            }
        )

    def __repr__(self) -> str:
        one = f"component {self.component}, {100 * self.share:.0f} % of rows"
        what = "all rows" if self.component < 0 else one
        return f"<Insight into {self.target!r} ({what}): {', '.join(self.names[:5])}>"


@dataclass(frozen=True, eq=False)
class Fitted:
    """What insights are read from: a surrogate, its rows, rows of other targets, names and shape."""

    surrogate: Surrogate
    X: Floats
    others: Floats
    target: str
    names: Sequence[str]
    shape: tuple[int, ...]


class _Pattern(NamedTuple):
    """What one insight is made of."""

    component: int  # −1 for the average over all
    members: NDArray[np.bool_]  # which of the rows it describes
    slopes: Floats  # (draws, columns)
    shares: Floats  # of the rows, one per draw


def find_component_insights(fitted: Fitted, *, k: int, credibility: float) -> list[Insight]:
    """One insight per component that describes at least 1 % of the rows, the largest first."""
    surrogate = fitted.surrogate
    posterior = surrogate.posterior
    J = surrogate.coef.shape[1]
    permutations = relabel(posterior.z, J)
    draw = np.arange(len(permutations))[:, None]
    coef = np.empty_like(surrogate.coef)
    coef[draw, permutations] = surrogate.coef
    z = permutations[draw, posterior.z]
    shares = np.array([(z == j).mean(axis=1) for j in range(J)])  # (J, D)
    usual = np.array([(z == j).sum(axis=0) for j in range(J)]).argmax(axis=0)
    order = np.argsort(-shares.mean(axis=1), kind="stable")
    found: list[Insight] = []
    for j in order[shares.mean(axis=1)[order] >= LEAST_SHARE]:
        # Where the component is empty, its coefficients are mere draws from the prior: they say nothing.
        slopes = surrogate.slopes(coef[shares[j] > 0, j])
        pattern = _Pattern(len(found), usual == j, slopes, shares[j])
        found.append(_insight(fitted, pattern, k=k, credibility=credibility))
    return found


def find_overall_insight(fitted: Fitted, *, k: int, credibility: float) -> Insight:
    """The mean of β_{z_i} over the rows: it does not depend on labels."""
    z = fitted.surrogate.posterior.z
    coef = fitted.surrogate.coef
    shares = np.array([(z == j).mean(axis=1) for j in range(coef.shape[1])]).T  # (D, J)
    slopes = fitted.surrogate.slopes(np.einsum("dj,djk->dk", shares, coef))
    everyone = np.ones(len(fitted.X), dtype=bool)
    return _insight(
        fitted, _Pattern(-1, everyone, slopes, np.ones(len(slopes))), k=k, credibility=credibility
    )


def _insight(fitted: Fitted, pattern: _Pattern, *, k: int, credibility: float) -> Insight:
    """Return a pattern with its k main features named, its intervals, and examples of its rows."""
    X = fitted.X
    shape = fitted.shape
    tails = [0.5 * (1.0 - credibility), 0.5 * (1.0 + credibility)]
    mean = pattern.slopes.mean(axis=0)
    effects = mean * ColumnSpread.of(X).deviation
    top = np.argsort(-np.abs(effects), kind="stable")[:k]
    top = top[effects[top] != 0]
    rows = np.flatnonzero(pattern.members)
    low, high = np.quantile(pattern.shares, tails)
    others = fitted.others if len(fitted.others) else X[~pattern.members]
    agreement = _agreement(fitted, pattern.slopes[:, top])
    return Insight(
        target=fitted.target,
        component=pattern.component,
        share=float(pattern.shares.mean()),
        share_interval=(float(low), float(high)),
        coefficients=mean.reshape(shape),
        interval=np.quantile(pattern.slopes, tails, axis=0).T.reshape(*shape, 2),
        effects=effects.reshape(shape),
        top=top,
        names=tuple(fitted.names[i] for i in top),
        centre=(X[rows] if len(rows) else X).mean(axis=0).reshape(shape),
        rows=rows,
        applies=_describe_ranges(X, pattern.members, fitted.names),
        credibility=credibility,
        examples=_some(X[rows]).reshape(-1, *shape),
        others=_some(others).reshape(-1, *shape),
        r_hat=agreement.worst_r_hat,
        n_effective=agreement.least_ess,
    )


def _agreement(fitted: Fitted, slopes: Floats) -> Convergence:
    """How far chains agree on main coefficients (draws, features)."""
    posterior = fitted.surrogate.posterior
    n_draws = len(posterior.z)
    if len(slopes) < n_draws or n_draws < 4 * posterior.n_chains:
        return Convergence({"chains": np.inf}, {"chains": 0.0})
    if not slopes.shape[1]:
        return Convergence({"chains": 1.0}, {"chains": float(n_draws)})
    draws = posterior.by_chain(slopes)
    return convergence({str(k): draws[:, :, k] for k in range(draws.shape[2])})


def _some(X: Floats) -> Floats:
    """Evenly spaced rows, not too many."""
    return X[spread_evenly(len(X), MOST_EXAMPLES)]


def _describe_ranges(
    X: Floats, members: NDArray[np.bool_], names: Sequence[str], n_features: int = 3
) -> tuple[tuple[str, float, float], ...]:
    """Ranges of the members in the features whose means differ most from those of the other rows."""
    if members.all() or members.sum() < 2:
        return ()
    spread = ColumnSpread.of(X)
    apart = np.abs(X[members].mean(axis=0) - X[~members].mean(axis=0))
    apart /= np.where(spread.varies, spread.deviation, np.inf)  # a constant column tells nobody apart
    chosen = np.argsort(-apart, kind="stable")[:n_features]
    low, high = np.quantile(X[members][:, chosen], [0.1, 0.9], axis=0)
    least = max(APART, CHANCE * np.sqrt(1.0 / members.sum() + 1.0 / (~members).sum()))
    ranges = [(names[c], float(low[i]), float(high[i])) for i, c in enumerate(chosen) if apart[c] > least]
    return tuple(ranges)
