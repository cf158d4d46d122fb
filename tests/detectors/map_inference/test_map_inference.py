"""Labels and marginals against enumeration of every labelling."""

import itertools
from importlib import import_module

import numpy as np
import pytest
from oracles.graph_oracles import energy, least_energy, log_partition, node_marginals, pair_marginals

from tellwhy.core.errors import InvalidInput, NotConverged
from tellwhy.data.graphs import chain, from_edges, grid
from tellwhy.detectors.map_inference import (
    Field,
    best_labelling,
    icm,
    is_attractive,
    loopy_bp,
    marginals,
    min_cut,
    neighbour_counts,
    trw_s,
    viterbi,
)

HOLE = np.arange(9) != 4
GRAPHS = {
    "chain": chain(7),
    "chains": chain([3, 4], mask=[True] * 5 + [False, True]),
    "tree": from_edges([(6, 2), (2, 0), (2, 5), (5, 1), (4, 3)], 7),
    "cycle": from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (4, 5)], 7),
    "dense": from_edges(list(itertools.combinations(range(7), 2))),
    "grid": grid((3, 3)),
    "grid with a hole": grid((3, 3), 8, mask=HOLE),
    "slices": grid((2, 2, 2), 4),
    "cube": grid((2, 2, 2), 26),
}
FORESTS = ("chain", "chains", "tree")


def problem(name, seed, *, n_classes=2, attractive=False, dtype=np.float64):
    graph, rng = GRAPHS[name], np.random.default_rng(seed)
    unary = rng.normal(size=(graph.n_nodes, n_classes)).astype(dtype)
    if graph.mask is not None:
        unary[~graph.mask] = 0
    pair = rng.normal(size=(n_classes, n_classes))
    pair = rng.uniform(0, 1.5) * (1 - np.eye(n_classes)) if attractive else pair + pair.T
    return Field(unary, pair, graph)


def optimum(field):
    return least_energy(field.unary, field.pair, field.graph.edges(), field.graph.mask)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("method", ["auto", "trws", "lbp", "icm"])
@pytest.mark.filterwarnings("ignore::tellwhy.core.errors.NotConverged")
def test_energies_and_bounds(name, method):
    for seed in range(4):
        field = problem(name, seed, n_classes=2 + seed % 2, attractive=seed % 3 == 0)
        found, least = best_labelling(field, method), optimum(field)
        assert found.energy == pytest.approx(
            energy(field.unary, field.pair, field.graph.edges(), found.labels)
        )
        assert found.bound <= least + 1e-9
        assert found.energy >= least - 1e-9
        np.testing.assert_array_equal(
            found.labels < 0, False if field.graph.mask is None else ~field.graph.mask
        )


@pytest.mark.parametrize("name", FORESTS)
def test_dynamic_programming_is_exact(name):
    for seed in range(4):
        field = problem(name, seed, n_classes=3)
        assert viterbi(field).energy == pytest.approx(optimum(field), abs=1e-9)
        assert viterbi(field).gap == 0
        tree_bound = trw_s(field, max_sweeps=300, tol=0)
        assert tree_bound.gap <= 1e-9


def test_ties_are_broken_together():
    """Both labels cost the same at every node: only backtracking gives one label to all."""
    for graph in (chain(9), from_edges([(0, 1), (0, 2), (0, 3), (3, 4)])):
        field = Field(np.zeros((graph.n_nodes, 2)), 1 - np.eye(2), graph)
        assert len(set(viterbi(field).labels)) == 1
        independent = field.cheapest_alone()
        assert viterbi(field).energy <= field.energy(independent)


def test_printed_max_marginal_ignores_the_label():
    """μ_i(s) is unary_i(s) + Σ M_ki(s); the printed max over t of the same gives every label the same value."""
    field = problem("chain", 3, n_classes=3)
    arriving = field.no_messages()
    for backward in (True, False):
        field.sweep(arriving, backward=backward)
    belief = field.unary + arriving.reshape(7, 2, 3).sum(axis=1)
    np.testing.assert_array_equal(belief.argmin(axis=1), viterbi(field).labels)
    printed = np.repeat(belief.min(axis=1, keepdims=True), 3, axis=1)
    assert (printed.argmin(axis=1) != viterbi(field).labels).any()


@pytest.mark.parametrize("name", GRAPHS)
def test_minimum_cut_is_exact(name):
    for seed in range(4):
        field = problem(name, seed, attractive=True)
        found = min_cut(field)
        assert found.energy == pytest.approx(optimum(field), abs=1e-9)
        assert found.gap < 1e-5
    skewed = Field(field.unary, np.array([[0.3, 0.9], [0.9, -0.4]]), field.graph)
    assert min_cut(skewed).energy == pytest.approx(optimum(skewed), abs=1e-9)


def test_minimum_cut_refuses_what_it_cannot_do():
    assert not is_attractive(problem("grid", 0, n_classes=3, attractive=True))
    repelling = Field(np.zeros((9, 2)), np.eye(2), GRAPHS["grid"])
    with pytest.raises(InvalidInput, match="attract"):
        min_cut(repelling)
    with pytest.raises(InvalidInput, match="inference='exact'"):
        best_labelling(repelling, "exact")


def test_tree_reweighting_agrees_with_the_cut_on_a_larger_grid():
    rng = np.random.default_rng(1)
    field = Field(rng.normal(size=(900, 2)), 0.7 * (1 - np.eye(2)), grid((30, 30), 8))
    exact, found = min_cut(field), trw_s(field, max_sweeps=500, tol=1e-7)
    assert found.energy <= exact.energy + 1e-3 * abs(exact.energy)
    assert found.bound <= exact.energy + 1e-6
    assert found.gap <= 2e-3 * abs(exact.energy)
    assert icm(field).energy > exact.energy
    single = Field(field.unary.astype(np.float32), field.pair.astype(np.float32), field.graph)
    assert trw_s(single).energy <= exact.energy + 2e-3 * abs(exact.energy)


def test_bound_never_falls_and_messages_can_be_reused():
    field = problem("grid", 5, n_classes=3)
    messages, bounds = field.no_messages(), []
    for _ in range(8):
        field.sweep(messages, backward=False, shared=True)
        bounds.append(field.sweep(messages, backward=True, shared=True))
    assert (np.diff(bounds) >= -1e-12).all()
    again = trw_s(field, max_sweeps=1, messages=messages)
    assert again.bound >= bounds[-1] - 1e-12


def test_listed_edges_and_implied_edges_agree():
    """The same graph in both forms, the same numbering: the same messages, bit for bit."""
    rng = np.random.default_rng(2)
    implied = grid((3, 4, 5), 26, mask=rng.random(60) > 0.2)
    listed = from_edges(implied.edges(), 60, mask=implied.mask)
    unary = rng.normal(size=(60, 3)) * implied.mask[:, None]
    fields = [Field(unary, 0.5 * np.eye(3), g) for g in (implied, listed)]
    results = [trw_s(f, max_sweeps=2, tol=0) for f in fields]
    assert results[0].gap > 0.1
    np.testing.assert_array_equal(results[0].labels, results[1].labels)
    assert results[0].energy == pytest.approx(results[1].energy, rel=1e-12)
    assert results[0].bound == pytest.approx(results[1].bound, rel=1e-9)
    np.testing.assert_array_equal(icm(fields[0]).labels, icm(fields[1]).labels)
    counts = [neighbour_counts(results[0].labels, g, 3) for g in (implied, listed)]
    np.testing.assert_array_equal(*counts)
    np.testing.assert_array_equal(counts[0].sum(axis=1), implied.degrees())
    a, b = (marginals(f, max_sweeps=50) for f in fields)
    np.testing.assert_allclose(a.nodes[implied.mask], b.nodes[implied.mask], atol=1e-6)
    np.testing.assert_allclose(a.pairs, b.pairs, atol=1e-5)


@pytest.mark.parametrize("name", FORESTS)
def test_marginals_are_exact_on_forests(name):
    field = problem(name, 4, n_classes=2)
    found, edges = marginals(field), field.graph.edges()
    assert found.log_z == pytest.approx(
        log_partition(field.unary, field.pair, edges, field.graph.mask), abs=1e-10
    )
    if field.graph.mask is None:
        np.testing.assert_allclose(found.nodes, node_marginals(field.unary, field.pair, edges), atol=1e-12)
        np.testing.assert_allclose(found.pairs, pair_marginals(field.unary, field.pair, edges), atol=1e-12)


def test_marginals_are_close_on_a_weakly_coupled_grid():
    field = problem("grid", 4)
    weak = Field(field.unary, 0.1 * field.pair, field.graph)
    found, edges = marginals(weak), weak.graph.edges()
    np.testing.assert_allclose(found.nodes, node_marginals(weak.unary, weak.pair, edges), atol=2e-3)
    assert found.log_z == pytest.approx(log_partition(weak.unary, weak.pair, edges), abs=5e-3)


def test_belief_propagation_says_when_it_does_not_settle():
    field = problem("cube", 1)
    with pytest.warns(NotConverged, match="did not settle in 1 sweeps"):
        loopy_bp(field, max_sweeps=1)
    strong = problem("chain", 1)
    assert loopy_bp(strong, damping=0.0).energy == pytest.approx(optimum(strong))


def test_belief_propagation_settles_and_finds_the_optimum():
    for name in ("grid", "dense", "slices"):
        field = problem(name, 2, attractive=True)
        weak = Field(field.unary, 0.3 * field.pair, field.graph)
        assert loopy_bp(weak).energy == pytest.approx(optimum(weak), abs=1e-9)
    with pytest.warns(NotConverged):
        loopy_bp(weak, damping=0.999)


def test_choice_of_algorithm(monkeypatch):
    choice = import_module("tellwhy.detectors.map_inference.best_labelling")
    used = []
    for name in ("viterbi", "min_cut", "trw_s", "loopy_bp", "icm"):
        monkeypatch.setattr(
            choice,
            name,
            lambda *a, name=name, **k: used.append(name),
        )
    best_labelling(problem("tree", 0))
    best_labelling(problem("grid", 0, attractive=True))
    best_labelling(problem("grid", 0, attractive=True, n_classes=3))
    best_labelling(problem("tree", 0), "trws")
    best_labelling(problem("tree", 0), "lbp")
    best_labelling(problem("tree", 0), "icm")
    assert used == ["viterbi", "min_cut", "trw_s", "trw_s", "loopy_bp", "icm"]
    alone = problem("grid", 0)
    free = best_labelling(Field(alone.unary, np.zeros((2, 2)), alone.graph))
    assert free.gap == 0
