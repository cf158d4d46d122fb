"""The alternation: labels given the parameters, then parameters given the labels, again and again.

What is minimised over the classes h_i of the nodes, the balls (c_k, t_k) and the couplings v is

    θ Σ_i [ν t_{h_i} + ℓ(‖c_{h_i} − φ_i‖² − t_{h_i})] + (1 − θ) [γ/2·‖v‖² − log p(H | X)]:

nodes should be close to the centre of their class, and the classes of neighbours should go together. Either
half of the step is a solved problem: the best labels of a graph (`map_inference`), and balls and couplings of
known classes (`balls`, `couplings`). The result depends on where it starts, so that several starts are
compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from tellwhy.core.arrays import draw_sample, spread_evenly
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.data.graphs import Graph
from tellwhy.detectors.lccad.costs import (
    SAMPLE,
    Balls,
    Loss,
    estimate_variance_of_costs,
    find_loss,
    find_too_small,
    fit_balls,
    is_ordinary,
    restrain,
    squared_distances,
)
from tellwhy.detectors.lccad.couplings import (
    MOST_NODES,
    Couplings,
    Evidence,
    compute_log_likelihood,
    find_balancing_gamma,
    fit_by_marginals,
    fit_by_pseudo_likelihood,
    gather,
    log_pseudo_likelihood,
    make_no_couplings,
)
from tellwhy.detectors.map_inference import Field, Labelling, best_labelling
from tellwhy.detectors.map_inference.field import Labels

_START_ROWS = 20_000  # nodes that k-means looks at
_MOST_RESEEDS = 3
_SWEEPS_BETWEEN_UPDATES = 6  # of TRW-S, which goes on from its messages after each update
_MOST_SWEEPS = 50
_PATIENCE = 3  # iterations in a row without a lower objective
FAR_OUT = 0.02  # share of nodes that no class starts from
_FEW = 1e-4  # share of labels whose change is left to inexact inference


one_thread = threadpool_limits.wrap(limits=1)  # products of a few columns only lose time to more threads


@dataclass(frozen=True, eq=False)
class Settings:
    """What the alternation needs to know of a detector's parameters."""

    n_classes: int
    theta: float
    nu: float
    loss: str | Loss
    gamma: float | None  # None: so that ‖v‖ = 1 after the first update
    inference: str
    learn: str
    coupling: float
    on_features: bool  # whether classes have emissions of the features; without, Z does not depend on X
    normalised: bool
    max_iter: int


@dataclass(frozen=True, eq=False)
class Parameters:
    """Everything that is learned from labels; `gamma` and `sizes` are None before the first labels."""

    balls: Balls
    couplings: Couplings
    gamma: float | None
    sizes: NDArray[np.int64] | None  # nodes of each class


@dataclass(frozen=True, eq=False)
class State:
    """One iterate: labels, the parameters learned from them, and the objective of both."""

    labelling: Labelling
    balls: Balls
    couplings: Couplings
    gamma: float
    objective: float
    sizes: NDArray[np.int64]
    n_iter: int

    @property
    def rank(self) -> tuple[int, float]:
        """Iterates that use more classes come first, then those with a lower objective.

        Classes with too few nodes do not count.
        """
        used = (self.sizes > 0) & ~find_too_small(self.sizes, int(self.sizes.sum()))
        return -int(used.sum()), self.objective

    @property
    def parameters(self) -> Parameters:
        """Return what the next labels follow from."""
        return Parameters(self.balls, self.couplings, self.gamma, self.sizes)


def _drop_far_out(points: Floats) -> Integers:
    """Points without the few that are farthest from the middle: one of them would make a class of its own."""
    distance = np.abs(points - np.median(points, axis=0))
    scale = np.median(distance, axis=0)
    farthest = (distance / np.where(scale > 0, scale, np.inf)).max(axis=1)
    return np.flatnonzero(farthest <= np.quantile(farthest, 1 - FAR_OUT))


class Alternation:
    """Alternate labels and parameters on one graph; the best iterate is kept."""

    def __init__(self, features: NDArray[Any], graph: Graph, settings: Settings, rng: np.random.Generator):
        self.features = features
        self.graph = graph
        self.settings = settings
        self.linear = features if settings.on_features else features[:, :0]
        self.present = np.arange(len(features)) if graph.mask is None else np.flatnonzero(graph.mask)
        self.n_present = len(self.present)
        # Only asked where neighbours count; the counts of large grids are small numbers.
        self.degrees = np.zeros(0, dtype=np.int8)
        if settings.theta < 1 and not settings.normalised:
            self.degrees = np.minimum(graph.degrees(), 127).astype(np.int8)
        # Nodes that couplings are learned from.
        self.sample = self.present[np.sort(draw_sample(self.n_present, MOST_NODES, rng))]

    @one_thread
    def start(self, rng: np.random.Generator) -> Floats:
        """Centres by k-means on (a sample of) the nodes that are there."""
        rows = self.present[draw_sample(self.n_present, _START_ROWS, rng)]
        seed = int(rng.integers(2**31 - 1))
        points = self.features[rows].astype(np.float64)
        if self.settings.theta < 1:
            points = points[_drop_far_out(points)]
        # k-means warns of more clusters than distinct points; what is missing is drawn from the points.
        n_distinct = len(np.unique(points, axis=0))
        model = KMeans(min(self.settings.n_classes, n_distinct), n_init=1, random_state=seed).fit(points)
        extra = points[rng.integers(len(points), size=self.settings.n_classes - model.n_clusters)]
        return np.vstack([model.cluster_centers_, extra])

    @one_thread
    def run(self, centres: Floats, couplings: Couplings | None = None) -> State:
        """Alternate from these centres until the labels stay the same, or the objective no longer falls.

        Couplings that are known already save iterations.
        """
        balls = Balls(centres, np.zeros(len(centres)))
        now = Parameters(balls, couplings or self._choose_first_couplings(), self.settings.gamma, None)
        messages = None
        best: State | None = None
        before = np.full(len(self.features), -1, dtype=np.int32)
        n_reseeds = 0
        for iteration in range(1, self.settings.max_iter + 1):
            field = self.field(now.balls, now.couplings, now.sizes)
            if messages is None and self._passes_messages():
                messages = field.no_messages()
            found = self._labelled(field, messages)
            n_changed = int((found.labels != before).sum())
            if n_changed == 0:
                break
            before = found.labels
            state = self._learned(found, now, iteration)
            best = state if best is None or self._is_better(state, best) else best
            now = state.parameters
            if (state.sizes == 0).any() and n_reseeds < _MOST_RESEEDS:
                now = self._reseed_centres(state)
                n_reseeds += 1
            elif iteration - best.n_iter >= _PATIENCE or self._is_settled(found, n_changed):
                break
        assert best is not None
        return self._keep_proper_classes(best)

    def _is_better(self, state: State, best: State) -> bool:
        """Whether an iterate is better; the first, which has not seen the graph, gives way to the next."""
        if best.n_iter == 1 and len(self.degrees) and state.rank[0] <= best.rank[0]:
            return True
        return state.rank < best.rank

    def _keep_proper_classes(self, state: State) -> State:
        """Give the nodes of classes that are too small to be one to the others."""
        small = find_too_small(state.sizes, self.n_present)
        if self.settings.theta == 1 or not small.any():
            return state
        closed = small | (state.sizes == 0)
        closed[np.argmax(state.sizes)] = False
        field = self.field(state.balls, state.couplings, state.sizes, closed)
        found = self._labelled(field, None)
        return self._keep_proper_classes(self._learned(found, state.parameters, state.n_iter))

    def _labelled(self, field: Field, messages: NDArray[Any] | None) -> Labelling:
        # TRW-S has sound labels after every sweep; those of loopy messages mean little before they settle.
        n_sweeps = _MOST_SWEEPS if self.settings.inference == "lbp" else _SWEEPS_BETWEEN_UPDATES
        return best_labelling(field, self.settings.inference, max_sweeps=n_sweeps, messages=messages)

    def _learned(self, found: Labelling, now: Parameters, iteration: int) -> State:
        """Return the parameters that labels imply, and the objective."""
        s = self.settings
        sizes = np.bincount(found.labels[self.present], minlength=s.n_classes)
        balls = fit_balls(self.features, self._telling(found.labels, now), now.balls, nu=s.nu, loss=s.loss)
        couplings, gamma = self._fit_couplings(found.labels, now.couplings, now.gamma)
        objective = self.objective(found.labels, balls, couplings, gamma)
        return State(found, balls, couplings, gamma, objective, sizes, iteration)

    def _telling(self, labels: Labels, now: Parameters) -> Labels:
        """Labels of the nodes that centres are learned from, −1 for the others."""
        if not len(self.degrees) or self.settings.n_classes < 2:
            return labels
        some = spread_evenly(len(labels), SAMPLE)
        d = self.features.shape[1]
        variance = estimate_variance_of_costs(self.ball_costs(now.balls, rows=some), d)
        telling = labels.copy()
        for rows in cut_batches(len(labels), 32 * self.settings.n_classes):
            costs = self.ball_costs(now.balls, rows=rows)
            ordinary = is_ordinary(costs, labels[rows], variance, n_columns=d)
            telling[rows] = np.where(ordinary, labels[rows], np.int32(-1))
        return telling

    def _is_settled(self, found: Labelling, n_changed: int) -> bool:
        """Whether the few labels that still change may be due to labels that are not quite the best ones."""
        return found.gap > 0 and n_changed <= _FEW * self.n_present

    def field(
        self,
        balls: Balls,
        couplings: Couplings,
        sizes: Integers | None = None,
        closed: NDArray[np.bool_] | None = None,
    ) -> Field:
        """Return the costs of labels: of balls and emissions at nodes, of couplings on edges.

        A class that is `closed` costs more than any other can.
        """
        costs = self._weigh_costs(balls, couplings, sizes)
        if self.settings.theta < 1 and couplings.emission.any():
            weights = (1 - self.settings.theta) * couplings.emission.astype(costs.dtype)
            for rows in cut_batches(len(costs), 8 * costs.shape[1]):
                costs[rows] -= self.linear[rows] @ weights[:, :-1].T + weights[:, -1]
        if closed is not None and closed.any():
            most = np.abs(couplings.pair).max() * (1 - self.settings.theta) * int(self.degrees.max(initial=1))
            costs[:, closed] = 1 + 2 * (np.abs(costs).max() + most)
        if self.graph.mask is not None:
            costs[~self.graph.mask] = 0
        return Field(costs, -(1 - self.settings.theta) * couplings.pair, self.graph)

    def _weigh_costs(self, balls: Balls, couplings: Couplings | None, sizes: Integers | None) -> NDArray[Any]:
        """θ times the costs of the balls, of which no node has more than its neighbours can outweigh."""
        costs = self.ball_costs(balls, sizes)
        costs *= costs.dtype.type(self.settings.theta)  # a Python float would turn float32 into float64
        if len(self.degrees):
            pair = None if couplings is None else couplings.pair
            d = self.features.shape[1]
            restrain(costs, pair, self.degrees, self.settings.theta, n_columns=d)
        return costs

    def ball_costs(
        self, balls: Balls, sizes: Integers | None = None, *, rows: Integers | slice = slice(None)
    ) -> NDArray[Any]:
        """ν t_k + ℓ(‖c_k − φ_i‖² − t_k), shape (n, K); ℓ/(n_k ν) in the paper's normalised form."""
        s = self.settings
        costs = squared_distances(self.features[rows], balls.centres)
        if s.loss == "hinge" and not balls.squared_radii.any() and not s.normalised:
            return costs  # the usual case: nothing to subtract, nothing below 0
        costs = find_loss(s.loss)(costs - balls.squared_radii.astype(costs.dtype)).astype(costs.dtype)
        if not s.normalised:
            return np.asarray(costs + (s.nu * balls.squared_radii).astype(costs.dtype))
        # Before the first labels, all classes are taken to be of one size.
        equal = np.full(s.n_classes, self.n_present / s.n_classes)
        shares = equal if sizes is None else np.maximum(sizes, 1)
        return np.asarray(costs / (shares * s.nu).astype(costs.dtype))

    def objective(self, labels: Labels, balls: Balls, couplings: Couplings, gamma: float) -> float:
        """Return what is minimised (see the head of this file) for labels and parameters."""
        s = self.settings
        sizes = np.bincount(labels[self.present], minlength=s.n_classes)
        # Not restrained by the couplings, which would make stronger ones look worse.
        costs = self._weigh_costs(balls, None, sizes)
        own = np.take_along_axis(costs, np.maximum(labels, 0)[:, None], axis=1)[self.present, 0]
        value = float(own.sum(dtype=np.float64))
        if s.normalised:
            value += s.theta * float(balls.squared_radii[sizes > 0].sum())
        if s.theta == 1:
            return value
        penalty = gamma / 2 * couplings.squared_norm
        return value + (1 - s.theta) * (penalty - self.log_likelihood(labels, couplings))

    def log_likelihood(self, labels: Labels, couplings: Couplings) -> float:
        """log p(H | X), or the logarithm of the pseudo-likelihood where that was learned from.

        It is exact on chains and trees, and has an approximate log Z where couplings of other graphs are
        learned by marginals.
        """
        if self.settings.learn == "marginals" or self.graph.is_forest:
            return compute_log_likelihood(couplings, self._compute_linear64(), labels, self.graph)
        return log_pseudo_likelihood(couplings, self._evidence(labels))

    def _passes_messages(self) -> bool:
        """Whether messages are worth keeping from one labelling to the next."""
        is_exact = self.settings.inference in ("auto", "exact") and self.graph.is_forest
        return self.settings.theta < 1 and self.settings.inference != "icm" and not is_exact

    def _choose_first_couplings(self) -> Couplings:
        s = self.settings
        couplings = make_no_couplings(s.n_classes, self.linear.shape[1])
        if s.learn != "fixed" or s.theta == 1:
            return couplings
        return Couplings(s.coupling * np.eye(s.n_classes), couplings.emission)

    def _evidence(self, labels: Labels) -> Evidence:
        return gather(self.linear, labels, self.graph, self.settings.n_classes, self.sample)

    def _compute_linear64(self) -> Floats:
        """Features for the log-linear part, with zeros for missing nodes, whose rows may hold anything."""
        clean = self.linear.astype(np.float64)
        if self.graph.mask is not None:
            clean[~self.graph.mask] = 0
        return clean

    def _fit_couplings(self, labels: Labels, old: Couplings, gamma: float | None) -> tuple[Couplings, float]:
        """Return the couplings that labels imply, and the γ in use."""
        s = self.settings
        if s.theta == 1 or s.learn == "fixed":
            return old, gamma or 0.0
        if gamma is None:
            gamma = find_balancing_gamma(old, self._evidence(labels))
        if s.learn == "marginals":
            return fit_by_marginals(old, self._compute_linear64(), labels, self.graph, gamma), gamma
        return fit_by_pseudo_likelihood(old, self._evidence(labels), gamma), gamma

    def _reseed_centres(self, state: State) -> Parameters:
        """Put the centre of each class without members on the node that fits its own class worst."""
        labels = state.labelling.labels[self.sample]
        distances = squared_distances(self.features[self.sample], state.balls.centres)
        own = np.take_along_axis(distances, labels[:, None].astype(np.int64), axis=1)[:, 0]
        worst = self.sample[np.argsort(-own, kind="stable")]
        if self.settings.theta < 1:  # the very worst may be single nodes, which are no class
            worst = worst[int(FAR_OUT * len(worst)) :]
        is_empty = state.sizes == 0
        centres = state.balls.centres.copy()
        for k, row in zip(np.flatnonzero(is_empty), worst, strict=False):
            centres[k] = self.features[row]
        balls = Balls(centres, np.where(is_empty, 0.0, state.balls.squared_radii))
        return Parameters(balls, state.couplings, state.gamma, state.sizes)
