"""Kernel SHAP: absent columns take the values of reference rows.

Values are linear in the worth of sets, and the worth of a set is a mean over reference rows: values are the
mean over reference rows of those that each of them gives alone. Their spread tells the error of the mean,
where reference rows were drawn from more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.arrays import draw_sample, list_columns
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rule, Rules, Seed, boolean, generator, integer, one_of, seed
from tellwhy.core.progress import track
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.explainers.base import BackgroundExplainer
from tellwhy.explainers.rows import (
    BATCH_PARAMETERS,
    Attribution,
    Groups,
    Players,
    Rows,
    find_players,
    groups_rule,
)
from tellwhy.explainers.shapley.interactions import Outcome, Played, find_interactions
from tellwhy.explainers.shapley.links import LINKS, apply_link
from tellwhy.explainers.shapley.shapley_values import (
    Mask,
    ShapleyValues,
    choose_coalitions,
)
from tellwhy.scoring.moved_columns import find_column_units
from tellwhy.scoring.reference_rows import some_rows


class Sets(Protocol):
    """Sets of players, and how values are shared by what they are worth."""

    @property
    def members(self) -> Mask:
        """One mask per set, (m, p)."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether nothing was drawn."""
        ...

    def as_sums(self) -> tuple[Floats, Floats, Floats]:
        """Return values as sums: weights of the sets, of v(∅) and of v(D)."""
        ...

    def share(self, worth: Floats, empty: Floats, full: Floats) -> ShapleyValues:
        """Return the values of n games from v(S), v(∅) and v(D)."""
        ...

    def words(self) -> str:
        """One phrase for the record of an explanation."""
        ...


@dataclass(frozen=True)
class ReferenceErrors:
    """Standard errors of values whose reference rows are a sample without repetition.

    Attributes
    ----------
    weights
        Values are Σ_S v(S) weights[S] + v(∅) of_empty + v(D) of_full, (m, p).
    of_empty, of_full
        Both (p,).
    left
        Share of the background that was not drawn: with none left there is no error.
    """

    weights: Floats
    of_empty: Floats
    of_full: Floats
    left: float

    @classmethod
    def of(cls, sets: Sets, n_drawn: int, n_rows: int) -> ReferenceErrors | None:
        """Prepare for some sets; None where all rows serve, or a single one, which has no spread."""
        if not 1 < n_drawn < n_rows:
            return None
        return cls(*sets.as_sums(), 1.0 - n_drawn / n_rows)

    def summed(self, worth: Floats, some: slice) -> Floats:
        """Σ v(S) weights[S] over some of the sets, from v of each reference row (n, sets, r), (n, r, p)."""
        return np.asarray(np.swapaxes(worth, 1, 2) @ self.weights[some])

    def of_rows(self, sums: Floats, empty: Floats, full: Floats) -> Floats:
        """Standard error of each value, from the sums over all sets and v(∅) of each reference row (n, r)."""
        each = sums + empty[..., None] * self.of_empty + full[:, None, None] * self.of_full
        n_drawn = empty.shape[1]
        return np.asarray(np.sqrt(self.left * each.var(axis=1, ddof=1) / n_drawn))


_BATCH_BYTES = 64 * 2**20  # of points scored together


@dataclass(frozen=True)
class References:
    """Reference rows of each explained row (n, r, d), or of all (1, r, d), and their weights (r,)."""

    rows: Floats
    weights: Floats

    def of(self, rows: slice) -> Floats:
        """Reference rows of some explained rows, or of all."""
        return self.rows if len(self.rows) == 1 else self.rows[rows]


def weigh_equally(rows: Floats) -> References:
    """Reference rows of equal weight."""
    return References(rows, np.full(rows.shape[1], 1.0 / rows.shape[1]))


class Explained(NamedTuple):
    """Explained rows, their scores, who plays, and on which scale."""

    X: Floats
    full: Floats
    players: Players
    link: str = "identity"


def play(
    scores: RowScores,
    table: Explained,
    references: References,
    coalitions: Sets,
    drawn: ReferenceErrors | None = None,
) -> Played:
    """Score every set of columns of every row with every reference row, some rows at a time."""
    n, d = table.X.shape
    inside = coalitions.members[:, table.players.of_column]
    no_errors = None if drawn is None else np.empty((n, table.players.n))
    slope = LINKS[table.link].slope  # the error of a function of a mean is its slope times the mean's
    found = Played(np.empty(n), np.empty((n, len(inside))), no_errors)
    batches = cut_batches(n, 16 * references.rows.shape[1] * d * (len(inside) + 1), _BATCH_BYTES)
    for rows in track(batches, len(batches), "explaining with reference rows"):
        own = np.arange(rows.start, rows.stop)
        b = references.of(rows)
        nothing = _scored(scores, np.broadcast_to(b, (len(own), *b.shape[1:])), own)
        means = nothing @ references.weights
        found.empty[rows] = apply_link(table.link, means)
        nothing = nothing * slope(means)[:, None]
        sums = np.zeros((*nothing.shape, table.players.n))
        for some in cut_batches(len(inside), 16 * len(own) * b[0].size, _BATCH_BYTES):
            each = _scored(scores, _mixed(inside[some], table.X[rows], b), own)  # (rows, sets, r)
            means = each @ references.weights
            found.worth[rows, some] = apply_link(table.link, means)
            if drawn is not None:
                sums += drawn.summed(each * slope(means)[..., None], some)
        if drawn is not None and found.errors is not None:
            found.errors[rows] = drawn.of_rows(sums, nothing, table.full[rows])
    return found


def _mixed(inside: NDArray[np.bool_], X: Floats, references: Floats) -> Floats:
    """Every set with every reference row, (rows, sets, r, d): absent columns are those of the reference."""
    return np.where(inside[:, None], X[:, None, None], references[:, None])


def _scored(scores: RowScores, points: Floats, own: Integers) -> Floats:
    """Score points (rows, …, d) made from some rows."""
    each = points[0].size // points.shape[-1]
    return scores.value(points.reshape(-1, points.shape[-1]), own.repeat(each)).reshape(points.shape[:-1])


N_REFERENCES = 8
N_SAMPLED = 100  # reference rows, at least, of a sample
_MOST_SCORED = 2**17  # per explained row: with few columns, all background rows serve

rows_rule = Rule(
    "an array or frame of rows",
    lambda value: not isinstance(value, (list, tuple)) and np.ndim(value) == 2,
)


class KernelShap(BackgroundExplainer):
    """Shapley values where columns that are absent take the values of reference rows.

    A set S of columns is worth v(S) = mean over reference rows b of e(x_S, b_{S^c}): the score of the row
    with all columns outside S taken from b. A column's value is what it adds to that, averaged over all sets.
    The base value is the mean score of the reference rows, and values add up to the score exactly.
    Where sets of columns or reference rows are drawn, `stderr` tells how far values can be off for it, and
    `params["stderr_covers"]` which of the two; centres stand for the background without such an error.

    Parameters
    ----------
    model
        Any model or function that `tellwhy.scoring.as_score` reads.
    baseline
        Which rows absent columns take their values from. "sample": those given to `fit`, or as many of them,
        drawn at random, as make 131,072 scores per explained row, at least 100.
        "kmeans": 8 centres of the rows given to `fit`, each coordinate at the nearest value that
        occurs, weighted by the sizes of their clusters; how far they are from the rows they stand for
        is not known. "neighbours": the 8 of those rows nearest to each explained row (in standard
        deviations; rows equal to it are passed over). "auto" is "sample". An array: these rows, in the
        user's columns, which need no `fit`; `extras["nearest_normal"]` stays within them, unless other rows
        were given to `fit` or `remember`.
    n_coalitions
        Sets to draw where there are more than 12 columns or groups; "auto": 2d + 2048.
    groups
        Columns that play together, as in `AnomalyShapley`.
    link
        What is explained: the mean of the model's numbers ("identity"), or its "logit" or "log", on whose
        scale values then add up, as for the probability of a classifier.
    interactions
        Whether to compute the Shapley interactions of pairs of columns too, from the same scores:
        `extras["interactions"]` (rows, columns, columns), as in `TreeShapley`. Where sets are drawn,
        `extras["interactions_stderr"]` says how far they can be off.
    random_state
        Seed of the clusters, of the drawn reference rows and of the sampled sets.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; None: one, −1: one per core. Results do not depend
        on it.

    Examples
    --------
    >>> background = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = KernelShap(lambda X: (X**2).sum(axis=1)).fit(background)
    >>> int(explainer.explain(np.array([[0.0, 5.0]])).values.argmax())
    1
    """

    leaves_rows_out = True
    calls_in_batches = True
    names_: Sequence[str] | None = None  # of the columns; given rows need no `fit`, which would set it
    _parameters: ClassVar[dict[str, Rules]] = {
        "baseline": (one_of("auto", "sample", "kmeans", "neighbours"), rows_rule),
        "n_coalitions": (one_of("auto"), integer(2)),
        "groups": groups_rule,
        "link": one_of(*LINKS),
        "interactions": boolean,
        "random_state": seed,
        **BATCH_PARAMETERS,
    }

    def __init__(
        self,
        model: object,
        *,
        baseline: ArrayLike | str = "auto",
        n_coalitions: int | str = "auto",
        groups: Groups | None = None,
        link: str = "identity",
        interactions: bool = False,
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int | None = None,
    ):
        super().__init__(model)
        self.link = link
        self.interactions = interactions
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.baseline = baseline
        self.n_coalitions = n_coalitions
        self.groups = groups
        self.random_state = random_state

    def _fit(self, X: ArrayLike) -> None:
        """Learn the reference rows, or keep the rows among which neighbours are looked for."""
        self.names_ = self.score.feature_names or list_columns(X)
        self.rows_ = self.rows(X).X
        if self._choice() == "kmeans":
            found = _centres(self.rows_, generator(self.random_state))
            self.centres_ = found.rows[0]
            self.weights_ = found.weights

    def learns_from(self, background: object) -> bool:  # noqa: ARG002
        """Whether `fit` is to be called: not where rows are given as the baseline."""
        return isinstance(self.baseline, str)

    def _choice(self) -> str:
        """Where reference rows come from, in a word."""
        if not isinstance(self.baseline, str):
            return "given rows"
        return "sample" if self.baseline == "auto" else self.baseline

    def _attribute(self, rows: Rows) -> Attribution:
        players = self._find_players(rows)
        coalitions = self._choose_sets(players)
        references = self._choose_references(
            rows, max(N_SAMPLED, _MOST_SCORED // (len(coalitions.members) + 1))
        )
        scores = RowScores(rows.score, rows.X, rows.own)
        full = apply_link(self.link, scores.value(rows.X, np.arange(len(rows.X))))
        n_used = references.rows.shape[1]
        drawn = (
            ReferenceErrors.of(coalitions, n_used, len(self.rows_)) if self._choice() == "sample" else None
        )
        played = play(scores, Explained(rows.X, full, players, self.link), references, coalitions, drawn)
        shared = coalitions.share(played.worth, played.empty, full)
        stderr = _together(shared.stderr, played.errors)
        return Attribution(
            players.per_column(shared.values),
            full,
            played.empty,
            stderr=None if stderr is None else players.per_column(stderr),
            extras=self._find_extras(coalitions, Outcome(players, played, full, shared.values)),
            params={
                "baseline": self._words(n_used),
                "groups": self._tell_groups(players),
                "reference_rows": n_used,
                **self._tell_link(),
                "coalitions": coalitions.words(),
                "coalitions_used": len(coalitions.members),
                "stderr_covers": _tell_what_errors_cover(shared.stderr, played.errors),
            },
            per_owner=True,
        )

    def _find_players(self, rows: Rows) -> Players:
        return find_players(rows, self.groups, self.names_ or self.score.feature_names)

    def _choose_sets(self, players: Players) -> Sets:
        """Return the sets of players that are tried."""
        return choose_coalitions(players.n, self.n_coalitions, generator(self.random_state))

    def _tell_link(self) -> dict[str, Any]:
        """What is explained, where a link function makes another number of it."""
        if self.link == "identity":
            return {}
        return {"explains": f"{self.link} of the mean of the {self.score.describes}"}

    def _tell_groups(self, players: Players) -> Any:
        """Groups, as an explanation is saved with them."""
        return None if self.groups is None else players.group.tolist()

    def _find_extras(self, sets: Any, found: Outcome) -> dict[str, Any]:
        """Values of groups, and interactions, where they were asked for."""
        extras: dict[str, Any] = {}
        if self.groups is not None:
            extras["group_values"] = found.players.group_values(found.values)
        if self.interactions:
            pairs, errors = find_interactions(sets, found)
            extras["interactions"] = self._place_pairs(pairs, found.players)
            if errors is not None:
                extras["interactions_stderr"] = self._place_pairs(errors, found.players)
        return extras

    def _place_pairs(self, pairs: Floats, players: Players) -> Floats:
        """Put interactions of players where the user's columns are; those that do not play have none."""
        if self.groups is not None:
            raise InvalidParameter(
                "interactions=True tells what pairs of columns do together, and groups=… makes players of "
                "several columns. Leave either out."
            )
        n_columns = len(players.group)
        found = np.zeros((len(pairs), n_columns, n_columns))
        found[np.ix_(np.arange(len(pairs)), players.playing, players.playing)] = pairs
        return found

    def _words(self, n_used: int) -> str:
        """Where reference rows came from, and how many of the background's they are where some were drawn."""
        choice = self._choice()
        if choice == "kmeans":
            return f"{n_used} of {len(self.rows_)} rows: centres, weighted by the rows around them"
        is_drawn = choice == "sample" and n_used < len(self.rows_)
        return f"{n_used} of {len(self.rows_)} rows, drawn at random" if is_drawn else choice

    def _ordinary_rows(self) -> Any:
        """Return rows that were kept; without any, given reference rows serve."""
        kept = super()._ordinary_rows()
        return some_rows(self.baseline) if kept is None and not isinstance(self.baseline, str) else kept

    def _choose_references(self, rows: Rows, most: int) -> References:
        """Return the rows that absent columns take their values from; `most` bounds a sample."""
        if not isinstance(self.baseline, str):
            return weigh_equally(self.rows(self.baseline).X[None])
        self._check_fitted("rows_")
        choice = self._choice()
        if choice == "kmeans":
            return References(self.centres_[None], self.weights_)
        if choice == "neighbours":
            return weigh_equally(_neighbours(rows.X, self.rows_))
        # in their own order: the same rows give the same sums, whatever order they were drawn in
        drawn = np.sort(draw_sample(len(self.rows_), most, generator(self.random_state)))
        return weigh_equally(self.rows_[drawn][None])


def _centres(X: Floats, rng: np.random.Generator) -> References:
    """Return up to 8 k-means centres, weighted by the sizes of their clusters.

    Each coordinate of a centre is moved to the nearest value in its column: a mean of whole numbers, or of 0
    and 1, may be a value that no row can have.
    """
    from sklearn.cluster import KMeans

    distinct, counts = np.unique(X, axis=0, return_counts=True)
    if len(distinct) <= N_REFERENCES:
        return References(distinct[None], counts / counts.sum())
    scales = find_column_units(X)  # no column counts more for being measured in small units
    model = KMeans(N_REFERENCES, n_init=10, random_state=int(rng.integers(2**31 - 1))).fit(X / scales)
    centres = model.cluster_centers_ * scales
    for column, values in enumerate(X.T):
        centres[:, column] = values[np.abs(values[:, None] - centres[:, column]).argmin(axis=0)]
    counts = np.bincount(model.labels_, minlength=N_REFERENCES)
    return References(centres[None], counts / counts.sum())


def _neighbours(X: Floats, background: Floats) -> Floats:
    """Background rows nearest to each row but not equal to it, shape (n, r, d)."""
    from sklearn.neighbors import NearestNeighbors

    scales = find_column_units(background)
    k = min(N_REFERENCES, len(background))
    looked_at = min(len(background), 4 * k)  # some may be equal to the row, and are passed over
    model = NearestNeighbors(n_neighbors=looked_at).fit(background / scales)
    distance, index = model.kneighbors(X / scales)
    order = np.argsort(distance == 0, axis=1, kind="stable")[:, :k]  # equal rows last
    return np.asarray(background[np.take_along_axis(index, order, axis=1)])


def _together(*errors: Floats | None) -> Floats | None:
    """Return the standard error of a sum of independent errors; None where there are none."""
    known = [np.square(each) for each in errors if each is not None]
    return np.sqrt(np.sum(known, axis=0)) if known else None


def _tell_what_errors_cover(of_sets: Floats | None, of_rows: Floats | None) -> str | None:
    """Say where standard errors come from."""
    words = {"drawn sets of columns": of_sets, "drawn reference rows": of_rows}
    return " and ".join(word for word, errors in words.items() if errors is not None) or None
