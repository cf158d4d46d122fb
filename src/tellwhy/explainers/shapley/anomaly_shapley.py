"""Anomaly Shapley: any anomaly score shared among the columns that caused it."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from tellwhy.core.capabilities import HasLevels, IsPrediction
from tellwhy.core.params import Rules, Seed, generator, integer, one_of, real, seed
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import column_names
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.counterfactuals.surroundings import Distance
from tellwhy.explainers.base import Attribution, BackgroundExplainer, Rows
from tellwhy.explainers.column_groups import Groups
from tellwhy.explainers.in_batches import BATCH_PARAMETERS
from tellwhy.explainers.shapley.coalitions import Coalitions, choose_coalitions
from tellwhy.explainers.shapley.games import GAMES, TOLERATED, Games, Lowest, Setup, play
from tellwhy.explainers.shapley.gamma import DEFAULT, FEW_COLUMNS, balanced_gamma, gamma_by_injection
from tellwhy.explainers.shapley.neighbourhood import (
    DISTANCES,
    GAMMAS,
    Neighbourhood,
    distance_words,
    where_scored,
)
from tellwhy.explainers.shapley.players import Players, groups_rule, players_of
from tellwhy.explainers.shapley.shapley_values import shapley_values

SLACK = 1e-3  # of the fall of the score: an order of magnitude below the standard error of sampled coalitions


@register(
    "explainer",
    family="shapley",
    needs="any score (faster with a gradient); background rows for the units of the columns",
    cost="d + 1 local minima and min(2^d, 2d + 2048) scores per row",
    exactness="exact up to 12 columns or groups; beyond, sampled, with standard errors; additive always",
    citation="Takeishi, Kawahara, Transactions on Machine Learning Research (2023)",
    # moving towards lower scores makes no sense for a prediction, nor between levels that have no order
    applies=lambda score: not isinstance(score, (IsPrediction, HasLevels)),
    automatic=5,
)
class AnomalyShapley(BackgroundExplainer):
    """Shapley values of an anomaly score whose absent columns take the least anomalous values nearby.

    A set S of columns is worth v(S): the score that remains when the columns in S keep their values and all
    others go where the score is lowest nearby. A column's value is what it adds to that, averaged over all
    sets (Shapley, 1953). Let x̂*(S) be the local minimum, reached from y = x, of the score plus what moving
    costs, e(y) + γ/|S^c| Σ_{i∉S} dist(y_i, x_i), with y_S = x_S. Then v is one of four:

    - "relaxed": v(S) = e(z), where z is x in the columns of S, and elsewhere the mean of x̂*(∅) and of
      x̂*({i}), i ∈ S: only d + 1 minima per row;
    - "polished": the same where v of eight sets is within 5 % of the row's fall of their minima; in other
      rows e of the point that three steps of descent towards x̂*(S) lead to from z;
    - "local": v(S) = e(x̂*(S)): one minimum per set;
    - "ball": v(S) = min e(y) over |y_i − x_i| ≤ radius·s_i, where moving costs nothing: one minimum per set.

    Where sets are sampled, and in what "auto" chooses, minima are sought to a thousandth of the fall of the
    score, from x̂*(∅) with the columns of S put back (from x where that is no way down). Scores made of
    quadratic forms have minima in closed form, and z is next to them. For others z may score higher than the
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
        Calls of the model at the same time, in threads; −1: one per core. Results do not depend on it.

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

    leaves_rows_out = True
    calls_in_batches = True
    only_anomalies = True
    least_rows = 2
    _parameters: ClassVar[dict[str, Rules]] = {
        "gamma": (GAMMAS, one_of("auto", "balance", "injection")),
        "characteristic": one_of("auto", *GAMES),
        "distance": DISTANCES,
        "n_coalitions": (one_of("auto"), integer(2)),
        "groups": groups_rule,
        "radius": real(0),
        "random_state": seed,
        **BATCH_PARAMETERS,
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
        n_jobs: int = 1,
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
        self.names_ = self.score.feature_names or column_names(X)
        self.neighbourhood_ = Neighbourhood.of(background.score, background.X)
        self.gamma_ = self._chosen_gamma(background)

    def _chosen_gamma(self, background: Rows) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.characteristic == "ball":  # which does not use γ: no need to look for one
            return DEFAULT
        if self.gamma == "auto" and background.X.shape[1] <= FEW_COLUMNS:
            return DEFAULT
        balanced = balanced_gamma(background.score, background.X, self.neighbourhood_, self.distance)
        if self.gamma != "injection":
            return balanced
        players = players_of(background, self.groups, self.names_)
        coalitions = self._coalitions(players)

        def explained(X: Floats, gamma: float) -> Floats:
            games = self._games(RowScores(background.score, X), X, players, coalitions, gamma)
            return shapley_values(coalitions, games.worth, games.empty, games.full).values

        rng = generator(self.random_state)
        near = self.neighbourhood_
        return gamma_by_injection(explained, background.X, near, players.of_column, rng, balanced=balanced)

    def _attribute(self, rows: Rows) -> Attribution:
        self._check_fitted("neighbourhood_")
        players = players_of(rows, self.groups, self.names_)
        coalitions = self._coalitions(players)
        scores = RowScores(rows.score, rows.X, rows.left_out)
        games = self._games(scores, rows.X, players, coalitions, self.gamma_)
        shared = shapley_values(coalitions, games.worth, games.empty, games.full)
        extras: dict[str, Any] = {}
        if self.groups is not None:
            extras["group_values"] = players.group_values(shared.values)
        return Attribution(
            players.per_column(shared.values),
            games.full,
            games.empty,
            stderr=None if shared.stderr is None else players.per_column(shared.stderr),
            extras=extras,
            params={
                "groups": None if self.groups is None else players.group.tolist(),
                "distance": distance_words(self.distance),
                "gamma_used": self.gamma_ * self.neighbourhood_.score_unit,
                "coalitions": coalitions.words(),
                "coalitions_used": len(coalitions.members),
                "minima_not_settled": games.n_unsettled,
                "constant_columns": int(self.neighbourhood_.constant.sum()),
                "characteristic_used": self._characteristic(scores, coalitions),
                **_gaps(games),
            },
            per_owner=True,
        )

    def _coalitions(self, players: Players) -> Coalitions:
        return choose_coalitions(players.n, self.n_coalitions, generator(self.random_state))

    def _games(
        self, scores: RowScores, X: Floats, players: Players, coalitions: Coalitions, gamma: float
    ) -> Games:
        """Find out what the coalitions of each row are worth."""
        chosen = self._characteristic(scores, coalitions)
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
        rows = where_scored(scores, X, self.distance)
        return play(scores, rows, Setup(players, coalitions, lowest), chosen)

    def _characteristic(self, scores: RowScores, coalitions: Coalitions) -> str:
        """The characteristic function in use."""
        if self.characteristic != "auto":
            return self.characteristic
        if scores.quadratics is not None or not scores.has_gradient:
            return "relaxed"
        return "local" if coalitions.is_exact else "polished"


def _gaps(games: Games) -> dict[str, Any]:
    """What polishing changed and what it left, as shares of a row's fall; means over the rows."""
    if games.above is None:
        return {}
    relaxed, polished = games.above.mean(axis=0).tolist()
    n_polished = int((games.above[:, 0] > TOLERATED).sum())
    return {"relaxed_above": relaxed, "polished_above": polished, "rows_polished": n_polished}
