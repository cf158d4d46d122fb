"""How good an explanation of inputs is: faithful to changes, stable under small ones, and simple.

Yeh et al., NeurIPS (2019) for infidelity and sensitivity; Chalasani et al., ICML (2020) for sparseness;
Bhatt, Weller, Moura, IJCAI (2020) for complexity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explainer import Explains
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import Rules, generator, integer, none, real, seed, validate_value
from tellwhy.core.progress import track
from tellwhy.core.score import Floats
from tellwhy.evaluation.region_flipping import find_explained_scores

_ACCEPTED: dict[str, Rules] = {
    "n_samples": integer(1),
    "share": real(0, 1),
    "noise": real(0),
    "radius": real(0),
    "batch_size": (none, integer(1)),
    "random_state": seed,
}


@dataclass(frozen=True, eq=False)
class Infidelity:
    """How far the change that an explanation predicts is from the change of the score.

    Attributes
    ----------
    errors
        Mean squared difference of the two, per row.
    changes
        Mean squared change of the score, per row.
    """

    errors: Floats
    changes: Floats

    @property
    def relative(self) -> Floats:
        """Errors as shares of the changes: 0 is perfect, 1 is as good as predicting no change at all."""
        return np.divide(self.errors, self.changes, out=np.zeros_like(self.errors), where=self.changes > 0)

    @property
    def mean(self) -> float:
        """Relative infidelity over all rows."""
        return float(self.errors.sum() / self.changes.sum()) if self.changes.sum() > 0 else 0.0


def infidelity(
    explanation: Explanation,
    model: Any,
    *,
    target: Any = None,
    n_samples: int = 32,
    share: float = 0.2,
    noise: float = 0.1,
    batch_size: int | None = None,
    device: Any = None,
    random_state: Any = 0,
) -> Infidelity:
    """Compare what an explanation says of random changes with what the score does.

    Shares of a score (kind "attribution") predict the fall when cells become zero: the sum of their values.
    Slopes (kind "sensitivity") predict the fall when noise is taken away: its product with them.

    Parameters
    ----------
    explanation
        Of inputs, with its data.
    model, target, batch_size, device
        The explained network or score, as in `region_flipping`.
    n_samples
        Random changes per row.
    share
        Probability of each cell to become zero, for shares.
    noise
        Standard deviation of the noise as a share of the range of each row, for slopes.
    random_state
        Seed of the changes.

    Returns
    -------
    Infidelity
        Errors of the predicted changes and the changes themselves, per row.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.core.explanation import Explanation
    >>> X = np.random.default_rng(0).normal(size=(3, 4))
    >>> right = Explanation(values=2 * X, scores=2 * X.sum(1), method="by hand", data=X)
    >>> round(infidelity(right, lambda X: 2 * X.sum(axis=1)).mean, 9)
    0.0
    """
    given = {"n_samples": n_samples, "share": share, "noise": noise, "batch_size": batch_size}
    for name, value in {**given, "random_state": random_state}.items():
        validate_value("infidelity", name, value, _ACCEPTED[name])
    if explanation.kind not in ("attribution", "sensitivity"):
        raise InvalidInput(
            f"Infidelity needs shares or slopes. {explanation.method} gives a {explanation.kind}: its values "
            "say nothing of how far the score falls."
        )
    found = find_explained_scores(explanation, model, target, batch_size=batch_size, device=device)
    rng = generator(random_state)
    rows = np.arange(len(found.X))
    before = found.value(found.X, rows)
    errors = np.zeros(len(rows))
    changes = np.zeros(len(rows))
    for _ in track(range(n_samples), n_samples, "infidelity"):
        removed = _removed(explanation.kind, found.X, share, noise, rng)
        # A share is of a whole cell; a slope is per unit.
        per_unit = explanation.values * (removed != 0 if explanation.kind == "attribution" else removed)
        predicted = per_unit.reshape(len(rows), -1).sum(axis=1)
        fell = before - found.value(found.X - removed, rows)
        errors += (predicted - fell) ** 2 / n_samples
        changes += fell**2 / n_samples
    return Infidelity(errors, changes)


def _removed(kind: str, X: Floats, share: float, noise: float, rng: np.random.Generator) -> Floats:
    """What is taken away from the inputs."""
    if kind == "attribution":
        return np.where(rng.random(X.shape) < share, X, 0.0)
    flat = X.reshape(len(X), -1)
    spread = np.ptp(flat, axis=1).reshape(-1, *[1] * (X.ndim - 1))
    return rng.normal(size=X.shape) * noise * spread


def max_sensitivity(
    explainer: Explains, X: Any, *, radius: float = 0.02, n_samples: int = 10, random_state: Any = 0
) -> Floats:
    """Largest relative change of each row's values when the row changes a little, in any of some directions.

    Parameters
    ----------
    explainer
        Makes the explanations.
    X
        Rows to explain, of numbers.
    radius
        Largest change of a cell, as a share of the range of its row.
    n_samples
        Changed versions of each row.
    random_state
        Seed of the changes.

    Returns
    -------
    ndarray
        One number per row: the largest relative change.
    """
    for name, value in {"radius": radius, "n_samples": n_samples, "random_state": random_state}.items():
        validate_value("max_sensitivity", name, value, _ACCEPTED[name])
    plain = np.array(X)
    if plain.dtype.kind != "f":
        raise InvalidInput(f"max_sensitivity changes rows a little: they must be floats, not {plain.dtype}.")
    first = _measure_lengths_of(explainer.explain(X).values)
    rng = generator(random_state)
    spread = np.ptp(plain.reshape(len(plain), -1), axis=1).reshape(-1, *[1] * (plain.ndim - 1))
    largest = np.zeros(len(plain))
    for _ in track(range(n_samples), n_samples, "max-sensitivity"):
        moved = plain + (rng.uniform(-radius, radius, plain.shape) * spread).astype(plain.dtype)
        again = explainer.explain(moved).values.reshape(len(plain), -1)
        apart = np.linalg.norm(again - first.values, axis=1)
        moves = np.divide(apart, first.lengths, where=first.lengths > 0, out=np.zeros(len(apart)))
        largest = np.maximum(largest, moves)
    return largest


@dataclass(frozen=True)
class _Flat:
    """Values of each row in one line, and their length."""

    values: Floats
    lengths: Floats


def _measure_lengths_of(values: Floats) -> _Flat:
    flat = values.reshape(len(values), -1)
    return _Flat(flat, np.linalg.norm(flat, axis=1))


def sparseness(explanation: Explanation) -> Floats:
    """Gini index of the sizes of each row's values: 0 where all are alike, towards 1 where one is everything.

    Returns
    -------
    ndarray
        One number per row.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.core.explanation import Explanation
    >>> values = np.array([[1.0, 1.0, 1.0, -1.0], [0.0, 0.0, 0.0, 5.0]])
    >>> sparseness(Explanation(values=values, scores=values.sum(1), method="by hand"))
    array([0.  , 0.75])
    """
    sizes = np.sort(np.abs(explanation.values.reshape(len(explanation.values), -1)), axis=1)
    n = sizes.shape[1]
    weights = 2 * np.arange(1, n + 1) - n - 1
    total = sizes.sum(axis=1)
    return np.divide(sizes @ weights, n * total, where=total > 0, out=np.zeros(len(sizes)))


def complexity(explanation: Explanation) -> Floats:
    """Entropy of the sizes of each row's values as shares, in nats: the log of how many cells it speaks of.

    Returns
    -------
    ndarray
        One number per row.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.core.explanation import Explanation
    >>> values = np.array([[1.0, 1.0, 1.0, -1.0], [0.0, 0.0, 0.0, 5.0]])
    >>> np.exp(complexity(Explanation(values=values, scores=values.sum(1), method="by hand"))).round(6)
    array([4., 1.])
    """
    sizes = np.abs(explanation.values.reshape(len(explanation.values), -1))
    total = sizes.sum(axis=1, keepdims=True)
    shares = np.divide(sizes, total, where=total > 0, out=np.zeros_like(sizes))
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return np.asarray(-(shares * logs).sum(axis=1))


def pointing_game(explanation: Explanation, truth: Any) -> Floats:
    """Whether the largest value of each row lies in the marked region: 1 or 0 per row.

    Zhang et al., International Journal of Computer Vision 126 (2018).

    Parameters
    ----------
    explanation
        Channels of pictures are added up first where `truth` has no axis for them.
    truth
        Marks (n, *shape) that are true where the reason is known to be; every row has some.

    Returns
    -------
    ndarray
        1 or 0 for each row.
    """
    values = explanation.values
    marks = np.asarray(truth).astype(bool)
    if marks.shape == (len(values), *values.shape[2:]) and values.ndim > marks.ndim:
        values = values.sum(axis=1)
    if marks.shape != values.shape:
        raise InvalidInput(
            f"The marks have shape {marks.shape}; expected {explanation.values.shape}, or the same without "
            "the axis of channels."
        )
    flat = marks.reshape(len(marks), -1)
    if not flat.any(axis=1).all():
        raise InvalidInput(f"Row {int(np.argmin(flat.any(axis=1)))} has no mark: nothing can be hit there.")
    best = values.reshape(len(values), -1).argmax(axis=1)
    return flat[np.arange(len(flat)), best].astype(float)
