"""Generated tables of twelve kinds, and the errors that people meet in them.

`clean(kind, seed)` gives a table without errors, `plant(frame, kind, error, rng)` one with an error of that kind.
All parameters of a table (sizes, means, spreads, correlations, numbers of columns and levels, shares of missing
cells) are drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import numpy as np
import pandas as pd

from benchmarks.tables import (
    _verdict_business as business,
    _verdict_errors_cells as cells,
    _verdict_errors_rows as rows,
    _verdict_machines as machines,
    _verdict_people as people,
)
from benchmarks.tables._verdict_draws import Draw, Schema
from benchmarks.tables._verdict_planting import Error, Planted, Site

KINDS: dict[str, tuple[Callable[[Draw], dict[str, object]], Schema]] = {
    "orders": (business.orders, business.ORDERS),
    "sensors": (machines.sensors, machines.SENSORS),
    "labs": (machines.labs, machines.LABS),
    "weblogs": (machines.weblogs, machines.WEBLOGS),
    "tickets": (business.tickets, business.TICKETS),
    "geography": (machines.geography, machines.GEOGRAPHY),
    "ledger": (business.ledger, business.LEDGER),
    "survey": (business.survey, business.SURVEY),
    "inventory": (business.inventory, business.INVENTORY),
    "telemetry": (machines.telemetry, machines.TELEMETRY),
    "staff": (people.staff, people.STAFF),
    "trips": (people.trips, people.TRIPS),
}

_PLANTS: dict[str, tuple[str, Callable[[Site], Planted]]] = {
    "-999 in many rows": ("bell", cells.same_value("bell", -999, many=True)),
    "-999 in one row": ("bell", cells.same_value("bell", -999, many=False)),
    "999 as age in many rows": ("ages", cells.same_value("ages", 999, many=True)),
    "99 as rating in many rows": ("ratings", cells.same_value("ratings", 99, many=True)),
    "0 in many rows, never near it": ("nonzero", cells.same_value("nonzero", 0, many=True)),
    "0 in one row, never near it": ("nonzero", cells.same_value("nonzero", 0, many=False)),
    "1900-01-01 in many rows": ("events", cells.same_value("events", pd.Timestamp("1900-01-01"), many=True)),
    "1970-01-01 in one row": ("events", cells.same_value("events", pd.Timestamp("1970-01-01"), many=False)),
    "default birthday in many rows": ("births", cells.default_birthday),
    "'unknown' in many rows": ("levels", cells.same_value("levels", "unknown", many=True)),
    "'?' in one row": ("levels", cells.same_value("levels", "?", many=False)),
    "8 deviations": ("bell", cells.eight_deviations),
    "spike in a series": ("series", cells.spike),
    "divided by 100": ("slips", cells.times("slips", 0.01)),
    "times 10": ("slips", cells.times("slips", 10)),
    "times 1000": ("slips", cells.times("slips", 1000)),
    "sign flipped": ("positive", cells.sign_flips),
    "negative age": ("ages", cells.mapped("ages", lambda v, _: -v)),
    "age over 150": ("ages", cells.mapped("ages", lambda _, rng: int(rng.integers(150, 220)))),
    "share over 100 %": (
        "percents",
        cells.mapped("percents", lambda v, rng: round(150 + v * rng.uniform(1, 4), 1)),
    ),
    "rating out of scale": ("ratings", cells.mapped("ratings", lambda _, rng: int(rng.integers(7, 12)))),
    "fraction among counts": ("counts", cells.mapped("counts", lambda v, _: v + 0.5)),
    "fahrenheit among celsius": ("celsius", cells.mapped("celsius", lambda v, _: round(v * 1.8 + 32, 1))),
    "pounds among kilograms": ("kilograms", cells.times("kilograms", 2.2046, few=False)),
    "kilometres among metres": ("metres", cells.times("metres", 0.001)),
    "seconds among milliseconds": ("milliseconds", cells.times("milliseconds", 0.001)),
    "single rare level": ("levels", cells.rare_level),
    "level not in the reference": ("levels", cells.new_level),
    "misspelt level": ("levels", cells.mapped("levels", cells.misspelt)),
    "level in other case": ("levels", cells.mapped("levels", cells.other_case)),
    "letters in the wrong encoding": ("letters", cells.garbled),
    "text in a column of numbers": ("bell", cells.mapped("bell", cells.letter_for_digit)),
    "code of another pattern": ("codes", cells.mapped("codes", cells.wrong_pattern)),
    "future date": ("events", cells.future),
    "event at night": ("office", cells.at_night),
    "event at a weekend": ("office", cells.at_weekend),
    "two columns swapped": ("swaps", rows.swapped),
    "total is not price × quantity": ("products", rows.wrong_product),
    "total is not the sum": ("sums", rows.wrong_sum),
    "amount inflated with its total": ("products", rows.inflated),
    "end before start": ("orders", rows.wrong_order),
    "pair that never comes together": ("pairs", rows.rare_pair),
    "broken dependency (zip, city)": ("dependencies", rows.wrong_dependency),
    "ordinary alone, impossible together": ("correlated", rows.wrong_correlation),
    "between clusters": ("clusters", rows.between_clusters),
    "coordinates of another place": ("coordinates", rows.other_place),
    "latitude and longitude swapped": ("coordinates", rows.swapped_coordinates),
    "coordinates 0, 0": ("coordinates", rows.zero_coordinates),
    "amounts of another currency": ("currencies", rows.wrong_currency),
    "filled where always empty": ("absent", rows.filled_where_absent),
    "stuck sensor": ("series", rows.stuck),
    "duplicate rows": ("", rows.duplicates),
    "burst of equal rows": ("", rows.burst),
    "nearly empty rows": ("", rows.nearly_empty),
    "identifier used twice": ("ids", rows.same_id),
    "row shifted by a column": ("swaps", rows.shifted),
}

ERRORS: dict[str, Error] = {
    name: Error(
        role, plant, tuple(k for k, (_, schema) in KINDS.items() if not role or getattr(schema, role))
    )
    for name, (role, plant) in _PLANTS.items()
}


def clean(kind: str, seed: int, n: int | None = None) -> pd.DataFrame:
    """A table without errors: 1,000 to 5,000 rows unless told how many."""
    rng = np.random.default_rng([crc32(kind.encode()), seed])
    size = int(rng.integers(1_000, 5_001)) if n is None else n
    return pd.DataFrame(KINDS[kind][0](Draw(rng, size)))


def plant(frame: pd.DataFrame, kind: str, error: str, rng: np.random.Generator) -> Planted:
    """The table with an error of that kind; the frame itself stays as it is."""
    return ERRORS[error].plant(Site(frame, KINDS[kind][1], rng))


MONEY = {
    "orders": ("price", "total"),
    "ledger": ("net", "vat", "gross"),
    "inventory": ("unit_cost", "value"),
    "survey": ("income",),
    "staff": ("salary", "bonus"),
    "trips": ("fare", "tip", "total"),
}


def written(frame: pd.DataFrame, kind: str, seed: int) -> pd.DataFrame:
    """The table as people write it: seed 0 plainly; later ones with $ and thousands, %, and dates of other countries."""
    if seed % 3 == 0:
        return frame
    dates = "%d.%m.%Y" if seed % 3 == 1 else "%m/%d/%Y"
    found = frame.copy()
    for name in frame.columns:
        cells = frame[name]
        if pd.api.types.is_datetime64_any_dtype(cells.dtype):
            at_midnight = (cells.dropna() == cells.dropna().dt.normalize()).all()
            found[name] = cells.dt.strftime(dates if at_midnight else f"{dates} %H:%M:%S")
        elif name in MONEY.get(kind, ()):
            found[name] = cells.map(lambda v: f"${v:,.2f}" if isinstance(v, (int, float)) and v == v else v)
        elif name in KINDS[kind][1].percents:
            found[name] = cells.map(lambda v: f"{v:g}%" if isinstance(v, (int, float)) and v == v else v)
    return found
