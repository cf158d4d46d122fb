"""Owen values: Shapley values where columns of a group come and go together before others do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rule, Rules, Seed, generator, integer, one_of, seed
from tellwhy.core.score import Floats
from tellwhy.explainers.rows import BATCH_PARAMETERS, Players, Rows, find_position
from tellwhy.explainers.shapley.kernel_shap import KernelShap, Outcome, rows_rule
from tellwhy.explainers.shapley.shapley_values import Mask, ShapleyValues

MOST_SETS = 4096  # that all orders may need, without drawing some of them
N_ORDERS = 64  # drawn at most by "auto", in pairs of an order and its reverse

Tree = list[Any]
"""A group: players by number, and groups of them."""


def list_players(tree: Any) -> list[int]:
    """Players of a group, in the order of the tree.

    Examples
    --------
    >>> list_players([[0, 2], [1, [3]]])
    [0, 2, 1, 3]
    """
    return [tree] if isinstance(tree, int) else [player for part in tree for player in list_players(part)]


def count_contexts(tree: Any) -> int:
    """How many pairs of sets the value of all players is a sum over.

    Examples
    --------
    >>> count_contexts([0, 1, 2]), count_contexts([[0, 1], [2, 3]])
    (12, 16)
    """
    if isinstance(tree, int):
        return 1
    return 2 ** (len(tree) - 1) * sum(count_contexts(part) for part in tree)


@dataclass(frozen=True)
class Orders:
    """Sets of players other than none and all, and what values are as sums over what they are worth.

    Attributes
    ----------
    members
        One mask per set, (m, p).
    weights
        Values are worth @ weights + v(∅) · of_empty + v(D) · of_full, (m, p).
    of_empty, of_full
        Both (p,).
    n_orders
        How many orders were drawn; 0 where all were gone through.
    """

    members: Mask
    weights: Floats
    of_empty: Floats
    of_full: Floats
    n_orders: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether no order was drawn."""
        return self.n_orders == 0

    def words(self) -> str:
        """One phrase for the record of an explanation."""
        return "all that groups allow" if self.is_exact else f"of {self.n_orders} orders, drawn in pairs"

    def as_sums(self) -> tuple[Floats, Floats, Floats]:
        """Return values as sums: weights of the sets, of v(∅) and of v(D)."""
        return self.weights, self.of_empty, self.of_full

    def share(self, worth: Floats, empty: Floats, full: Floats) -> ShapleyValues:
        """Return the values of n games from v(S), (n, m), v(∅) and v(D)."""
        ends = empty[:, None] * self.of_empty + full[:, None] * self.of_full
        values = worth @ self.weights + ends
        return ShapleyValues(values, None if self.is_exact else self._find_errors(worth, empty, full))

    def _find_errors(self, worth: Floats, empty: Floats, full: Floats) -> Floats:
        """Standard errors: the spread of pairs of an order and its reverse."""
        n_pairs = self.n_orders // 2
        n, p = len(worth), self.members.shape[1]
        if p == 1:
            return np.zeros((n, 1))
        gone = worth.reshape(n, self.n_orders, p - 1)
        ends = np.ones((n, self.n_orders, 1))
        steps = np.diff(
            np.concatenate([empty[:, None, None] * ends, gone, full[:, None, None] * ends], 2), axis=2
        )
        sizes = self.members.reshape(self.n_orders, p - 1, p).sum(axis=1)
        place = p - 1 - sizes  # a player that comes k-th is in p − 1 − k of the sets of its order
        found = np.take_along_axis(steps, np.broadcast_to(place, steps.shape), axis=2)
        pairs = found.reshape(n, n_pairs, 2, p).mean(axis=2)
        return np.asarray(pairs.std(axis=1, ddof=1) / np.sqrt(n_pairs))


def list_all_orders(tree: Tree) -> Orders:
    """Go through all sets that the orders of a tree lead through, each with its weight."""
    p = len(list_players(tree))
    numbers: dict[frozenset[int], int] = {}
    entries: list[tuple[int, int, float]] = []
    for player, before, weight in _visit(tree, frozenset(), 1.0):
        for members, sign in ((before | {player}, 1.0), (before, -1.0)):
            entries.append((numbers.setdefault(members, len(numbers)), player, sign * weight))
    weights = np.zeros((len(numbers), p))
    for number, player, weight in entries:
        weights[number, player] += weight
    masks = np.zeros((len(numbers), p), dtype=bool)
    for members, number in numbers.items():
        masks[number, list(members)] = True
    sizes = masks.sum(axis=1)
    inner = (sizes > 0) & (sizes < p)
    return Orders(masks[inner], weights[inner], weights[sizes == 0][0], weights[sizes == p][0])


def _visit(tree: Any, before: frozenset[int], weight: float) -> Iterator[tuple[int, frozenset[int], float]]:
    """Each player with the sets that may stand before it, and the chance of each."""
    if isinstance(tree, int):
        yield tree, before, weight
        return
    n = len(tree)
    for k, part in enumerate(tree):
        others = [frozenset(list_players(other)) for i, other in enumerate(tree) if i != k]
        for size in range(n):
            chance = weight / (n * comb(n - 1, size))
            for chosen in combinations(others, size):
                yield from _visit(part, before.union(*chosen), chance)


def draw_orders(tree: Tree, n_orders: int, rng: np.random.Generator) -> Orders:
    """Draw orders in which each group stays together, each with its reverse."""
    p = len(list_players(tree))
    orders = []
    for _ in range(n_orders // 2):
        drawn = _shuffle(tree, rng)
        orders += [drawn, drawn[::-1]]
    places = np.argsort(np.array(orders), axis=1)  # of each player, in each order
    members = (places[:, None, :] <= np.arange(p - 1)[None, :, None]).reshape(-1, p)
    weights = np.zeros((len(orders), p + 1, p))
    row = np.arange(len(orders))[:, None]
    player = np.arange(p)[None]
    np.add.at(weights, (row, places + 1, player), 1.0 / len(orders))
    np.add.at(weights, (row, places, player), -1.0 / len(orders))
    inner = weights[:, 1:p].reshape(-1, p)
    return Orders(members, inner, weights[:, 0].sum(axis=0), weights[:, p].sum(axis=0), len(orders))


def _shuffle(tree: Any, rng: np.random.Generator) -> list[int]:
    if isinstance(tree, int):
        return [tree]
    return [player for k in rng.permutation(len(tree)) for player in _shuffle(tree[k], rng)]


def choose_orders(tree: Tree, n_coalitions: str | int, rng: np.random.Generator) -> Orders:
    """Go through all orders where that takes few sets, else draw as many as sets allow."""
    p = len(list_players(tree))
    most = MOST_SETS if isinstance(n_coalitions, str) else n_coalitions
    if 2 * count_contexts(tree) <= 16 * most:
        found = list_all_orders(tree)
        if len(found.members) <= most:
            return found
    pairs = (N_ORDERS // 2) if isinstance(n_coalitions, str) else n_coalitions // (2 * (p - 1))
    if pairs < 2:
        raise InvalidParameter(
            f"n_coalitions={n_coalitions} is too few for {p} columns: two pairs of orders take {4 * (p - 1)} "
            "sets. Leave it at 'auto'."
        )
    return draw_orders(tree, 2 * pairs, rng)


def read_tree(groups: Any, n_columns: int, names: Sequence[str] | None) -> Tree:
    """Return the tree of nested lists of columns; columns in no group stand beside the groups.

    Examples
    --------
    >>> read_tree([["a", ["b", "d"]]], 4, ["a", "b", "c", "d"])
    [[0, [1, 3]], 2]
    """

    def read(part: Any, number: int) -> Any:
        if not isinstance(part, (list, tuple, np.ndarray)):
            return find_position(part, n_columns, names, number)
        if len(part) == 0:
            raise InvalidParameter(f"groups[{number}] holds a group without columns. Leave it out.")
        inner = [read(each, number) for each in part]
        return inner[0] if len(inner) == 1 else inner

    tree = [read(part, number) for number, part in enumerate(groups)]
    listed = list_players(tree)
    twice = next((column for column in listed if listed.count(column) > 1), None)
    if twice is not None:
        called = twice if names is None else names[twice]
        raise InvalidParameter(f"Column {called!r} stands in groups more than once.")
    return [*tree, *(column for column in range(n_columns) if column not in set(listed))]


def cluster_columns(X: Floats) -> Tree:
    """Return the tree of columns that move together: average linkage of 1 − |correlation of ranks|."""
    from scipy.cluster.hierarchy import linkage
    from scipy.stats import rankdata

    d = X.shape[1]
    if d < 3:
        return list(range(d))
    ranks = rankdata(X, axis=0)
    ranks = ranks - ranks.mean(axis=0)
    lengths = np.sqrt((ranks**2).sum(axis=0))
    unit = np.divide(ranks, lengths, out=np.zeros_like(ranks), where=lengths > 0)
    distance = np.clip(1.0 - np.abs(unit.T @ unit), 0.0, 1.0)
    nodes: list[Any] = list(range(d))
    for first, second in linkage(distance[np.triu_indices(d, 1)], "average")[:, :2].astype(int):
        nodes.append([nodes[first], nodes[second]])
    return list(nodes[-1])


def _keep_players(tree: Any, player_of: dict[int, int]) -> Any:
    """Return the tree with players in the place of columns; None for columns that do not play."""
    if isinstance(tree, int):
        return player_of.get(tree)
    parts = [part for each in tree if (part := _keep_players(each, player_of)) is not None]
    return None if not parts else parts[0] if len(parts) == 1 else parts


def _is_nested(value: object) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0


class OwenValues(KernelShap):
    """Shapley values over the orders in which the columns of a group come one after the other.

    Columns that say nearly the same, or that only make sense together, belong into one group: what the group
    adds is shared first among groups and then inside each, and a group may hold groups. A set of columns is
    worth what it is to `KernelShap`. With a single group, or groups of one column, they are the Shapley
    values; the values of a group's columns add up to the group's own Shapley value among the other groups of
    its level. Owen, in Mathematical Economics and Game Theory (1977); Winter, International Journal of Game
    Theory 18 (1989).

    All sets that the orders lead through are tried where they are few (for a tree of pairs, about the square
    of the number of columns); else orders are drawn, each with its reverse, and `stderr` says how far values
    can be off.

    Parameters
    ----------
    model, baseline, batch_size, n_jobs
        As in `KernelShap`.
    groups
        Nested lists of columns, by number or name: [["height", "weight"], ["red", ["green", "blue"]]].
        Columns in none stand by themselves. "auto": the tree of columns whose ranks move together in the
        rows given to `fit`.
    n_coalitions
        Sets to try, at most; "auto": 4,096 where that is all of them, else those of 64 orders.
    random_state
        Seed of the drawn orders and reference rows.

    Examples
    --------
    >>> product = lambda X: X[:, 0] * X[:, 1] * X[:, 2]
    >>> explainer = OwenValues(product, groups=[[0, 1], [2]], baseline=np.zeros((1, 3)))
    >>> explainer.explain(np.array([[2.0, 2.0, 2.0]])).values
    array([[2., 2., 4.]])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "baseline": (one_of("auto", "sample", "kmeans", "neighbours"), rows_rule),
        "n_coalitions": (one_of("auto"), integer(2)),
        "groups": (one_of("auto"), Rule("nested lists of columns", _is_nested)),
        "random_state": seed,
        **BATCH_PARAMETERS,
    }

    def __init__(
        self,
        model: object,
        *,
        groups: Sequence[Any] | str = "auto",
        baseline: ArrayLike | str = "auto",
        n_coalitions: int | str = "auto",
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int | None = None,
    ):
        super().__init__(
            model,
            baseline=baseline,
            n_coalitions=n_coalitions,
            random_state=random_state,
            batch_size=batch_size,
            n_jobs=n_jobs,
        )
        self.groups = groups

    def _fit(self, X: ArrayLike) -> None:
        """Learn the reference rows, and which columns move together."""
        super()._fit(X)
        if isinstance(self.groups, str):
            rows = self.rows(X)
            first = np.unique(rows.owner, return_index=True)
            tree = cluster_columns(rows.X[:, first[1]])
            self.tree_: Tree = _keep_players(tree, dict(enumerate(first[0].tolist())))

    def learns_from(self, background: object) -> bool:
        """Whether `fit` is to be called: not where groups and reference rows are both given."""
        return isinstance(self.groups, str) or super().learns_from(background)

    def _find_players(self, rows: Rows) -> Players:
        """Return the players: the columns, each by itself. Groups say in which orders they come."""
        playing, of_column = np.unique(rows.owner, return_inverse=True)
        return Players(of_column.reshape(-1), np.arange(rows.n_owners), playing)

    def _choose_sets(self, players: Players) -> Orders:
        columns = players.playing.tolist()
        tree = _keep_players(self._find_tree(players), {c: i for i, c in enumerate(columns)})
        tree = [tree] if isinstance(tree, int) else tree
        return choose_orders(tree, self.n_coalitions, generator(self.random_state))

    def _find_tree(self, players: Players) -> Tree:
        """Return the groups by the numbers of columns."""
        if not isinstance(self.groups, str):
            names = self.names_ or self.score.feature_names
            return read_tree(self.groups, len(players.group), names)
        self._check_fitted("tree_")
        return self.tree_

    def _tell_groups(self, players: Players) -> Any:
        return str(self._find_tree(players))

    def _find_extras(self, sets: Any, found: Outcome) -> dict[str, Any]:  # noqa: ARG002
        """Values of the groups of the highest level, in their order."""
        tree = self._find_tree(found.players)
        values = found.players.per_column(found.values)
        sums = [values[:, list_players(part)].sum(axis=1) for part in tree]
        return {"group_values": np.column_stack(sums)}
