"""How probable each value of a column of numbers is: a probability, not a density, so values can be compared.

A value is written on one of several lattices (thousands, tens, cents, …), and a lattice's share of the
density around it is the value's. Values that come again and again where the density is thin have a
probability of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from tellwhy.checks.density import Density, learn_density
from tellwhy.checks.outer_values import without_far
from tellwhy.core.params import Fit, are_finite
from tellwhy.core.score import Floats

_LATTICES = np.array([1000, 100, 50, 10, 5, 1, 0.5, 0.25, 0.1, 0.05, 0.01, 0.005, 0.001, 1e-4, 1e-5])
_COMMON = 0.2  # of the values: one so common is no part of the density
_FEWEST = 20
_FEW_VALUES = 6
_ATOM = 0.1  # of the values: one so common is an atom wherever it lies
_WILD_SCALES = 4.0  # widths over which errors of no known kind spread
_DIGITS = np.array([0.15, 0.25, 0.25, 0.15, 0.08, 0.06, 0.03, 0.03])  # how often numbers have so many
_LEAST = 1e-280
_PROBE = 5000
_RECURS = 20  # times that the values of a list recur


@dataclass(frozen=True, eq=False)
class ColumnMass:
    """The probability of each value of a column.

    Attributes
    ----------
    density
        Of the values, as they are or bent.
    bend
        Numbers are looked at as arcsinh(x / bend); infinite where they are not bent.
    lattices, parts, parts_of_errors
        Steps with which values are written, the finest last, and the part of the values written on each;
        the same for values that are errors, of which nothing is known.
    atoms, counts
        Different values and how often each occurred, where these may be common for themselves; else 0.
    n
        Number of values.
    share
        Of the values that are atoms.
    """

    density: Density
    bend: float
    lattices: Floats
    parts: Floats
    parts_of_errors: Floats
    atoms: Floats
    counts: Floats
    n: int
    share: float

    def _require(self) -> Iterator[Fit]:
        yield "parts", len(self.parts), len(self.lattices)
        yield "parts_of_errors", len(self.parts_of_errors), len(self.lattices)
        yield "counts", len(self.counts), len(self.atoms)
        for name in ("lattices", "parts", "parts_of_errors", "atoms", "counts"):
            yield name, are_finite(*getattr(self, name).tolist()), True

    @property
    def scale(self) -> float:
        """The size of a usual value."""
        other = np.abs(self.atoms[self.atoms != 0])
        return float(np.median(other)) if len(other) else 1.0

    def bent(self, values: Floats) -> Floats:
        """Values as the density sees them."""
        return values if np.isinf(self.bend) else np.arcsinh(values / self.bend)

    @property
    def least(self) -> float:
        """The difference between (bent) values next to the middle, with which most are written."""
        middle = self.quantile(0.5)
        step = float(self.lattices[int(np.argmax(self.parts))])
        ends = self.bent(np.array([middle, middle + step]))
        return float(ends[1] - ends[0])

    @property
    def is_list(self) -> bool:
        """Whether values come from a list, of prices say: each recurs."""
        return len(self.atoms) <= self.n / _RECURS

    def log_mass(
        self, values: Floats, *, own: bool = False, is_meant: bool = False, stretch: float = 1.0
    ) -> Floats:
        """Log probability of each value.

        Parameters
        ----------
        values
            Finite numbers.
        own
            Whether they are among those learned from: each is then left out.
        is_meant
            Whether they do not stand there but may have been meant. That one of them was seen before
            says something only where values come from a list.
        stretch
            How much wider steps are where these values were written: a value in pounds that is told in
            kilograms stands for a wider piece.
        """
        smooth = np.exp(self._log_smooth(values, own=own) + self.log_steps(values, stretch=stretch))
        if is_meant and not self.is_list:
            return np.log(smooth + _LEAST)
        counts = self._counted(values)
        atoms = np.maximum(counts - own, 0) / max(self.n - own, 1)
        return np.log((1 - self.share) * smooth + self.share * atoms + _LEAST)

    def log_wild(self, values: Floats) -> Floats:
        """Log probability of each value where it is an error of no known kind, or a rare thing.

        Half of these lie about the column; half are numbers of few digits in some order of magnitude.
        """
        away = (self.bent(values) - self.density.knots[len(self.density.knots) // 2]) / (
            _WILD_SCALES * self.density.width
        )
        about = -np.log(np.pi * _WILD_SCALES * self.density.width * (1 + away**2)) + self._log_slope(values)
        about = about + self.log_steps(values, of_errors=True)
        size = np.maximum(np.abs(values), 0.01 * self.scale)
        decades = np.log10(size / self.scale)
        anywhere = log_digits(values) - np.log(2 * np.pi * (1 + decades**2))
        return np.logaddexp(about, anywhere) - np.log(2)

    def quantile(self, share: float) -> float:
        """The value that such a share of the others lie below."""
        found = float(np.interp(ndtri(share), self.density.scores, self.density.knots))
        return found if np.isinf(self.bend) else float(np.sinh(found) * self.bend)

    def normal_score(self, values: Floats) -> Floats:
        """Where a value is among the others, as a standard normal number."""
        return self.density.normal_score(self.bent(values))

    def log_tail(self, values: Floats) -> Floats:
        """Log of the probability to lie as far out."""
        return self.density.log_tail(self.bent(values))

    def log_steps(self, values: Floats, *, of_errors: bool = False, stretch: float = 1.0) -> Floats:
        """Log of the width that a value stands for: steps of the lattices that it is on, by their parts."""
        parts = self.parts_of_errors if of_errors else self.parts
        widths = np.where(on_lattices(values, self.lattices), self.lattices * parts, 0.0)
        widths[:, -1] *= stretch
        return np.log(widths.sum(axis=1))

    def snapped(self, values: Floats) -> Floats:
        """The known value next to each, where arithmetic alone keeps them apart."""
        at = np.searchsorted(self.atoms, values)
        low = self.atoms[np.clip(at - 1, 0, len(self.atoms) - 1)]
        high = self.atoms[np.clip(at, 0, len(self.atoms) - 1)]
        near = np.where(np.abs(low - values) < np.abs(high - values), low, high)
        return np.where(np.abs(near - values) <= 2e-7 * np.abs(values), near, values)

    def _log_smooth(self, values: Floats, *, own: bool = False) -> Floats:
        return self.density.log_density(self.bent(values), own=own) + self._log_slope(values)

    def _log_slope(self, values: Floats) -> Floats:
        if np.isinf(self.bend):
            return np.zeros(len(values))
        return -0.5 * np.log(values**2 + self.bend**2)

    def _counted(self, values: Floats) -> Floats:
        at = np.clip(np.searchsorted(self.atoms, values), 0, len(self.atoms) - 1)
        return np.where(self.atoms[at] == values, self.counts[at], 0.0)


def log_digits(values: Floats) -> Floats:
    """Log probability of the digits of numbers that come from nowhere: most have few that are not 0.

    Examples
    --------
    >>> np.round(np.exp(log_digits(np.array([900_000.0, 0.12, 123.456]))), 6).tolist()
    [0.016667, 0.003086, 0.0]
    """
    found = np.full(len(values), len(_DIGITS))
    sizes = np.abs(values)
    with np.errstate(divide="ignore"):
        first = np.where(sizes > 0, np.floor(np.log10(sizes)), 0)
    mantissas = sizes / 10.0**first
    for digits in range(len(_DIGITS), 0, -1):
        scaled = mantissas * 10 ** (digits - 1)
        found[np.abs(scaled - np.round(scaled)) < 1e-7 * scaled + 1e-12] = digits
    n_numbers = np.where(found == 1, 9.0, 81.0 * 10.0 ** (found - 2))  # the last digit is not 0
    return np.asarray(np.log(_DIGITS[found - 1] / n_numbers))


def on_lattices(values: Floats, lattices: Floats) -> np.ndarray:
    """Whether each value is a multiple of each step; all are of the last, finer than any rounding."""
    found = np.ones((len(values), len(lattices)), dtype=np.bool_)
    for at, step in enumerate(lattices[:-1]):
        steps = values / step
        found[:, at] = np.abs(steps - np.round(steps)) < 2e-7 * np.maximum(1, np.abs(steps))
    return found


def learn_column(values: Floats) -> ColumnMass:
    """Learn the probabilities of a column from its values, without missing ones."""
    different, counts = np.unique(values, return_counts=True)
    n = len(values)
    body = _body(values, different, counts)
    bend = _bend(values, body)
    lattices, parts = _lattices(body, different, counts)
    finest = np.flatnonzero(np.cumsum(parts[::-1])[::-1] >= 0.97)[-1]
    written = lattices[finest] if finest < len(lattices) - 1 else 0.0
    usual = float(np.median(body)) or 1.0
    ends = _bent(np.array([usual, usual + written]), bend)
    density = learn_density(_bent(body, bend), step=abs(float(ends[1] - ends[0])))
    # A value that recurs where the tail is thin is a wave of errors, or a code; it does not vouch for itself.
    tails = density.log_tail(_bent(different, bend)) + np.log(n)
    may_be = (counts >= _ATOM * n) | (tails > np.log(0.1))
    return _with_share(
        ColumnMass(
            density=density,
            bend=bend,
            lattices=lattices,
            parts=parts,
            parts_of_errors=0.7 * parts + 0.3 / len(parts),
            atoms=different,
            counts=np.where(may_be, counts, 0).astype(float),
            n=n,
            share=0.0,
        ),
        different,
        counts,
    )


def _body(values: Floats, different: Floats, counts: np.ndarray) -> Floats:
    """The values without those that very many rows have, and without few that are far from all others."""
    common = different[counts >= _COMMON * len(values)]
    body = values[~np.isin(values, common)]
    return without_far(np.sort(body if len(body) >= _FEWEST else values))


def _bent(values: Floats, bend: float) -> Floats:
    return values if np.isinf(bend) else np.arcsinh(values / bend)


def _bend(values: Floats, body: Floats) -> float:
    """At which scale logarithms begin, if the values are more like normal ones then; infinite if not."""
    if len(np.unique(body[:_PROBE])) < _FEW_VALUES:
        return np.inf
    middle, nearly_all = _ranges(body)
    has_one_sign = max(np.mean(values >= 0), np.mean(values <= 0)) >= 0.97
    is_wide = nearly_all > 30 * max(middle, 1e-300)
    if not has_one_sign and not is_wide:
        return np.inf
    levels = np.linspace(0.03, 0.97, 39)
    sizes = np.abs(body[body != 0])
    # Logarithms must be clearly better: a bent column thinks its far values ordinary.
    tried = {
        np.inf: 0.0,
        float(np.median(sizes)): 0.003,
        max(float(np.quantile(sizes, 0.02)) / 2, 1e-12): 0.003,
    }
    fits = {bend: _likeness(np.quantile(_bent(body, bend), levels)) - price for bend, price in tried.items()}
    return max(fits, key=lambda bend: float(fits[bend]))


def _ranges(values: Floats) -> tuple[float, float]:
    """How wide the middle half of the values is, and nearly all of them."""
    ends = np.quantile(values, [0.03, 0.25, 0.75, 0.97])
    return float(ends[2] - ends[1]), float(ends[3] - ends[0])


def _likeness(quantiles: Floats) -> float:
    """Correlation of quantiles with those of normal values."""
    if np.ptp(quantiles) <= 0:
        return 0.0
    usual = ndtri(np.linspace(0.03, 0.97, len(quantiles)))
    return float(np.corrcoef(quantiles, usual)[0, 1])


def _lattices(body: Floats, different: Floats, counts: np.ndarray) -> tuple[Floats, Floats]:
    """Steps with which values are written, and the part of the values on each (by EM)."""
    middle, nearly_all = _ranges(body)
    spread = max(middle / 1.349, nearly_all / 3.76 / 2, 1e-12)
    fine = 1e-6 * min(spread, max(middle, 1e-12 * spread))
    chosen = _LATTICES[(2 * spread >= _LATTICES) & (10 * fine < _LATTICES)]
    lattices = np.append(chosen, fine)
    probe = np.unique(np.linspace(0, len(different) - 1, _PROBE).astype(np.int64))
    weights = counts[probe].astype(float)
    steps = np.where(on_lattices(different[probe], lattices), lattices, 0.0)
    parts = np.full(len(lattices), 1 / len(lattices))
    for _ in range(40):
        given = steps * parts
        given /= given.sum(axis=1, keepdims=True)
        parts = (given * weights[:, None]).sum(axis=0) + 0.5 / len(lattices)
        parts /= parts.sum()
    return lattices, parts


def _with_share(mass: ColumnMass, different: Floats, counts: np.ndarray) -> ColumnMass:
    """The part of the values that are atoms, each value left out of its own count."""
    weights = counts / counts.sum()
    smooth = np.exp(mass._log_smooth(different, own=True) + mass.log_steps(different))
    atoms = np.maximum(mass.counts - 1, 0) / max(mass.n - 1, 1)
    share = 0.3
    for _ in range(30):
        given = share * atoms
        share = float(
            np.clip((weights * given / (given + (1 - share) * smooth + 1e-300)).sum(), 0.002, 0.995)
        )
    fields = {name: getattr(mass, name) for name in mass.__dataclass_fields__}
    return ColumnMass(**{**fields, "share": share})
