"""Eight generated plants with several channels, and fourteen kinds of events planted in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from tellwhy.core.score import Floats

Generator = np.random.Generator


@dataclass(frozen=True, eq=False)
class Plant:
    """Channels without events.

    `cyclic` names the channel with a cycle and its period, `related` two channels that go together.
    """

    X: Floats
    cyclic: tuple[int, int]
    related: tuple[int, int]


def _dependent(rng: Generator, n: int, weight: float) -> Floats:
    return np.asarray(lfilter([1.0], [1.0, -weight], rng.normal(size=n)) * np.sqrt(1 - weight**2))


def _power(rng: Generator, n: int) -> Plant:
    """Load of a town, temperature, and price."""
    at = np.arange(n)
    warm = 8 * np.sin(2 * np.pi * at / 96 - 1) + 3 * _dependent(rng, n, 0.99)
    load = 100 + 15 * np.sin(2 * np.pi * at / 96) - warm + 5 * _dependent(rng, n, 0.9)
    price = 40 + 0.5 * load + 0.7 * _dependent(rng, n, 0.5)
    return Plant(np.column_stack([load, warm, price]), (0, 96), (2, 0))


def _tank(rng: Generator, n: int) -> Plant:
    """Level of a tank that is filled and emptied, its pressure, the flow out of it."""
    level = 2 + np.abs((np.arange(n) % 80) / 40 - 1) + 0.15 * _dependent(rng, n, 0.9)
    pressure = 10 * level + 0.3 * rng.normal(size=n)
    flow = 5 + _dependent(rng, n, 0.6)
    return Plant(np.column_stack([level, pressure, flow]), (0, 80), (1, 0))


def _traffic(rng: Generator, n: int) -> Plant:
    """Requests by the quarter of an hour, errors, time of an answer."""
    rate = (60 + 40 * np.sin(2 * np.pi * np.arange(n) / 96)) * np.exp(0.2 * _dependent(rng, n, 0.9))
    requests = rng.poisson(rate).astype(np.float64)
    answer = 100 + 0.6 * requests + 2 * rng.normal(size=n)
    load = 20 + 0.4 * requests + 3 * _dependent(rng, n, 0.7)
    return Plant(np.column_stack([requests, answer, load]), (0, 96), (1, 0))


def _pump(rng: Generator, n: int) -> Plant:
    """Speed, current, vibration, temperature of a pump."""
    speed = 50 + _dependent(rng, n, 0.8)
    current = 0.2 * speed + 0.1 * rng.normal(size=n)
    vibration = np.sin(2 * np.pi * np.arange(n) / 25) + 0.3 * rng.normal(size=n)
    heat = 60 + 2 * _dependent(rng, n, 0.98) + 0.2 * rng.normal(size=n)
    return Plant(np.column_stack([speed, current, vibration, heat]), (2, 25), (1, 0))


def _furnace(rng: Generator, n: int) -> Plant:
    """A thermostat's swings, gas, and the room beside."""
    swing = 200 + 10 * np.sin(2 * np.pi * np.arange(n) / 60) + rng.normal(size=n)
    gas = 5 - 0.02 * (swing - 200) + 0.2 * _dependent(rng, n, 0.5)
    room = 20 + _dependent(rng, n, 0.95) + 0.1 * rng.normal(size=n)
    beside = 0.9 * room + 0.1 * rng.normal(size=n)
    return Plant(np.column_stack([swing, gas, room, beside]), (0, 60), (3, 2))


def _weather(rng: Generator, n: int) -> Plant:
    """Temperature, dew point, pressure, wind, by the hour."""
    warm = 15 + 6 * np.sin(2 * np.pi * np.arange(n) / 24) + 4 * _dependent(rng, n, 0.985)
    dew = warm - 5 + 0.8 * _dependent(rng, n, 0.7)
    pressure = 1010 + 6 * _dependent(rng, n, 0.99)
    wind = np.abs(4 + 2 * _dependent(rng, n, 0.8))
    return Plant(np.column_stack([warm, dew, pressure, wind]), (0, 24), (1, 0))


def _rooms(rng: Generator, n: int) -> Plant:
    """Carbon dioxide, warmth and current of an office."""
    at = np.arange(n)
    busy = np.clip(np.sin(2 * np.pi * at / 144 - 1.5), 0, None)
    air = 420 + 400 * busy + 80 * _dependent(rng, n, 0.9)
    warm = 21 + 0.003 * air + 0.1 * rng.normal(size=n)
    current = 2 + 6 * busy + 0.5 * rng.normal(size=n)
    return Plant(np.column_stack([air, warm, current]), (2, 144), (1, 0))


def _river(rng: Generator, n: int) -> Plant:
    """Two gauges of a tidal river and its salt."""
    tide = np.sin(2 * np.pi * np.arange(n) / 50)
    upper = 300 + 20 * tide + 15 * _dependent(rng, n, 0.97) + rng.normal(size=n)
    lower = 0.8 * upper + 2 * rng.normal(size=n)
    salt = 5 + 1.5 * tide + 0.3 * _dependent(rng, n, 0.5)
    return Plant(np.column_stack([upper, lower, salt]), (2, 50), (1, 0))


PLANTS: dict[str, Callable[[Generator, int], Plant]] = {
    "power": _power,
    "tank": _tank,
    "traffic": _traffic,
    "pump": _pump,
    "furnace": _furnace,
    "weather": _weather,
    "rooms": _rooms,
    "river": _river,
}


@dataclass(frozen=True, eq=False)
class Planted:
    """Channels with one event: where it is, in which channel, and its names."""

    X: Floats
    start: int
    end: int  # included
    channel: int
    names: tuple[str, ...]
    pair: tuple[int, ...] = ()  # of a relation: it is one of both as much as of the other

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels that may be named."""
        return self.pair or (self.channel,)


KINDS = (
    "spike",
    "dip",
    "shift up",
    "shift down",
    "passing up",
    "passing down",
    "stuck",
    "noise up",
    "noise down",
    "trend",
    "frequency",
    "missing cycle",
    "relation",
    "shape",
)


def plant(made: Plant, kind: str, rng: Generator) -> Planted:
    """Put one event of a kind into the second half of one channel."""
    X = made.X.copy()
    n = len(X)
    start = int(rng.integers(n // 2, int(0.8 * n)))
    if kind in ("frequency", "missing cycle", "shape"):
        return _in_cycle(X, made.cyclic, kind, start, rng)
    if kind == "relation":
        return _unrelated(X, made, start, rng)
    channel = int(rng.integers(X.shape[1]))
    x = X[:, channel]
    if kind in ("spike", "dip"):
        sign = 1.0 if kind == "spike" else -1.0
        length = int(rng.integers(1, 4))
        x[start : start + length] += sign * rng.uniform(1.0, 1.5) * _reach(x)
        return Planted(X, start, start + length - 1, channel, (kind,))
    if kind in ("stuck", "noise up", "noise down"):
        return _other_noise(X, channel, kind, start, rng)
    return _moved(X, channel, kind, start, rng)


def _reach(x: Floats) -> float:
    """Twice what nine readings in ten span, without slow waves: large beside noise and course alike."""
    return float(np.quantile(x, 0.95) - np.quantile(x, 0.05))


def _moved(X: Floats, channel: int, kind: str, start: int, rng: Generator) -> Planted:
    x = X[:, channel]
    n = len(x)
    if kind == "trend":
        x[start:] += (
            rng.choice([-1.0, 1.0]) * rng.uniform(1.5, 2.5) * _reach(x) * np.arange(n - start) / (n // 4)
        )
        return Planted(X, start, n - 1, channel, ("trend",))
    size = rng.uniform(0.8, 1.4) * _reach(x) * (1 if kind.endswith("up") else -1)
    if kind.startswith("shift"):
        x[start:] += size
        return Planted(X, start, n - 1, channel, (kind.replace(" ", "_"),))
    length = int(rng.integers(20, 100))
    x[start : start + length] += size
    return Planted(X, start, start + length - 1, channel, (kind.replace(" ", "_"),))


def _other_noise(X: Floats, channel: int, kind: str, start: int, rng: Generator) -> Planted:
    x = X[:, channel]
    length = int(rng.integers(100, 250))
    stretch = slice(start, start + length)
    if kind == "stuck":
        x[stretch] = x[start]
        return Planted(X, start, start + length - 1, channel, ("stuck",))
    smooth = np.convolve(x, np.ones(5) / 5, mode="same")
    times = rng.uniform(4, 6) if kind == "noise up" else 1 / rng.uniform(4, 6)
    x[stretch] = smooth[stretch] + times * (x - smooth)[stretch]
    return Planted(X, start, start + length - 1, channel, (kind.replace(" ", "_"),))


def _in_cycle(X: Floats, cyclic: tuple[int, int], kind: str, start: int, rng: Generator) -> Planted:
    channel, period = cyclic
    x = X[:, channel]
    start -= start % period
    n_periods = 1 if kind == "missing cycle" else 3
    length = n_periods * period
    phases = np.arange(len(x)) % period
    course = np.array([np.median(x[phases == k]) for k in range(period)])
    at = np.arange(length)
    if kind == "missing cycle":
        other = np.full(length, float(np.median(course)))
    elif kind == "frequency":
        other = course[(at * rng.uniform(1.7, 2.3)).astype(int) % period]
    else:  # each course upside down
        other = course.max() + course.min() - course[at % period]
    x[start : start + length] += other - course[at % period]
    names = {
        "missing cycle": ("missing_cycle",),
        "frequency": ("frequency",),
        "shape": ("shape", "frequency"),
    }
    return Planted(X, start, start + length - 1, channel, names[kind])


def _unrelated(X: Floats, made: Plant, start: int, rng: Generator) -> Planted:
    """A channel goes on as it did some cycles ago, while the others do not: by itself it is as ever."""
    channel = made.related[0]
    period = made.cyclic[1]
    length = int(rng.integers(200, 350))
    before = start - period * int(rng.integers(400 // period + 1, 900 // period + 2))
    X[start : start + length, channel] = X[before : before + length, channel]
    return Planted(X, start, start + length - 1, channel, ("relation",), made.related)
