"""Spikes, passing shifts, steps, drifts and stuck readings: found where they are, and not where they are not."""

import numpy as np
import pytest

from tellwhy.checks.in_time.series import find_changes
from tellwhy.checks.in_time.spikes import find_bumps
from tellwhy.checks.stuck import find_stuck

LEVEL = 3.0  # of a series in which anything is found once in twenty


def noise(seed, n=800, depends=0.0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n)
    for i in range(1, n):
        values[i] = depends * values[i - 1] + np.sqrt(1 - depends**2) * values[i]
    return values


def bumps(values):
    return find_bumps(values, np.ones(len(values)), LEVEL + np.log(len(values)))


@pytest.mark.parametrize("depends", [0.0, 0.6, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_a_spike(depends, seed):
    values = noise(seed, depends=depends)
    values[300] += 11
    (found,) = bumps(values)
    assert (found.start, found.end) == (300, 301)
    assert found.size == pytest.approx(11, abs=3)


@pytest.mark.parametrize("length", [4, 10, 30, 60])
@pytest.mark.parametrize("depends", [0.0, 0.6])
def test_a_shift_that_passes(depends, length):
    values = noise(7, depends=depends)
    values[300 : 300 + length] -= 7
    found = bumps(values)
    assert abs(found[0].start - 300) <= 2
    assert abs(found[0].end - 300 - length) <= 2
    assert found[0].size == pytest.approx(-7, abs=1.5)
    assert len(found) <= 2


@pytest.mark.parametrize("depends", [0.0, 0.6, 0.9, 1.0])
def test_noise_has_no_events(depends):
    """Series without anything: at most one in ten has a finding, where one in twenty is allowed to."""
    found = 0
    for seed in range(30):
        values = noise(100 + seed, n=400, depends=depends) if depends < 1 else noise(seed, 400).cumsum()
        found += bool(bumps(values)) + bool(find_changes(values, LEVEL)) + bool(find_stuck(values, LEVEL))
    assert found <= 3


def test_a_step_that_stays_is_no_bump():
    values = noise(8)
    values[400:] += 6
    assert bumps(values) == []


@pytest.mark.parametrize("at", [150, 400, 700])
def test_a_step(at):
    values = noise(9, depends=0.3)
    values[at:] += 3
    (found,) = find_changes(values, LEVEL)
    assert found.kind == "level_shift"
    assert abs(found.start - at) <= 5
    assert found.size == pytest.approx(3, abs=0.6)


def test_a_step_within_readings_that_are_explained_already():
    """Nobody can tell whether it was sudden."""
    values = noise(5)
    values[400:] += 5
    values[360:440] = np.nan
    assert find_changes(values, LEVEL) == []


@pytest.mark.parametrize("waves", [0.7, 1.5, 2.5])
def test_a_slow_wave_is_no_step(waves):
    values = noise(16) + 6 * np.sin(2 * np.pi * waves * np.arange(800) / 800)
    assert "level_shift" not in [change.kind for change in find_changes(values, LEVEL)]


def test_two_steps():
    values = noise(10)
    values[200:500] += 5
    assert [change.start for change in find_changes(values, LEVEL)] == pytest.approx([200, 500], abs=5)


def test_a_drift():
    values = noise(11, depends=0.3)
    values += 8 * np.clip((np.arange(800) - 300) / 500, 0, None)
    found = find_changes(values, LEVEL)
    assert found[0].kind == "drift"
    assert abs(found[0].start - 300) <= 120
    assert found[0].size == pytest.approx(8, rel=0.3)


def test_a_tiny_step_is_certain_and_not_worth_telling():
    values = noise(12, n=20_000)
    values[9000:] += 0.3
    assert find_changes(values, LEVEL) == []


def test_stuck_readings():
    values = noise(13).round(2)
    values[500:520] = values[500]
    (found,) = find_stuck(values, LEVEL)
    assert (found.start, found.end) == (500, 520)


def test_zeros_at_night_are_not_stuck():
    hours = np.arange(24 * 30) % 24
    sun = np.where((hours > 6) & (hours < 19), 10 + noise(14, n=24 * 30), 0.0)
    assert find_stuck(sun, LEVEL) == []
    sun[24 * 10 : 24 * 13] = 0.0
    (found,) = find_stuck(sun, LEVEL)
    assert abs(found.start - 24 * 10) <= 6


@pytest.mark.parametrize("n", [1, 2, 5, 19, 25, 40])
def test_short_series(n):
    values = noise(15, n=n)
    assert bumps(values) == []
    assert find_changes(values, LEVEL) == []
    assert find_stuck(values, LEVEL) == []
