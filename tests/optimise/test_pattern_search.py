"""Search without derivatives: where it ends, what it leaves alone, and the lowest place of its curves."""

import numpy as np

from tellwhy.optimise.bfgs import Edges
from tellwhy.optimise.pattern_search import Bracket, search_pattern

RNG = np.random.default_rng(0)


def away_from(bottom):
    return lambda problems, U: np.abs(U - bottom[problems]).sum(axis=1)


def test_each_problem_ends_near_its_own_lowest_point_up_or_down():
    bottom = np.array([[3.0, -2.0], [-4.25, 0.0], [0.5, 1.625]])
    found = search_pattern(away_from(bottom), np.zeros((3, 2)), free=np.ones((3, 2), dtype=bool))
    np.testing.assert_allclose(found.U, bottom, atol=1 / 8)
    np.testing.assert_allclose(found.values, np.abs(found.U - bottom).sum(axis=1), atol=1e-15)
    assert found.converged.all()


def test_company_does_not_matter():
    bottom = RNG.uniform(-5, 5, size=(7, 3))
    free = np.ones((7, 3), dtype=bool)
    together = search_pattern(away_from(bottom), np.zeros((7, 3)), free=free)
    for i in range(7):
        alone = search_pattern(away_from(bottom[i : i + 1]), np.zeros((1, 3)), free=free[:1])
        np.testing.assert_array_equal(alone.U[0], together.U[i])


def test_columns_that_are_not_free_take_no_part():
    """Many of them, farther from the aims than those that are free: only some columns are tried in a round."""
    d = 14
    free = np.arange(d) >= 10
    start = np.where(free, 0.0, 9.0)[None]
    bottom = np.where(free, [[2.0]], [[0.0]])
    found = search_pattern(away_from(bottom), start, free=free[None])
    np.testing.assert_array_equal(found.U[0], np.where(free, 2.0, 9.0))


def test_walls_hold():
    walls = Edges(None, np.full((1, 2), -1.5), np.full((1, 2), 0.75))
    found = search_pattern(
        away_from(np.array([[4.0, -4.0]])), np.zeros((1, 2)), free=np.ones((1, 2), dtype=bool), edges=walls
    )
    assert found.U.tolist() == [[0.75, -1.5]]


def test_targets_show_the_way_out_of_a_flat_place():
    def pit(problems, U):
        return np.where(np.abs(U - [6.0, 6.0]).max(axis=1) < 0.5, 0.0, 1.0)

    free = np.ones((1, 2), dtype=bool)
    assert search_pattern(pit, np.zeros((1, 2)), free=free).values.tolist() == [1.0]
    found = search_pattern(pit, np.zeros((1, 2)), free=free, targets=lambda which: np.full((1, 1, 2), 6.0))
    assert found.values.tolist() == [0.0]


def test_problems_that_take_too_long_are_not_converged():
    free = np.ones((1, 1), dtype=bool)
    found = search_pattern(away_from(np.array([[50.0]])), np.zeros((1, 1)), free=free, max_rounds=5)
    assert found.U.tolist() == [[5.0]]
    assert not found.converged.any()


def test_the_vertex_of_a_parabola_is_found_at_once():
    rng = np.random.default_rng(0)
    middle = rng.normal(size=50)
    steepness = rng.uniform(0.1, 9.0, 50)
    places = middle[:, None] + np.sort(rng.uniform([-3.0, -1.0, 1.0], [-1.0, 1.0, 3.0], (50, 3)), axis=1)
    heights = steepness[:, None] * (places - middle[:, None]) ** 2 + 7.0
    np.testing.assert_allclose(Bracket(places, heights).vertex(), middle, atol=1e-9)


def test_where_there_is_no_vertex_inside_the_wider_side_is_halved():
    places = np.array([[0.0, 1.0, 5.0], [0.0, 4.0, 5.0], [0.0, 1.0, 2.0], [2.0, 2.0, 2.0]])
    heights = np.array([[3.0, 2.0, -2.0], [5.0, 1.0, 0.0], [0.0, 5.0, 0.0], [1.0, 1.0, 1.0]])
    np.testing.assert_array_equal(Bracket(places, heights).vertex(), [3.0, 2.0, 0.5, 2.0])


def test_the_bracket_narrows_around_the_lowest_place():
    def curve(x):
        return np.abs(x - 1.7) ** 1.5

    grid = np.linspace(-4.0, 4.0, 9)[None]
    bracket = Bracket.around_lowest(grid, curve(grid))
    assert bracket.places.tolist() == [[1.0, 2.0, 3.0]]
    for _ in range(8):
        place = bracket.vertex()
        before = np.ptp(bracket.places)
        bracket = bracket.narrower(place, curve(place))
        assert (np.diff(bracket.places) >= 0).all()
        assert np.ptp(bracket.places) <= before
        assert bracket.places[0, 0] <= 1.7 <= bracket.places[0, 2]
    assert abs(bracket.places[0, 1] - 1.7) < 0.01


def test_the_ends_of_a_grid_have_their_neighbours_too():
    grid = np.array([[0.0, 1.0, 2.0, 3.0]])
    assert Bracket.around_lowest(grid, np.array([[0.0, 1.0, 2.0, 3.0]])).places.tolist() == [[0.0, 1.0, 2.0]]
    assert Bracket.around_lowest(grid, np.array([[3.0, 2.0, 1.0, 0.0]])).places.tolist() == [[1.0, 2.0, 3.0]]
