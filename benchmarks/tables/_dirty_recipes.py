"""Tables with mistakes that people make: slips of neighbouring keys, forgotten keys, cells left out."""

from __future__ import annotations

import numpy as np
import pandas as pd

ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
NEXT = {key: row[max(i - 1, 0) : i + 2].replace(key, "") for row in ROWS for i, key in enumerate(row)}
SITES = {
    "Bristol": ("South West", "BS1 4ND"),
    "Leeds": ("Yorkshire", "LS1 3AD"),
    "Norwich": ("East", "NR2 1TF"),
    "Cardiff": ("Wales", "CF10 1EP"),
    "Dundee": ("Scotland", "DD1 4QB"),
    "Plymouth": ("South West", "PL1 1EA"),
    "Sheffield": ("Yorkshire", "S1 2HE"),
    "Ipswich": ("East", "IP1 2AN"),
    "Swansea": ("Wales", "SA1 3SN"),
    "Aberdeen": ("Scotland", "AB10 1AB"),
}
TRADES = ("electrician", "plumber", "carpenter", "roofer", "gardener", "decorator", "glazier")
DEPOTS = ("Hamburg Hafen", "Bremen Nord", "Kassel", "Leipzig Messe", "Augsburg", "Freiburg", "Erfurt")
GOODS = ("ceramic tiles", "floor boards", "window frames", "roof felt", "paint", "insulation", "copper pipe")
HANDLING = dict(zip(GOODS, ("fragile", "dry", "fragile", "dry", "frost free", "dry", "none"), strict=True))


def slipped(text: str, rng: np.random.Generator) -> str:
    """One slip: a neighbouring key, a key twice, a key forgotten, two keys in the wrong order."""
    places = [i for i, letter in enumerate(text) if letter.lower() in NEXT]
    at = int(rng.choice(places))
    kind = int(rng.integers(0, 4))
    letter = text[at]
    if kind == 0:
        other = str(rng.choice(list(NEXT[letter.lower()])))
        return text[:at] + (other.upper() if letter.isupper() else other) + text[at + 1 :]
    if kind == 1:
        return text[:at] + letter + text[at:]
    if kind == 2 or at + 1 == len(text) or text[at + 1] == letter:
        return text[:at] + text[at + 1 :]
    return text[:at] + text[at + 1] + letter + text[at + 2 :]


def dirtied(clean: pd.DataFrame, columns: dict[str, float], rng: np.random.Generator) -> pd.DataFrame:
    """Cells of some columns slipped, in upper case, or left out, each with its share."""
    dirty = clean.copy()
    for name, share in columns.items():
        for row in np.flatnonzero(rng.random(len(clean)) < share):
            kind = rng.random()
            text = clean.at[row, name]
            now = slipped(text, rng) if kind < 0.7 else text.upper() if kind < 0.85 else ""
            dirty.at[row, name] = now
    return dirty


def contacts(seed: int, n: int = 1_500) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tradespeople by town: region and post code follow from the town."""
    rng = np.random.default_rng([seed, 71])
    town = rng.choice(list(SITES), n)
    clean = pd.DataFrame(
        {
            "contact": [f"C{k:05d}" for k in rng.permutation(90_000)[:n]],
            "town": town,
            "region": [SITES[each][0] for each in town],
            "post_code": [SITES[each][1] for each in town],
            "trade": rng.choice(TRADES, n),
            "rate": [f"{k} GBP" for k in rng.integers(18, 70, n)],
        }
    )
    return dirtied(clean, {"town": 0.02, "region": 0.02, "post_code": 0.015, "trade": 0.02}, rng), clean


def deliveries(seed: int, n: int = 2_500) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Deliveries from depots: how goods are handled follows from what they are."""
    rng = np.random.default_rng([seed, 72])
    goods = rng.choice(GOODS, n)
    days = pd.Timestamp("2024-01-08") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    clean = pd.DataFrame(
        {
            "note": [f"{a}{b}-{k:04d}" for a, b, k in rng.integers(1, [9, 9, 9999], (n, 3))],
            "depot": rng.choice(DEPOTS, n),
            "goods": goods,
            "handling": [HANDLING[each] for each in goods],
            "day": days.strftime("%Y-%m-%d"),
            "pallets": rng.integers(1, 30, n).astype(str),
        }
    )
    return dirtied(clean, {"depot": 0.02, "goods": 0.01, "handling": 0.02}, rng), clean
