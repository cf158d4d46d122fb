"""The lowest place of curves, from three points of each."""

import numpy as np

from tellwhy.optimise.pattern_search import Bracket


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
