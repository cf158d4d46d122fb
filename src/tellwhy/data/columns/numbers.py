"""Numbers as written, and units.

Signs that stand beside numbers: currencies, percent, units of measurement.

Numbers as people write them: $1,299.00, 1.299,00 €, (1,200.00), 12 %, 3.5mm, 1'234.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tellwhy.core.params import Fit, are_finite, are_texts
from tellwhy.core.score import Floats

_SYMBOLS = ("$", "€", "£", "¥", "₹", "₽", "₺", "₩", "US$", "A$", "C$", "R$", "HK$", "zł", "kr", "kr.", "Fr.")
_CODES = (
    "USD EUR GBP JPY CHF CNY INR AUD CAD NZD SEK NOK DKK PLN CZK HUF RUB TRY BRL MXN ZAR KRW SGD HKD ILS THB"
)
# Two writings of one currency. Kroner and kronor stay apart from their codes: "kr" may be any of three.
_SAME = {"USD": "$", "US$": "$", "EUR": "€", "Euro": "€", "euro": "€", "euros": "€", "GBP": "£"}
CURRENCIES = {sign: _SAME.get(sign, sign) for sign in (*_SYMBOLS, *_CODES.split(), *_SAME)}
"""Every sign of a currency, and the one that stands for it."""

_DIMENSIONS: dict[str, dict[str, float]] = {
    "percent": {"%": 1.0, "percent": 1.0, "pct": 1.0, "Prozent": 1.0, "‰": 0.1},
    "weights": {
        "mg": 1e-3,
        "g": 1.0,
        "kg": 1e3,
        "t": 1e6,
        "lb": 453.59237,
        "lbs": 453.59237,
        "oz": 28.349523,
    },
    "lengths": {
        "nm": 1e-9,
        "µm": 1e-6,
        "μm": 1e-6,
        "um": 1e-6,
        "mm": 1e-3,
        "cm": 1e-2,
        "m": 1.0,
        "km": 1e3,
        "in": 0.0254,
        "inch": 0.0254,
        "ft": 0.3048,
        "mi": 1609.344,
        "miles": 1609.344,
    },
    "areas": {
        "m²": 1.0,
        "m2": 1.0,
        "sqm": 1.0,
        "qm": 1.0,
        "km²": 1e6,
        "km2": 1e6,
        "ha": 1e4,
        "sqft": 0.09290304,
    },
    "volumes": {"ml": 1e-3, "mL": 1e-3, "cl": 1e-2, "dl": 0.1, "l": 1.0, "L": 1.0, "m³": 1e3, "m3": 1e3},
    "durations": {
        "µs": 1e-6,
        "us": 1e-6,
        "ms": 1e-3,
        "s": 1.0,
        "sec": 1.0,
        "secs": 1.0,
        "seconds": 1.0,
        "min": 60.0,
        "mins": 60.0,
        "minutes": 60.0,
        "h": 3600.0,
        "hr": 3600.0,
        "hrs": 3600.0,
        "hours": 3600.0,
        "d": 86400.0,
        "day": 86400.0,
        "days": 86400.0,
    },
    "sizes": {
        "B": 1.0,
        "bytes": 1.0,
        "kB": 1e3,
        "KB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "TB": 1e12,
        "KiB": 2.0**10,
        "MiB": 2.0**20,
        "GiB": 2.0**30,
        "TiB": 2.0**40,
    },
    "powers": {"mW": 1e-3, "W": 1.0, "kW": 1e3, "MW": 1e6, "GW": 1e9},
    "energies": {"Wh": 1.0, "kWh": 1e3, "MWh": 1e6},
    "heats": {"J": 1.0, "kJ": 1e3, "MJ": 1e6, "kcal": 4184.0},
    "voltages": {"mV": 1e-3, "V": 1.0, "kV": 1e3},
    "currents": {"mA": 1e-3, "A": 1.0, "kA": 1e3},
    "frequencies": {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    "pressures": {
        "Pa": 1.0,
        "hPa": 100.0,
        "kPa": 1e3,
        "MPa": 1e6,
        "mbar": 100.0,
        "bar": 1e5,
        "psi": 6894.757,
    },
    "speeds": {"km/h": 1 / 3.6, "kmh": 1 / 3.6, "kph": 1 / 3.6, "m/s": 1.0, "mph": 0.44704},
    "temperatures": {"°C": 1.0, "ºC": 1.0, "degC": 1.0, "C": 1.0},
    "temperatures in Fahrenheit": {"°F": 1.0, "ºF": 1.0, "degF": 1.0, "F": 1.0},
    "counts": {"k": 1e3, "K": 1e3, "M": 1e6, "Mio": 1e6, "Mio.": 1e6, "mn": 1e6, "bn": 1e9, "Mrd": 1e9},
    "concentrations": {"ppb": 1e-3, "ppm": 1.0},
    "turns": {"rpm": 1.0, "rps": 60.0},
    "angles": {"°": 1.0, "deg": 1.0},
    "levels": {"dB": 1.0, "dBm": 1.0},
    "pieces": {
        "pcs": 1.0,
        "pcs.": 1.0,
        "pc": 1.0,
        "St": 1.0,
        "Stk": 1.0,
        "Stück": 1.0,
        "items": 1.0,
        "units": 1.0,
    },
    "pixels": {"px": 1.0},
}
# A capital letter right behind a number is more often part of a name (seat 12A, flat 3C) than a unit.
NEEDS_SPACE = {"A", "C", "F", "J", "B", "L", "in", "d", "t", "St"}


@dataclass(frozen=True)
class Unit:
    """What a sign measures, and how many of the dimension's own units it is."""

    dimension: str
    factor: float


UNITS: Mapping[str, Unit] = {
    sign: Unit(dimension, factor)
    for dimension, signs in _DIMENSIONS.items()
    for sign, factor in signs.items()
}


_SPACES = " \u00a0\u202f"
_GAP = f"[{_SPACES}]*"
_MINUS = "[-\u2212]"
_SIGN = "[-+\u2212]?"
_US = "."
_EUROPEAN = ","


def _match_any_sign(signs: Sequence[str]) -> str:
    """Return a pattern of any of the signs, the longest first: 'kg' must not be read as 'k'."""
    return "|".join(re.escape(sign) for sign in sorted(signs, key=len, reverse=True))


_BODY = rf"\d[\d.,'’{_SPACES}]*\d|\d[.,]?|[.,]\d+"
_CELL = re.compile(
    rf"^(?P<lead>\(?{_SIGN}){_GAP}(?P<before>{_match_any_sign(list(CURRENCIES))})?{_GAP}(?P<sign>{_SIGN})"
    rf"(?P<body>{_BODY})(?P<power>[eE][-+]?\d+)?"
    rf"(?P<gap>{_GAP})(?P<after>[^\d\s()+.,'’-][^\d()]*?[23]?)?(?P<trail>{_MINUS}?\)?)$"
)
_PLAIN = re.compile(r"\d+\.?\d*|\.\d+")
_TELEPHONE = re.compile(r"\d{8,}$|.*[ \u00a0\u202f]")
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}$")


def _make_body_pattern(decimal: str) -> str:
    """Return the pattern of a number with that decimal sign, and any usual separator of thousands."""
    mark = re.escape(decimal)
    other = re.escape("," if decimal == "." else ".")
    grouped = [rf"[1-9]\d{{0,2}}(?:{sign}\d{{3}})+" for sign in (other, f"[{_SPACES}]", "['’]")]
    # 12,34,567: lakhs and crores are grouped in twos.
    grouped.append(rf"[1-9]\d?(?:{other}\d\d)+{other}\d{{3}}")
    return rf"(?:(?:{'|'.join(grouped)})(?:{mark}\d+)?|\d+(?:{mark}\d*)?|{mark}\d+)"


_GROUPS = {_US: (*_SPACES, "'", "’", ","), _EUROPEAN: (*_SPACES, "'", "’", ".")}
_BODIES = {decimal: re.compile(_make_body_pattern(decimal)) for decimal in (_US, _EUROPEAN)}


@dataclass(frozen=True)
class WrittenNumbers:
    """How a column writes its numbers.

    Attributes
    ----------
    words
        For people: 'money in $', 'weights in kg'.
    decimal
        The decimal sign, '.' or ','.
    factors
        What a sign behind a number multiplies it by, where that is not 1.
    before, after
        The signs that may stand before, and behind.
    """

    words: str
    decimal: str
    factors: dict[str, float] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether numbers stand alone, without a currency or a unit."""
        return not self.before and not self.after

    def read(self, text: pa.Array) -> Floats:
        """Return the numbers, NaN for a cell that is not written that way."""
        # Matching is fast and cutting groups out of a match is not: what is matched is trimmed instead.
        is_written = pc.match_substring_regex(text, self._pattern())
        cells = pc.if_else(is_written, text, None)
        plain = pc.utf8_trim(self._drop_odd_signs(cells), characters=self._edges())
        for sign in _GROUPS[self.decimal]:
            if pc.any(pc.match_substring(plain, sign)).as_py():
                plain = pc.replace_substring(plain, sign, "")
        if self.decimal != ".":
            plain = pc.replace_substring(plain, ",", ".")
        numbers = np.array(pc.cast(plain, pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
        numbers[self._is_negative(cells)] *= -1
        return self._convert_numbers(numbers, cells)

    def is_converted(self, text: pa.Array) -> NDArray[np.bool_]:
        """Tell which cells have a sign behind them that multiplies them: 1.2 kg in a column of g."""
        own = [sign for sign in self.after if self.factors.get(sign, 1.0) == 1.0]
        if len(own) == len(self.after):
            return np.zeros(len(text), dtype=bool)
        plain = rf"\d[.,]?{_GAP}(?:{_match_any_sign(own)})?[-)\x{{2212}}]*$"
        is_other = pc.invert(pc.match_substring_regex(text, plain))
        return np.asarray(pc.fill_null(is_other, False), dtype=bool)

    def _pattern(self) -> str:
        before = f"(?:{_match_any_sign(self.before)})?" if self.before else ""
        after = f"(?:{_match_any_sign(self.after)})?" if self.after else ""
        power = "" if self.before or self.after else r"(?:[eE][-+]?\d+)?"
        body = f"{_make_body_pattern(self.decimal)}{power}"
        return rf"^\(?{_SIGN}{_GAP}{before}{_GAP}{_SIGN}{body}{_GAP}{after}{_MINUS}?\)?$"

    def _edges(self) -> str:
        """Every character that may stand around a number's digits."""
        signs = "".join([*self.before, *self.after])
        kept = "." if self.decimal == "." else ","
        return "".join(
            {sign for sign in f"{signs}{_SPACES}()+-\u2212" if not sign.isdigit() and sign != kept}
        )

    def _drop_odd_signs(self, cells: pa.Array) -> pa.Array:
        """Take away signs whose last character may belong to a number (m2, Fr.), before edges are trimmed."""
        for sign in dict.fromkeys((*self.before, *self.after)):
            if sign[-1].isdigit() or sign[-1] in ".,":
                cells = pc.replace_substring(cells, sign, "")
        return cells

    def _is_negative(self, cells: pa.Array) -> NDArray[np.bool_]:
        pattern = rf"^\(.*\)$|^\(?{_MINUS}|^[^\d]*{_MINUS}|\d[^\d]*{_MINUS}\)?$"
        is_negative = pc.match_substring_regex(cells, pattern)
        return np.asarray(pc.fill_null(is_negative, False), dtype=bool)

    def _convert_numbers(self, numbers: Floats, cells: pa.Array) -> Floats:
        is_other = self.is_converted(cells) if self.factors else np.zeros(1, dtype=bool)
        if not is_other.any():
            return numbers
        others = [sign for sign in self.after if self.factors.get(sign, 1.0) != 1.0]
        found = pc.extract_regex(
            cells.filter(pa.array(is_other)), rf"(?P<sign>{_match_any_sign(others)})[-)\x{{2212}}]*$"
        )
        signs = pc.struct_field(found, "sign").to_pylist()
        factors = np.array([self.factors[sign] for sign in signs])
        # Dividing by 1000 keeps the digits that multiplying by 0.001 does not: 700 g are 0.7 kg.
        some = numbers[is_other]
        numbers[is_other] = np.where(factors < 1, some / np.round(1 / factors, 9), some * factors)
        return numbers

    def _require(self) -> Iterator[Fit]:
        yield "words", are_texts(self.words, self.decimal, *self.before, *self.after), True
        yield "decimal", self.decimal in (".", ","), True
        yield "factors", are_texts(*self.factors) and are_finite(*self.factors.values()), True


@dataclass(frozen=True)
class _Cell:
    """The parts of a cell that a decision needs."""

    body: str
    before: str
    after: str


def find_numbers(cells: Sequence[str]) -> WrittenNumbers | None:
    """Return how nine in ten of some cells write numbers, or None where they do not agree on one way.

    Examples
    --------
    >>> find_numbers(["$1,299.00", "$5", "-$7.50"]).words
    'money in $'
    >>> find_numbers(["1.299,00 €", "12,50 €"]).decimal
    ','
    >>> find_numbers(["$5", "7 €"]) is None
    True
    """
    parts = [part for cell in cells if (part := _split_cell(cell)) is not None]
    if len(parts) < 0.9 * len(cells) or not parts or _are_addresses(parts):
        return None
    signs = Counter(CURRENCIES.get(part.before, "") or part.after for part in parts)
    signs.pop("", None)
    is_money = any(part.before for part in parts) or any(sign in CURRENCIES for sign in signs)
    decimal = _choose_decimal_sign([part.body for part in parts], is_money=is_money)
    found = _find_writing(parts, signs, decimal, is_money=is_money)
    if found is None or not _could_be_either(parts, is_money=is_money):
        return found
    body = parts[0].body
    meant = re.sub(r"[.,]", "", body) if decimal not in body else body.replace(",", ".")
    return replace(found, words=f"{found.words}, {body} taken for {meant}")


def find_mixed_signs(cells: Sequence[str]) -> list[str]:
    """Return the currencies or units that numbers mix and that cannot be converted, most common first.

    Examples
    --------
    >>> find_mixed_signs(["$5", "7 €", "$6"]), find_mixed_signs(["5 g", "1 kg"]), find_mixed_signs(["a", "b"])
    (['$', '€'], [], [])
    """
    parts = [part for cell in cells if (part := _split_cell(cell)) is not None]
    if not parts or len(parts) < 0.9 * len(cells) or _are_addresses(parts):
        return []
    signs = Counter(CURRENCIES.get(part.before) or CURRENCIES.get(part.after) or part.after for part in parts)
    kinds = {sign: UNITS[sign].dimension if sign in UNITS else sign for sign in signs if sign}
    return [sign for sign, _ in signs.most_common() if sign] if len(set(kinds.values())) > 1 else []


def _find_writing(
    parts: Sequence[_Cell], signs: Counter[str], decimal: str, *, is_money: bool
) -> WrittenNumbers | None:
    """Return the way of writing, once the decimal sign is known."""
    if not signs:
        written = next((part.body for part in parts if not _PLAIN.fullmatch(part.body)), "")
        return WrittenNumbers(f"numbers written as {written}" if written else "numbers", decimal)
    return _find_currency(parts, decimal) if is_money else _find_unit(signs, len(parts), decimal)


def _split_cell(cell: str) -> _Cell | None:
    found = _CELL.match(cell.strip())
    if found is None or (found["power"] and (found["before"] or found["after"])):
        return None
    after = (found["after"] or "").strip()
    if after in NEEDS_SPACE and not found["gap"]:
        return None
    if after and after not in UNITS and after not in CURRENCIES:
        return None
    if found["before"] and after and after not in UNITS:
        return None
    if found["lead"] == "+" and _TELEPHONE.match(found["body"]):
        return None
    return _Cell(found["body"], found["before"] or "", after)


def _are_addresses(parts: Sequence[_Cell]) -> bool:
    """Tell whether cells are network addresses: 192.168.100.101 looks like a number of millions."""
    n = sum(_ADDRESS.match(part.body) is not None for part in parts)
    return 2 * n > len(parts)


def _find_currency(parts: Sequence[_Cell], decimal: str) -> WrittenNumbers | None:
    found = Counter(CURRENCIES.get(part.before) or CURRENCIES.get(part.after) or "" for part in parts)
    bare = found.pop("", 0)
    sign, n = found.most_common(1)[0]
    if n + bare < 0.9 * len(parts) or n < 0.5 * len(parts):
        return None
    same = [written for written, meant in CURRENCIES.items() if meant == sign]
    thousands = {written: unit.factor for written, unit in UNITS.items() if unit.dimension == "counts"}
    return WrittenNumbers(f"money in {sign}", decimal, thousands, tuple(same), (*same, *thousands))


def _find_unit(signs: Counter[str], n_cells: int, decimal: str) -> WrittenNumbers | None:
    main, _ = signs.most_common(1)[0]
    own = UNITS[main]
    alike = {
        sign: unit.factor / own.factor for sign, unit in UNITS.items() if unit.dimension == own.dimension
    }
    n = sum(count for sign, count in signs.items() if sign in alike)
    if n < 0.5 * n_cells or sum(signs.values()) - n > 0.1 * n_cells:
        return None
    if own.dimension == "counts":  # 2.5k is a number, not one in thousands
        alike = {sign: UNITS[sign].factor for sign in alike}
        return WrittenNumbers(f"numbers with {main} for thousands", decimal, alike, (), tuple(alike))
    words = "percent" if main == "%" else f"{own.dimension} in {main}"
    return WrittenNumbers(words, decimal, alike, (), tuple(alike))


def _could_be_either(parts: Sequence[_Cell], *, is_money: bool) -> bool:
    """Tell whether 1,234 in every cell could be a thousand or little more than one."""
    return not is_money and all(re.fullmatch(r"[1-9]\d{0,2},\d{3}", part.body) for part in parts)


def _choose_decimal_sign(bodies: Sequence[str], *, is_money: bool) -> str:
    """Decide by the column as a whole whether a comma or a point is the decimal sign."""
    fits = {sign: sum(p.fullmatch(body) is not None for body in bodies) for sign, p in _BODIES.items()}
    if fits[_US] != fits[_EUROPEAN]:
        return max(fits, key=lambda sign: fits[sign])
    # What is left is 1,234 or 1.234 in every cell that has a sign at all.
    marks = {sign for body in bodies for sign in ".," if sign in body}
    if len(marks) != 1:
        return _US
    mark = marks.pop()
    other = _EUROPEAN if mark == _US else _US
    signed = [body for body in bodies if mark in body]
    bare = [int(re.sub(r"\D", "", body)) for body in bodies if mark not in body]
    if not all(re.fullmatch(rf"[1-9]\d{{0,2}}\{mark}\d{{3}}", body) for body in signed):
        return mark
    # Thousands are separated in every number from 1,000 on; three decimals are written in every number.
    if bare and max(bare) >= 1000:
        return mark
    return other if is_money or (bare and len(signed) >= 10) or mark == _EUROPEAN else mark
