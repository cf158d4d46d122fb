"""Gradients of a score, integrated along the straight line from a reference row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.capabilities import HasGradient, KeepsOutput
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.parallel import BATCH_BYTES, row_batches
from tellwhy.core.params import Rule, Rules, integer, none, one_of, real
from tellwhy.core.progress import track
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats, Integers, ScoreFunction
from tellwhy.explainers.base import Attribution, BackgroundExplainer, Rows, lacks
from tellwhy.scoring import NetworkOutput, as_score


@dataclass(frozen=True)
class Limits:
    """Where the refinement of the integral ends.

    `rounding` is a share of the scores at both ends: differences below it are not errors of the integral.
    """

    tolerance: float
    max_steps: int
    rounding: float


_USUAL = Limits(tolerance=1e-6, max_steps=1024, rounding=1e-12)
_OF_NETWORKS = Limits(tolerance=0.01, max_steps=128, rounding=1e-6)


@register(
    "explainer",
    family="gradients",
    needs="a score with a gradient, or a network; a reference row, or background rows for their mean",
    cost="n_steps gradients per row, more where the score bends sharply (at most max_steps)",
    exactness="exact up to the error of the integral, which is stated as residual",
    citation="Sundararajan, Taly, Yan, ICML (2017)",
    applies=lambda score: isinstance(score, HasGradient),
)
class IntegratedGradients(BackgroundExplainer):
    """R_i = (x_i − r_i) ∫₀¹ ∂o/∂x_i(r + t(x − r)) dt, from a reference row r to the row x.

    The base value is the score of the reference; values add up to the difference between the two scores. The
    integral is a Gauss–Legendre sum of `n_steps` gradients. Because the values of any part of the line must
    add up to the difference of the scores at its ends, each part's error is known: parts whose error is too
    large are cut in half and integrated again. What is left after `max_steps` gradients is the residual.

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
    reference
        Where the line starts: "mean" of the background rows that `fit` was given, "zero", or one row in the
        user's columns. None is zero for a network and the mean for anything else.
    n_steps
        Gradients per part of the line.
    tolerance
        Largest error of a part, as a share of the difference between the scores of row and reference. By
        default 1e-6, and 0.01 for networks, whose gradients jump.
    max_steps
        Gradients per row, at most (`n_steps` are always computed). By default 1024, and 128 for networks.
    batch_size
        Rows that go through a network at once.
    device
        Where a network is computed; by default where it is. Elsewhere a copy of it is used.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> score = FunctionScore(lambda X: X[:, 0] * X[:, 1], gradient=lambda X: X[:, ::-1], describes="x0 · x1")
    >>> IntegratedGradients(score, reference=[0.0, 0.0]).explain(np.array([[3.0, 2.0]])).values.round(9)
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
    _parameters: ClassVar[dict[str, Rules]] = {
        "target": Rule(
            "'max', an output's number, one per row, or a function", lambda value: value is not None
        ),
        "reference": (
            none,
            one_of("mean", "zero"),
            Rule("one row in the columns of X", lambda row: not isinstance(row, str) and np.ndim(row) > 0),
        ),
        "n_steps": integer(1, 256),
        "tolerance": (none, real(0, 1)),
        "max_steps": (none, integer(1)),
        "batch_size": integer(1),
        "device": (
            none,
            Rule("a device", lambda value: isinstance(value, str) or type(value).__name__ == "device"),
        ),
    }

    def __init__(
        self,
        model: Any,
        target: Any = "max",
        *,
        reference: Any = None,
        n_steps: int = 16,
        tolerance: float | None = None,
        max_steps: int | None = None,
        batch_size: int = 32,
        device: Any = None,
    ):
        super().__init__(model)
        self.target = target
        self.reference = reference
        self.n_steps = n_steps
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.device = device

    @cached_property
    def score(self) -> ScoreFunction:
        """The score function that is explained."""
        score = as_score(self.model)
        chosen = not isinstance(self.target, str) or self.target != "max"
        if isinstance(score, NetworkOutput):
            if score is self.model and not chosen:
                return score
            return NetworkOutput(score.model, self.target, batch_size=self.batch_size, device=self.device)
        if chosen:
            raise InvalidParameter(
                f"The 'target' parameter of IntegratedGradients chooses an output of a network, and "
                f"{type(self.model).__name__} has one score. Got {self.target!r}; leave it out."
            )
        return score

    def _fit(self, X: ArrayLike) -> None:
        """Learn the mean of background rows, in the columns that the score sees."""
        self.mean_ = self.rows(X).X.mean(axis=0)

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasGradient):
            raise lacks(rows.score, "IntegratedGradients", "a gradient (Occlusion explains any score)")
        outputs = fixed_outputs(rows)
        together = -(-self.batch_size // self.n_steps) if isinstance(self.score, NetworkOutput) else 1
        lines = Lines(rows.score, rows.X, self._reference_row(rows), rows.without + outputs, together)
        limits = self._limits()
        values, n_gradients = np.empty_like(rows.X), np.empty(len(rows.X), dtype=np.int64)
        scores, base = lines.value(np.arange(len(rows.X)), 1.0), lines.value(np.arange(len(rows.X)), 0.0)
        bytes_per_row = 16 * rows.X[0].size * max(self.n_steps, limits.max_steps // self.n_steps)
        batches = lines.batches(len(rows.X), bytes_per_row)
        for batch in track(batches, len(batches), "integrating gradients"):
            index = np.arange(len(rows.X))[batch]
            values[batch], n_gradients[batch] = self._integrate(
                lines, index, base[batch], scores[batch], limits
            )
        extras = {"n_gradients": n_gradients}
        if outputs:
            extras["output"] = outputs[0]
        params = {"tolerance": limits.tolerance, "max_steps": limits.max_steps, "target": _plain(self.target)}
        params["device"] = None if self.device is None else str(self.device)
        if hasattr(self.reference, "detach"):
            params["reference"] = np.asarray(self.reference.detach().cpu())
        return Attribution(values, scores, base, extras=extras, params=params)

    def _limits(self) -> Limits:
        """How accurate, and how many gradients at most: what was asked for, or what suits the score."""
        usual = _OF_NETWORKS if isinstance(self.score, NetworkOutput) else _USUAL
        return Limits(
            usual.tolerance if self.tolerance is None else self.tolerance,
            usual.max_steps if self.max_steps is None else self.max_steps,
            usual.rounding,
        )

    def _reference_row(self, rows: Rows) -> Floats:
        """Return the reference in the columns that the score sees."""
        of_network = isinstance(self.score, NetworkOutput)
        if (
            self.reference == "zero"
            if isinstance(self.reference, str)
            else self.reference is None and of_network
        ):
            return np.zeros(rows.X.shape[1])
        if self.reference is not None and not isinstance(self.reference, str):
            try:
                return np.asarray(self.rows(np.asarray(self.reference)[None]).X[0])
            except InvalidInput as error:
                raise InvalidInput(f"reference must be one row in the columns of X: {error}") from error
        if "mean_" not in vars(self):
            raise InvalidInput(
                "IntegratedGradients has no reference: call fit(X) with background rows before explain(X), or pass "
                "reference=<one row>."
            )
        return self.mean_

    def _integrate(
        self, lines: Lines, index: Integers, base: Floats, scores: Floats, limits: Limits
    ) -> tuple[Floats, Integers]:
        """Integrate over the whole line of each row, then over halves of the parts that were not accurate enough."""
        allowed = limits.tolerance * np.abs(scores - base) + limits.rounding * (np.abs(scores) + np.abs(base))
        values, used = np.zeros((len(index), *lines.X.shape[1:])), np.zeros(len(index), dtype=np.int64)
        parts = Parts(np.arange(len(index)), np.zeros(len(index)), np.ones(len(index)), base, scores)
        while len(parts.row):
            found = lines.integrals(index[parts.row], parts, self.n_steps)
            used += self.n_steps * np.bincount(parts.row, minlength=len(index))
            error = np.abs(parts.high - parts.low - found.reshape(len(found), -1).sum(axis=1))
            wanted = error > allowed[parts.row]
            next_cost = 2 * self.n_steps * np.bincount(parts.row[wanted], minlength=len(index))
            split = wanted & (used + next_cost <= limits.max_steps)[parts.row]
            np.add.at(values, parts.row[~split], found[~split])
            parts = parts.halves(split, lines, index)
        return values, used


def _plain(target: Any) -> Any:
    """Target as it can be written down."""
    if isinstance(target, (str, int)):
        return target
    return getattr(target, "__name__", "a function") if callable(target) else "one output per row"


def fixed_outputs(rows: Rows) -> tuple[Integers, ...]:
    """The output of a network that each row has, for scores that choose one; nothing for others."""
    return tuple(rows.score.fixed(rows.X)) if isinstance(rows.score, KeepsOutput) else ()


@dataclass(frozen=True)
class Parts:
    """Parts [start, stop] of the lines of some rows, with the scores at their ends."""

    row: Integers
    start: Floats
    stop: Floats
    low: Floats
    high: Floats

    def halves(self, chosen: Any, lines: Lines, index: Integers) -> Parts:
        """Both halves of the chosen parts."""
        row, start, stop = self.row[chosen], self.start[chosen], self.stop[chosen]
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

    def batches(self, n: int, bytes_per_row: int) -> list[slice]:
        """Parts of n lines under the limit of memory."""
        return row_batches(n, bytes_per_row, max(BATCH_BYTES, self.together * bytes_per_row))

    def _points(self, row: Integers, share: Floats | float) -> Floats:
        shares = np.broadcast_to(share, row.shape).reshape(-1, *[1] * self.reference.ndim)
        # the ends must be the row and the reference themselves, to the last bit
        return np.asarray((1 - shares) * self.reference + shares * self.X[row])

    def _left_out(self, row: Integers) -> tuple[Integers, ...]:
        return tuple(other[row] for other in self.others)

    def value(self, row: Integers, share: Floats | float) -> Floats:
        """Score at a share of the way from the reference (0) to each row (1)."""
        return np.asarray(self.score.value(self._points(row, share), *self._left_out(row)))

    def integrals(self, row: Integers, parts: Parts, n_steps: int) -> Floats:
        """(x − r) ∫ ∂o/∂x dt over each part, by Gauss–Legendre, shaped like the rows."""
        nodes, weights = np.polynomial.legendre.leggauss(n_steps)
        found = np.empty((len(row), *self.X.shape[1:]))
        for batch in self.batches(len(row), 24 * n_steps * self.reference.size):
            length = (parts.stop - parts.start)[batch]
            share = parts.start[batch][:, None] + length[:, None] * (nodes + 1) / 2
            repeated = np.repeat(row[batch], n_steps)
            slope = self.score.gradient(self._points(repeated, share.ravel()), *self._left_out(repeated))
            mean = np.tensordot(weights / 2, slope.reshape(len(length), n_steps, *self.X.shape[1:]), (0, 1))
            found[batch] = (
                mean * length.reshape(-1, *[1] * self.reference.ndim) * (self.X[row[batch]] - self.reference)
            )
        return found
