"""Shapley values of trees: path-dependent, interventional, and their interactions, by one quadrature.

Rows go in batches, on threads, to the loops of `_compiled_paths` and `_compiled_background`, where the
integral stands. For a few small trees, the second half of this file does what the loops of paths do by NumPy:
slower, but at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import beta

from tellwhy.core.compiled import LoopWithTwin
from tellwhy.core.progress import silently, track
from tellwhy.core.running import cut_batches, map_in_threads, n_threads
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.trees import _compiled_paths as compiled
from tellwhy.explainers.trees._compiled_background import (
    BITS,
    MOST,
    add_pair_shares,
    add_table_shares,
    count_path_columns,
)
from tellwhy.explainers.trees.trees import (
    AS_ZERO,
    LEFT,
    ZERO_LEFT,
    ZERO_RIGHT,
    Chosen,
    Nodes,
)

_NOTHING = 1e-35  # what counts as zero where zeros are empty cells
_BITS = 32  # categories in a word
PAYS_AFTER = 3e7  # nodes times rows times points: about a second of NumPy's way
_PER_NODE = 10  # rows that what is prepared for a node costs as much as
_ROWS = 256  # in a batch: what is prepared for a tree serves all of them
_BACKGROUND_ROWS = 512  # more is prepared where there are background rows


class Shares(NamedTuple):
    """Shapley values of rows (n, columns), and the mean output that they start from."""

    values: Floats
    base: float


class Quadrature(NamedTuple):
    """Points and weights of Gauss and Legendre between 0 and 1; those of m points in row m."""

    points: Floats
    weights: Floats


@lru_cache(maxsize=8)
def quadrature(most: int) -> Quadrature:
    """Return the points for polynomials of degree up to 2 · most − 1."""
    points = np.zeros((most + 1, most + 1))
    weights = np.zeros((most + 1, most + 1))
    for m in range(1, most + 1):
        x, w = np.polynomial.legendre.leggauss(m)
        points[m, :m] = (x + 1.0) / 2.0
        weights[m, :m] = w / 2.0
    return Quadrature(points, weights)


def compute_edge_shares(nodes: Nodes) -> Floats:
    """Share of the training rows at a node's parent that came on to the node; 1 for roots."""
    share = np.ones(len(nodes.feature))
    split = np.flatnonzero(nodes.feature >= 0)
    right = nodes.right[split]
    below = nodes.cover[split + 1] + nodes.cover[right]
    # without any training rows, both ways count alike; the two shares always sum to 1
    left_share = np.where(below > 0, nodes.cover[split + 1] / np.where(below > 0, below, 1.0), 0.5)
    share[split + 1] = left_share
    share[right] = 1.0 - left_share
    return share


def outputs(nodes: Nodes, chosen: Chosen, Z: Floats, n_jobs: int | None = None) -> Floats:
    """Return the output of each row."""

    def some(rows: slice) -> Floats:
        sums = np.full(rows.stop - rows.start, chosen.base)
        size = len(chosen.trees) * nodes.depth.max() * (rows.stop - rows.start)
        _add_values(size, nodes, chosen.trees, chosen.value, Z[rows], sums)
        return sums

    return np.concatenate(_run_over_rows(some, len(Z), n_jobs, "scoring with trees"))


class Game(NamedTuple):
    """Trees, the part of them that makes an output, and the number of columns that share it."""

    nodes: Nodes
    chosen: Chosen
    n_players: int


def compute_path_values(game: Game, Z: Floats, n_jobs: int | None = None) -> Shares:
    """Shapley values where absent columns go both ways at a split, as often as training rows did."""
    nodes = game.nodes
    chosen = game.chosen
    share = compute_edge_shares(nodes)
    rule = quadrature(_count_most_points(nodes, Z.shape[1]))

    def some(rows: slice) -> Floats:
        turned = np.ascontiguousarray(Z[rows].T)
        gained = np.zeros((game.n_players, rows.stop - rows.start))
        size = len(nodes.feature) * (rows.stop - rows.start + _PER_NODE) * (len(rule.points) - 1)
        given = (nodes, chosen.trees, chosen.value, share, turned)
        _path_shares(size, *given, rule.points, rule.weights, gained)
        return gained.T

    values = np.concatenate(_run_over_rows(some, len(Z), n_jobs, "explaining with trees"))
    expected = _expected_value(len(nodes.feature), nodes, chosen.trees, chosen.value, share)
    return Shares(values, chosen.base + expected)


def compute_background_values(game: Game, Z: Floats, background: Floats, n_jobs: int | None = None) -> Shares:
    """Shapley values where absent columns take the cells of background rows, averaged over these."""
    nodes = game.nodes
    chosen = game.chosen
    share = compute_edge_shares(nodes)
    is_short = count_path_columns(nodes, chosen.trees, share) <= BITS
    short = chosen.trees[is_short]
    long = chosen.trees[~is_short]
    rule = quadrature((MOST + 1) // 2)
    counts = np.arange(int(nodes.depth.max()) + 2, dtype=np.float64)
    betas = beta(counts[:, None], counts)
    turned_background = np.ascontiguousarray(background.T)

    def some(rows: slice) -> Floats:
        turned = np.ascontiguousarray(Z[rows].T)
        gained = np.zeros((game.n_players, rows.stop - rows.start))
        given = (nodes, short, chosen.value, share, turned, turned_background)
        add_table_shares(*given, rule.points, rule.weights, betas, gained)
        add_pair_shares(nodes, long, chosen.value, Z[rows], background, betas, gained)
        return gained.T / len(background)

    values = np.concatenate(_run_over_rows(some, len(Z), n_jobs, "explaining with trees", _BACKGROUND_ROWS))
    return Shares(values, float(outputs(nodes, chosen, background, n_jobs).mean()))


def interactions(game: Game, Z: Floats, background: Floats | None, n_jobs: int | None = None) -> Floats:
    """Shapley interactions (n, columns, columns) without their diagonal; both halves are alike."""
    nodes = game.nodes
    share = compute_edge_shares(nodes)
    rule = quadrature(_count_most_points(nodes, Z.shape[1]))

    def some(rows: slice) -> Floats:
        pairs = np.zeros((rows.stop - rows.start, game.n_players, game.n_players))
        given = (nodes, game.chosen.trees, game.chosen.value, share, Z[rows])
        if background is None:
            compiled.add_path_interactions(*given, rule.points, rule.weights, pairs)
            return pairs
        compiled.add_background_interactions(*given, background, rule.points, rule.weights, pairs)
        return pairs / len(background)

    return np.concatenate(_run_over_rows(some, len(Z), n_jobs, "interactions of columns"))


def _count_most_points(nodes: Nodes, n_columns: int) -> int:
    """Points that are enough for any tree: a path has at most so many different columns."""
    return (min(int(nodes.depth.max()), n_columns) + 1) // 2 + 1


def _run_over_rows(
    function: Callable[[slice], Floats], n: int, n_jobs: int | None, label: str, size: int = _ROWS
) -> list[Floats]:
    """Apply a compiled function to batches of rows, in threads; batches do not depend on their number."""
    batches = cut_batches(n, 1, size)
    workers = n_threads(n_jobs)
    groups = [batches[i : i + workers] for i in range(0, len(batches), workers)]
    quiet = silently(function)
    results: list[Floats] = []
    for group in track(groups, len(groups), label):
        results += map_in_threads(quiet, group, n_jobs)
    return results


def go_left(nodes: Nodes, splits: Integers, cells: Floats) -> NDArray[np.bool_]:
    """Whether cells go left at splits; `cells` has a row for each split."""
    missing = nodes.missing[splits].reshape(len(splits), *[1] * (cells.ndim - 1))
    numbers = np.where((missing == AS_ZERO) & np.isnan(cells), 0.0, cells)
    left = numbers <= nodes.threshold[splits].reshape(missing.shape)
    of_sets = np.flatnonzero(nodes.sets[splits, 0] != nodes.sets[splits, 1])
    if len(of_sets):
        left[of_sets] = _are_in_sets(nodes, splits[of_sets], numbers[of_sets])
    is_empty = np.isnan(numbers)
    left = np.where(is_empty, missing == LEFT, left)
    is_nothing = (missing >= ZERO_RIGHT) & (is_empty | (np.abs(numbers) <= _NOTHING))
    return np.where(is_nothing, missing == ZERO_LEFT, left)


def _are_in_sets(nodes: Nodes, splits: Integers, numbers: Floats) -> NDArray[np.bool_]:
    """Whether categories are in the sets of splits."""
    shape = (len(splits), *[1] * (numbers.ndim - 1))
    first = nodes.sets[splits, 0].reshape(shape)
    n_words = nodes.sets[splits, 1].reshape(shape) - first
    is_known = (numbers >= 0.0) & (numbers < _BITS * n_words)
    category = np.where(is_known, numbers, 0.0).astype(np.int64)
    word = nodes.words[first + category // _BITS]
    bit = (word >> (category % _BITS).astype(np.uint32)) & np.uint32(1)
    return is_known & (bit != 0)


def add_values(nodes: Nodes, trees: Integers, value: Floats, X: Floats, sums: Floats) -> None:
    """Add to `sums` the values of the leaves of each row, tree by tree."""
    node = np.repeat(nodes.first[trees][:, None], len(X), axis=1)
    is_split = nodes.feature[node] >= 0
    while is_split.any():
        tree, row = np.nonzero(is_split)
        at = node[tree, row]
        left = go_left(nodes, at, X[row, nodes.feature[at]])
        node[tree, row] = np.where(left, at + 1, nodes.right[at])
        is_split[tree, row] = nodes.feature[node[tree, row]] >= 0
    for leaves in node:
        sums += value[leaves]


def expected_value(nodes: Nodes, trees: Integers, value: Floats, share: Floats) -> float:
    """Sum over trees of the mean value of their leaves, each counted as often as training rows came there."""
    parent = _find_parents(nodes)
    reach = share.copy()
    for level in range(1, int(nodes.depth.max()) + 1):
        here = np.flatnonzero(nodes.depth == level)
        reach[here] = share[here] * reach[parent[here]]
    of_tree = np.repeat(np.arange(nodes.n_trees), np.diff(nodes.first))
    leaves = np.flatnonzero((nodes.feature < 0) & np.isin(of_tree, trees))
    # A running sum adds one leaf after the other, as the loop does; NumPy's sum adds in pairs.
    return float(np.cumsum(reach[leaves] * value[leaves])[-1]) if len(leaves) else 0.0


def _find_parents(nodes: Nodes) -> Integers:
    """The node above each; a root's own place."""
    parent = np.arange(len(nodes.feature))
    splits = np.flatnonzero(nodes.feature >= 0)
    parent[splits + 1] = splits
    parent[nodes.right[splits]] = splits
    return parent


class _Tree(NamedTuple):
    """One tree, its nodes counted from its root, and which nodes lie on each level.

    `previous` is the depth of the edge above each edge that is on the same column (0: none), `earlier` the
    product of shares there, `total` that product and the edge's own share.
    """

    nodes: Nodes
    parent: Integers
    path: Integers  # (nodes, depths): the node above at each depth
    levels: list[Integers]
    previous: Integers
    total: Floats
    earlier: Floats


def path_shares(
    nodes: Nodes,
    trees: Integers,
    value: Floats,
    share: Floats,
    XT: Floats,
    points: Floats,
    weights: Floats,
    shares: Floats,
) -> None:
    """Add to `shares` (columns, rows) the Shapley values of rows XT (columns, rows)."""
    for tree in trees:
        own = slice(nodes.first[tree], nodes.first[tree + 1])
        found = _read_tree(_cut(nodes, own), share[own])
        m = (_count_most_columns(found) + 1) // 2
        edges = _make_edge_tables(found, share[own], points[m, :m], weights[m, :m])
        states = _find_states(found, XT)
        _add_gains(found, value[own], edges, states, shares)


def _cut(nodes: Nodes, own: slice) -> Nodes:
    """The nodes of one tree; sets of categories stay where they are."""
    each = ("feature", "threshold", "missing", "sets", "cover", "depth", "player")
    return nodes._replace(
        first=np.array([0, own.stop - own.start]),
        right=nodes.right[own] - own.start,
        **{name: getattr(nodes, name)[own] for name in each},
    )


def _read_tree(nodes: Nodes, share: Floats) -> _Tree:
    parent = _find_parents(nodes)
    depth = nodes.depth
    levels = [np.flatnonzero(depth == level) for level in range(int(depth.max()) + 1)]
    path = np.zeros((len(depth), len(levels)), dtype=np.int64)
    for level, here in enumerate(levels):
        path[here] = path[parent[here]]
        path[here, level] = here
    previous = _find_previous(nodes, parent, path)
    total = np.where(depth > 0, share, 1.0)
    earlier = np.ones(len(depth))
    for here in levels[1:]:
        again = here[previous[here] > 0]
        earlier[again] = total[path[again, previous[again]]]
        total[again] *= earlier[again]
    return _Tree(nodes, parent, path, levels, previous, total, earlier)


def _find_previous(nodes: Nodes, parent: Integers, path: Integers) -> Integers:
    """Depth of the edge above each edge that is on the same column (0: none)."""
    # The edge at depth l is on the column of the node at depth l − 1.
    is_same = nodes.player[path] == nodes.player[parent][:, None]
    is_same &= np.arange(path.shape[1]) < nodes.depth[:, None] - 1
    last = path.shape[1] - np.argmax(is_same[:, ::-1], axis=1)
    return np.where(is_same.any(axis=1), last, 0)


def _count_most_columns(tree: _Tree) -> int:
    """Largest number of different columns on the way to a leaf."""
    seen = np.zeros(len(tree.parent), dtype=np.int64)
    for here in tree.levels[1:]:
        seen[here] = seen[tree.parent[here]] + (tree.previous[here] == 0)
    return max(1, int(seen.max()))


def _make_edge_tables(tree: _Tree, share: Floats, points: Floats, weights: Floats) -> Floats:
    """For each edge and point: what the product is multiplied by, and what the column gets; as the loop's."""
    t = points
    z = tree.total[:, None]
    before = tree.earlier[:, None]
    is_again = tree.previous[:, None] > 0
    above = np.where(is_again, t + (1.0 - t) * before, 1.0)
    gained = np.where(is_again, (1.0 - before) / above, 0.0)
    here = t + (1.0 - t) * z
    gone = np.broadcast_to(share[:, None], here.shape)
    met = weights * ((1.0 - z) / here - gained)
    failed = weights * (-1.0 / (1.0 - t) - gained)
    return np.stack([here / above, (1.0 - t) * z / above, met, failed, gone], axis=1)


def _find_states(tree: _Tree, XT: Floats) -> Floats:
    """State of each row at each edge: 1 meets all splits on its column, 0 fails here, −1 failed above."""
    nodes = tree.nodes
    splits = np.flatnonzero(nodes.feature >= 0)
    is_left = go_left(nodes, splits, XT[nodes.feature[splits]])
    states = np.ones((len(nodes.feature), XT.shape[1]))
    states[splits + 1] = is_left
    states[nodes.right[splits]] = ~is_left
    for here in tree.levels[1:]:
        again = here[tree.previous[here] > 0]
        met_above = states[tree.path[again, tree.previous[again]]] == 1.0
        states[again] = np.where(met_above, states[again], -1.0)
    return states


def _add_gains(tree: _Tree, value: Floats, edges: Floats, states: Floats, shares: Floats) -> None:
    """One pass of all rows through a tree: products on the way down, sums on the way up."""
    nodes = tree.nodes
    has_met = (states == 1.0)[:, None]
    has_gone = (states < 0.0)[:, None]
    tables = np.moveaxis(edges, 1, 0)[..., None]
    factor = np.where(has_gone, tables[4], np.where(has_met, tables[0], tables[1]))
    sums = np.ones_like(factor)
    for here in tree.levels[1:]:
        sums[here] = sums[tree.parent[here]] * factor[here]
    sums *= value[:, None, None]
    size = np.ones(len(value), dtype=np.int64)
    for here in tree.levels[-2::-1]:
        splits = here[nodes.feature[here] >= 0]
        left = splits + 1
        right = nodes.right[splits]
        sums[splits] = sums[left] + sums[right]
        size[splits] += size[left] + size[right]
    gains = sums * np.where(has_gone, 0.0, np.where(has_met, tables[2], tables[3]))
    # The loop adds what an edge gains when it has seen all that lies below.
    edge = np.argsort(np.arange(len(size)) + size - 1 - nodes.depth, kind="stable")[:-1]
    column = np.repeat(nodes.player[tree.parent[edge]], gains.shape[1])
    np.add.at(shares, column, gains[edge].reshape(len(column), shares.shape[1]))


# Numba and the loops take half a second to load, and five to compile where nothing compiled can be kept:
# small models and few rows are done before that. Both ways do the same additions and products in the same
# order, so that nobody can tell from the result which was called; tests compare bits.
_add_values = LoopWithTwin(compiled.add_values, add_values, PAYS_AFTER)
_path_shares = LoopWithTwin(compiled.path_shares, path_shares, PAYS_AFTER)
_expected_value = LoopWithTwin(compiled.expected_value, expected_value, PAYS_AFTER)
