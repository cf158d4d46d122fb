"""Exact Shapley values of trees: the compiled loops, over batches of rows in threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import joblib
import numpy as np
from scipy.special import beta

from tellwhy.core.parallel import row_batches, thread_map
from tellwhy.core.progress import silently, track
from tellwhy.core.score_function import Floats
from tellwhy.explainers.trees._compiled import add_values, expected_value
from tellwhy.explainers.trees._compiled_interactions import background_interactions, path_interactions
from tellwhy.explainers.trees._compiled_pairs import pair_shares
from tellwhy.explainers.trees._compiled_paths import path_shares
from tellwhy.explainers.trees._compiled_tables import BITS, MOST, path_columns, table_shares
from tellwhy.explainers.trees.model import Chosen, Nodes

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


def edge_shares(nodes: Nodes) -> Floats:
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


def outputs(nodes: Nodes, chosen: Chosen, Z: Floats, n_jobs: int = -1) -> Floats:
    """Return the output of each row."""

    def some(rows: slice) -> Floats:
        sums = np.full(rows.stop - rows.start, chosen.base)
        add_values(nodes, chosen.trees, chosen.value, Z[rows], sums)
        return sums

    return np.concatenate(_over_rows(some, len(Z), n_jobs, "scoring with trees"))


class Game(NamedTuple):
    """Trees, the part of them that makes an output, and the number of columns that share it."""

    nodes: Nodes
    chosen: Chosen
    n_players: int


def path_values(game: Game, Z: Floats, n_jobs: int = -1) -> Shares:
    """Shapley values where absent columns go both ways at a split, as often as training rows did."""
    nodes = game.nodes
    chosen = game.chosen
    share = edge_shares(nodes)
    rule = quadrature(_most_points(nodes, Z.shape[1]))

    def some(rows: slice) -> Floats:
        turned = np.ascontiguousarray(Z[rows].T)
        gained = np.zeros((game.n_players, rows.stop - rows.start))
        path_shares(nodes, chosen.trees, chosen.value, share, turned, rule.points, rule.weights, gained)
        return gained.T

    values = np.concatenate(_over_rows(some, len(Z), n_jobs, "explaining with trees"))
    return Shares(values, chosen.base + expected_value(nodes, chosen.trees, chosen.value, share))


def background_values(game: Game, Z: Floats, background: Floats, n_jobs: int = -1) -> Shares:
    """Shapley values where absent columns take the cells of background rows, averaged over these."""
    nodes = game.nodes
    chosen = game.chosen
    share = edge_shares(nodes)
    is_short = path_columns(nodes, chosen.trees, share) <= BITS
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
        table_shares(*given, rule.points, rule.weights, betas, gained)
        pair_shares(nodes, long, chosen.value, Z[rows], background, betas, gained)
        return gained.T / len(background)

    values = np.concatenate(_over_rows(some, len(Z), n_jobs, "explaining with trees", _BACKGROUND_ROWS))
    return Shares(values, float(outputs(nodes, chosen, background, n_jobs).mean()))


def interactions(game: Game, Z: Floats, background: Floats | None, n_jobs: int = -1) -> Floats:
    """Shapley interactions (n, columns, columns) without their diagonal; both halves are alike."""
    nodes = game.nodes
    share = edge_shares(nodes)
    rule = quadrature(_most_points(nodes, Z.shape[1]))

    def some(rows: slice) -> Floats:
        pairs = np.zeros((rows.stop - rows.start, game.n_players, game.n_players))
        given = (nodes, game.chosen.trees, game.chosen.value, share, Z[rows])
        if background is None:
            path_interactions(*given, rule.points, rule.weights, pairs)
            return pairs
        background_interactions(*given, background, rule.points, rule.weights, pairs)
        return pairs / len(background)

    return np.concatenate(_over_rows(some, len(Z), n_jobs, "interactions of columns"))


def _most_points(nodes: Nodes, n_columns: int) -> int:
    """Points that are enough for any tree: a path has at most so many different columns."""
    return (min(int(nodes.depth.max()), n_columns) + 1) // 2 + 1


def _over_rows(
    function: Callable[[slice], Floats], n: int, n_jobs: int, label: str, size: int = _ROWS
) -> list[Floats]:
    """Apply a compiled function to batches of rows, in threads; batches do not depend on their number."""
    batches = row_batches(n, 1, size)
    workers = joblib.effective_n_jobs(n_jobs)
    groups = [batches[i : i + workers] for i in range(0, len(batches), workers)]
    quiet = silently(function)
    results: list[Floats] = []
    for group in track(groups, len(groups), label):
        results += thread_map(quiet, group, n_jobs)
    return results
