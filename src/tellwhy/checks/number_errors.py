"""What people do to numbers, and how likely it makes a cell: slips, signs, units, swaps, placeholders.

A mistake turned a value z that fits its row into the x that stands there. With x = h(z),
P(x | h) = P(z | its row), and steps that are as much wider as h stretches them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tellwhy.checks.mistakes import DECIMAL_SLIP, MIXED_UNITS, PLACEHOLDER, SIGN_FLIP, SWAPPED, Mistake
from tellwhy.checks.row_law import BY_LABEL, Beside, CellLaw, Cells, RowLaw, beside_of, log_given
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.names import split_name

SLIPS = {10.0: 0.4, 100.0: 0.16, 1000.0: 0.06, 0.1: 0.24, 0.01: 0.1, 0.001: 0.04}  # and how common each is
# What a measure is called, and by how much its units differ. A temperature is no multiple of another.
_UNITS_OF = {
    "weight mass load dose kg g mg lb lbs oz t gewicht": (2.2046, 28.35),
    "height length width depth size cm mm inch": (2.54, 3.2808, 12.0),
    "distance altitude elevation mileage range km m mi ft": (1.6093, 3.2808),
    "area": (2.54**2, 3.2808**2),
    "volume fuel l ml gal": (3.7854, 28.35),
    "speed velocity kmh mph": (1.6093, 3.6),
    "pressure bar psi kpa hpa pa": (6.8948,),
    "duration time latency wait ms s sec seconds min minutes h hours dauer": (60.0, 3600.0, 24.0),
    "age years months": (12.0,),
    "energy power kwh wh w kw v": (4.184, 3.6),
    "temp temperature c f": (),
}
_UNNAMED = 0.1  # how much rarer °F are in a column whose name does not say that it holds temperatures
_AMOUNTS = "price amount cost pay wage salary earnings income sales total count number score points year"
_CELSIUS = (-60.0, 60.0)  # between which temperatures lie that people write down
_EVERY_SIZE = 30.0  # times from the middle of a column to its end, from which sizes say nothing
_TELLING = 0.5  # of the way to the factor: what a row may be otherwise takes up at most so much
_FINEST = 10  # units of the last decimal that a value must have
_FEWEST_VALUES = 15
_HANDFUL = 4  # values
_ENDS = 0.01  # of the values of a column, on each side
_FAR_OUT = 4.0  # times the largest
_TEMPERATURE = "temp temperature celsius fahrenheit tmax tmin"
_COMMON_HOLDERS = (-999.0, -9999.0, 999.0, 9999.0, -99.0, -1.0, 99.0, 99999.0, -99999.0)
_OTHER_HOLDERS = (
    888.0,
    8888.0,
    777.0,
    7777.0,
    -9.0,
    32767.0,
    -32768.0,
    65535.0,
    999999.0,
    99.9,
    999.9,
    9999.9,
)
_HOLDER = 0.08  # of the placeholders, each of the common ones; a tenth of it each of the others
RARE = 2e-4  # cells that are rare but legitimate, or wrong in no known way, in an untouched table
_MOST_SWAPPED = 30  # columns of a table in which swaps are looked for


@dataclass(frozen=True, eq=False)
class Suspects:
    """Cells of one column that do not fit.

    Attributes
    ----------
    rows, values
        Which, and what stands there.
    beside
        What is known about them without looking at them.
    fits, wild
        Log probability of the value given all that; and of a rare thing: half of these are usual in the
        column, but not in their row, the others lie anywhere.
    """

    rows: Integers
    values: Floats
    beside: Beside
    fits: Floats
    wild: Floats

    def taken(self, chosen: np.ndarray) -> Suspects:
        """Return some of them."""
        return Suspects(
            self.rows[chosen],
            self.values[chosen],
            self.beside.taken(chosen),
            self.fits[chosen],
            self.wild[chosen],
        )


@dataclass(frozen=True, eq=False)
class Story:
    """One mistake that may have made suspects of a column.

    Attributes
    ----------
    mistake, name
        The kind, and which one of it: "slip 100".
    usual
        How often it happens in tables that hardly err, for each cell.
    likely
        Log probability of each suspect under it.
    meant
        What stood there before.
    times
        The factor, of slips and units; 0 of others.
    """

    mistake: Mistake
    name: str
    usual: float
    likely: Floats
    meant: Floats
    times: float = 0.0
    form: str = ""
    partner: Integers | None = None


_USUAL = {"slip": 2e-5, "sign": 1e-5, "unit": 5e-6, "holder": 3e-5, "swap": 1e-7}


def stories(law: RowLaw, cells: Cells, column: int, suspects: Suspects) -> Iterator[Story]:
    """Every mistake that may explain suspects of a column."""
    own = law.columns[column]
    x = suspects.values
    for factor, share in SLIPS.items():
        if not _has_room(own, factor):
            continue
        meant = own.mass.snapped(x / factor)
        likely = _likely(own, suspects, meant, stretch=1 / factor)
        can_tell = _is_fine(own, meant) | (_is_far_out(own, x) & _is_written(own, meant))
        likely[~can_tell | _is_hidden(own, suspects, meant, factor)] = -np.inf
        yield Story(DECIMAL_SLIP, f"slip {factor:g}", _USUAL["slip"] * share, likely, meant, factor, "slip")
    likely = _likely(own, suspects, -x)
    likely[np.sign(-x) != _usual_sign(own)] = -np.inf
    yield Story(SIGN_FLIP, "sign", _USUAL["sign"], likely, -x)
    yield from _of_units(law.names[column], own, suspects)
    yield Story(PLACEHOLDER, "holder", _USUAL["holder"], _holder(x), np.full(len(x), np.nan))
    if 2 <= len(law.names) <= _MOST_SWAPPED:
        yield _swapped(law, cells, column, suspects)


def _likely(
    law: CellLaw, suspects: Suspects, meant: Floats, *, stretch: float = 1.0, is_converted: bool = False
) -> Floats:
    """Log probability of the suspects where `meant` stood there before.

    Multiplied with a power of ten, values keep their probability, for each goes to one, or are rounded
    anew; converted ones are rounded anew.
    """
    # What is 0 stays 0 whatever it is multiplied with.
    possible = (suspects.values != 0) & np.isfinite(meant) & (np.abs(meant - suspects.values) > 1e-12)
    found = np.full(len(meant), -np.inf)
    if not possible.any():
        return found
    beside = suspects.beside.taken(possible)
    kept = log_given(law, meant[possible], beside, is_meant=True, stretch=stretch)
    # Rounded anew, a value stands for all that would have come to it.
    anew = law.mass.log_steps(suspects.values[possible], of_errors=True) + np.log(stretch)
    rounded = (
        log_given(law, meant[possible], beside, is_meant=True) - law.mass.log_steps(meant[possible]) + anew
    )
    found[possible] = rounded if is_converted else np.logaddexp(kept, rounded) - np.log(2)
    return found


def _is_fine(law: CellLaw, meant: Floats) -> np.ndarray:
    """Whether values had enough units of the last decimal for a factor to be seen, and are no short list."""
    grain = law.mass.lattices[int(np.argmax(law.mass.parts))]
    if len(law.mass.atoms) < _FEWEST_VALUES:
        return np.zeros(len(meant), dtype=np.bool_)
    return np.asarray(np.abs(meant) >= _FINEST * grain)


def _is_far_out(law: CellLaw, values: Floats) -> np.ndarray:
    """Whether values are so much larger than all others that even those of a short list can be told apart."""
    least = _widen_share(law, 0.01)
    largest = max(abs(law.mass.quantile(least)), abs(law.mass.quantile(1 - least)))
    return np.asarray(np.abs(values) >= _FAR_OUT * largest)


def _is_written(law: CellLaw, meant: Floats) -> np.ndarray:
    """Whether values are of those that a short list holds."""
    return np.isin(np.round(meant, 9), np.round(law.mass.atoms, 9)) & (meant != 0)


def _is_hidden(law: CellLaw, suspects: Suspects, meant: Floats, factor: float) -> np.ndarray:
    """Whether values are usual in their column, and what is known of their row leaves room for a factor.

    Pay differs by more than ten times among people of one degree: low pay is no slip there.
    """
    x = suspects.values
    least = _widen_share(law, 0.01)
    is_usual = (x >= law.mass.quantile(least)) & (x <= law.mass.quantile(1 - least))
    rule = law.residual.width * law.mass.density.width
    spread = np.where(law.parts[BY_LABEL] > 0.5, np.minimum(suspects.beside.spread, rule), rule)
    if np.isfinite(law.mass.bend):
        spread = spread * np.sqrt(meant**2 + law.mass.bend**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        wide = 4 * spread / np.abs(meant) > _TELLING * abs(np.log(factor))
    return np.asarray(is_usual & wide)


def _has_room(law: CellLaw, factor: float) -> bool:
    """Whether a column ends on the side of a slip: of one that has every size there none could be told."""
    middle = abs(law.mass.quantile(0.5))
    least = _widen_share(law, 0.03)
    low, high = sorted(abs(law.mass.quantile(share)) for share in (least, 1 - least))
    if factor < 1:
        return _usual_sign(law) != 0 and middle <= _EVERY_SIZE * low
    return high <= _EVERY_SIZE * middle


def _widen_share(law: CellLaw, share: float) -> float:
    """A share of the values, but at least a handful: errors must not pass for the ends of a short column."""
    return min(max(share, _HANDFUL / law.mass.n), 0.1)


def _usual_sign(law: CellLaw) -> float:
    """The sign that nearly all values of a column have; 0 where they have both."""
    least = _widen_share(law, 0.05)
    low, high = law.mass.quantile(least), law.mass.quantile(1 - least)
    return 1.0 if low >= 0 else -1.0 if high <= 0 else 0.0


def _may_be_celsius(law: CellLaw) -> bool:
    """Whether a column has the range of temperatures, and °F would lie beyond it."""
    low, high = law.mass.quantile(0.03), law.mass.quantile(0.97)
    return low > _CELSIUS[0] and high < _CELSIUS[1] and 1.8 * low + 32 > high


def _of_units(name: str, law: CellLaw, suspects: Suspects) -> Iterator[Story]:
    words = set(split_name(name))
    known = [factors for names, factors in _UNITS_OF.items() if not words.isdisjoint(names.split())]
    is_temperature = not words.isdisjoint(_TEMPERATURE.split())
    factors = sorted({factor for factors in known for factor in factors}) if all(known) else []
    part = 1 / max(2 * len(factors), 1)
    x = suspects.values
    for factor in (*factors, *(1 / factor for factor in factors)):
        meant = x / factor
        likely = _likely(law, suspects, meant, stretch=1 / factor, is_converted=True)
        likely[~_is_fine(law, meant)] = -np.inf
        yield Story(MIXED_UNITS, f"unit {factor:g}", _USUAL["unit"] * part, likely, meant, factor, "slip")
    is_other = bool(known) or not words.isdisjoint(_AMOUNTS.split())
    if not is_temperature and (is_other or not _may_be_celsius(law)):
        return
    rarely = _USUAL["unit"] * (1.0 if is_temperature else _UNNAMED)
    meant = (x - 32) / 1.8
    likely = _likely(law, suspects, meant, stretch=1 / 1.8, is_converted=True)
    likely[~_is_fine(law, meant) | (meant < _CELSIUS[0]) | (meant > _CELSIUS[1])] = -np.inf
    yield Story(MIXED_UNITS, "fahrenheit", rarely, likely, meant, form="fahrenheit")


def _holder(values: Floats) -> Floats:
    found = np.full(len(values), -np.inf)
    found[np.isin(values, _COMMON_HOLDERS)] = np.log(_HOLDER)
    found[np.isin(values, _OTHER_HOLDERS)] = np.log(_HOLDER / 10)
    return found


def _swapped(law: RowLaw, cells: Cells, column: int, suspects: Suspects) -> Story:
    """Each suspect with the cell of the row that would fit best where it stands, and it there."""
    rows = suspects.rows
    best = np.full(len(rows), -np.inf)
    partner = np.full(len(rows), -1)
    for other in range(len(law.names)):
        if other == column:
            continue
        if min(len(law.columns[at].mass.atoms) for at in (column, other)) < _FEWEST_VALUES:
            continue
        y = cells.values[rows, other]
        chosen = np.flatnonzero(~np.isnan(y) & (y != suspects.values) & (y != 0) & (suspects.values != 0))
        chosen = chosen[_may_be_swapped(law, column, other, suspects.values[chosen], y[chosen])]
        if not len(chosen):
            continue
        gain = _swap_gain(law, cells, rows[chosen], (column, other))
        better = gain > best[chosen]
        best[chosen[better]] = gain[better]
        partner[chosen[better]] = other
    # The gain is over the pair as it stands, where one of the two may be rare.
    stands = np.logaddexp(suspects.fits, np.log(RARE) + suspects.wild)
    likely = stands + best - np.log(max(len(law.names) - 1, 1))
    meant = cells.values[rows, np.maximum(partner, 0)]
    return Story(
        SWAPPED, "swap", _USUAL["swap"] * len(law.names), likely, meant, form="swapped", partner=partner
    )


def _may_be_swapped(law: RowLaw, one: int, other: int, x: Floats, y: Floats) -> Integers:
    """Places of pairs that would be about as usual the other way round, each column for itself."""
    mine, others = law.columns[one].mass, law.columns[other].mass
    # Where both are usual in their columns, as hits and runs of a player, the row is merely another one.
    out = np.flatnonzero(_is_beyond(law.columns[one], x) | _is_beyond(law.columns[other], y))
    if not len(out):
        return out
    x, y = x[out], y[out]
    gain = mine.log_mass(y) + others.log_mass(x) - mine.log_mass(x, own=True) - others.log_mass(y, own=True)
    return out[gain > -4]


def _is_beyond(law: CellLaw, values: Floats) -> np.ndarray:
    """Whether values are beyond what nearly all of a column have."""
    least = _widen_share(law, _ENDS)
    return np.asarray((values < law.mass.quantile(least)) | (values > law.mass.quantile(1 - least)))


def _swap_gain(law: RowLaw, cells: Cells, rows: Integers, pair: tuple[int, int]) -> Floats:
    """Log of how much likelier two cells of each row are the other way round, given the others of the row."""
    one, other = pair
    scores = cells.scores[rows].copy()
    scores[:, pair] = np.nan
    expected = law.expected(scores, cells.marks[rows])
    scores[:, pair] = expected[:, pair]
    x, y = cells.values[rows, one], cells.values[rows, other]

    def both(first: Floats, second: Floats) -> Floats:
        beside = beside_of(law, cells, rows, one, expected[:, one])
        found = log_given(law.columns[one], first, beside, is_meant=True)
        known = scores.copy()
        known[:, one] = law.columns[one].score(first)
        then = law.expected(known, cells.marks[rows])[:, other]
        return found + log_given(
            law.columns[other], second, beside_of(law, cells, rows, other, then), is_meant=True
        )

    def rare(column: int, values: Floats) -> Floats:
        mass = law.columns[column].mass
        return np.logaddexp(mass.log_mass(values, own=cells.is_own), mass.log_wild(values)) + np.log(RARE / 2)

    def alone(column: int, values: Floats) -> Floats:
        return log_given(
            law.columns[column], values, beside_of(law, cells, rows, column, expected[:, column])
        )

    # One of the two being rare, or wrong in another way, is the simpler story.
    stands = np.logaddexp(rare(one, x) + alone(other, y), rare(other, y) + alone(one, x))
    return np.minimum(both(y, x) - np.logaddexp(both(x, y), stands), 16)
