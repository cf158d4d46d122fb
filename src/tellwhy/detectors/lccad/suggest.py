"""How many classes there are, and how much distances should count against the graph, from the data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.errors import TellwhyWarning
from tellwhy.core.params import Seed, generator, integer, validate_value
from tellwhy.core.progress import track
from tellwhy.detectors.lccad.alternation import Alternation
from tellwhy.detectors.lccad.couplings import Couplings
from tellwhy.detectors.lccad.lccad import LCCAD
from tellwhy.detectors.lccad.theta import estimate_variance_of, spread_of

_ROUNDS = 3  # of estimating σ² and θ in turn, which hardly move after that
_FARTHEST = 3.0  # standard deviations that a node counts for at most
_APART = 0.01  # of the variance of a column, that the others are taken not to tell


@dataclass(frozen=True)
class Candidate:
    """One number of classes: the θ that suits it, and its criterion (lower is better)."""

    n_classes: int
    theta: float
    criterion: float


@dataclass(frozen=True)
class Suggestion:
    """The number of classes with the lowest criterion, its θ, and all that were compared."""

    n_classes: int
    theta: float
    candidates: tuple[Candidate, ...]

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of `LCCAD` under which the suggestion was made."""
        return {"n_classes": self.n_classes, "theta": self.theta}


def suggest_lccad(
    X: ArrayLike,
    graph: Any = None,
    *,
    max_classes: int = 5,
    n_classes: int | None = None,
    random_state: Seed = 0,
) -> Suggestion:
    """Suggest θ and the number of classes K from the data alone.

    For each K, the classes are taken to be Gaussians with one variance σ² in all directions. `LCCAD` with
    θ = 1/(1 + 2σ²) weighs distances as such a model would. θ gives classes, these give σ², and so on.

    The numbers of classes are then compared by a criterion that rewards likely data, with one covariance of
    the columns within classes, and charges for each parameter (BIC): −2 [log p(X | H) + log p(H)] +
    (number of parameters)·log n. log p(H) is exact on chains and trees, and a pseudo-likelihood elsewhere.
    The latter is fond of one class that is split in two like a chessboard: fits in which a class goes better
    with another than with itself are out.

    Parameters
    ----------
    X, graph
        As for `LCCAD.fit`.
    max_classes
        Largest K to try.
    n_classes
        K where it is known: only θ is then suggested.
    random_state
        Seed.

    Examples
    --------
    >>> from tellwhy.data.graphs import chain
    >>> classes = np.repeat([0, 1, 0, 1], 100)
    >>> X = np.random.default_rng(0).normal(size=(400, 2)) + 3.0 * classes[:, None]
    >>> suggest_lccad(X, chain(400), max_classes=3).n_classes
    2
    """
    validate_value("suggest_lccad", "max_classes", max_classes, integer(1, 127))
    counts = range(1, max_classes + 1) if n_classes is None else [n_classes]
    rng = generator(random_state)
    candidates = [
        _make_candidate(X, graph, k, rng) for k in track(counts, len(counts), "comparing numbers of classes")
    ]
    best = min(candidates, key=lambda c: c.criterion)
    return Suggestion(best.n_classes, best.theta, tuple(candidates))


def _make_candidate(X: ArrayLike, graph: Any, n_classes: int, rng: np.random.Generator) -> Candidate:
    settings: dict[str, Any] = {"random_state": int(rng.integers(2**31 - 1))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TellwhyWarning)  # a collapse shows in the criterion
        model = LCCAD(n_classes, 1.0, n_init=5, **settings).fit(X, graph)
        for _ in range(_ROUNDS):
            variance = _estimate_variance(model)
            theta = 1.0 / (1.0 + 2.0 * variance) if variance > 0 else 1.0
            model = LCCAD(n_classes, theta, init=model.centres_, **settings).fit(X, graph)
    # A class without nodes was too small to be one: fewer classes say as much.
    is_proper = _measure_neighbours_share(model) and bool((model.class_sizes_ > 0).all())
    criterion = _compute_criterion(model, rng) if is_proper else np.inf
    return Candidate(n_classes, theta, criterion)


def _estimate_variance(model: LCCAD) -> float:
    scores = model.outlierness()
    return estimate_variance_of(scores[np.isfinite(scores)], model.n_features_in_)


def _measure_neighbours_share(model: LCCAD) -> bool:
    """Whether each class goes best with itself; if not, one class was split into a chequered pair."""
    there = np.isin(np.arange(model.n_classes), model.labels_)
    pair = model.couplings_[np.ix_(there, there)]
    return bool((np.diag(pair) >= pair.max(axis=1)).all())


def _compute_criterion(model: LCCAD, rng: np.random.Generator) -> float:
    """−2 [log p(X | H) + log p(H)] + (number of parameters)·log n."""
    n = int((model.labels_ >= 0).sum())
    d = model.n_features_in_
    k = model.n_classes
    there = model.labels_ >= 0
    log_values = (
        -0.5 * n * _measure_surprise_within(model.training_X_[there] - model.centres_[model.labels_[there]])
    )
    fitted = Alternation(model.training_X_, model.graph_, model.settings(), rng)
    log_labels = fitted.log_likelihood(model.labels_, Couplings(model.couplings_, model.emissions_))
    # Centres, one covariance of the columns, a symmetric table of couplings, and weights of the classes.
    n_parameters = k * d + d * (d + 1) // 2 + k * (k + 1) // 2 + k - 1
    return float(-2 * (log_values + log_labels) + n_parameters * np.log(n))


def _measure_surprise_within(deviations: NDArray[Any]) -> float:
    """−2 times the mean log density of deviations from the centres, normal and of one covariance.

    Without a spread of each column, and their correlations, a class that is long in one direction would be
    split along it. Single nodes far out count for no more than those at three standard deviations; a class
    that is one with another has too many of these.
    """
    d = deviations.shape[1]
    spread = spread_of(deviations)
    units = np.clip(deviations / np.where(spread > 0, spread, 1.0), -_FARTHEST, _FARTHEST)
    covariance = units.T @ units / len(units)
    # Rows that are all equal have variance 0, whose logarithm is not a number.
    own = np.maximum(np.diag(covariance), np.finfo(float).tiny)
    # Columns that repeat each other within the classes would make any number of classes infinitely likely.
    covariance *= 1 - _APART
    np.fill_diagonal(covariance, own)
    log_units = np.log(np.maximum(spread**2, np.finfo(float).tiny)).sum()
    return float(log_units + np.linalg.slogdet(covariance)[1] + d * (np.log(2 * np.pi) + 1))
