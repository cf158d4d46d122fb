"""Signs that stand beside numbers: currencies, percent, units of measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
