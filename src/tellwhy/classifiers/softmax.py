"""Softmax regression: by mini-batches on features, or as the convex problem that it is, to a tolerance.

P(W) = mean cross-entropy of φ(x) W + ½ ridge ‖W‖², where φ has a last column of ones: the intercepts are
weights like the others. At the dual point p = softmax(φ W) the duality gap is ‖∇P(W)‖²/(2 ridge). So it is
known how far from its least value the objective can be at most.

`minimise` works on NumPy arrays and on PyTorch tensors alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tellwhy.core.params import Fit
from tellwhy.core.progress import track
from tellwhy.core.score import Floats, Integers

CHUNK = 4_096  # rows whose features are held at once
LEAST_GAIN = 1e-4  # a smaller relative gain on the rows held out does not count as one
# As Kingma and Ba recommend for Adam.
_DECAY = 0.9
_DECAY_SQUARES = 0.999
_TINY = 1e-8

Features = Callable[[Integers], Any]  # rows, by their places -> their features


@dataclass(frozen=True)
class SoftmaxState:
    """Weights, shape (features + 1, classes) with the intercepts last, and the state of Adam.

    That is the running means of the gradient and of its squares, and the number of steps so far.
    """

    weights: Floats
    first: Floats
    second: Floats
    n_steps: int = 0

    @classmethod
    def zero(cls, n_features: int, n_classes: int) -> SoftmaxState:
        """All classes alike."""
        nothing = np.zeros((n_features + 1, n_classes))
        return cls(nothing, nothing, nothing)

    def _require(self) -> Iterator[Fit]:
        yield "weights", self.weights.ndim, 2
        yield "first", self.first.shape, self.weights.shape
        yield "second", self.second.shape, self.weights.shape


@dataclass(frozen=True)
class SoftmaxPlan:
    """Steps of training, and when to stop."""

    learning_rate: float
    batch_size: int
    max_epochs: int
    patience: int


@dataclass
class _Best:
    state: SoftmaxState
    loss: float = np.inf
    epoch: int = 0
    losses: list[float] = field(default_factory=list)


def train_softmax(
    features: Features,
    labels: Integers,
    held: Integers,
    *,
    start: SoftmaxState,
    plan: SoftmaxPlan,
    rng: np.random.Generator,
    refit: bool = False,
) -> tuple[SoftmaxState, Floats]:
    """Return the weights that did best on the rows held out, and the losses there after each epoch.

    With `refit`, as many epochs as did best are then taken over all rows, from the start.
    """
    rest = np.setdiff1d(np.arange(len(labels)), held)
    best = _Best(start)
    state = start
    for epoch in track(range(plan.max_epochs), plan.max_epochs, "training the classifier"):
        state = run_pass(features, labels, rng.permutation(rest), state, plan)
        best.losses.append(mean_loss(features, labels, held, state.weights))
        if best.losses[-1] < best.loss * (1 - LEAST_GAIN):
            best.state = state
            best.loss = best.losses[-1]
            best.epoch = epoch
        if epoch - best.epoch >= plan.patience:
            break
    if refit:
        best.state = start
        for _ in range(best.epoch + 1):
            best.state = run_pass(features, labels, rng.permutation(len(labels)), best.state, plan)
    return best.state, np.array(best.losses)


def run_pass(
    features: Features, labels: Integers, order: Integers, state: SoftmaxState, plan: SoftmaxPlan
) -> SoftmaxState:
    """Take a step of Adam per batch of rows, in the given order."""
    for start in range(0, len(order), CHUNK):
        rows = order[start : start + CHUNK]
        block = features(rows)
        for first in range(0, len(rows), plan.batch_size):
            part = slice(first, first + plan.batch_size)
            gradient = compute_loss_gradient(block[part], labels[rows[part]], state.weights)
            state = take_adam_step(state, gradient, plan.learning_rate)
    return state


def take_adam_step(state: SoftmaxState, gradient: Floats, learning_rate: float) -> SoftmaxState:
    """One step of Adam (Kingma and Ba, 2015)."""
    n = state.n_steps + 1
    # The means start at zero: dividing by 1 − decayⁿ makes up for that in the first steps.
    first = _DECAY * state.first + (1 - _DECAY) * gradient
    second = _DECAY_SQUARES * state.second + (1 - _DECAY_SQUARES) * gradient**2
    spread = np.sqrt(second / (1 - _DECAY_SQUARES**n)) + _TINY
    weights = state.weights - learning_rate * (first / (1 - _DECAY**n)) / spread
    return replace(state, weights=weights, first=first, second=second, n_steps=n)


def class_scores(features: Any, weights: Floats) -> Floats:
    """φ W + b."""
    return np.asarray(features @ weights[:-1] + weights[-1])


def log_probabilities(scores: Floats) -> Floats:
    """Return log softmax of each row."""
    shifted = scores - scores.max(axis=1, keepdims=True)  # exp of a large score would overflow
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def compute_loss_gradient(features: Any, labels: Integers, weights: Floats) -> Floats:
    """Gradient of the mean cross-entropy."""
    errors = np.exp(log_probabilities(class_scores(features, weights)))
    errors[np.arange(len(labels)), labels] -= 1.0
    errors /= len(labels)
    return np.vstack([features.T @ errors, errors.sum(axis=0)])


def mean_loss(features: Features, labels: Integers, rows: Integers, weights: Floats) -> float:
    """Mean cross-entropy of some rows."""
    total = 0.0
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        scores = log_probabilities(class_scores(features(part), weights))
        total -= float(scores[np.arange(len(part)), labels[part]].sum())
    return total / len(rows)


MEMORY = 20  # latest steps that tell the curvature
MOST_ROUNDS = 500
RIDGES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)  # times the mean squared norm of features
_HELD_BYTES = 512 * 2**20  # features that are kept; larger ones are computed again in every round
_MOST_FACTORISED = 6_000  # features whose curvature is factorised: 0.3 GB
_LEAST_STEP = 1e-6
_MOST_IDLE = 10  # rounds in which the objective does not fall: all its digits are known

Array = Any  # of NumPy or PyTorch
Evaluate = Callable[[Array], tuple[Any, Array]]  # weights -> objective, its gradient


@dataclass(frozen=True)
class Solved:
    """Weights of a softmax, and how close they are to the best.

    Attributes
    ----------
    weights
        Shape (features + 1, classes), the intercepts last.
    objective
        P(W).
    gap
        Duality gap as a share of the objective: the least value is at most that much lower.
    n_rounds
        Rounds of descent.
    ridge
        In use.
    """

    weights: Array
    objective: float
    gap: float
    n_rounds: int
    ridge: float


def minimise(
    evaluate: Evaluate,
    start: Array,
    *,
    ridge: float,
    precondition: Callable[[Array], Array],
    tolerance: float,
    max_rounds: int = MOST_ROUNDS,
) -> Solved:
    """Minimise by limited-memory BFGS until the duality gap is at most `tolerance` times the objective.

    Parameters
    ----------
    evaluate
        Gives the objective and its gradient.
    start
        First weights.
    ridge
        The objective curves at least that much in every direction.
    precondition
        Multiplies by an approximate inverse of the curvature.
    tolerance, max_rounds
        When to stop.
    """
    weights = start
    value, slope = evaluate(weights)
    pairs: list[tuple[Array, Array]] = []
    n_rounds, n_idle = 0, 0
    while n_idle < _MOST_IDLE and n_rounds < max_rounds and _gap(value, slope, ridge) > tolerance:
        step = _direction(slope, pairs, precondition)
        moved = _search_line(evaluate, weights, step, (value, slope))
        if moved is None and pairs:
            pairs = []  # the curvature that was seen misleads: begin anew, downhill
            continue
        if moved is None:
            break  # rounding errors are all that is left
        n_idle = 0 if moved.value < float(value) else n_idle + 1
        pair = moved.weights - weights, moved.slope - slope
        if float((pair[0] * pair[1]).sum()) > 0:
            pairs = [*pairs, pair][-MEMORY:]
        weights, slope = moved.weights, moved.slope
        value = moved.value
        n_rounds += 1
    return Solved(weights, float(value), _gap(value, slope, ridge), n_rounds, ridge)


def _gap(value: Any, slope: Array, ridge: float) -> float:
    return float((slope * slope).sum()) / (2 * ridge) / max(float(value), 1e-300)


class _Point(NamedTuple):
    """Weights, the objective there, and its gradient."""

    weights: Array
    value: float
    slope: Array


def _search_line(evaluate: Evaluate, weights: Array, step: Array, now: tuple[Any, Array]) -> _Point | None:
    """Halve the step until the objective falls enough; None where it never does."""
    value, slope = float(now[0]), now[1]
    down = float((slope * step).sum())
    size = 1.0
    while size > _LEAST_STEP:
        new = weights - size * step
        found, new_slope = evaluate(new)
        if float(found) <= value - 1e-4 * size * down:
            return _Point(new, float(found), new_slope)
        size /= 2
    return None


def _direction(
    slope: Array, pairs: Sequence[tuple[Array, Array]], precondition: Callable[[Array], Array]
) -> Array:
    """The slope times an approximate inverse of the curvature, by the latest steps and changes of slope."""
    q = slope * 1.0
    shares = []
    for s, y in reversed(pairs):
        shares.append(float((s * q).sum()) / float((s * y).sum()))
        q = q - shares[-1] * y
    q = precondition(q)
    if pairs:
        s, y = pairs[-1]
        q = q * (float((s * y).sum()) / float((y * precondition(y)).sum()))
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        q = q + s * (share - float((y * q).sum()) / float((s * y).sum()))
    return q


@dataclass(frozen=True)
class SoftmaxProblem:
    """Rows to learn from, by their places, and where their features come from."""

    features: Features
    labels: Integers
    rows: Integers
    n_classes: int

    def kept(self) -> SoftmaxProblem:
        """Return the same problem with its features in memory, if they are few enough."""
        one = self.features(self.rows[:1])
        if len(self.rows) * one.shape[1] * one.itemsize > _HELD_BYTES:
            return self
        held = np.concatenate([self.features(part) for part in self._parts()])
        return SoftmaxProblem(lambda r: held[r], self.labels[self.rows], np.arange(len(held)), self.n_classes)

    def _parts(self) -> list[Integers]:
        return np.array_split(self.rows, -(-len(self.rows) // CHUNK))

    def mean_square(self) -> float:
        """Mean squared norm of features, with their column of ones."""
        return 1.0 + sum(float((self.features(p) ** 2).sum()) for p in self._parts()) / len(self.rows)

    def evaluate(self, W: Floats, ridge: float) -> tuple[float, Floats]:
        """Return the objective and its gradient."""
        total, slope = 0.0, ridge * W
        for part in self._parts():
            block = self.features(part)
            logs = log_probabilities(block @ W[:-1] + W[-1])
            own = np.arange(len(part)), self.labels[part]
            total -= float(logs[own].sum())
            errors = np.exp(logs)
            errors[own] -= 1.0
            slope[:-1] += block.T @ errors / len(self.rows)
            slope[-1] += errors.sum(axis=0) / len(self.rows)
        return total / len(self.rows) + 0.5 * ridge * float((W * W).sum()), slope

    def preconditioner(self, W: Floats, ridge: float) -> Callable[[Floats], Floats]:
        """Return what divides by the curvature at W, averaged over classes.

        Rows weigh as much as their class is uncertain: those that are surely right hardly curve it.
        """
        size = len(W)
        curvature = np.zeros((size, size)) if size <= _MOST_FACTORISED else np.zeros(size)
        for part in self._parts():
            block = np.column_stack([self.features(part), np.ones(len(part))])
            p = np.exp(log_probabilities(block @ W))
            weights = (p * (1 - p)).mean(axis=1) / len(self.rows)
            scaled = block * np.sqrt(weights)[:, None]
            curvature += scaled.T @ scaled if curvature.ndim == 2 else (scaled**2).sum(axis=0)
        if curvature.ndim == 1:
            diagonal = curvature + ridge
            return lambda slope: slope / diagonal[:, None]
        curvature[np.diag_indices(size)] += ridge
        factor = cho_factor(curvature, overwrite_a=True)
        return lambda slope: np.asarray(cho_solve(factor, slope))

    def solve(self, start: Floats, ridge: float, tolerance: float) -> Solved:
        """Solve for one ridge."""
        return minimise(
            lambda W: self.evaluate(W, ridge),
            start,
            ridge=ridge,
            precondition=self.preconditioner(start, ridge),
            tolerance=tolerance,
        )

    def mean_loss(self, W: Floats) -> float:
        """Mean cross-entropy."""
        return self.evaluate(W, 0.0)[0]


def solve_path(
    problem: SoftmaxProblem, held: SoftmaxProblem, ridges: Sequence[float], tolerance: float
) -> tuple[Solved, Floats]:
    """Solve for falling ridges, each from the last, and return what does best on rows held out.

    `ridges` are shares of the mean squared norm of features. The path ends after two ridges in a row that
    gain nothing on the rows held out. Returns the best with its share as `ridge`, and the losses there.
    """
    problem = problem.kept()
    held = held.kept()
    unit = problem.mean_square()
    one = problem.features(problem.rows[:1])
    weights = np.zeros((one.shape[1] + 1, problem.n_classes))
    path: list[Solved] = []
    losses: list[float] = []
    for share in sorted(ridges, reverse=True):
        solved = problem.solve(weights, share * unit, tolerance)
        weights = solved.weights
        path.append(replace(solved, ridge=share))
        losses.append(held.mean_loss(weights))
        if len(losses) - 1 - int(np.argmin(losses)) >= 2:
            break
    return path[int(np.argmin(losses))], np.array(losses)


def solved(
    problem: SoftmaxProblem, held: Integers, ridges: Sequence[float], *, tolerance: float, refit: bool
) -> tuple[Solved, Floats]:
    """Choose a ridge on rows held out, and solve again on all rows if asked for; warn of a large gap."""
    rest = replace(problem, rows=np.setdiff1d(problem.rows, held))
    found, losses = solve_path(rest, replace(problem, rows=held), ridges, tolerance)
    if refit:
        whole = problem.kept()
        again = whole.solve(found.weights, found.ridge * whole.mean_square(), tolerance)
        found = replace(again, ridge=found.ridge)
    if found.gap > tolerance:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"KernelBasisClassifier: the duality gap is {found.gap:.1e} of the objective after "
            f"{found.n_rounds} rounds, expected {tolerance:.1e}. Scale the columns, or use a larger ridge or "
            "tolerance.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return found, losses
