"""Integrated gradients: those of a score along the straight line from a baseline, as fine as each line needs.

    R_i = (x_i − b_i) ∫ ∂f/∂x_i (b + t (x − b)) dt,  t from 0 to 1

A Gauss–Legendre sum of a few gradients is exact for smooth scores. Along any part of a line the integral must
be the difference of the scores at its ends, so that the error of each part is known without a second sum:
parts whose error is too large are cut in half, and only those.

Sundararajan, Taly, Yan, ICML (2017).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.errors import InvalidInput, InvalidParameter, NotConverged
from tellwhy.core.params import Rule, Rules, integer, none, one_of, real, validate_parameters
from tellwhy.core.progress import shown, track
from tellwhy.core.running import BATCH_BYTES, NETWORK_BATCH, cut_batches
from tellwhy.core.score import Floats, HasGradient, Integers, IsTensor, ScoreFunction
from tellwhy.explainers.base import BackgroundExplainer, lacks
from tellwhy.explainers.rows import BATCH_PARAMETERS, Attribution, Rows
from tellwhy.scoring import NetworkOutput, as_score
from tellwhy.scoring.network_output import has_parts

MOST_MISSING = 0.05  # of the difference between the scores at the ends of a line, without a warning


@dataclass(frozen=True)
class Limits:
    """Where the refinement of the integral ends.

    Attributes
    ----------
    tolerance
        Largest error of a part, as a share of the difference between the scores at the ends of the line.
    max_steps
        Gradients per line, at most.
    rounding
        A share of the scores at both ends: differences below it are not errors of the integral.
    """

    tolerance: float
    max_steps: int
    rounding: float

    def allowed(self, start: Floats, stop: Floats) -> Floats:
        """Error that a part of each line may have."""
        by_rounding = self.rounding * (np.abs(stop) + np.abs(start))
        return np.asarray(self.tolerance * np.abs(stop - start) + by_rounding)


@dataclass(frozen=True)
class Parts:
    """Parts [start, stop] of the lines of some rows, with the scores at their ends."""

    row: Integers
    start: Floats
    stop: Floats
    low: Floats
    high: Floats

    @classmethod
    def whole(cls, low: Floats, high: Floats) -> Parts:
        """All of each line."""
        n = len(low)
        return cls(np.arange(n), np.zeros(n), np.ones(n), low, high)

    def halves(self, chosen: NDArray[np.bool_], lines: Lines, index: Integers) -> Parts:
        """Both halves of the chosen parts; `index` tells the line of each row."""
        row = self.row[chosen]
        start = self.start[chosen]
        stop = self.stop[chosen]
        middle = (start + stop) / 2
        score = lines.value(index[row], middle) if len(row) else middle
        return Parts(
            np.concatenate([row, row]),
            np.concatenate([start, middle]),
            np.concatenate([middle, stop]),
            np.concatenate([self.low[chosen], score]),
            np.concatenate([score, self.high[chosen]]),
        )


@dataclass(frozen=True)
class Lines:
    """The straight lines from a reference to each row, and a score along them.

    `others` are further arguments of the score, one entry per row; at least `together` lines are worked on at
    once.
    """

    score: Any
    X: Floats
    reference: Floats
    others: tuple[Integers, ...] = ()
    together: int = 1

    def __len__(self) -> int:
        return len(self.X)

    def batches(self, n: int, bytes_per_row: int) -> list[slice]:
        """Parts of n lines under the limit of memory."""
        return cut_batches(n, bytes_per_row, max(BATCH_BYTES, self.together * bytes_per_row))

    def taken(self, chosen: NDArray[np.bool_]) -> Lines:
        """The lines of some rows."""
        return replace(self, X=self.X[chosen], others=tuple(other[chosen] for other in self.others))

    def value(self, row: Integers, share: Floats | float) -> Floats:
        """Score at a share of the way from the reference (0) to each row (1)."""
        return np.asarray(self.score.value(self._points(row, share), *self._others(row)))

    def integrals(self, row: Integers, parts: Parts, n_steps: int) -> Floats:
        """(x − r) ∫ ∂o/∂x dt over each part, by Gauss–Legendre, shaped like the rows."""
        nodes, weights = np.polynomial.legendre.leggauss(n_steps)  # on [−1, 1]
        shape = self.X.shape[1:]
        found = np.empty((len(row), *shape))
        for batch in self.batches(len(row), 24 * n_steps * self.reference.size):
            length = (parts.stop - parts.start)[batch]
            share = parts.start[batch][:, None] + length[:, None] * (nodes + 1) / 2
            repeated = np.repeat(row[batch], n_steps)
            slope = self.score.gradient(self._points(repeated, share.ravel()), *self._others(repeated))
            mean = np.tensordot(weights / 2, slope.reshape(len(length), n_steps, *shape), (0, 1))
            step = length.reshape(-1, *[1] * len(shape))
            found[batch] = mean * step * (self.X[row[batch]] - self.reference)
        return found

    def _points(self, row: Integers, share: Floats | float) -> Floats:
        shares = np.broadcast_to(share, row.shape).reshape(-1, *[1] * self.reference.ndim)
        # the ends must be the row and the reference themselves, to the last bit
        return np.asarray((1 - shares) * self.reference + shares * self.X[row])

    def _others(self, row: Integers) -> tuple[Integers, ...]:
        return tuple(other[row] for other in self.others)


@dataclass(frozen=True)
class Integrated:
    """Integrals of all lines, shaped like the rows, scores at both ends, and how many gradients each took."""

    values: Floats
    scores: Floats
    base: Floats
    n_gradients: Integers


def integrate(lines: Lines, n_steps: int, limits: Limits) -> Integrated:
    """Integrate along every line, in batches."""
    every = np.arange(len(lines))
    found = Integrated(
        np.empty_like(lines.X),
        lines.value(every, 1.0),
        lines.value(every, 0.0),
        np.empty(len(lines), dtype=np.int64),
    )
    # the most parts that a line can have at once, each with the gradient of its row
    bytes_per_row = 16 * lines.X[0].size * max(n_steps, limits.max_steps // n_steps)
    batches = lines.batches(len(lines), bytes_per_row)
    for batch in track(batches, len(batches), "integrating gradients"):
        whole = Parts.whole(found.base[batch], found.scores[batch])
        values, used = _refined(lines, every[batch], whole, n_steps, limits)
        found.values[batch] = values
        found.n_gradients[batch] = used
    return found


def integrate_well(lines: Lines, n_steps: int, limits: Limits, *, most: int | None = None) -> Integrated:
    """Integrate, again with up to `most` gradients where over 5 % is missing; warn where it stays so."""
    found = integrate(lines, n_steps, limits)
    bad = _is_missing(found, limits)
    if bad.any() and most is not None:
        again = integrate(lines.taken(bad), n_steps, replace(limits, max_steps=most))
        found.values[bad] = again.values
        found.n_gradients[bad] += again.n_gradients
        bad = _is_missing(found, limits)
    if bad.any():
        share = np.abs(_missing(found) / (found.scores - found.base))[bad].max()
        warnings.warn(
            f"IntegratedGradients leaves up to {min(share, 9.99):.0%} of the difference between a row and "
            f"its reference unattributed, in {int(bad.sum())} of {len(bad)} rows: the score jumps on the "
            "way. Start from ordinary rows (background=…, or baseline=<a row>), or raise max_iter.",
            NotConverged,
            stacklevel=2,
        )
    return found


def _missing(found: Integrated) -> Floats:
    """What the values of each row do not add up to."""
    sums = found.values.reshape(len(found.values), -1).sum(axis=1)
    return np.asarray(found.scores - found.base - sums)


def _is_missing(found: Integrated, limits: Limits) -> NDArray[np.bool_]:
    """Tell the rows of which more than 5 %, and more than rounding makes, is not attributed."""
    return np.asarray(
        np.abs(_missing(found)) > replace(limits, tolerance=MOST_MISSING).allowed(found.base, found.scores)
    )


def _refined(
    lines: Lines, index: Integers, parts: Parts, n_steps: int, limits: Limits
) -> tuple[Floats, Integers]:
    """Integrate over the whole line of each row, then over halves of the parts that are not accurate yet."""
    n = len(index)
    allowed = limits.allowed(parts.low, parts.high)
    values = np.zeros((n, *lines.X.shape[1:]))
    used = np.zeros(n, dtype=np.int64)
    while len(parts.row):
        found = lines.integrals(index[parts.row], parts, n_steps)
        used += n_steps * np.bincount(parts.row, minlength=n)
        error = np.abs(parts.high - parts.low - found.reshape(len(found), -1).sum(axis=1))
        wanted = error > allowed[parts.row]
        # a row whose next round would cost too much keeps all its parts as they are
        next_cost = 2 * n_steps * np.bincount(parts.row[wanted], minlength=n)
        split = wanted & (used + next_cost <= limits.max_steps)[parts.row]
        np.add.at(values, parts.row[~split], found[~split])  # several parts may belong to one row
        parts = parts.halves(split, lines, index)
    return values, used


_USUAL = Limits(tolerance=1e-6, max_steps=1024, rounding=1e-12)
# gradients of networks jump, so that accuracy is dear; their numbers are float32, so that it is also bounded
_OF_NETWORKS = Limits(tolerance=0.01, max_steps=128, rounding=1e-6)


class IntegratedGradients(BackgroundExplainer):
    """R_i = (x_i − r_i) ∫₀¹ ∂o/∂x_i(r + t(x − r)) dt, from a reference row r to the row x.

    The base value is the score of the reference; values add up to the difference between the two scores. The
    integral is a Gauss–Legendre sum of `n_steps` gradients. Because the values of any part of the line must
    add up to the difference of the scores at its ends, each part's error is known: parts whose error is too
    large are cut in half and integrated again. What is left after `max_iter` gradients is the residual.

    Training rows of a kernel model are left out of it, as in `OneClassDTD`. Of a network, the output that is
    explained is chosen at the row itself and stays the same along the line.

    Parameters
    ----------
    model
        A model whose score has a gradient, or a `torch.nn.Module` in evaluation mode with inputs of any
        shape.
    target
        The explained output of a network: "max", its number, one number per row, or a function of the
        outputs.
    baseline
        Where the line starts: "mean" of the background rows that `fit` was given, "zero", or one row in the
        user's columns. None is the mean where `fit` was called, else zero for a network; anything else needs
        `fit`.
    n_steps
        Gradients per part of the line.
    tol
        Largest error of a part, as a share of the difference between the scores of row and reference. By
        default 1e-6, and 0.01 for networks, whose gradients jump.
    max_iter
        Gradients per row, at most (`n_steps` are always computed). By default 1024, and 128 for networks.
    batch_size
        Rows that the model gets per call, at most; None: 32 for a network, else as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; None: one, −1: one per core. Results do not depend
        on it.
    device
        Where a network is computed; by default where it is. Elsewhere a copy of it is used.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> score = FunctionScore(lambda X: X[:, 0] * X[:, 1], gradient=lambda X: X[:, ::-1], describes="x0 · x1")
    >>> IntegratedGradients(score, baseline=[0.0, 0.0]).explain(np.array([[3.0, 2.0]])).values.round(9)
    array([[3., 3.]])

    A network, from an empty picture:

    >>> import torch
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2, bias=False)).eval()
    >>> _ = network[1].weight.data.copy_(torch.tensor([[1.0, 2.0, 0.0, -1.0], [0.0, 1.0, 1.0, 0.0]]))
    >>> IntegratedGradients(network, target=0).explain(np.ones((1, 2, 2))).values
    array([[[ 1.,  2.],
            [ 0., -1.]]])
    """

    leaves_rows_out = True
    calls_in_batches = True
    _parameters: ClassVar[dict[str, Rules]] = {
        "target": Rule(
            "'max', an output's number, one per row, or a function", lambda value: value is not None
        ),
        "baseline": (
            none,
            one_of("mean", "zero"),
            Rule("one row in the columns of X", lambda row: not isinstance(row, str) and np.ndim(row) > 0),
        ),
        "n_steps": integer(1, 256),
        "tol": (none, real(0, 1)),
        "max_iter": (none, integer(1)),
        **BATCH_PARAMETERS,
        "device": (
            none,
            Rule("a device", lambda value: isinstance(value, str) or type(value).__name__ == "device"),
        ),
    }

    def __init__(
        self,
        model: object,
        *,
        target: Any = "max",
        baseline: ArrayLike | str | None = None,
        n_steps: int = 16,
        tol: float | None = None,
        max_iter: int | None = None,
        batch_size: int | None = None,
        n_jobs: int | None = None,
        device: Any = None,
    ):
        super().__init__(model)
        self.target = target
        self.baseline = baseline
        self.n_steps = n_steps
        self.tol = tol
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.device = device

    @cached_property
    def score(self) -> ScoreFunction:
        """The score function that is explained."""
        score = as_score(self.model)
        chosen = not isinstance(self.target, str) or self.target != "max"
        if isinstance(score, NetworkOutput):
            if score is self.model and not chosen:  # an output that the user has chosen already
                return score
            return NetworkOutput(score.model, self.target, batch_size=self.network_batch, device=self.device)
        if chosen:
            raise InvalidParameter(
                f"The 'target' parameter of IntegratedGradients chooses an output of a network, and "
                f"{type(self.model).__name__} has one score. Got {self.target!r}; leave it out."
            )
        return score

    @property
    def network_batch(self) -> int:
        """Rows that go through a network at once."""
        return self.batch_size or NETWORK_BATCH

    def _batched(self, score: Any) -> Any:
        # a network is given its rows in batches already
        return super()._batched(score) if self.n_jobs not in (None, 1) or not self._is_of_network() else score

    def fit(self, X: Any) -> Self:
        """Learn the reference, the mean of ordinary rows; inputs of a network are given as to `explain`."""
        if self._is_of_network() and has_parts(self.score.model, X):  # type: ignore[attr-defined]
            self.inputs_ = X
            return self
        return super().fit(X)

    def _fit(self, X: ArrayLike) -> None:
        """Learn the mean of background rows, in the columns that the score sees."""
        self.mean_ = self.rows(X).X.mean(axis=0)

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasGradient):
            raise lacks(rows.score, "IntegratedGradients", "a gradient (Occlusion explains any score)")
        # a network is used best with whole batches: as many lines at once as their gradients fill one
        together = -(-self.network_batch // self.n_steps) if self._is_of_network() else 1
        lines = Lines(rows.score, rows.X, self._read_reference_row(rows), rows.without, together)
        found = self.integrated(lines)
        extras = {"n_gradients": found.n_gradients}
        return Attribution(found.values, found.scores, found.base, extras=extras, params=self.used())

    def explain(self, X: Any, *, progress: bool | None = None) -> Any:
        """Explain the score of each row of X.

        Parameters
        ----------
        X
            Rows. Of a network they may be tokens (whole numbers that an `nn.Embedding` takes), or several
            inputs: a tuple, or a dict by the names of forward's arguments. Tokens are explained by the
            vectors that stand for them.
        progress
            Whether to show how far it is; None: on a terminal and in notebooks, after two seconds.

        Returns
        -------
        An `Explanation`; for several inputs one of each, in a tuple or a dict like X. There the residual of
        each is that of the whole, and `base_values` hold what the other inputs got.
        """
        if self._is_of_network() and has_parts(self.score.model, X):  # type: ignore[attr-defined]
            from tellwhy.explainers.gradients.network_inputs import explain_inputs

            validate_parameters(self)
            with shown(progress):
                return explain_inputs(self, X)
        return super().explain(X, progress=progress)

    def integrated(self, lines: Lines) -> Integrated:
        """Integrate along lines: once more, eight times finer, where over 5 % is missing."""
        limits = self._limits()
        # who sets max_iter means it
        most = 8 * limits.max_steps if self.max_iter is None else None
        return integrate_well(lines, self.n_steps, limits, most=most)

    def learns_from(self, background: object) -> bool:
        """Whether `fit` is to be called: not where the line starts elsewhere than at a mean of rows."""
        return background is not None or (self.baseline is None and not self._is_of_network())

    def _is_of_network(self) -> bool:
        return isinstance(self.score, NetworkOutput)

    def _limits(self) -> Limits:
        """How accurate, and how many gradients at most: what was asked for, or what suits the score."""
        usual = _OF_NETWORKS if self._is_of_network() else _USUAL
        return Limits(
            usual.tolerance if self.tol is None else self.tol,
            usual.max_steps if self.max_iter is None else self.max_iter,
            usual.rounding,
        )

    def used(self) -> dict[str, Any]:
        """Parameters as they were used, and as they can be written down."""
        limits = self._limits()
        used = {
            "tol": limits.tolerance,
            "max_iter": limits.max_steps,
            "target": _plain(self.target),
            "device": None if self.device is None else str(self.device),
        }
        if isinstance(self.baseline, IsTensor):
            used["baseline"] = np.asarray(self.baseline.detach().cpu())
        return used

    def _read_reference_row(self, rows: Rows) -> Floats:
        """Return the reference in the columns that the score sees."""
        reference = self.baseline
        if reference is None:  # an empty picture is a picture; a table's row of zeros may be very odd
            reference = "zero" if self._is_of_network() and "mean_" not in vars(self) else "mean"
        if not isinstance(reference, str):
            try:
                return np.asarray(self.rows(np.asarray(reference)[None]).X[0])
            except InvalidInput as error:
                raise InvalidInput(f"baseline must be one row in the columns of X: {error}") from error
        if reference == "zero":
            return np.zeros(rows.X.shape[1])
        if "mean_" not in vars(self):
            raise InvalidInput(
                "IntegratedGradients has no baseline: call fit(X) with background rows before explain(X), "
                "or pass baseline=<one row>."
            )
        return self.mean_


def _plain(target: Any) -> str | int:
    """Target as it can be written down."""
    if isinstance(target, (str, int)):
        return target
    return getattr(target, "__name__", "a function") if callable(target) else "one output per row"
