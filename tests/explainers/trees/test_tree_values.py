"""The walks through trees by NumPy give the bits of the compiled loops."""

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest

from explainers.trees.test_tree_shapley import D, random_rows, random_tree
from tellwhy.explainers.trees import TreeShapley, _compiled_paths, tree_values
from tellwhy.explainers.trees.trees import join_trees, preorder


def random_forest(seed, n_trees=4):
    rng = np.random.default_rng(seed)
    nodes, value = join_trees([random_tree(rng) for _ in range(n_trees)])
    return nodes, np.ascontiguousarray(value[:, 0]), rng


@pytest.mark.parametrize("n_rows", [1, 2, 12])
@pytest.mark.parametrize("seed", range(8))
def test_both_ways_add_up_the_same_bits(seed, n_rows):
    nodes, value, rng = random_forest(seed)
    trees = np.array([0, 2, 3])  # of an output that one tree adds nothing to
    X = np.concatenate([random_rows(rng) for _ in range(6)])[:n_rows]
    share = tree_values.compute_edge_shares(nodes)
    rule = tree_values.quadrature(tree_values._count_most_points(nodes, D))
    found = []
    for way in (_compiled_paths, tree_values):
        shares = np.full((D, n_rows), 0.25)
        turned = np.ascontiguousarray(X.T)
        way.path_shares(nodes, trees, value, share, turned, rule.points, rule.weights, shares)
        sums = np.full(n_rows, 0.5)
        way.add_values(nodes, trees, value, X, sums)
        expected = way.expected_value(nodes, trees, value, share)
        found.append([shares.tobytes(), sums.tobytes(), np.float64(expected).tobytes()])
    assert found[0] == found[1]


def test_every_cell_takes_the_side_of_the_compiled_loop():
    nodes, *_ = random_forest(3, n_trees=12)
    splits = np.flatnonzero(nodes.feature >= 0)
    assert set(nodes.missing[splits]) == {0, 1, 2, 3, 4}
    assert (nodes.sets[splits, 0] != nodes.sets[splits, 1]).any()
    some = np.array([np.nan, 0.0, -0.0, 1e-36, -1e-36, 1e-34, 0.3, -0.3, 5.0, 31.0, 32.0, 64.0, 1e9, -1.0])
    cells = np.concatenate(
        [np.broadcast_to(some, (len(splits), len(some))), nodes.threshold[splits, None]], 1
    )
    expected = [
        [_compiled_paths.goes_left(nodes, s, c) for c in row] for s, row in zip(splits, cells, strict=True)
    ]
    assert np.array_equal(tree_values.go_left(nodes, splits, cells), expected)
    assert np.array_equal(tree_values.go_left(nodes, splits, cells[:, 0]), np.array(expected)[:, 0])


def recursive_preorder(left, right, node=0, depth=0):
    if left[node] < 0:
        return [(node, depth)]
    sides = [recursive_preorder(left, right, int(side[node]), depth + 1) for side in (left, right)]
    return [(node, depth), *sides[0], *sides[1]]


@pytest.mark.parametrize("seed", range(6))
def test_nodes_are_put_in_preorder_wherever_they_were(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    n = len(tree.left)
    place = np.concatenate([[0], 1 + rng.permutation(n + 2)])[:n]  # with gaps, which nothing reaches
    left = np.full(n + 3, -1)
    right = np.full(n + 3, -1)
    left[place] = np.where(tree.left < 0, -1, place[tree.left])
    right[place] = np.where(tree.right < 0, -1, place[tree.right])
    order, depth = preorder(left, right)
    assert list(zip(order, depth, strict=True)) == recursive_preorder(left, right)


def test_a_small_forest_waits_for_no_compiler(monkeypatch):
    def refuse(*_):
        raise AssertionError("it was compiled")

    for name in ("_add_values", "_path_shares", "_expected_value"):
        monkeypatch.setattr(
            getattr(tree_values, name), "loop", type("Loop", (), {"is_made": False, "__call__": refuse})()
        )
        monkeypatch.setattr(getattr(tree_values, name), "_done", 0)
    X = np.random.default_rng(0).normal(size=(300, 4))
    forest = IsolationForest(random_state=0).fit(X)
    explanation = TreeShapley(forest).explain(X[:5])
    assert np.abs(explanation.residual).max() < 1e-12
