"""Descent of many problems at once: each as if it were alone, numpy arrays and tensors alike."""

import numba
import numpy as np
import pytest
from scipy.optimize import minimize

from tellwhy.counterfactuals.minimise import MoveCost
from tellwhy.optimise import descent as module
from tellwhy.optimise._compiled_descent import (
    Line,
    Search,
    choose_next_length,
    has_arrived,
    is_as_good_as_there,
    is_moving,
    judged,
)
from tellwhy.optimise.arrays import HOST, Space, on_host
from tellwhy.optimise.bfgs import HISTORY, Edges, LastSteps
from tellwhy.optimise.descent import ArrayRun, CompiledRun, Slack, descend

RNG = np.random.default_rng(0)
N, D = 12, 4
STRETCH = 10.0 ** RNG.uniform(-1, 1, size=(N, D))
BOTTOM = RNG.normal(size=(N, D))
START = RNG.normal(size=(N, D)) * 3


class Valleys:
    """Σ_i s_i (u_i − b_i)² + (u_0 u_1)²: every problem has its own stretch s and bottom b."""

    def __init__(self, space=HOST):
        self.stretch, self.bottom, self.space = space.array(STRETCH), space.array(BOTTOM), space
        self.sizes = []

    def __call__(self, problems, U):
        self.sizes.append(len(U))
        s, away = self.stretch[problems], U - self.bottom[problems]
        bent = U[:, 0] * U[:, 1]
        slope = 2.0 * s * away
        slope[:, 0] += 2.0 * bent * U[:, 1]
        slope[:, 1] += 2.0 * bent * U[:, 0]
        return (s * away**2).sum(1) + bent**2, slope, problems * 0


def by_scipy(i, **settings):
    valleys = Valleys()

    def one(u):
        value, slope, _ = valleys(np.array([i]), u[None])
        return value[0], slope[0]

    return minimize(one, START[i], jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-9}, **settings)


def walls(space, reach=0.4):
    return Edges(None, space.array(np.full((N, D), -reach)), space.array(np.full((N, D), reach)))


def test_every_problem_finds_its_own_minimum(space):
    found = descend(Valleys(space), space.array(START))
    assert on_host(found.converged).all()
    for i, (u, value) in enumerate(zip(on_host(found.U), on_host(found.values), strict=True)):
        best = by_scipy(i)
        assert value == pytest.approx(best.fun, abs=1e-9)
        np.testing.assert_allclose(u, best.x, atol=1e-5)


@pytest.mark.parametrize("walled", [False, True])
def test_company_does_not_matter_to_the_bit(space, walled):
    starts = START.clip(-0.4, 0.4) if walled else START
    edges = walls(space) if walled else None
    together = descend(Valleys(space), space.array(starts), edges=edges)
    for some in ([0], [5], [11], [7, 2, 3]):
        numbers = space.array(np.array(some))
        own = Edges(None, edges.low[numbers], edges.high[numbers]) if walled else None
        valleys = Valleys(space)
        apart = descend(lambda p, U, v=valleys, n=numbers: v(n[p], U), space.array(starts[some]), edges=own)
        np.testing.assert_array_equal(on_host(apart.U), on_host(together.U)[some])
        np.testing.assert_array_equal(on_host(apart.values), on_host(together.values)[some])


def test_all_that_are_going_take_part_in_every_evaluation():
    """As many calls as the slowest problem needs alone, and no more."""
    valleys, calls = Valleys(), []
    descend(valleys, START)
    for i in range(N):
        own = Valleys()
        descend(lambda p, U, v=own, i=i: v(p + i, U), START[i : i + 1])
        calls.append(len(own.sizes))
    assert len(valleys.sizes) == max(calls)
    assert sum(valleys.sizes) == sum(calls)
    assert valleys.sizes == sorted(valleys.sizes, reverse=True)


def test_walls_hold(space):
    found = descend(Valleys(space), space.array(START.clip(-0.4, 0.4)), edges=walls(space))
    U = on_host(found.U)
    assert np.abs(U).max() <= 0.4
    for i in range(N):
        best = by_scipy(i, bounds=[(-0.4, 0.4)] * D)
        assert on_host(found.values)[i] == pytest.approx(best.fun, abs=1e-7)


def test_walls_of_binary_columns(space):
    """[0, 1], and next to the end where a cell did not start, since the cross-entropy is infinite there."""
    scales, binary = np.array([1.0, 0.5, 2.0]), np.array([True, True, False])
    rows = np.array([[0.0, 1.0, 7.0], [0.25, 0.0, 7.0]])
    around = MoveCost(space.array(scales), "squared", space.array(binary))
    low, high = (on_host(wall) for wall in around.walls(space.array(rows), None))
    np.testing.assert_allclose(
        low, [[0.0, (1e-6 - 1.0) / 0.5, -np.inf], [1e-6 - 0.25, 0.0, -np.inf]], rtol=1e-12
    )
    np.testing.assert_allclose(
        high, [[1.0 - 1e-6, 0.0, np.inf], [0.75 - 1e-6, (1.0 - 1e-6) / 0.5, np.inf]], rtol=1e-12
    )


def test_kinks_keep_what_is_not_worth_moving(space):
    valleys, weights = Valleys(space), np.full((N, D), 4.0)

    def priced(problems, U):
        value, slope, parts = valleys(problems, U)
        return value + 4.0 * abs(U).sum(1), slope, parts

    found = descend(priced, space.array(np.zeros((N, D))), edges=Edges(space.array(weights)))
    U = on_host(found.U)
    assert (U == 0).any()
    assert (U != 0).any()
    _, slope, _ = Valleys()(np.arange(N), U)
    at_zero = U == 0
    assert (np.abs(slope[at_zero]) <= 4.0 + 1e-6).all()
    np.testing.assert_allclose((slope + 4.0 * np.sign(U))[~at_zero], 0.0, atol=1e-3)


def test_slack_ends_sooner_and_not_much_higher(space):
    exact, patient = descend(Valleys(space), space.array(START)), Valleys(space)
    tops = patient(space.array(np.arange(N)), space.array(START))[0]
    patient.sizes.clear()
    found = descend(patient, space.array(START), slack=Slack(0.01, tops))
    thorough = Valleys(space)
    descend(thorough, space.array(START))
    assert sum(patient.sizes) < sum(thorough.sizes)
    high, fall = on_host(found.values) - on_host(exact.values), on_host(tops) - on_host(exact.values)
    assert (high <= 0.05 * fall).all()
    assert on_host(found.converged).all()


def test_tensors_give_what_numpy_gives():
    pytest.importorskip("torch")
    for edges in (None, walls):
        starts = START if edges is None else START.clip(-0.4, 0.4)
        a, b = (
            descend(Valleys(s), s.array(starts), edges=None if edges is None else edges(s))
            for s in (HOST, Space("cpu"))
        )
        np.testing.assert_allclose(on_host(b.U), a.U, atol=1e-6)
        np.testing.assert_array_equal(on_host(b.converged), a.converged)


def test_problems_that_take_too_long_are_not_converged(space):
    found = descend(Valleys(space), space.array(START), max_iterations=2)
    assert not on_host(found.converged).any()
    value = Valleys(space)(space.array(np.arange(N)), space.array(START))[0]
    assert (on_host(found.values) < on_host(value)).all()


def test_less_is_asked_of_problems_that_take_long():
    asked = module._choose_tolerances(False, 300, is_smooth=True)
    assert asked[:31] == [1e-14] * 31
    assert asked[31] == pytest.approx(1e-13)
    assert asked[60] == module.STALLED
    assert asked[299] == module.CRAWLING
    assert module._choose_tolerances(False, 300, is_smooth=False) == [1e-14] * 300
    assert module._choose_tolerances(True, 5, is_smooth=True) == [1e-18] * 5


def dense_inverse(pairs, d):
    """The inverse curvature of BFGS after some pairs, oldest first, as a matrix."""
    s, y = pairs[-1]
    H = np.eye(d) * (s @ y) / (y @ y)
    for s, y in pairs:
        V = np.eye(d) - np.outer(s, y) / (s @ y)
        H = V @ H @ V.T + np.outer(s, s) / (s @ y)
    return H


@pytest.mark.parametrize("n_pairs", [1, 3, HISTORY, HISTORY + 3])
def test_last_steps_are_bfgs(space, n_pairs):
    curvature = np.array([1.0, 3.0, 0.5, 9.0])
    steps = RNG.normal(size=(n_pairs, 2, D))
    past, which = LastSteps(space.array(START), 5, D), space.array(np.array([3, 1]))
    for step in steps:
        past.add(which, space.array(step), space.array(step * curvature))
    slope = RNG.normal(size=(2, D))
    found = on_host(past.inverse_times(which, space.array(slope)))
    for k in range(2):
        H = dense_inverse([(s, s * curvature) for s in steps[-HISTORY:, k]], D)
        np.testing.assert_allclose(found[k], H @ slope[k], rtol=1e-9)


def test_pairs_of_no_use_are_passed_over(space):
    past, which = LastSteps(space.array(START), 1, D), space.array(np.array([0]))
    step, slope = RNG.normal(size=(1, D)), RNG.normal(size=(1, D))
    past.add(which, space.array(step), space.array(2.0 * step))
    known = on_host(past.inverse_times(which, space.array(slope)))
    past.add(which, space.array(step), space.array(-step))  # no curvature
    np.testing.assert_allclose(on_host(past.inverse_times(which, space.array(slope))), known, rtol=1e-12)
    assert on_host(past.are_there(which)).all()
    past.forget(which)
    assert not on_host(past.are_there(which)).any()
    plain = on_host(past.inverse_times(which, space.array(5.0 * slope)))
    assert np.abs(plain).max() == pytest.approx(1.0)


def newton(problems, parts, U, slope):
    """The inverse curvature of the valleys without their bend."""
    return slope / (2.0 * STRETCH[problems])


@pytest.mark.parametrize("precondition", [None, newton])
@pytest.mark.parametrize("slack", [None, Slack(0.01, Valleys()(np.arange(N), START)[0])])
def test_compiled_loops_and_array_functions_go_the_same_way(precondition, slack):
    rules = module._rules(
        START, slack, module._choose_tolerances(precondition is not None, 300, is_smooth=True)
    )
    runs, trials = [], []
    for kind in (CompiledRun, ArrayRun):
        valleys, tried = Valleys(), {}

        def evaluate(problems, U, valleys=valleys, tried=tried):
            for problem, u in zip(problems, U, strict=True):
                tried.setdefault(int(problem), []).append(u.copy())
            return valleys(problems, U)

        run = kind(evaluate, START, rules, precondition)
        run.go()
        runs.append(run)
        trials.append(tried)
    compiled, arrays = runs
    for problem in range(N):
        first, second = (np.array(tried[problem]) for tried in trials)
        assert len(first) == len(second)
        np.testing.assert_allclose(first, second, atol=1e-6)
    np.testing.assert_allclose(compiled.tables.U, arrays.tables.U, atol=1e-8)
    for name in ("f", "iteration", "converged", "n_tried"):
        np.testing.assert_allclose(compiled.tables.states[name], arrays.tables.states[name], atol=1e-9)


@pytest.mark.parametrize("kind", [ArrayRun, CompiledRun])
def test_a_direction_that_goes_up_or_nowhere_is_replaced_by_the_slope(kind):
    def uphill(problems, parts, U, slope):
        return -slope * np.where(problems % 2, 1.0, np.nan)[:, None]

    run = kind(Valleys(), START, module._rules(START, None, [1e-10] * 3), uphill)
    _, slope, _ = Valleys()(np.arange(N), START)
    run.aim(np.arange(N))
    np.testing.assert_allclose(run.tables.D, -slope / np.abs(slope).max(axis=1, keepdims=True).clip(1.0))
    np.testing.assert_allclose(run.tables.states["promise"], -(slope * run.tables.D).sum(axis=1))
    run.go()
    assert (run.tables.states["f"] < Valleys()(np.arange(N), START)[0]).all()


@pytest.mark.parametrize("kind", [ArrayRun, CompiledRun])
def test_a_precondition_is_told_the_part_of_the_points_that_it_gets(kind):
    told = []

    def part_of(U):
        return (100.0 * U[:, 0]).astype(np.int64)

    def evaluate(problems, U):
        value, slope, _ = Valleys()(problems, U)
        return value, slope, part_of(U)

    def watched(problems, parts, U, slope):
        told.append(len(np.unique(parts)))
        np.testing.assert_array_equal(parts, part_of(U))
        return newton(problems, parts, U, slope)

    kind(evaluate, START, module._rules(START, None, [1e-14] * 9), watched).go()
    assert len(told) > 3
    assert max(told) > 3


def test_a_first_trial_that_goes_too_far_is_followed_by_one_up_to_the_first_wall(space):
    edges = walls(space, reach=2.0)
    start = space.array(0.1 * START)
    run = ArrayRun(Valleys(space), start, module._rules(start, None, [1e-14] * 9), None, edges)
    going = run.aim(space.array(np.arange(N)))
    run.evaluate = lambda problems, U: (U[:, 0] * 0 + 1e9, U * 0, problems * 0)  # nothing lower
    expected = edges.length_to_wall(going, run.tables.U[going], run.tables.D[going])
    going = run.advance(going)
    np.testing.assert_array_equal(on_host(run.tables.states["t"]), on_host(expected))
    run.advance(going)
    assert (on_host(run.tables.states["t"]) < on_host(expected)).all()


def test_newton_steps_stop_coordinates_at_walls_until_none_is_pushed():
    """The first step pushes coordinate 1 through its wall, and the step without it pushes coordinate 2."""
    curvature = np.array([[2.0, 0.9, 0.0], [0.9, 1.0, 0.6], [0.0, 0.6, 1.0]])

    def newton(problems, parts, U, slope):
        steps = np.zeros_like(slope)
        for step, own in zip(steps, slope, strict=True):
            free = own != 0  # a coordinate that is stopped has no slope
            step[free] = np.linalg.solve(curvature[np.ix_(free, free)], own[free])
        return steps

    def quadratic(problems, U):
        slope = U @ curvature + [2.0, 1.5, 0.1]
        return (0.5 * U @ curvature * U).sum(1) + U @ [2.0, 1.5, 0.1], slope, problems * 0

    start = np.zeros((1, 3))
    edges = Edges(None, np.array([[-9.0, 0.0, 0.0]]), np.full((1, 3), 9.0))
    run = ArrayRun(quadratic, start, module._rules(start, None, [1e-14] * 9), newton, edges)
    run.aim(np.arange(1))
    np.testing.assert_allclose(run.tables.D, [[-1.0, 0.0, 0.0]], atol=1e-14)


@pytest.mark.parametrize("kind", [ArrayRun, CompiledRun])
def test_what_an_evaluation_gives_is_not_written_to(kind):
    given = []

    def evaluate(problems, U):
        found = Valleys()(problems, U)
        given.append((found, tuple(array.copy() for array in found)))
        return found

    kind(evaluate, START, module._rules(START, None, [1e-14] * 9)).go()
    for found, before in given:
        for array, old in zip(found, before, strict=True):
            np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize(
    ("t", "low", "high", "rise", "expected"),
    [
        (1.0, 1.0, np.inf, -0.5, 2.0),  # every length went down: twice as far
        (1.0, 0.0, 1.0, 0.5, 1 / 3),  # the parabola through 0 (slope −1) and 0.5
        (1.0, 0.0, 1.0, 99.0, 0.1),  # its lowest point is too near
        (1.0, 0.0, 1.0, -0.1, 0.5),  # and too far
        (2.0, 0.0, 2.0, np.inf, 0.2),
        (2.0, 0.0, 2.0, np.nan, 1.0),  # no parabola: half-way
        (2.0, 1.0, 2.0, 0.5, 1.5),  # a longer length than 0 went down: half-way to that
        (1.0, 0.0, 1.0, -1.0, 0.5),  # a straight line has no lowest point
    ],
)
def test_the_next_length(space, t, low, high, rise, expected):
    several = [space.array(np.array([number])) for number in (t, low, high, -1.0, rise)]
    with np.errstate(all="ignore"):
        assert float(choose_next_length(*several)[0]) == pytest.approx(expected)
    assert compiled_next_length(t, low, high, -1.0, rise) == pytest.approx(expected)


@numba.njit
def compiled_next_length(t, low, high, before, rise):
    return choose_next_length(t, low, high, before, rise)


@numba.njit
def compiled_judged(line, search, value, after, expected, has_edges):
    return judged(Line(*line), Search(*search), value, after, expected, has_edges)


FRESH = Search(t=1.0, low=0.0, high=np.inf, best_f=10.0, n_tried=0)
LATE = FRESH._replace(n_tried=3)  # three trials have found nothing
STEEP = Line(f=10.0, before=-1.0, longest=1e9)
FAINT = Line(f=10.0, before=-1e-8, longest=1e9)  # a slope that is next to nothing beside 1 + |f|


@pytest.mark.parametrize(
    ("line", "search", "value", "after", "best", "over"),
    [
        (STEEP, FRESH, 9.5, -0.1, True, True),  # lower, and hardly steep
        (STEEP, FRESH, 9.5, -0.95, True, False),  # lower, but still going down: look farther
        (STEEP, FRESH, 9.5, 5.0, True, True),  # lower, beyond the bottom
        (STEEP, FRESH, 9.99995, -0.95, False, False),  # lower by less than a ten-thousandth of the slope
        (STEEP, FRESH, 10.5, -0.1, False, False),
        (STEEP, FRESH, np.nan, np.nan, False, False),
        (STEEP, FRESH, -np.inf, -0.95, True, False),
        (STEEP, FRESH._replace(best_f=9.2), 9.5, -0.95, False, False),  # lower, but not the lowest
        (STEEP, FRESH._replace(best_f=9.2), 9.5, -0.4, True, True),  # where it is level, slopes count
        (STEEP, FRESH, 10.0 + 1e-11, -0.4, True, True),  # higher by rounding only, and level
        (STEEP, FRESH, 10.0 + 1e-11, -0.6, False, False),
        (STEEP, FRESH, 10.0 + 1e-9, -0.4, False, False),
        (STEEP._replace(longest=1.9), FRESH, 9.5, -0.95, True, True),  # twice as far would be too far
        (STEEP, LATE, 10.5, -0.1, False, False),  # four trials are enough only if one went down,
        (STEEP, LATE._replace(best_f=9.9), 10.5, -0.1, False, True),
        (FAINT, LATE, 10.5, 0.0, False, True),  # or if there is next to nothing to gain
        (STEEP, LATE._replace(n_tried=2, best_f=9.9), 10.5, -0.1, False, False),
        (STEEP, LATE._replace(n_tried=22), 10.5, -0.1, False, False),
        (STEEP, LATE._replace(n_tried=23), 10.5, -0.1, False, True),
    ],
)
def test_the_verdict_on_a_trial(space, line, search, value, after, best, over):
    many = [[space.array(np.array([number])) for number in numbers] for numbers in (line, search)]
    one = [space.array(np.array([number])) for number in (value, after, search.t * line.before)]
    with np.errstate(all="ignore"):
        found = judged(Line(*many[0]), Search(*many[1]), *one, False)
    alone = compiled_judged(tuple(line), tuple(search), value, after, search.t * line.before, False)
    for verdict in (found, alone):
        assert (bool(verdict.is_best), bool(verdict.is_over)) == (best, over)
        assert np.ravel(verdict.search.n_tried) == [search.n_tried + 1]
        assert np.ravel(verdict.search.best_f) == [value if best else search.best_f]


def test_the_way_that_walls_bend_is_judged_by_what_was_foretold_for_it():
    many = [np.array([number]) for number in (9.5, -0.95, -1.0)]
    arrays = Line(*(np.array([x]) for x in STEEP)), Search(*(np.array([x]) for x in FRESH))
    assert judged(*arrays, *many, True).is_over.all()  # slopes along the direction say nothing
    assert not judged(*arrays, many[0], many[1], np.array([-1e5]), True).is_best.any()
    level = judged(*arrays, np.array([10.0 + 1e-11]), np.array([0.0]), np.array([-1.0]), True)
    assert not level.is_best.any()


@pytest.mark.parametrize(
    ("promise", "f", "tolerance", "left", "expected"),
    [
        (1e-3, 9.0, 1e-4, 0.0, True),
        (1.1e-3, 9.0, 1e-4, 0.0, False),
        (1.1e-3, -9.9, 1e-4, 0.0, False),
        (1.1e-3, 9.0, 1e-4, 2e-3, True),
        (np.nan, 9.0, 1e-4, 2e-3, False),
    ],
)
def test_a_problem_has_arrived_when_its_next_step_promises_little(promise, f, tolerance, left, expected):
    assert has_arrived(promise, f, tolerance, left) == expected
    assert has_arrived(*(np.array([x]) for x in (promise, f, tolerance, left))).tolist() == [expected]


def test_a_problem_that_cannot_move_has_converged_if_little_was_to_gain():
    assert is_as_good_as_there(1e-7, 9.0)
    assert not is_as_good_as_there(1.1e-7, 9.0)
    assert is_moving(True, 1e-300)
    assert not is_moving(True, 0.0)
    assert not is_moving(False, 1.0)


@pytest.mark.parametrize("kind", [ArrayRun, CompiledRun])
def test_a_search_that_finds_nothing_is_tried_once_more_without_the_last_steps(kind):
    start = START[:2]
    rules = module._rules(start, None, [1e-14] * 9)
    run = kind(lambda _, U: ((U**2).sum(axis=1), 2.0 * U, np.zeros(len(U), dtype=int)), start, rules)
    run.past.add(np.array([0]), np.ones((1, D)), np.ones((1, D)))  # problem 1 has no steps to forget
    going = run.aim(np.arange(2))
    run.evaluate = lambda _, U: (
        np.full(len(U), 1e9),
        -np.ones(U.shape),
        np.zeros(len(U), dtype=int),
    )  # nothing lower
    while 1 in going:
        going = run.advance(going)
    assert going.tolist() == [0]
    assert not run.past.are_there(going).any()
    while len(going):
        going = run.advance(going)
    assert not run.tables.states["converged"].any()
    np.testing.assert_array_equal(run.tables.U, start)
