"""Kinks and walls, coordinate by coordinate: slopes, stops and projections against their definitions."""

import numpy as np
import pytest

from tellwhy.optimise.arrays import on_host
from tellwhy.optimise.bfgs import Edges


@pytest.fixture
def kinks(space):
    return Edges(space.array(np.array([[2.0, 2.0, 2.0, 2.0, 0.0]])))


@pytest.fixture
def box(space):
    return Edges(None, space.array(np.full((1, 4), -1.0)), space.array(np.full((1, 4), 3.0)))


def of(space, *numbers):
    return space.array(np.array([numbers]))


def test_the_slope_at_a_kink_is_what_exceeds_its_weight(space, kinks):
    U = of(space, 0.0, 0.0, 5.0, -5.0, 0.0)
    found = kinks.slope(space.array(np.array([0])), U, of(space, 1.5, -3.0, 1.5, 1.5, 1.5))
    assert on_host(found).tolist() == [[0.0, -1.0, 3.5, -0.5, 1.5]]


def test_a_wall_in_the_way_takes_the_slope_away(space, box):
    U = of(space, -1.0, -1.0, 3.0, 1.0)
    found = box.slope(space.array(np.array([0])), U, of(space, 2.0, -2.0, -2.0, 2.0))
    assert on_host(found).tolist() == [[0.0, -2.0, 0.0, 2.0]]


def test_steps_do_not_cross_kinks_and_walls(space, kinks, box):
    problem = space.array(np.array([0]))
    U, slope = of(space, 0.0, 0.0, 5.0, -5.0, 0.0), of(space, -1.0, -1.0, 1.0, -1.0, 1.0)
    found = kinks.project(problem, U, slope, of(space, 0.5, -0.5, -0.5, 0.5, -0.5))
    assert on_host(found).tolist() == [[0.5, 0.0, 0.0, 0.0, -0.5]]  # the last has no kink
    U, slope = of(space, 0.0, 0.0, 0.0, 0.0), of(space, 0.0, 0.0, 0.0, 0.0)
    assert on_host(box.project(problem, U, slope, of(space, -2.0, -0.5, 2.5, 4.0))).tolist() == [
        [-1.0, -0.5, 2.5, 3.0]
    ]


def test_the_first_wall_is_where_a_step_ends_at_half_way_at_most(space, box):
    problem = space.array(np.array([0]))
    U = of(space, 0.0, 0.0, -1.0, 0.0)
    near = box.length_to_wall(problem, U, of(space, -4.0, 4.0, -9.0, 0.0))
    assert on_host(near).tolist() == [0.25]  # the third is at its wall already, the fourth stays
    far = box.length_to_wall(problem, U, of(space, -0.5, 0.5, 0.5, 0.0))
    assert on_host(far).tolist() == [0.5]
