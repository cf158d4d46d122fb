"""Anomaly Shapley: any anomaly score shared among the columns that caused it.

A set S of columns is worth the score that remains when all other columns may become ordinary,
v(S) = e(x̂*(S)), where x̂*(S) is the minimum of `counterfactuals.minimise` with the columns outside S free
(equations 2 and 3: `compute_local_worths`; its relaxation, equations 4 and 5: `compute_relaxed_worths` and
`RelaxedPoints`). Shapley values share v (`shapley_values`). Units of columns, and γ, come from background
rows (`neighbourhood`).

Takeishi and Kawahara, "A characteristic function for Shapley-value-based attribution of anomaly scores", TMLR
(2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.arrays import list_columns, spread_evenly
from tellwhy.core.params import Rules, Seed, generator, integer, one_of, real, seed
from tellwhy.core.progress import track
from tellwhy.core.running import cut_batches, map_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.counterfactuals.minimise import Distance, Minima, count_problem_bytes
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.explainers.base import BackgroundExplainer, Condition
from tellwhy.explainers.rows import (
    BATCH_PARAMETERS,
    Attribution,
    Groups,
    Players,
    Rows,
    find_players,
    groups_rule,
)
from tellwhy.explainers.shapley.neighbourhood import (
    DEFAULT,
    DISTANCES,
    FEW_COLUMNS,
    GAMMAS,
    Neighbourhood,
    balance_gamma,
    choose_gamma_by_injection,
    describe_distance,
    place_where_scored,
)
from tellwhy.explainers.shapley.shapley_values import (
    Coalitions,
    choose_coalitions,
    shapley_values,
)
from tellwhy.optimise.arrays import (
    Array,
    at_least,
    counted,
    filled,
    find_namespace,
    find_true_rows,
    on_host,
    placed,
)

Lowest = Callable[..., Minima]  # of the scores, rows and masks of free columns, as `Neighbourhood.lowest`

_BATCH_BYTES = 64 * 2**20  # of points scored together
_ROWS_BYTES = 16 * 2**20  # of the points of rows that one thread works on
_LOCAL_BYTES = 2 * 2**20  # the same with a minimum per set, which takes long enough to share few rows
N_CHECKED = 8  # sets of each row whose minima are sought to the end
TOLERATED = 0.05  # of the fall, by which relaxed points of these sets may lie above their minima
POLISHING_STEPS = 3  # of descent, where they lie higher
POLISHING_SLACK = 5e-3  # of the fall: a set that has less to gain is left where it is


@dataclass(frozen=True)
class CoalitionWorths:
    """What was found of n rows, each of which is a game of its own."""

    worth: Array  # (n, m) v(S) of the coalitions
    empty: Array  # (n,) v(∅): all columns have become ordinary
    full: Array  # (n,) v(D): the score as it is
    n_unsettled: int  # minima that were not reached
    above: Array | None = None  # (n, 2) shares of the fall: relaxed, then polished points above minima

    @property
    def on_host(self) -> CoalitionWorths:
        """The same with numpy's arrays."""
        above = None if self.above is None else on_host(self.above)
        return CoalitionWorths(
            on_host(self.worth), on_host(self.empty), on_host(self.full), self.n_unsettled, above
        )


class Setup(NamedTuple):
    """What all rows share: who plays, which coalitions are tried, and how local minima are found."""

    players: Players
    coalitions: Coalitions
    lowest: Lowest


@dataclass(frozen=True)
class RelaxedPoints:
    """Points z(S): x inside S, and outside the mean of x̂*(∅) and x̂*({i}), i ∈ S."""

    X: Array
    setup: Setup
    found: Minima  # of no player, then of each alone

    @classmethod
    def of(cls, scores: RowScores, X: Array, setup: Setup) -> RelaxedPoints:
        """Find the minima of no player and of each alone."""
        players = setup.players
        kept_alone = players.of_column[None, :] != np.arange(players.n)[:, None]
        free = np.concatenate([np.ones((1, X.shape[1]), dtype=bool), kept_alone])
        return cls(X, setup, setup.lowest(scores, X, free))

    @property
    def bottom(self) -> Array:
        """x̂*(∅) of each row."""
        return self.found.points[:, 0]

    def of_rows(self, rows: Array) -> RelaxedPoints:
        """Return that of some rows."""
        return RelaxedPoints(
            self.X[rows], self.setup, Minima(self.found.points[rows], self.found.converged[rows])
        )

    def some_points(self, sets: Integers) -> tuple[Array, Array]:
        """Columns inside a few sets, and z of each row and set."""
        members = self.setup.coalitions.members[sets]
        inside = placed(self.X, members[:, self.setup.players.of_column])
        shares = placed(self.X, members / (1.0 + members.sum(axis=1, keepdims=True)))
        shifts = self.found.points[:, 1:] - self.bottom[:, None]
        shifted = self.bottom[:, None] + find_namespace(self.X).matmul(shares, shifts)
        return inside, find_namespace(self.X).where(inside, self.X[:, None], shifted)

    def points(self, room: int) -> Iterator[tuple[slice, Array, Array]]:
        """Some sets at a time: their places, which columns are inside, and z of each row and set."""
        X = self.X
        # The mean of x̂*(∅) and s minima is x̂*(∅) plus the sum of their shifts from it over s + 1. The sum
        # of a complement is that of everyone less that of the set: one matrix product serves both.
        shifts = self.found.points[:, 1:] - self.bottom[:, None]  # (n, p, d)
        everyones = shifts.sum(axis=1, keepdims=True)
        members = placed(X, self.setup.coalitions.members)
        of_column = placed(X, self.setup.players.of_column)
        one = filled(X, (1,), 1.0)  # turns masks into numbers of the same kind as X
        n_pairs = len(members) // 2
        for some in cut_batches(n_pairs, 8 * X.shape[0] * X.shape[1] * 6, room):
            sums = find_namespace(X).matmul(one * members[some], shifts)  # (n, some, d)
            rest = slice(some.start + n_pairs, some.stop + n_pairs)
            for part, moved in ((some, sums), (rest, everyones - sums)):
                inside = members[part][:, of_column]
                sizes = members[part].sum(1)
                shifted = self.bottom[:, None] + moved / (1.0 + sizes)[:, None]
                yield part, inside, find_namespace(X).where(inside, X[:, None], shifted)


def compute_relaxed_worths(scores: RowScores, X: Array, setup: Setup) -> CoalitionWorths:
    """v(S) = e(z): z = x inside S, and outside the mean of x̂*(∅) and x̂*({i}), i ∈ S (equations 4 and 5)."""
    relaxed = RelaxedPoints.of(scores, X, setup)
    return _worths(scores, X, relaxed, _compute_relaxed_worth(scores, relaxed))


def compute_polished_worths(scores: RowScores, X: Array, setup: Setup) -> CoalitionWorths:
    """v(S) = e(z), where that is next to the minima of a few sets; else e a few steps of descent below z."""
    relaxed = RelaxedPoints.of(scores, X, setup)
    worth = _compute_relaxed_worth(scores, relaxed)
    worths = _worths(scores, X, relaxed, worth)
    n_sets = worth.shape[1]
    if not n_sets:  # one player
        return worths
    checked = spread_evenly(n_sets, N_CHECKED)
    inside, z = relaxed.some_points(checked)
    lowest = _scored(scores, setup.lowest(scores, X, on_host(~inside), start=z).points)
    falls = at_least(worths.full - worths.empty, np.finfo(float).tiny)
    before = (worth[:, checked] - lowest).mean(1) / falls
    rows = find_true_rows(before > TOLERATED)
    if len(rows):
        worth[rows] = _polish_worth(scores.of_rows(rows), relaxed.of_rows(rows))
    after = (worth[:, checked] - lowest).mean(1) / falls
    return replace(worths, above=find_namespace(X).stack((before, after), 1))


def _compute_relaxed_worth(scores: RowScores, relaxed: RelaxedPoints) -> Array:
    X = relaxed.X
    worth = filled(X, (len(X), len(relaxed.setup.coalitions.members)), 0.0)
    for part, _, z in relaxed.points(_room(X, scores, _BATCH_BYTES)):
        worth[:, part] = _scored(scores, z)
    return worth


def _polish_worth(scores: RowScores, relaxed: RelaxedPoints) -> Array:
    X = relaxed.X
    worth = filled(X, (len(X), len(relaxed.setup.coalitions.members)), 0.0)
    for part, inside, z in relaxed.points(_room(X, scores, _BATCH_BYTES)):
        found = relaxed.setup.lowest(
            scores, X, on_host(~inside), start=z, max_iterations=POLISHING_STEPS, slack=POLISHING_SLACK
        )
        worth[:, part] = _scored(scores, found.points)
    return worth


def _worths(scores: RowScores, X: Array, relaxed: RelaxedPoints, worth: Array) -> CoalitionWorths:
    rows = counted(X, len(X))
    n_unsettled = int((~relaxed.found.converged).sum())
    return CoalitionWorths(worth, scores.value(relaxed.bottom, rows), scores.value(X, rows), n_unsettled)


def compute_local_worths(scores: RowScores, X: Array, setup: Setup) -> CoalitionWorths:
    """v(S) = e(x̂*(S)): one minimum per coalition (equations 2 and 3)."""
    everything = np.ones((1, X.shape[1]), dtype=bool)
    outside = ~setup.coalitions.members[:, setup.players.of_column]
    found = setup.lowest(scores, X, np.concatenate([everything, outside]))
    worth = _scored(scores, found.points)
    full = scores.value(X, counted(X, len(X)))
    return CoalitionWorths(worth[:, 1:], worth[:, 0], full, int((~found.converged).sum()))


WORTHS = {
    "relaxed": compute_relaxed_worths,
    "polished": compute_polished_worths,
    "local": compute_local_worths,
    "ball": compute_local_worths,
}


def compute_coalition_worths(
    scores: RowScores, X: Array, setup: Setup, characteristic: str
) -> CoalitionWorths:
    """Return what coalitions are worth, some rows at a time: on the device that X is on, or in threads."""
    is_relaxed = characteristic == "relaxed"
    points_per_row = setup.players.n + 1 if is_relaxed else len(setup.coalitions.members) + 1

    def some(rows: slice) -> CoalitionWorths:
        return WORTHS[characteristic](scores.of_rows(rows), X[rows], setup).on_host

    label = "sharing scores among columns"
    d = X.shape[1]
    if isinstance(X, np.ndarray):
        limit = _LOCAL_BYTES if WORTHS[characteristic] is compute_local_worths else _ROWS_BYTES
        parts = map_batches(some, cut_batches(len(X), 24 * d * points_per_row, limit), label)
    else:
        batches = cut_batches(len(X), count_problem_bytes(d) * points_per_row, _room(X, scores, _ROWS_BYTES))
        parts = [some(rows) for rows in track(batches, len(batches), label)]
    return CoalitionWorths(
        np.concatenate([part.worth for part in parts]),
        np.concatenate([part.empty for part in parts]),
        np.concatenate([part.full for part in parts]),
        sum(part.n_unsettled for part in parts),
        np.concatenate([part.above for part in parts]) if parts[0].above is not None else None,
    )


def _scored(scores: RowScores, points: Array) -> Array:
    """Score points (n, k, d) made from n rows."""
    n, k = points.shape[:2]
    flat = points.reshape(n * k, -1)
    return scores.value(flat, counted(points, n * k) // k).reshape(n, k)


def _room(X: Array, scores: RowScores, on_host: int) -> int:
    """Bytes that a batch may take where X is."""
    return on_host if isinstance(X, np.ndarray) else scores.space.room(on_host)


SLACK = 1e-3  # of the fall of the score: an order of magnitude below the standard error of sampled coalitions


class AnomalyShapley(BackgroundExplainer):
    """Shapley values of an anomaly score whose absent columns take the least anomalous values nearby.

    A set S of columns is worth v(S): the score that remains when the columns in S keep their values and all
    others go where the score is lowest nearby. A column's value is what it adds to that, averaged over all
    sets (Shapley, 1953). Let x̂*(S) be a local minimum, where descent from y = x ends, of the score plus what
    moving costs, e(y) + γ/|S^c| Σ_{i∉S} dist(y_i, x_i), with y_S = x_S. Then v is one of four:

    - "relaxed": v(S) = e(z), where z is x in the columns of S, and elsewhere the mean of x̂*(∅) and of
      x̂*({i}), i ∈ S: only d + 1 minima per row;
    - "polished": the same where v of eight sets is within 5 % of the row's fall of their minima; in other
      rows e of the point that three steps of descent towards x̂*(S) lead to from z;
    - "local": v(S) = e(x̂*(S)): one minimum per set;
    - "ball": v(S) = min e(y) over |y_i − x_i| ≤ radius·s_i, where moving costs nothing: one minimum per set.

    Where sets are sampled, and in what "auto" chooses, minima are sought to a thousandth of the fall of the
    score, from x̂*(∅) with the columns of S put back (from x where that is no way down). Of scores
    made of quadratic forms, a single form has its minimum in closed form; of mixtures Newton steps by the
    lowest form find one, which now and then is not that which infinitely small steps lead to. z is next to
    them. For others z may score higher than the
    row itself: `params` say by what share of the fall v is above the minima of those eight sets, on average
    over rows, before ("relaxed_above") and after polishing ("polished_above"), and how many rows needed it.

    The base value is v(∅), and values add up to the score exactly. A negative value says that a column makes
    the row look more normal. Rows that a kernel model was trained on are left out of it, as in `OneClassDTD`.

    Parameters
    ----------
    model
        Any model or function that `tellwhy.scoring.as_score` reads. A score without a gradient is minimised
        by trial steps.
    gamma
        Weight of the distance, in units of the score: how far the scores of the background are apart (the
        distance of their quartiles over 1.349, the standard deviation of normal ones; without a gradient
        their standard deviation). So no share depends on the units of the columns or of the score.
        "balance": where it is about as large as the fall of the score, over background rows; "auto": that
        beyond 20 columns, where absent ones would otherwise make up for what is odd, else 0.01; "injection":
        of 0.001, 0.01, …, 10 and the balanced one, that which finds most columns of background rows that were
        made odd. For scores without a gradient, which may be bounded, a cell costs dist/(1 + dist).
    characteristic
        v, as above. "auto": relaxed for scores made of quadratic forms, and for those without a gradient,
        where each minimum is a search; for all others local up to 12 columns or groups, polished beyond.
    distance
        "squared" (((y−x)/s)²), "absolute" (|y−x|/s) or a function of (y−x)/s, applied cell by cell; s is the
        standard deviation of the background. Columns of 0 and 1 move inside [0, 1], and their distance is the
        cross-entropy.
    n_coalitions
        Sets to draw where there are more than 12 columns or groups; "auto": 2d + 2048.
    groups
        Columns that play together (one-hot columns, the channels of a sensor): lists of columns, by position
        or name, or one group number per column. A group's value is divided equally among its columns;
        `extras["group_values"]` holds it whole, in the order of the lists, then of the columns that are in
        none. Columns that an encoding made from one raw column always play together.
    radius
        Half-width of the neighbourhood of "ball", in standard deviations.
    random_state
        Seed of the sampled coalitions.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; None: one, −1: one per core. Results do not depend
        on it.

    Attributes
    ----------
    gamma_
        Weight in use.
    neighbourhood_
        Units and kinds of the columns, from the background rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.mixture import GaussianMixture
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> explainer = AnomalyShapley(GaussianMixture(1).fit(X)).fit(X)
    >>> explanation = explainer.explain(np.array([[0.0, 5.0, 0.0]]))
    >>> int(explanation.values.argmax()), abs(float(explanation.residual[0])) < 1e-12
    (1, True)
    """

    # A support point at distance 0 would take nearly all of the score: a training row does without itself.
    leaves_rows_out = True
    calls_in_batches = True
    only_anomalies = True
    least_rows = 2
    _parameters: ClassVar[dict[str, Rules]] = {
        "gamma": (GAMMAS, one_of("auto", "balance", "injection")),
        "characteristic": one_of("auto", *WORTHS),
        "distance": DISTANCES,
        "n_coalitions": (one_of("auto"), integer(2)),
        "groups": groups_rule,
        "radius": real(0),
        "random_state": seed,
        **BATCH_PARAMETERS,
    }

    _counts_with: ClassVar[dict[str, Condition]] = {
        "radius": ("characteristic='ball'", lambda own: own.characteristic == "ball"),
        "gamma": ("every characteristic but 'ball'", lambda own: own.characteristic != "ball"),
    }

    def __init__(
        self,
        model: object,
        *,
        gamma: float | str = "auto",
        characteristic: str = "auto",
        distance: Distance = "squared",
        n_coalitions: int | str = "auto",
        groups: Groups | None = None,
        radius: float = 2.0,
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int | None = None,
    ):
        super().__init__(model)
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.gamma = gamma
        self.characteristic = characteristic
        self.distance = distance
        self.n_coalitions = n_coalitions
        self.groups = groups
        self.radius = radius
        self.random_state = random_state

    def _fit(self, X: ArrayLike) -> None:
        """Learn the units of the columns, and γ where it is to be chosen, from background rows."""
        background = self.rows(X)
        self.names_ = self.score.feature_names or list_columns(X)
        self.neighbourhood_ = Neighbourhood.of(background.score, background.X)
        self.gamma_ = self._choose_gamma(background)

    def _choose_gamma(self, background: Rows) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.characteristic == "ball":  # which does not use γ: no need to look for one
            return DEFAULT
        if self.gamma == "auto" and background.X.shape[1] <= FEW_COLUMNS:
            return DEFAULT
        balanced = balance_gamma(background.score, background.X, self.neighbourhood_, self.distance)
        if self.gamma != "injection":
            return balanced
        players = find_players(background, self.groups, self.names_)
        coalitions = self._choose_coalitions(players)

        def explained(X: Floats, gamma: float) -> Floats:
            worths = self._worths(RowScores(background.score, X), X, players, coalitions, gamma)
            return shapley_values(
                coalitions, worths.worth, worths.empty, worths.full, is_one_prior=True
            ).values

        rng = generator(self.random_state)
        near = self.neighbourhood_
        return choose_gamma_by_injection(
            explained, background.X, near, players.of_column, rng, balanced=balanced
        )

    def _attribute(self, rows: Rows) -> Attribution:
        self._check_fitted("neighbourhood_")
        players = find_players(rows, self.groups, self.names_)
        coalitions = self._choose_coalitions(players)
        scores = RowScores(rows.score, rows.X, rows.left_out)
        worths = self._worths(scores, rows.X, players, coalitions, self.gamma_)
        shared = shapley_values(coalitions, worths.worth, worths.empty, worths.full, is_one_prior=True)
        extras: dict[str, Any] = {}
        if self.groups is not None:
            extras["group_values"] = players.group_values(shared.values)
        return Attribution(
            players.per_column(shared.values),
            worths.full,
            worths.empty,
            stderr=None if shared.stderr is None else players.per_column(shared.stderr),
            extras=extras,
            params={
                "groups": None if self.groups is None else players.group.tolist(),
                "distance": describe_distance(self.distance),
                "gamma_used": self.gamma_ * self.neighbourhood_.score_unit,
                "coalitions": coalitions.words(),
                "coalitions_used": len(coalitions.members),
                "minima_not_settled": worths.n_unsettled,
                "constant_columns": int(self.neighbourhood_.constant.sum()),
                "characteristic_used": self._choose_characteristic(scores, coalitions),
                **_measure_gaps(worths),
            },
            per_owner=True,
        )

    def _choose_coalitions(self, players: Players) -> Coalitions:
        return choose_coalitions(players.n, self.n_coalitions, generator(self.random_state))

    def _worths(
        self, scores: RowScores, X: Floats, players: Players, coalitions: Coalitions, gamma: float
    ) -> CoalitionWorths:
        """Find out what the coalitions of each row are worth."""
        chosen = self._choose_characteristic(scores, coalitions)
        # The distance of a binary column is steep where it begins: a first step promises next to nothing.
        is_rough = chosen != self.characteristic and not self.neighbourhood_.binary.any()
        is_quick = not coalitions.is_exact or chosen == "polished" or is_rough
        lowest: Lowest = partial(
            self.neighbourhood_.lowest,
            gamma=gamma,
            distance=self.distance,
            radius=self.radius if chosen == "ball" else None,
            slack=SLACK if is_quick else 0.0,
        )
        rows = place_where_scored(scores, X, self.distance)
        return compute_coalition_worths(scores, rows, Setup(players, coalitions, lowest), chosen)

    def _choose_characteristic(self, scores: RowScores, coalitions: Coalitions) -> str:
        """The characteristic function in use."""
        if self.characteristic != "auto":
            return self.characteristic
        if scores.quadratics is not None or not scores.has_gradient:
            return "relaxed"
        return "local" if coalitions.is_exact else "polished"


def _measure_gaps(worths: CoalitionWorths) -> dict[str, Any]:
    """What polishing changed and what it left, as shares of a row's fall; means over the rows."""
    if worths.above is None:
        return {}
    relaxed, polished = worths.above.mean(axis=0).tolist()
    n_polished = int((worths.above[:, 0] > TOLERATED).sum())
    return {"relaxed_above": relaxed, "polished_above": polished, "rows_polished": n_polished}
