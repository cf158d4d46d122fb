"""By what factors the units of a column may differ, told from its name or the unit it is written with."""

from __future__ import annotations

from tellwhy.data.columns.names import words_of
from tellwhy.data.quality.facts import Facts

# What a measure is called, and by how much its units differ. A temperature is no multiple of another.
_UNITS_OF = {
    "weight mass load dose kg g mg lb lbs oz t gewicht": (2.2046, 28.35),
    "height length width depth distance size altitude elevation mileage range km m cm mm mi ft inch": (
        *(2.54, 3.2808, 1.6093, 12.0),
    ),
    "area": (2.54**2, 3.2808**2),
    "volume fuel l ml gal": (3.7854, 28.35),
    "speed velocity kmh mph": (1.6093, 3.6),
    "pressure bar psi kpa hpa pa": (6.8948,),
    "duration time latency wait age ms s sec seconds min minutes h hours dauer": (60.0, 3600.0, 12.0, 24.0),
    "energy power kwh wh w kw v": (4.184, 3.6),
    "temp temperature c f": (),
}


def unit_factors(seen: Facts, column: str) -> tuple[float, ...]:
    """By what units of a column may differ, if it was read with one or its name says what is measured."""
    role = seen.roles.get(column)
    unit = getattr(role, "words", "").partition(" in ")[2]
    words = {*words_of(column), *words_of(unit)}
    known = [factors for names, factors in _UNITS_OF.items() if not words.isdisjoint(names.split())]
    if not all(known):
        return ()
    found = sorted({factor for factors in known for factor in factors})
    return (*found, *(1 / factor for factor in found))
