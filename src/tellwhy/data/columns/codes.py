r"""How a column becomes numbers that distances can be taken of.

One encoded unit is about one robust standard deviation, so that columns weigh alike:

number
    z = (x − median) / s with s = (95 % quantile − 5 % quantile) / 3.29, so that a normal column has z of
    variance 1 and 'outside its usual range' means |z| > 1.6 or so. Where that range is empty the standard
    deviation takes its place. Beyond 3, z grows like its root: 3·(2√(|z|/3) − 1). A long-tailed column would
    otherwise decide every distance; values keep their order, and ten times as far is still farther. On
    generated data (benchmarks/default_detector.py) this detects more than plain standard deviations or
    quartiles do; a logarithm detects as much there, but would hide a single absurd value among thousands of
    columns.
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
    scaled to a total variance of 1 together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tellwhy.core.score_function import Floats
from tellwhy.data.columns.dates import Dates, dates_from_days, days_since_1970
from tellwhy.data.columns.values import MISSING_LABEL, OTHER_LABEL, Labels

_LARGEST = 1e100  # keeps squared distances finite
_NORMAL_RANGE = 3.29  # from 5 % to 95 % of a normal distribution, in standard deviations
_LINEAR = 3.0
_CYCLES = {  # name: (days, least variance on the unit circle; 1 January moves a little against 365.2425 days)
    "time of day": (1.0, 1e-6),
    "day of week": (7.0, 1e-6),
    "day of year": (365.2425, 1e-3),
}


def robust_scale(values: Floats) -> tuple[float, float]:
    """Return the median, and the range from 5 % to 95 % over 3.29 or, where that is 0, the standard deviation.

    Examples
    --------
    >>> robust_scale(np.arange(101.0))
    (50.0, 27.3...)
    """
    size = float(np.abs(values).max())
    if size > _LARGEST:  # where differences and squares would overflow
        centre, scale = robust_scale(values / size)
        return centre * size, scale * size
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    scale = (high - low) / _NORMAL_RANGE
    if scale <= 4 * np.finfo(float).eps * abs(middle):
        scale = float(np.std(values - middle))
    return float(middle), float(scale) if scale > 0 else 1.0


def compressed(z: Floats) -> Floats:
    """Return z where |z| ≤ 3, ±3·(2√(|z|/3) − 1) beyond.

    Examples
    --------
    >>> compressed(np.array([-1.0, 3.0, -48.0])).tolist()
    [-1.0, 3.0, -21.0]
    """
    size = np.abs(z)
    beyond = size > _LINEAR
    if not beyond.any():
        return z
    tail = _LINEAR * (2.0 * np.sqrt(np.where(beyond, size, _LINEAR) / _LINEAR) - 1.0)
    return np.where(beyond, np.copysign(tail, z), z)


def expanded(u: Floats) -> Floats:
    """Return the z that `compressed` maps to u."""
    size = np.abs(u)
    tail = _LINEAR * ((np.maximum(size, _LINEAR) / _LINEAR + 1.0) / 2.0) ** 2
    return np.where(size > _LINEAR, np.copysign(tail, u), u)


def rarity(shares: Floats) -> Floats:
    """Return the distance Φ⁻¹(1 − p/2) that a share p of a normal distribution exceeds."""
    return np.asarray(-ndtri(np.asarray(shares) / 2), dtype=np.float64)


def _bounded(values: Floats) -> Floats:
    return np.clip(values, -_LARGEST, _LARGEST)


@dataclass(frozen=True)
class NumberCode:
    """(x − centre) / scale, compressed beyond 3; missing cells are put at the centre."""

    kind: ClassVar[str] = "number"
    width: ClassVar[int] = 1
    centre: float
    scale: float

    @classmethod
    def learn(cls, values: Floats, sample: Any) -> NumberCode:
        """Estimate centre and scale from the filled cells of the sampled rows."""
        return cls(*robust_scale(_filled(values, sample)))

    @classmethod
    def around_constant(cls, constant: float, seen: Floats, n: int) -> NumberCode:
        """Encode a column that had one value in n rows: a typical deviation is as odd as what none of them showed."""
        deviations = np.abs(seen[np.isfinite(seen)] - constant)
        typical = float(np.median(deviations[deviations > 0])) if (deviations > 0).any() else 1.0
        return cls(constant, typical / float(rarity(np.array(0.5 / (n + 0.5)))))

    def names(self, column: str) -> list[str]:
        """Name the encoded columns."""
        return [column]

    def write(self, values: Floats, out: Floats) -> None:
        """Write the encoded values into a block of encoded columns."""
        with np.errstate(over="ignore"):
            encoded = (values - self.centre) / self.scale
        if not np.isfinite(encoded.sum()):
            encoded = np.where(np.isnan(encoded), 0.0, _bounded(encoded))
        out[:, 0] = compressed(encoded)

    def decode(self, block: Floats) -> Floats:
        """Return the numbers that encode to a block."""
        return np.asarray(expanded(block[:, 0]) * self.scale + self.centre)


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
        filled = _filled(values)
        share = (np.sum(filled) + 0.5) / (len(filled) + 1)
        return cls(float(share > 0.5), float(np.linalg.norm(rarity(np.array([share, 1 - share])))))

    def names(self, column: str) -> list[str]:
        """Name the encoded columns."""
        return [column]

    def write(self, values: Floats, out: Floats) -> None:
        """Write the encoded values into a block of encoded columns."""
        out[:, 0] = _bounded(np.where(np.isnan(values), 0.0, (values - self.usual) * self.distance))

    def decode(self, block: Floats) -> NDArray[np.bool_]:
        """Return the booleans nearest to a block."""
        return np.asarray(block[:, 0] / self.distance + self.usual > 0.5)


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
        kept = dict(list(counts.items())[:max_categories])
        n_missing = int((values.codes < 0).sum())
        if n_missing:
            kept[MISSING_LABEL] = kept.get(MISSING_LABEL, 0) + n_missing
        n_other = len(values) - sum(kept.values())
        shares = np.array([*kept.values(), n_other + 0.5]) / (len(values) + 0.5)
        scales = rarity(shares)
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
        distance = np.sum(block**2, axis=1)[:, None] - 2 * block * scales + scales**2
        return np.array(self.labels, dtype=object)[np.argmin(distance, axis=1)]


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
    def learn(cls, values: Dates, sample: Any) -> DateCode:
        """Estimate the scale of the days, and find the cycles."""
        days = _filled(days_since_1970(values), sample)
        spreads = {}
        for name, (period, least) in _CYCLES.items():
            middle = _on_circle(days, name).mean(axis=0)
            spread = 1 - float(middle @ middle)  # total variance on the unit circle
            if (
                np.ptp(days) >= 2 * period
                and spread > least
                and not (name == "day of week" and _is_monthly(days))
            ):
                spreads[name] = (spread, (float(middle[0]), float(middle[1])))
        radius = tuple(1 / np.sqrt(spread * len(spreads)) for spread, _ in spreads.values())
        return cls(
            NumberCode(*robust_scale(days)), tuple(spreads), radius, tuple(m for _, m in spreads.values())
        )

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
            block[:] = _on_circle(np.where(is_missing, 0.0, days), cycle)
            block[is_missing] = self.middle[i]
            block *= self.radius[i]

    def decode(self, block: Floats) -> Dates:
        """Return the dates at those days; the cycles are not used."""
        return dates_from_days(self.days.decode(block))


Code = NumberCode | BooleanCode | CategoryCode | DateCode


def _filled(values: Floats, sample: Any = slice(None)) -> Floats:
    values = values[sample]
    filled = values[~np.isnan(values)]
    return filled if len(filled) else np.zeros(1)


def _on_circle(days: Floats, cycle: str) -> Floats:
    """Return sine and cosine of the position in a cycle, shape (n, 2); whole days for the longer cycles."""
    position = days if cycle == "time of day" else np.floor(days)
    angle = 2 * np.pi * (position / _CYCLES[cycle][0] % 1.0)
    return np.column_stack([np.sin(angle), np.cos(angle)])


def _is_monthly(days: Floats) -> bool:
    dates = dates_from_days(days).astype("datetime64[D]")
    return len(np.unique(dates - dates.astype("datetime64[M]").astype("datetime64[D]"))) == 1


def is_missing(values: Any) -> NDArray[np.bool_]:
    """Tell which rows of a column have no value."""
    if isinstance(values, Labels):
        return values.codes < 0
    return np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)


def learn_code(kind: str, values: Any, *, max_categories: int, sample: Any) -> Code:
    """Return the encoding of a column, learned from its values."""
    if kind == "category":
        return CategoryCode.learn(values, max_categories)
    if kind == "boolean":
        return BooleanCode.learn(values)
    if kind == "date":
        return DateCode.learn(values, sample)
    return NumberCode.learn(values, sample)
