"""Random building blocks of generated tables: columns whose parameters are themselves drawn at random."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

COUNTRIES = ("US", "DE", "FR", "GB", "NL", "IT", "ES", "PL", "CH", "AT", "SE", "JP")
CITIES = (
    "Berlin",
    "München",
    "Köln",
    "Zürich",
    "Paris",
    "Lyon",
    "Orléans",
    "Madrid",
    "Málaga",
    "Malmö",
    "Rome",
    "Gdańsk",
)
WORDS = [
    "printer",
    "login",
    "invoice",
    "reset",
    "screen",
    "slow",
    "refund",
    "update",
    "order",
    "email",
    "network",
    "access",
    "error",
    "phone",
    "late",
]
DAY = 86_400


@dataclass(frozen=True)
class Schema:
    """What holds in a kind of table: which columns an error of a certain sort can be planted in.

    Attributes
    ----------
    bell, series
        Numbers of moderate spread; those that are read one after the other in time.
    slips, positive, nonzero
        Amounts in which a slip of a factor 100 shows; numbers that are never negative; never near zero.
    levels, letters
        Categories of a closed list; those with letters beyond ASCII.
    events, orders, office
        Dates of events; pairs (earlier, later); times that lie in office hours of working days.
    products, sums, dependencies, pairs, correlated
        (a, b, c) with a = b × c; with a = b + c; (x, y) where x fixes y; (x, value, y, value) that never come
        together; numbers that follow each other closely.
    clusters
        Numbers that form clusters together.
    absent
        (x, value, y): y is missing where x has the value.
    """

    bell: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    slips: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()
    nonzero: tuple[str, ...] = ()
    ages: tuple[str, ...] = ()
    percents: tuple[str, ...] = ()
    ratings: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    celsius: tuple[str, ...] = ()
    kilograms: tuple[str, ...] = ()
    metres: tuple[str, ...] = ()
    milliseconds: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    letters: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    births: tuple[str, ...] = ()
    orders: tuple[tuple[str, str], ...] = ()
    office: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    products: tuple[tuple[str, str, str], ...] = ()
    sums: tuple[tuple[str, str, str], ...] = ()
    dependencies: tuple[tuple[str, str], ...] = ()
    pairs: tuple[tuple[str, str, str, str], ...] = ()
    correlated: tuple[tuple[str, str], ...] = ()
    swaps: tuple[tuple[str, str], ...] = ()
    clusters: tuple[tuple[str, ...], ...] = ()
    coordinates: tuple[tuple[str, str, str], ...] = ()  # latitude, longitude, the place that fixes them
    currencies: tuple[tuple[str, ...], ...] = ()  # the currency's column, then amounts in it
    absent: tuple[tuple[str, str, str], ...] = ()


@dataclass(eq=False)
class Draw:
    """Columns of n rows, from one stream of random numbers."""

    rng: np.random.Generator
    n: int
    columns: dict[str, object] = field(default_factory=dict)

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def normal(self, mean: tuple[float, float], deviation: tuple[float, float]) -> np.ndarray:
        return self.rng.normal(self.between(*mean), self.between(*deviation), self.n)

    def lognormal(self, median: tuple[float, float], sigma: tuple[float, float]) -> np.ndarray:
        centre = np.exp(self.between(*np.log(median)))
        return centre * np.exp(self.between(*sigma) * self.rng.normal(size=self.n))

    def levels(self, names, *, count: tuple[int, int], least: float = 0.01) -> np.ndarray:
        """Skewed shares of so many of the names, the first ones always among them; none rarer than `least`."""
        k = int(self.rng.integers(count[0], count[1] + 1))
        chosen = np.array(names[:k], dtype=object)
        shares = (1 + np.arange(k)) ** -self.between(0.2, 1.3)
        shares = np.maximum(shares / shares.sum(), least)
        return self.rng.choice(chosen, self.n, p=shares / shares.sum())

    def long_tail(self, stem: str, *, count: int) -> np.ndarray:
        """Levels of which many occur only once or twice, as paths and products do."""
        which = np.minimum(self.rng.zipf(self.between(1.4, 2.0), self.n), count)
        return np.array([f"{stem}{i}" for i in which], dtype=object)

    def moments(
        self, *, days: tuple[int, int], office: bool = False, ordered: bool = False
    ) -> pd.DatetimeIndex:
        """Moments of the last year before 2026; office: Monday to Friday from 8 to 18."""
        span = int(self.rng.integers(*days))
        day = self.rng.integers(span, size=self.n)
        seconds = self.rng.integers(DAY, size=self.n)
        start = pd.Timestamp("2025-01-06") + pd.Timedelta(days=int(self.rng.integers(0, 360 - days[1])))
        start -= pd.Timedelta(days=start.day_of_week)
        if office:
            day = day // 5 * 7 + day % 5
            day = day % (7 * max(span // 7, 1))
            seconds = 8 * 3600 + (seconds * 10 // 24)
        moments = start + pd.to_timedelta(day * DAY + seconds, unit="s")
        return moments.sort_values() if ordered else moments

    def follow(self, column: np.ndarray, correlation: tuple[float, float]) -> np.ndarray:
        """Standard normal numbers that correlate so with the column."""
        r = self.between(*correlation)
        z = (column - np.nanmean(column)) / np.nanstd(column)
        return r * z + np.sqrt(1 - r * r) * self.rng.normal(size=self.n)

    def wave(self, period: float, noise: tuple[float, float]) -> np.ndarray:
        """A daily cycle with noise that remembers itself; deviation about 1."""
        drift = np.zeros(self.n)
        memory, size = self.between(0.5, 0.95), self.between(*noise)
        shocks = self.rng.normal(size=self.n) * size
        for i in range(1, self.n):
            drift[i] = memory * drift[i - 1] + shocks[i]
        return np.sin(2 * np.pi * (np.arange(self.n) / period + self.rng.random())) + drift

    def missing(self, column, share: float) -> pd.Series:
        cells = pd.Series(column).copy()
        return cells.mask(self.rng.random(self.n) < share)

    def extras(self, at_most: int) -> dict[str, np.ndarray]:
        """Further measurements of any shape: how many is drawn as well."""
        shapes = (
            lambda: self.normal((-50, 200), (0.5, 30)).round(2),
            lambda: self.lognormal((1, 1000), (0.3, 1.5)).round(2),
            lambda: self.rng.standard_t(self.between(3, 8), self.n).round(4),
            lambda: self.rng.poisson(self.between(0.2, 30), self.n),
            lambda: self.rng.gamma(self.between(0.5, 4), self.between(1, 50), self.n).round(3),
            lambda: self.rng.random(self.n).round(3),
            lambda: self.rng.random(self.n) < self.between(0.05, 0.6),
        )
        chosen = self.rng.integers(len(shapes), size=self.rng.integers(0, at_most + 1))
        return {f"measure_{i + 1}": shapes[which]() for i, which in enumerate(chosen)}
