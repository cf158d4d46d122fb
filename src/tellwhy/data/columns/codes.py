"""From a column to distances.

Scales on which numbers of any column can be compared: one unit is about one robust standard deviation.

How a column becomes numbers that distances can be taken of.

One encoded unit is about one robust standard deviation, so that columns weigh alike:

number
    z = (x − median) / s with s = (95 % quantile − 5 % quantile) / 3.29, so that a normal column has z of
    variance 1 and 'outside its usual range' means |z| > 1.6 or so. Where that range is empty the standard
    deviation takes its place. Beyond 3, z grows like its root: 3·(2√(|z|/3) − 1). A long-tailed column would
    otherwise decide every distance; values keep their order, and ten times as far is still farther. On
    generated data (benchmarks/tables/default_detector.py) this detects more than plain standard deviations or
    quartiles do; a logarithm detects as much there, but would hide a single absurd value among thousands of
    columns. Detectors that deal with long tails themselves, as a committee does, ask for plain z.
category
    One-hot. A label with share p is put at the distance that a share p of a normal distribution exceeds, s =
    Φ⁻¹(1 − p/2): 1.6 for p = 0.1, 2.6 for p = 0.01, 3.3 for p = 0.001. Two labels differ by √(s² + s'²), so
    that a rare label is as odd as an equally rare number, and common ones differ by about 1. A column of many
    labels is shrunk until its total variance Σ p(1 − p)s² is at most 1, that of a number. Labels not seen in
    fitting, and those beyond `max_categories`, share the label '(other)'; missing cells are a label of their
    own.
boolean
    One number, (x − the more common value) times the distance that the two labels of such a category would
    have.
date
    Days, encoded like a number; and sine and cosine of the time of day, the day of the week and the day of
    the year, each only where the dates have that resolution and span at least two periods. The cycles are
    scaled to a total variance of 1 together. A missing date is put at the median day and at the most common
    place of each cycle, where dates are: the centre of a circle is a place that no date has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tellwhy.core.params import Fit, are_finite, are_texts
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.dates import Dates, days_since_1970, make_dates
from tellwhy.data.columns.reading import MISSING_LABEL, OTHER_LABEL, Labels, Values

LARGEST = 1e100  # keeps squared distances finite
_NORMAL_RANGE = 3.29  # from 5 % to 95 % of a normal distribution, in standard deviations
_LINEAR = 3.0  # beyond so many standard deviations, z grows like its root


def measure_scale(values: Floats) -> tuple[float, float]:
    """Return the median, and the range from 5 % to 95 % in standard deviations of a normal distribution.

    Where that range is empty, the standard deviation takes its place.

    Examples
    --------
    >>> measure_scale(np.arange(101.0))
    (50.0, 27.3...)
    """
    size = float(np.abs(values).max())
    if size > LARGEST:  # where differences and squares would overflow
        centre, scale = measure_scale(values / size)
        return centre * size, scale * size
    quantiles = np.quantile(values, [0.05, 0.5, 0.95])
    middle = float(quantiles[1])
    scale = float(quantiles[2] - quantiles[0]) / _NORMAL_RANGE
    # A range of a few units in the last place is rounding, as of a constant 1e9 + noise.
    if scale <= 4 * np.finfo(float).eps * abs(middle):
        scale = float(np.std(values - middle))
    return middle, scale if scale > 0 else 1.0


def compressed(z: Floats) -> Floats:
    """Return z where |z| ≤ 3, ±3·(2√(|z|/3) − 1) beyond.

    Examples
    --------
    >>> compressed(np.array([-1.0, 3.0, -48.0])).tolist()
    [-1.0, 3.0, -21.0]
    """
    size = np.abs(z)
    beyond = size > _LINEAR
    if not beyond.any():  # the usual case, without a copy
        return z
    tail = _LINEAR * (2.0 * np.sqrt(np.where(beyond, size, _LINEAR) / _LINEAR) - 1.0)
    return np.where(beyond, np.copysign(tail, z), z)


def expand(u: Floats) -> Floats:
    """Return the z that `compressed` maps to u."""
    size = np.abs(u)
    tail = _LINEAR * ((np.maximum(size, _LINEAR) / _LINEAR + 1.0) / 2.0) ** 2
    return np.where(size > _LINEAR, np.copysign(tail, u), u)


def measure_rarity(shares: Floats) -> Floats:
    """Return the distance Φ⁻¹(1 − p/2) that a share p of a normal distribution exceeds."""
    return np.asarray(-ndtri(np.asarray(shares) / 2), dtype=np.float64)


Sample = Integers | slice  # rows that scales are estimated from

_CYCLES = {  # name: (days, least variance on the unit circle; 1 January moves a little against 365.2425 days)
    "time of day": (1.0, 1e-6),
    "day of week": (7.0, 1e-6),
    "day of year": (365.2425, 1e-3),
}

_PARTS = {"time of day": 24, "day of week": 7, "day of year": 12}  # in which the most common place is sought


def _bound_values(values: Floats) -> Floats:
    return np.clip(values, -LARGEST, LARGEST)


_DRAWN = 5_000  # rows of a larger table that a detector learns from
_SURELY_DRAWN = 10  # of them have a label on average, so that some have it


@dataclass(frozen=True)
class NumberCode:
    """(x − centre) / scale, compressed beyond 3 unless asked not to; missing cells are put at the centre."""

    kind: ClassVar[str] = "number"
    width: ClassVar[int] = 1
    centre: float
    scale: float
    compress: bool = True

    @classmethod
    def learn(cls, values: Floats, sample: Sample, *, compress: bool = True) -> NumberCode:
        """Estimate centre and scale from the filled cells of the sampled rows."""
        return cls(*measure_scale(_fill_from_sample(values, sample)), compress)

    @classmethod
    def around_constant(cls, constant: float, seen: Floats, n: int, *, compress: bool = True) -> NumberCode:
        """Encode a column that had one value in n rows.

        A typical deviation from it is as odd as something that none of the n rows showed.
        """
        deviations = np.abs(seen[np.isfinite(seen)] - constant)
        typical = float(np.median(deviations[deviations > 0])) if (deviations > 0).any() else 1.0
        # Half a row in n: the share that is given to what was not seen, as for the label '(other)'.
        return cls(constant, typical / float(measure_rarity(np.array(0.5 / (n + 0.5)))), compress)

    def names(self, column: str) -> list[str]:
        """Name the encoded columns."""
        return [column]

    def write(self, values: Floats, out: Floats) -> None:
        """Write the encoded values into a block of encoded columns."""
        with np.errstate(over="ignore"):
            encoded = (values - self.centre) / self.scale
        if not np.isfinite(encoded.sum()):  # one sum is cheaper than a look at every cell
            encoded = np.where(np.isnan(encoded), 0.0, _bound_values(encoded))
        out[:, 0] = compressed(encoded) if self.compress else encoded

    def decode(self, block: Floats) -> Floats:
        """Return the numbers that encode to a block."""
        z = expand(block[:, 0]) if self.compress else block[:, 0]
        return np.asarray(z * self.scale + self.centre)

    def _require(self) -> Iterator[Fit]:
        yield "centre", are_finite(self.centre), True
        yield "scale", are_finite(self.scale) and self.scale > 0, True
        yield "compress", isinstance(self.compress, bool), True


@dataclass(frozen=True)
class BooleanCode:
    """(x − usual) · distance; missing cells are put at the usual value."""

    kind: ClassVar[str] = "boolean"
    width: ClassVar[int] = 1
    usual: float
    distance: float

    @classmethod
    def learn(cls, values: Floats) -> BooleanCode:
        """Estimate the share of true cells among the filled ones."""
        filled = _fill_from_sample(values)
        share = (np.sum(filled) + 0.5) / (len(filled) + 1)  # never 0 or 1: what was not seen has a distance
        return cls(float(share > 0.5), float(np.linalg.norm(measure_rarity(np.array([share, 1 - share])))))

    def names(self, column: str) -> list[str]:
        """Name the encoded columns."""
        return [column]

    def write(self, values: Floats, out: Floats) -> None:
        """Write the encoded values into a block of encoded columns."""
        out[:, 0] = _bound_values(np.where(np.isnan(values), 0.0, (values - self.usual) * self.distance))

    def decode(self, block: Floats) -> NDArray[np.bool_]:
        """Return the booleans nearest to a block."""
        return np.asarray(block[:, 0] / self.distance + self.usual > 0.5)

    def _require(self) -> Iterator[Fit]:
        yield "usual", self.usual in (0.0, 1.0), True
        yield "distance", are_finite(self.distance) and self.distance > 0, True


@dataclass(frozen=True)
class CategoryCode:
    """One-hot over `labels`, the last of which is '(other)'; each label has its own scale."""

    kind: ClassVar[str] = "category"
    labels: tuple[str, ...]
    scales: tuple[float, ...]

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return len(self.labels)

    @classmethod
    def learn(cls, values: Labels, max_categories: int) -> CategoryCode:
        """Keep the most common labels and scale each by its rarity."""
        counts = values.counts()
        # Detectors learn from some thousand rows: a label that these may lack would look as if it were new.
        least = _SURELY_DRAWN * len(values) / _DRAWN if len(values) > _DRAWN else 0
        kept = {label: n for label, n in list(counts.items())[:max_categories] if n >= least}
        n_missing = int((values.codes < 0).sum())
        if n_missing:
            kept[MISSING_LABEL] = kept.get(MISSING_LABEL, 0) + n_missing
        n_other = len(values) - sum(kept.values())
        shares = np.array([*kept.values(), n_other + 0.5]) / (len(values) + 0.5)
        scales = measure_rarity(shares)
        # Many labels together would outweigh a number: their total variance is at most 1.
        variance = float(np.sum(shares * (1 - shares) * scales**2))
        scales = scales / max(np.sqrt(variance), 1.0)
        return cls((*kept, OTHER_LABEL), tuple(scales.tolist()))

    def names(self, column: str) -> list[str]:
        """Name the encoded columns."""
        return [f"{column}={label}" for label in self.labels]

    def write(self, values: Labels, out: Floats) -> None:
        """Write the encoded values into a block of encoded columns."""
        place = {label: i for i, label in enumerate(self.labels[:-1])}
        other = len(self.labels) - 1
        lookup = np.array([place.get(name, other) for name in (*values.names, MISSING_LABEL)])
        codes = lookup[values.codes]  # code −1 picks the last entry, the missing label
        out[:] = 0.0
        out[np.arange(len(codes)), codes] = np.array(self.scales)[codes]

    def decode(self, block: Floats) -> NDArray[np.object_]:
        """Return the labels nearest to a block."""
        scales = np.array(self.scales)
        # ‖b − s·e‖² = ‖b‖² − 2·b·s + s² to the corner e of each label, which lies at s along its own axis.
        distance = np.sum(block**2, axis=1)[:, None] - 2 * block * scales + scales**2
        return np.array(self.labels, dtype=object)[np.argmin(distance, axis=1)]

    def _require(self) -> Iterator[Fit]:
        yield "labels", len(self.labels) > 0 and are_texts(*self.labels), True
        yield "scales", len(self.scales), len(self.labels)
        yield "scales", are_finite(*self.scales) and min(self.scales) >= 0, True


@dataclass(frozen=True)
class DateCode:
    """Days as a number, and the cycles that the dates resolve."""

    kind: ClassVar[str] = "date"
    days: NumberCode
    cycles: tuple[str, ...] = ()
    radius: tuple[float, ...] = ()
    middle: tuple[tuple[float, float], ...] = field(default=())  # where missing dates are put on each circle

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return 1 + 2 * len(self.cycles)

    @classmethod
    def learn(cls, values: Dates, sample: Sample, *, compress: bool = True) -> DateCode:
        """Estimate the scale of the days, and find the cycles."""
        days = _fill_from_sample(days_since_1970(values), sample)
        found = {}
        for name, (period, least) in _CYCLES.items():
            centre = _place_on_circle(days, name).mean(axis=0)
            spread = 1 - float(centre @ centre)  # total variance on the unit circle
            if np.ptp(days) >= 2 * period and spread > least and not _is_chance(name, days):
                usual = _place_on_circle(_find_usual_place(days, name), name)[0]
                found[name] = (spread, (float(usual[0]), float(usual[1])))
        radius = tuple(1 / np.sqrt(spread * len(found)) for spread, _ in found.values())
        middles = tuple(middle for _, middle in found.values())
        return cls(NumberCode(*measure_scale(days), compress), tuple(found), radius, middles)

    def names(self, column: str) -> list[str]:
        """Name the encoded columns."""
        parts = [f"{column} ({cycle}, {part})" for cycle in self.cycles for part in ("sine", "cosine")]
        return [f"{column} (days)", *parts]

    def write(self, values: Dates, out: Floats) -> None:
        """Write the encoded values into a block of encoded columns."""
        days = days_since_1970(values)
        is_missing = np.isnan(days)
        self.days.write(days, out[:, :1])
        for i, cycle in enumerate(self.cycles):
            block = out[:, 1 + 2 * i : 3 + 2 * i]
            block[:] = _place_on_circle(np.where(is_missing, 0.0, days), cycle)
            block[is_missing] = self.middle[i]
            block *= self.radius[i]

    def decode(self, block: Floats) -> Dates:
        """Return the dates at those days; the cycles are not used."""
        return make_dates(self.days.decode(block))

    def _require(self) -> Iterator[Fit]:
        yield "days", isinstance(self.days, NumberCode), True
        yield "cycles", set(self.cycles) <= {"time of day", "day of week", "day of year"}, True
        yield "radius", len(self.radius), len(self.cycles)
        yield "radius", are_finite(*self.radius), True
        yield "middle", [len(pair) for pair in self.middle], [2] * len(self.cycles)
        yield "middle", are_finite(*(value for pair in self.middle for value in pair)), True


Code = NumberCode | BooleanCode | CategoryCode | DateCode


def _fill_from_sample(values: Floats, sample: Sample = slice(None)) -> Floats:
    values = values[sample]
    filled = values[~np.isnan(values)]
    return filled if len(filled) else np.zeros(1)


def _place_on_circle(days: Floats, cycle: str) -> Floats:
    """Return sine and cosine of the position in a cycle, shape (n, 2); whole days for the longer cycles."""
    position = days if cycle == "time of day" else np.floor(days)
    angle = 2 * np.pi * (position / _CYCLES[cycle][0] % 1.0)
    return np.column_stack([np.sin(angle), np.cos(angle)])


def _find_usual_place(days: Floats, cycle: str) -> Floats:
    """A date at the most common place of a cycle: in the middle of its fullest hour, weekday or month."""
    period, n_parts = _CYCLES[cycle][0], _PARTS[cycle]
    position = days if cycle == "time of day" else np.floor(days)
    place = position / period % 1.0
    part = np.minimum((place * n_parts + 1e-6).astype(np.int64), n_parts - 1)
    fullest = np.flatnonzero(part == np.bincount(part).argmax())
    rising = fullest[np.argsort(place[fullest], kind="stable")]
    return np.asarray(days[rising[len(rising) // 2]]).reshape(1)


def _is_chance(cycle: str, days: Floats) -> bool:
    """Tell whether a cycle follows from another one: dates once a month fall on any day of the week."""
    if cycle != "day of week":
        return False
    dates = make_dates(days).astype("datetime64[D]")
    return len(np.unique(dates - dates.astype("datetime64[M]").astype("datetime64[D]"))) == 1


def is_missing(values: Values) -> NDArray[np.bool_]:
    """Tell which rows of a column have no value."""
    if isinstance(values, Labels):
        return np.asarray(values.codes < 0)
    return np.asarray(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values))


def learn_code(
    kind: str, values: Values, *, max_categories: int, sample: Sample, compress: bool = True
) -> Code:
    """Return the encoding of a column, learned from its values."""
    if isinstance(values, Labels):
        return CategoryCode.learn(values, max_categories)
    if kind == "date":
        return DateCode.learn(cast(Dates, values), sample, compress=compress)
    numbers = cast(Floats, values)
    if kind == "boolean":
        return BooleanCode.learn(numbers)
    return NumberCode.learn(numbers, sample, compress=compress)
