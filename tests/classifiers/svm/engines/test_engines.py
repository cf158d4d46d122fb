"""Engines of both families of losses, and the memory that they work in."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from oracles.multiclass_svm import optimum, primal
from scipy import sparse
from scipy.optimize import brentq, minimize

from tellwhy.classifiers.svm._compiled_steps import (
    find_block_level,
    make_scratch_rows,
    scratch,
    take_coordinate_steps,
)
from tellwhy.classifiers.svm.lee_lin_wahba import SingleEngine
from tellwhy.classifiers.svm.problem import PAIR_LOSSES, Labels, make_problem
from tellwhy.classifiers.svm.solver import Settings, solve
from tellwhy.classifiers.svm.weston_watkins import PairEngine

LOSSES = ("ww", "cs", "llw", "ovr")


class Tiny(NamedTuple):
    X: Any
    y: Any
    caps: Any
    n_classes: int


def tiny(n_classes, seed=0, n=12, d=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[rng.random((n, d)) < 0.3] = 0
    y = np.concatenate((np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)))
    return Tiny(X, y, rng.uniform(0.5, 2.0, n), n_classes)


def engine_of(data, loss, n_blocks=1, dtype="float64", seed=0, **options):
    problem = make_problem(
        sparse.csr_array(data.X),
        Labels.of_classes(data.y),
        data.caps,
        n_classes=data.n_classes,
        loss=loss,
        dtype=dtype,
    )
    kind = PairEngine if loss in ("ww", "cs") else SingleEngine
    return kind(problem, n_blocks=n_blocks, n_jobs=1, seed=np.random.default_rng(seed), **options)


@pytest.mark.parametrize("C", [0.05, 1.0, 30.0])
def test_block_level_is_the_root(C):
    rng = np.random.default_rng(0)
    for _ in range(200):
        v = rng.normal(size=rng.integers(1, 30)) * rng.choice([0.1, 1.0, 20.0])
        guess = rng.uniform(0, 3)
        t = find_block_level(v, len(v), C, np.inf, guess)
        assert np.clip(v - t, 0, C).sum() == pytest.approx(t, abs=1e-11)
        t = find_block_level(v, len(v), np.inf, C, guess)
        assert np.maximum(v - t, 0).sum() == pytest.approx(min(t, C), abs=1e-11)


def test_plain_newton_would_cycle():
    # From 0 the slope is that of no free variable: the step leads to 3, and from there back to 0, for ever.
    v = np.array([1.0, 1.0, 1.0])
    expected = brentq(lambda t: np.clip(v - t, 0, 1).sum() - t, 0, 3)
    assert find_block_level(v, 3, 1.0, np.inf, 0.0) == pytest.approx(expected, abs=1e-12)


def test_exact_block_is_the_optimum_of_one_row():
    rng = np.random.default_rng(1)
    gain = rng.normal(size=6)
    a = np.zeros(6)
    k = 1.7
    cap = 0.4
    level = find_block_level(gain / k + a + a.sum(), 6, cap, np.inf, 0.0)
    ours = np.clip(gain / k - level, 0, cap)

    def loss(b):
        return 0.5 * k * (b.sum() ** 2 + (b**2).sum()) - gain @ b

    found = minimize(loss, np.zeros(6), bounds=[(0, cap)] * 6, options={"ftol": 1e-15, "gtol": 1e-12})
    np.testing.assert_allclose(ours, found.x, atol=1e-6)


def test_coordinate_step_has_the_sign_of_algorithm_3():
    # A margin of 0 violates; the dual variable must grow. Equation III.16 as printed would leave it at zero.
    a = np.zeros(1)
    moved = take_coordinate_steps(np.array([1.0]), a, 1, 2.0, 10.0)
    assert moved == pytest.approx(1.0 / (2 * 2.0))
    printed = min(10.0, max(0.0, (0.0 - 1.0) / (2 * 2.0)))
    assert printed == 0.0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n_classes", "n_blocks"), [(2, 1), (3, 1), (3, 3), (4, 4), (5, 2)])
def test_objective_and_weights_equal_the_quadratic_programme(loss, n_classes, n_blocks):
    data = tiny(n_classes)
    value, W = optimum(data.X, data.y, data.caps, n_classes, loss)
    engine = engine_of(data, loss, n_blocks)
    progress = solve(engine, Settings(tol=1e-9, max_epochs=20_000))
    assert progress.last["objective"] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(engine.weights().T, W, atol=2e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_reported_gap_is_true(loss):
    data = tiny(4, seed=3)
    value, _ = optimum(data.X, data.y, data.caps, 4, loss)
    engine = engine_of(data, loss, 2)
    engine.dense_epoch()
    for _ in range(4):
        found = engine.certify(0.1)
        assert found.primal == pytest.approx(
            primal(engine.weights().T, data.X, data.y, data.caps, loss), rel=1e-10
        )
        assert found.dual <= value * (1 + 1e-7) <= found.primal * (1 + 2e-7)
        assert found.gap >= 0
        engine.epoch(0.0, 1)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_those_of_the_dual_variables(loss):
    data = tiny(5, seed=4)
    engine = engine_of(data, loss, 2)
    engine.dense_epoch()
    engine.certify(0.1)
    engine.epoch(0.0, 1)
    again = engine_of(data, loss, 3)
    again.set_duals(engine.duals())
    np.testing.assert_allclose(again.weights(), engine.weights(), atol=1e-12)
    assert (engine.duals().toarray() <= data.caps[:, None] + 1e-12).all()
    if loss == "cs":
        assert (engine.duals().sum(axis=1) <= data.caps + 1e-9).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_certificates_do_not_depend_on_blocks(loss):
    data = tiny(5, seed=4)
    first = engine_of(data, loss)
    first.dense_epoch()
    found = []
    for n_blocks in (1, 2, 5):
        engine = engine_of(data, loss, n_blocks)
        engine.set_duals(first.duals())
        found.append(engine.certify(0.1))
    assert found[0].worst > 0.01
    for other in found[1:]:
        assert (other.primal, other.dual, other.worst) == pytest.approx(
            (found[0].primal, found[0].dual, found[0].worst), rel=1e-10
        )


def test_single_coordinate_steps_reach_the_same_optimum():
    data = tiny(4, seed=5)
    ends = []
    for exact in (True, False):
        engine = engine_of(data, "ww", 2, exact=exact)
        ends.append(solve(engine, Settings(tol=1e-8, max_epochs=20_000)).last["objective"])
    assert ends[0] == pytest.approx(ends[1], rel=1e-7)


def test_lee_lin_wahba_weights_sum_to_zero_and_a_stale_mean_is_noticed():
    data = tiny(3, seed=6)
    engine = engine_of(data, "llw")
    for _ in range(3):
        engine.dense_epoch()
    found = engine.certify(0.1)
    assert abs(engine.weights().sum(axis=1)).max() < 1e-12
    assert found.gap >= 0


def test_shrinking_changes_nothing_but_time():
    data = tiny(5, seed=7)
    ends = [
        solve(engine_of(data, "ww", 2), Settings(tol=1e-8, max_epochs=20_000, shrinking=s)).last["objective"]
        for s in (True, False)
    ]
    assert ends[0] == pytest.approx(ends[1], rel=1e-7)


def test_violation_stops_as_in_the_thesis():
    data = tiny(4, seed=8)
    progress = solve(engine_of(data, "ww"), Settings(tol=0.1, stopping="violation", max_epochs=1000))
    assert progress.last["violation"] <= 0.1
    finer = solve(engine_of(data, "ww"), Settings(tol=1e-6, stopping="violation", max_epochs=20_000))
    assert finer.last["gap"] < 1e-4


@pytest.mark.slow
def test_single_precision_is_close():
    data = tiny(4, seed=9)
    double = solve(engine_of(data, "ww"), Settings(tol=1e-5, max_epochs=5000))
    single = solve(engine_of(data, "ww", dtype="float32"), Settings(tol=1e-4, max_epochs=5000))
    assert single.last["objective"] == pytest.approx(double.last["objective"], rel=2e-4)


FAR = 256  # bytes: eight numbers in a vector, four vectors at a time


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scratch_arrays_keep_a_distance(dtype):
    arrays = [scratch(5, dtype) for _ in range(20)] + [
        row for _ in range(9) for row in make_scratch_rows(3, 5, dtype)
    ]
    assert {array.shape[0] >= 5 for array in arrays} == {True}
    starts = np.sort([array.ctypes.data for array in arrays])
    assert np.diff(starts).min() >= FAR + 5 * np.dtype(dtype).itemsize
    assert arrays[0].dtype == dtype


@pytest.mark.parametrize("loss", ["ww", "cs", "llw", "ovr"])
def test_no_bit_depends_on_where_arrays_lie(loss):
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 40), density=0.4, rng=rng, format="csr")
    labels = Labels.of_classes(np.arange(300) % 11)
    problem = make_problem(X, labels, np.ones(300), n_classes=11, loss=loss, dtype="float64")
    ends = set()
    kept = []
    for _ in range(8):
        kept.append(np.empty(rng.integers(1, 3000)))  # moves what is allocated next
        kind = PairEngine if loss in PAIR_LOSSES else SingleEngine
        engine = kind(problem, n_jobs=1, seed=np.random.default_rng(0))
        engine.dense_epoch()
        found = engine.certify(0.1)
        engine.epoch(0.0, 1)
        ends.add((engine.weights().tobytes(), found))
    assert len(ends) == 1
