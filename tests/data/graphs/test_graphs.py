"""Graphs: the edges that shapes imply, what is refused, masks and parts."""

import itertools

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_matrix

from tellwhy.core.errors import InvalidInput
from tellwhy.data.generated import latent_classes
from tellwhy.data.graphs import EdgeGraph, Grid, as_graph, chain, from_edges, grid, knn_graph


def edge_set(graph):
    return {tuple(sorted(edge)) for edge in graph.edges().tolist()}


def grid_edges(shape, neighbours):
    """Every pair of cells, looked at one by one."""
    cells = list(itertools.product(*(range(n) for n in shape)))
    found = set()
    for (i, a), (j, b) in itertools.combinations(enumerate(cells), 2):
        step = np.abs(np.subtract(a, b))
        planar = len(shape) == 2 or step[0] == 0
        near = {
            4: planar and step.sum() == 1,
            8: planar and step.max() == 1,
            6: step.sum() == 1,
            26: step.max() == 1,
        }
        if near[neighbours]:
            found.add((i, j))
    return found


@pytest.mark.parametrize(
    ("shape", "neighbours"),
    [((3, 4), 4), ((3, 4), 8), ((2, 3, 4), 4), ((2, 3, 4), 8), ((2, 3, 4), 6), ((2, 3, 4), 26), ((1, 5), 4)],
)
def test_grid_edges(shape, neighbours):
    g = grid(shape, neighbours)
    expected = grid_edges(shape, neighbours)
    assert edge_set(g) == expected
    assert len(g.edges()) == len(expected)
    degrees = np.bincount(np.array(sorted(expected)).ravel(), minlength=g.n_nodes)
    np.testing.assert_array_equal(g.degrees(), degrees)
    np.testing.assert_array_equal(g.steps, -g.steps[::-1])


def test_masked_nodes_have_no_neighbours():
    mask = np.ones((3, 3), bool)
    mask[1, 1] = False
    g = grid((3, 3), mask=mask)
    assert all(4 not in edge for edge in edge_set(g))
    np.testing.assert_array_equal(g.degrees(), [2, 2, 2, 2, 0, 2, 2, 2, 2])
    assert edge_set(chain(4, mask=[True, False, True, True])) == {(2, 3)}
    assert edge_set(from_edges([(0, 1), (1, 2)], mask=[True, True, False])) == {(0, 1)}
    assert grid((3, 3), mask=np.ones(9, bool)).mask is None


def test_large_grids_store_nothing():
    g = grid((313, 549, 74), 6)
    assert g.n_nodes == 313 * 549 * 74
    assert all(np.size(value) < 100 for value in vars(g).values())


def test_several_chains():
    g = chain([3, 1, 2])
    assert edge_set(g) == {(0, 1), (1, 2), (4, 5)}
    assert g.n_parts == 3
    assert g.is_forest


@pytest.mark.parametrize(
    ("graph", "forest"),
    [
        (chain(5), True),
        (grid((1, 5)), True),
        (grid((5, 1)), True),
        (grid((2, 2)), False),
        (grid((4, 1, 5), 4), True),
        (grid((4, 1, 5), 6), False),
        (from_edges([(0, 1), (2, 1), (3, 4)]), True),
        (from_edges([(0, 1), (1, 2), (0, 2)]), False),
        (from_edges([], 3), True),
        (from_edges([(0, 1), (1, 2), (0, 2)], 6), False),  # a ring, and nodes apart from it
    ],
    ids=str,
)
def test_forests(graph, forest):
    assert graph.is_forest is forest


def test_reverse_edges():
    g = from_edges([(0, 3), (3, 1), (2, 3), (0, 1)])
    start = np.repeat(np.arange(4), g.degrees())
    np.testing.assert_array_equal(g.indices[g.reverse], start)
    np.testing.assert_array_equal(g.reverse[g.reverse], np.arange(8))


def test_nearest_places():
    coords = np.array([[0.0], [1.0], [2.1], [10.0]])
    assert edge_set(knn_graph(coords, k=1)) == {(0, 1), (1, 2), (2, 3)}
    assert edge_set(knn_graph(coords, k=1, mask=[True, True, False, True])) == {(0, 1), (1, 3)}
    assert edge_set(knn_graph(coords, k=1, mask=[False, True, True, True])) == {(1, 2), (2, 3)}


def test_other_forms():
    entries = (np.array([1, 5, 0, -2.5]), (np.array([0, 1, 2, 2]), np.array([1, 0, 0, 1])))
    matrix = coo_array(entries, shape=(3, 3))
    for form in (matrix, csr_matrix(matrix.toarray())):
        assert edge_set(as_graph(form, 3)) == {(0, 1), (1, 2)}  # whatever the sign of an entry
    networkx = pytest.importorskip("networkx")
    named = networkx.Graph([("a", "b"), ("b", "c")])
    assert edge_set(as_graph(named, 3)) == {(0, 1), (1, 2)}
    assert edge_set(as_graph(networkx.DiGraph([(0, 1), (1, 0)]), 2)) == {(0, 1)}
    assert as_graph(None, 4).degrees().sum() == 0
    assert isinstance(as_graph(chain(3), 3), Grid)
    assert isinstance(as_graph(chain([3]), 3), EdgeGraph)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: from_edges([(0, 1), (2, 2)]), r"Edge 1 joins row 2 with itself \(1 such edges in all\)"),
        (lambda: from_edges([(0, 1), (1, 2), (1, 0)]), "between rows 0 and 1 is given 2 times"),
        (
            lambda: from_edges([(4, 5), (2, 3), (0, 1), (3, 2), (5, 4), (2, 3)]),
            r"between rows 2 and 3 is given 3 times \(2 such edges in all",
        ),
        (
            lambda: from_edges([(0, 1), (1, 0), (2, 3), (3, 2), (2, 3)]),
            r"between rows 0 and 1 is given 2 times \(2 such edges in all",
        ),
        (lambda: from_edges([(0, 5)], 3), r"joins rows \(0, 5\); expected numbers from 0 to 2"),
        (lambda: from_edges([(0, -1)], 3), "expected numbers from 0 to 2"),
        (lambda: from_edges([(0, 1, 2)]), "pairs of row numbers"),
        (lambda: from_edges([(0.5, 1.0)]), "whole row numbers"),
        (lambda: from_edges([]), "n_nodes"),
        (lambda: chain(0), "'n' parameter of chain"),
        (lambda: chain([3, 0]), "'n' parameter of chain"),
        (lambda: grid((3,)), "two or three lengths"),
        (lambda: grid((3, 0)), "two or three lengths"),
        (lambda: grid((3, 3), 5), "neighbours"),
        (lambda: grid((3, 3), 6), "need three axes"),
        (lambda: grid((3, 3), mask=[True] * 4), "each of 9 nodes"),
        (lambda: grid((2, 2), mask=[False] * 4), "leaves no node"),
        (lambda: grid((2, 2), mask=[1.0] * 4), "True or False"),
        (lambda: knn_graph([[0.0], [1.0]], k=2), "'k' parameter"),
        (lambda: knn_graph([[np.nan], [1.0]], k=1), "NaN in row 0"),
        (lambda: as_graph(chain(3), 4), "3 nodes and X has 4 rows"),
        (lambda: as_graph(coo_array((2, 3)), 2), "square"),
        (lambda: as_graph(coo_array(np.eye(2)), 2), "with itself"),
        (lambda: as_graph([(0, 1)], 2), "Got list"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_graphs_are_refused(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


@pytest.mark.parametrize("graph", [chain(4000), grid((60, 60))], ids=["chain", "grid"])
def test_generated_classes(graph):
    toy = latent_classes(graph, 3.0, random_state=0)
    means = [toy.X[toy.classes == k].mean(axis=0) for k in (0, 1)]
    assert np.linalg.norm(means[1] - means[0]) == pytest.approx(3.0, abs=0.1)
    assert toy.anomalies(0.1).mean() == pytest.approx(0.1, abs=0.01)
    i, j = graph.edges().T
    assert (toy.classes[i] == toy.classes[j]).mean() > 0.85
    again = latent_classes(graph, 3.0, random_state=0)
    np.testing.assert_array_equal(again.X, toy.X)
    with pytest.raises(InvalidInput, match="chain"):
        latent_classes(from_edges([(0, 1)]))


@pytest.mark.parametrize("graph", [chain(500), grid((20, 25))], ids=["chain", "grid"])
def test_the_most_distorted_nodes_are_the_anomalies(graph):
    toy = latent_classes(graph, 4.0, random_state=0)
    centres = 4.0 / np.sqrt(2) * toy.classes[:, None]
    np.testing.assert_allclose(toy.distortion, 0.5 * ((toy.X - centres) ** 2).sum(axis=1))
    odd = toy.anomalies(0.1)
    assert odd.sum() == 50
    assert toy.distortion[odd].min() > toy.distortion[~odd].max()


def test_classes_change_as_often_as_is_said():
    """Once in `run_length` steps of a chain; on a grid as a field smoothed over √run_length / 2 nodes does."""
    line = latent_classes(chain(200_000), run_length=20.0, random_state=0).classes
    assert (line[1:] != line[:-1]).mean() == pytest.approx(1 / 20, rel=0.05)
    plane = latent_classes(grid((300, 300)), run_length=64.0, random_state=0).classes.reshape(300, 300)
    alike = np.exp(-1 / (4 * 4.0**2))  # correlation of neighbours in a field smoothed over 4 nodes
    for changes in (plane[1:] != plane[:-1], plane[:, 1:] != plane[:, :-1]):
        assert changes.mean() == pytest.approx(np.arccos(alike) / np.pi, rel=0.1)
