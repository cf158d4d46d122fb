"""Errors that only several cells, or several rows, show together."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.tables._verdict_planting import Planted, Site, planted


def swapped(site: Site) -> Planted:
    first, second = site.one_of("swaps")
    rows = site.rows([first, second], site.few(), site.number(first) != site.number(second))
    cells = {first: (rows, site.number(second)[rows]), second: (rows, site.number(first)[rows])}
    return site.changed_all(cells, right=(first, second))


def wrong_product(site: Site) -> Planted:
    """a = b × c, but for a few rows in which a is off by 20 to 60 %: an ordinary value by itself."""
    whole, *parts = site.one_of("products")
    rows = site.rows([whole, *parts], site.few(), np.abs(site.number(whole)) > 1)
    factor = site.rng.choice([-1, 1], len(rows)) * site.rng.uniform(0.2, 0.6, len(rows)) + 1
    return site.changed(whole, rows, (site.number(whole)[rows] * factor).round(2), right=(whole, *parts))


def wrong_sum(site: Site) -> Planted:
    whole, *parts = site.one_of("sums")
    values = site.number(whole)
    rows = site.rows([whole, *parts], site.few(), values >= np.nanmedian(values))
    wrong = values[rows] * site.rng.uniform(1.1, 1.5, len(rows))
    is_whole = (values == np.round(values)).all()
    return site.changed(whole, rows, np.ceil(wrong) if is_whole else wrong.round(2), right=(whole, *parts))


def wrong_order(site: Site) -> Planted:
    """The later date some days before the earlier one."""
    first, second = site.one_of("orders")
    rows = site.rows([first, second], site.few())
    back = pd.to_timedelta(site.rng.integers(1, 20, len(rows)), unit="D")
    values = site.frame[first].iloc[rows] - back
    return site.changed(second, rows, list(values), right=(first, second))


def rare_pair(site: Site) -> Planted:
    """Two common levels that never come together otherwise."""
    first, level, second, other = site.one_of("pairs")
    rows = site.rows([first, second], int(site.rng.integers(1, 4)), (site.frame[first] == level).to_numpy())
    return site.changed(second, rows, other, right=(first, second))


def wrong_dependency(site: Site) -> Planted:
    """x fixes y, but for a few rows with another common y."""
    first, second = site.one_of("dependencies")
    rows = site.rows([first, second], site.few())
    common = site.frame[second].value_counts().index[:4]
    values = []
    for value in site.frame[second].iloc[rows]:
        others = [level for level in common if level != value]
        values.append(others[site.rng.integers(len(others))])
    return site.changed(second, rows, values, right=(first, second))


def wrong_correlation(site: Site) -> Planted:
    """An ordinary value that is impossible beside another: high where that one is low."""
    first, second = site.one_of("correlated")
    a, b = site.number(first), site.number(second)
    direction = np.sign(pd.Series(a).corr(pd.Series(b)))
    low = a <= np.nanquantile(a, 0.15)
    rows = site.rows([first, second], site.few(), low)
    levels = (
        site.rng.uniform(0.88, 0.97, len(rows)) if direction > 0 else site.rng.uniform(0.03, 0.12, len(rows))
    )
    right = {first, second}
    right |= {name for group in site.schema.products if second in group for name in group}
    return site.changed(second, rows, np.nanquantile(b, levels).round(2), right=right)


def between_clusters(site: Site) -> Planted:
    """Rows half-way between two clusters, each coordinate in the usual range."""
    names = site.one_of("clusters")
    rows = site.rows(names, site.few())
    place = site.schema.coordinates[0][2]
    centres = site.frame.groupby(place)[list(names)].median().to_numpy()
    middles = []
    for _ in rows:
        halves = (centres[:, None] + centres[None]) / 2
        spread = centres.std(axis=0)
        gaps = (np.abs(halves[:, :, None] - centres) / spread).max(axis=3).min(axis=2)
        best = np.argsort(gaps.ravel())[-6:]
        middles.append(halves.reshape(-1, len(names))[site.rng.choice(best)])
    columns = {name: (rows, np.round(np.array(middles)[:, i], 4)) for i, name in enumerate(names)}
    return site.changed_all(columns, right=(*names, place))


def other_place(site: Site) -> Planted:
    """Coordinates of another place than the row names."""
    latitude, longitude, place = site.one_of("coordinates")
    rows = site.rows([latitude, longitude, place], site.few())
    taken = [
        site.rows([latitude, longitude], 1, (site.frame[place] != site.frame[place].iloc[row]).to_numpy())[0]
        for row in rows
    ]
    cells = {name: (rows, site.number(name)[taken]) for name in (latitude, longitude)}
    return site.changed_all(cells, right=(latitude, longitude, place))


def swapped_coordinates(site: Site) -> Planted:
    latitude, longitude, place = site.one_of("coordinates")
    rows = site.rows([latitude, longitude], site.few())
    cells = {latitude: (rows, site.number(longitude)[rows]), longitude: (rows, site.number(latitude)[rows])}
    return site.changed_all(cells, right=(latitude, longitude, place))


def zero_coordinates(site: Site) -> Planted:
    latitude, longitude, place = site.one_of("coordinates")
    rows = site.rows([latitude, longitude], site.many())
    return site.changed_all(
        {latitude: (rows, 0.0), longitude: (rows, 0.0)}, right=(latitude, longitude, place)
    )


def wrong_currency(site: Site) -> Planted:
    """Amounts in yen (150 times as much) under another currency's name."""
    currency, *amounts = site.one_of("currencies")
    dear = np.abs(site.number(amounts[0])) > np.nanmedian(site.number(amounts[0]))
    rows = site.rows([currency], site.few(), (site.frame[currency] == "JPY").to_numpy() & dear)
    return site.changed(currency, rows, "USD", right=(currency, *amounts))


def filled_where_absent(site: Site) -> Planted:
    """A value where there never is one: a delivery date of a cancelled order."""
    which, level, column = site.one_of("absent")
    rows = site.rows([which], site.few(), (site.frame[which] == level).to_numpy())
    some = site.frame[column].dropna()
    values = some.iloc[site.rng.integers(len(some), size=len(rows))]
    right = {which, column, *(name for pair in site.schema.orders if column in pair for name in pair)}
    return site.changed(column, rows, list(values), right=right)


def inflated(site: Site) -> Planted:
    """One amount beyond the greatest of the others, fifty times over, with the totals that follow from it."""
    whole, part, other = site.one_of("products")
    rows = site.rows([whole, part, other], 1, site.number(whole) != 0)
    value = np.nanmax(site.number(part)) * 50
    cells = {part: (rows, value), whole: (rows, np.round(value * site.number(other)[rows], 2))}
    return site.changed_all(cells, right=(whole, part))


def stuck(site: Site) -> Planted:
    """A reading that stays the same for forty rows, at an ordinary value."""
    column = site.one_of("series")
    start = int(site.rng.integers(10, len(site.frame) - 60))
    rows = np.arange(start + 1, start + 41)
    also = np.where(rows == start + 1, start, -1)  # the first of the equal readings may be told as well
    return site.changed(column, rows, site.number(column)[start], also=also, kinds=("stuck",))


def with_copies(site: Site, rows: np.ndarray, times: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """The table with rows repeated, copies at random places; where copies lie, and where their originals do."""
    order = np.arange(len(site.frame), dtype=float)
    copies = np.repeat(rows, times)
    keys = np.concatenate([order, site.rng.uniform(0, len(order), len(copies))])
    source = np.concatenate([np.arange(len(order)), copies])
    placed = np.argsort(keys, kind="stable")
    where = np.empty(len(placed), dtype=int)
    where[placed] = np.arange(len(placed))
    frame = site.frame.iloc[source[placed]].reset_index(drop=True)
    return frame, where[len(order) :], where[copies]


def duplicates(site: Site) -> Planted:
    """Whole rows that occur twice, identifiers and all."""
    frame, rows, originals = with_copies(site, site.rows([], site.few()), 1)
    return planted(frame, rows, [frozenset()] * len(rows), also=originals, kinds=("duplicate", "burst"))


def burst(site: Site) -> Planted:
    """One row forty times more, all but its identifier."""
    frame, rows, originals = with_copies(site, site.rows([], 1), 40)
    for name in site.schema.ids:
        frame.loc[rows, name] = fresh_ids(site.frame[name], len(rows))
    return planted(frame, rows, [frozenset()] * len(rows), also=originals, kinds=("duplicate", "burst"))


def fresh_ids(column: pd.Series, k: int) -> list[object]:
    """Identifiers that follow on the column's last one, written alike."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return [int(column.max()) + 1 + i for i in range(k)]
    digits = column.str.extract(r"(\d+)$")[0]
    last, width = digits.astype(int).max(), digits.str.len().max()
    stem = column.iloc[0][: -len(digits.iloc[0])]
    return [f"{stem}{last + 1 + i:0{width}d}" for i in range(k)]


def nearly_empty(site: Site) -> Planted:
    """Rows of which all but two cells are missing."""
    rows = site.rows([], site.few())
    frame = site.frame.copy()
    lost = list(frame.columns[2:])
    for name in lost:
        cells = frame[name].astype(object) if frame[name].dtype == bool else frame[name]
        frame[name] = cells.mask(np.isin(np.arange(len(frame)), rows))
    return planted(frame, rows, [frozenset(lost)] * len(rows), kinds=("empty_row",))


def same_id(site: Site) -> Planted:
    """The identifier of another row."""
    column = site.one_of("ids")
    both = site.rng.permutation(site.rows([column], 6))
    rows, owners = both[:3], both[3:]
    found = site.changed(column, rows, site.frame[column].to_numpy(object)[owners], kinds=("duplicate",))
    order = np.argsort(rows)
    return planted(found.frame, found.rows, found.columns, also=owners[order], kinds=found.kinds)


def shifted(site: Site) -> Planted:
    """Numbers that slipped one column to the right, as after a stray separator."""
    numeric = [c for c in site.frame.columns if pd.api.types.is_numeric_dtype(site.frame[c].dtype)]
    numeric = [c for c in numeric if site.frame[c].dtype != bool and c not in site.schema.ids]
    rows = site.rows([], 1)
    values = site.frame[numeric].iloc[rows[0]].to_numpy(float)
    cells = {name: (rows, value) for name, value in zip(numeric, np.roll(values, 1), strict=True)}
    return site.changed_all(cells, right=numeric)
