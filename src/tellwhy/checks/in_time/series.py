"""Everything that happens in the columns of a series, as findings: spikes, shifts, stuck readings, drifts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from tellwhy.checks.in_time.baselines import BENDS, chosen_bend
from tellwhy.checks.in_time.clock import Stamps, stamp_words
from tellwhy.checks.in_time.seasons import Season, find_season, on_the_clock
from tellwhy.checks.in_time.spikes import Bump, find_bumps
from tellwhy.checks.mistakes import DRIFT, LEVEL_SHIFT, PASSING_SHIFT, SPIKE, STUCK
from tellwhy.checks.stuck import find_stuck
from tellwhy.core.score import Floats, Integers
from tellwhy.results.notice import Notice
from tellwhy.results.result import MISSING, Finding
from tellwhy.scoring.surprise import Surprise

FEWEST = 20  # readings of a series
CHANCE = 0.05  # of any finding of a kind in a series where nothing happened
LONGEST_SPIKE = 2  # readings that a spike lasts at most
MOST_EVENTS = 20  # of a column: what happens more often is what the column does
FEWEST_VALUES = 5
MULTIPLE = 3.0  # of the median that the highest readings have, for logarithms to matter


@dataclass(frozen=True, eq=False)
class Series:
    """One column in the order of time, without its missing cells.

    Attributes
    ----------
    name
        Of the column.
    values, rows
        Readings, and the row of each, counted in the order of time.
    stamps
        When all rows were taken.
    names
        What a row is called, where time is a plain number.
    """

    name: str
    values: Floats
    rows: Integers
    stamps: Stamps
    names: Callable[[int], str]

    def when(self, start: int, end: int) -> dict[str, Any]:
        """The first and the last of some readings: moments, or what the rows are called."""
        is_clock = self.stamps.shown is not None
        return {"first": self.begin(start), "last": self.begin(end - 1), "is_clock": is_clock}

    def begin(self, start: int) -> str:
        """The time of a reading."""
        row = int(self.rows[start])
        shown = self.stamps.shown
        return self.names(row) if shown is None else stamp_words(shown[row])

    def season(self, start: int, kind: str) -> dict[str, Any]:
        """The season with which readings are compared, and a moment in it; none where there is none."""
        if not kind or self.stamps.moments is None:
            return {"season": ""}
        moment = self.stamps.moments[self.rows[start]].astype("datetime64[s]")
        return {"season": kind, "moment": str(moment)}


@dataclass(frozen=True)
class SeriesFindings:
    """What was found, which season each column has, and what is irregular about the times."""

    findings: tuple[Finding, ...]
    seasons: dict[str, str]
    said: tuple[Notice, ...] = ()


def find_events(frame: pd.DataFrame, stamps: Stamps, names: Callable[[int], str]) -> SeriesFindings:
    """Look at every column of numbers.

    Parameters
    ----------
    frame
        Rows in the order of time, their columns read as numbers; explained cells are missing.
    stamps
        When they were taken.
    names
        What each row is called.
    """
    columns = [
        str(name)
        for name in frame.columns
        if is_numeric_dtype(frame[name]) and not is_bool_dtype(frame[name])
    ]
    numbers = [frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in columns]
    stamps = on_the_clock(stamps, numbers)
    found: list[Finding] = []
    seasons: dict[str, str] = {}
    level = float(-np.log(CHANCE) + np.log(max(len(columns), 1)))
    for name, values in zip(columns, numbers, strict=True):
        rows = np.flatnonzero(np.isfinite(values))
        series = Series(name, values[rows], rows, stamps, names)
        if len(rows) >= FEWEST and len(np.unique(series.values)) >= FEWEST_VALUES:
            events, kind = _of_column(series, level)
            found += events
            seasons |= {name: kind} if kind else {}
    return SeriesFindings(tuple(found), seasons, stamps.said)


def without_cells(frame: pd.DataFrame, findings: Sequence[Finding]) -> pd.DataFrame:
    """The table with the cells missing that a finding explains; nothing that is passed in is modified."""
    table = frame.copy(deep=False)
    for finding in findings:
        if finding.action == MISSING:
            mask = np.zeros(len(frame), dtype=np.bool_)
            mask[list(finding.rows)] = True
            table[finding.columns[0]] = table[finding.columns[0]].mask(mask)
    return table


def tell_seasons(found: SeriesFindings) -> list[Notice]:
    """Tell which columns are compared with what their time usually has."""
    kinds = dict.fromkeys(found.seasons.values())
    told = {kind: [name for name, own in found.seasons.items() if own == kind] for kind in kinds}
    return [Notice("same_season", {"season": kind, "columns": names}) for kind, names in told.items()]


def _of_column(series: Series, level: float) -> tuple[list[Finding], str]:
    stuck = list(_stuck(series, level))
    is_free = ~np.isin(series.rows, [row for finding in stuck for row in finding.rows])
    free = Series(series.name, series.values[is_free], series.rows[is_free], series.stamps, series.names)
    if len(free.values) < FEWEST:
        return stuck, ""
    bend = BENDS[_bend(free.values)]
    bent = bend.there(free.values)
    seconds = None if free.stamps.seconds is None else free.stamps.seconds[free.rows]
    season = find_season(bent, seconds)
    rest = bent - season.level
    bumps = find_bumps(rest, season.scale, level + float(np.log(len(rest))))[:MOST_EVENTS]
    # Without passing events, so that they do not look like changes of level.
    calm = rest.copy()
    for bump in bumps:
        calm[bump.start : bump.end] = np.nan
    changes = find_changes(calm, level)
    told = [_bump(free, season, bump, bend.back(bent - bump.size)) for bump in bumps]
    told += [_change(free, change, _size(bend.back, rest, change)) for change in changes]
    return [*stuck, *told], season.kind


def _bend(values: Floats) -> str:
    """Form in which readings are compared: their own, unless they span multiples of each other."""
    if np.quantile(values, 0.99) < MULTIPLE * abs(float(np.median(values))):
        return "as it is"
    return chosen_bend(values, np.zeros(len(values), dtype=np.int64), 1)


def _size(back: Callable[[Floats], Floats], rest: Floats, change: Change) -> float:
    """A change in the units of the column: from the usual level to the usual level and the change."""
    middle = float(np.median(rest))
    return float(back(np.array([middle + change.size]))[0] - back(np.array([middle]))[0])


def _bump(series: Series, season: Season, bump: Bump, usual: Floats) -> Finding:
    part = slice(bump.start, bump.end)
    length = bump.end - bump.start
    farthest = int(np.argmax(np.abs(series.values[part] - usual[part])))
    middle = (bump.start + bump.end - 1) // 2
    return Finding(
        (SPIKE if length <= LONGEST_SPIKE else PASSING_SHIFT).kind,
        (series.name,),
        tuple(int(row) for row in series.rows[part]),
        {
            **series.when(bump.start, bump.end),
            **series.season(middle, season.kind),
            "size": float(np.mean(series.values[part] - usual[part])),
        },
        cells={series.name: float(series.values[part][farthest])},
        surprise=bump.surprise,
    )


def _change(series: Series, change: Change, size: float) -> Finding:
    facts = {"size": size, "first": series.begin(change.start)}
    if change.kind == DRIFT.kind:
        last = series.begin(len(series.values) - 1)
        return Finding(DRIFT.kind, (series.name,), (), {**facts, "last": last})
    # A new level makes none of its rows odd: it is told, and no alarm.
    row = int(series.rows[change.start])
    after = {"n": len(series.values) - change.start}
    return Finding(LEVEL_SHIFT.kind, (series.name,), (row,), facts, after)


def _stuck(series: Series, level: float) -> Iterator[Finding]:
    for run in find_stuck(series.values, level):
        yield Finding(
            STUCK.kind,
            (series.name,),
            tuple(int(row) for row in series.rows[run.start + 1 : run.end]),
            {**series.when(run.start, run.end), "value": run.value},
            cells={series.name: run.value},
            form="stuck_reading",
            n=run.end - run.start,
            action=MISSING,
            surprise=run.surprise,
        )


MOST_BLOCKS = 100
FEWEST_BLOCKS = 12
LEAST_SIDE = 3  # blocks on either side of a step, and behind the begin of a drift
N_SIMULATED = 400
STRONGEST = 0.8  # dependence between blocks beyond which the series wanders, and nothing can be said
LEAST_STEP = 1.0  # size of a step, and of all of a drift, in standard deviations of readings
LEAST_DRIFT = 2.0
MOST_CHANGES = 4
SUDDEN = 0.6  # of a step, beside a slope around it
TO_SIGMA = 1.4826


@dataclass(frozen=True)
class Change:
    """A step at a reading, or a drift that begins there, by `size` in all."""

    kind: str  # "level_shift" | "drift"
    start: int
    size: float
    surprise: float


def find_changes(values: Floats, level: float) -> list[Change]:
    """Steps and drifts whose surprise is above the level, in the order of time.

    Parameters
    ----------
    values
        Readings in the order of time, less what their time usually has; NaN where they are explained.
    level
        Surprise to be exceeded.
    """
    blocks = _Blocks.of(values)
    if blocks is None:
        return []
    noise = _noise(values)
    rest = blocks.medians
    found: list[Change] = []
    for _ in range(MOST_CHANGES):
        fit = _best(rest)
        surprise = _surprise(rest, fit) - float(np.log(MOST_CHANGES))
        least = LEAST_STEP if fit.is_step else LEAST_DRIFT
        if surprise <= level or abs(fit.size) < least * noise:
            break
        rest = rest - fit.line
        start = blocks.refined(values, fit) if fit.is_step else int(blocks.starts[fit.place])
        if not fit.is_step:
            found.append(Change("drift", start, fit.size, surprise))
        elif blocks.is_sudden(values, start, fit.size):
            found.append(Change("level_shift", start, fit.size, surprise))
    return _merged(sorted(found, key=lambda change: change.start), 2 * len(values) // len(rest))


def _merged(changes: list[Change], near: int) -> list[Change]:
    """Steps that are next to each other as one, which is the sum of them."""
    found: list[Change] = []
    for change in changes:
        last = found[-1] if found else None
        if (
            last is not None
            and last.kind == change.kind == "level_shift"
            and change.start - last.start <= near
        ):
            found[-1] = replace(last, size=last.size + change.size)
        else:
            found.append(change)
    return found


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Medians of stretches of readings, and where each stretch starts."""

    medians: Floats
    starts: Integers

    @classmethod
    def of(cls, values: Floats) -> _Blocks | None:
        n_blocks = min(MOST_BLOCKS, len(values) // 3)
        if n_blocks < FEWEST_BLOCKS:
            return None
        starts = np.linspace(0, len(values), n_blocks, endpoint=False).astype(np.int64)
        parts = np.split(values, starts[1:])
        medians = np.array([np.nanmedian(p) if np.isfinite(p).any() else np.nan for p in parts])
        there = np.flatnonzero(np.isfinite(medians))
        if len(there) < FEWEST_BLOCKS:
            return None
        return cls(np.interp(np.arange(n_blocks), there, medians[there]), starts)

    def is_sudden(self, values: Floats, start: int, size: float) -> bool:
        """Whether most of a step happens at once: a slope, or a slow wave, is no change of level."""
        width = max(10, 3 * len(values) // len(self.starts))
        low = max(start - width, 0)
        part = values[low : start + width]
        there = np.flatnonzero(np.isfinite(part))
        is_after = there >= start - low
        if min(int(is_after.sum()), int((~is_after).sum())) < LEAST_SIDE:
            return False
        design = np.column_stack([np.ones(len(there)), there - there.mean(), is_after])
        jump = float(np.linalg.lstsq(design, part[there], rcond=None)[0][2])
        return jump * np.sign(size) >= SUDDEN * abs(size)

    def refined(self, values: Floats, fit: _Fit) -> int:
        """The reading at which a step is, within the blocks beside it."""
        low = int(self.starts[max(fit.place - 2, 0)])
        high = int(self.starts[min(fit.place + 2, len(self.starts) - 1)])
        if not np.isfinite(values[low:high]).any():
            return int(self.starts[fit.place])  # a passing event covers all of it: any place is as good
        part = np.nan_to_num(values[low:high], nan=float(np.nanmedian(values[low:high])))
        centred = part - part.mean()
        sums = np.cumsum(centred)[:-1]
        size = np.arange(1, len(part))
        # Explained sum of squares of a step after each reading.
        gain = sums**2 * len(part) / (size * (len(part) - size))
        return low + 1 + int(np.argmax(gain))


@dataclass(frozen=True, eq=False)
class _Fit:
    """The best step or drift: where, how large, its line, and its gain beside what is left."""

    is_step: bool
    place: int
    size: float
    line: Floats
    ratio: float


@lru_cache(maxsize=32)
def _shapes(n: int) -> Floats:
    """All steps, then all drifts, centred and of length 1: shape (shapes, n)."""
    t = np.arange(n)
    places = np.arange(LEAST_SIDE, n - LEAST_SIDE + 1)
    steps = (t[None, :] >= places[:, None]).astype(np.float64)
    # A drift that begins before the series is a line through all of it.
    begins = np.concatenate([[0], np.arange(LEAST_SIDE, n - 2 * LEAST_SIDE)])
    drifts = np.maximum(t[None, :] - begins[:, None], 0).astype(np.float64)
    shapes = np.vstack([steps, drifts])
    shapes -= shapes.mean(axis=1, keepdims=True)
    return np.asarray(shapes / np.linalg.norm(shapes, axis=1, keepdims=True))


def _best(medians: Floats) -> _Fit:
    n = len(medians)
    shapes = _shapes(n)
    weights = shapes @ (medians - medians.mean())
    k = int(np.argmax(np.abs(weights)))
    line = weights[k] * shapes[k]
    n_steps = n - 2 * LEAST_SIDE + 1
    is_step = k < n_steps
    begins = [0, *range(LEAST_SIDE, n - 2 * LEAST_SIDE)]
    place = LEAST_SIDE + k if is_step else begins[k - n_steps]
    return _Fit(is_step, place, float(line[-1] - line[0]), line, float(_ratios(medians[None, :])[0]))


def _ratios(medians: Floats) -> Floats:
    """Root of the best shape's part of the squares beside the rest, for each series."""
    centred = medians - medians.mean(axis=1, keepdims=True)
    gain = ((centred @ _shapes(medians.shape[1]).T) ** 2).max(axis=1)
    rest = np.maximum((centred**2).sum(axis=1) - gain, 1e-12 * gain + 1e-300)
    return np.sqrt(gain / rest)


def _surprise(medians: Floats, fit: _Fit) -> float:
    """−log of the chance that a series without a change has a shape that fits as well."""
    dependence = _dependence(medians)
    if dependence >= STRONGEST:
        return 0.0
    # A grid of dependences, rounded up, so that few series are simulated.
    law = _chance(len(medians), float(np.ceil(20 * max(dependence, 0.0)) / 20))
    return float(law.value(np.array([fit.ratio]))[0])


def _dependence(medians: Floats) -> float:
    """Correlation φ of a block with the next, told by the steps between blocks, of which changes move few.

    Steps are correlated by −(1 − φ)/2, and not at all in a series that wanders. What chance may hide of that
    in so few blocks is added.
    """
    steps = np.diff(medians)
    steps = steps - np.median(steps)
    is_usual = np.abs(steps) <= 3 * TO_SIGMA * float(np.median(np.abs(steps)))
    one = steps[1:][is_usual[1:] & is_usual[:-1]]
    other = steps[:-1][is_usual[1:] & is_usual[:-1]]
    total = float(one @ one + other @ other) / 2
    found = float(one @ other) / total if total > 0 else 0.0
    return 1 + 2 * found + 1 / np.sqrt(len(medians))


@lru_cache(maxsize=64)
def _chance(n: int, dependence: float) -> Surprise:
    """How large ratios are without a change."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(N_SIMULATED, n + 50))
    for t in range(1, n + 50):
        noise[:, t] += dependence * noise[:, t - 1]
    return Surprise.learn(_ratios(noise[:, 50:]), is_clean=True, most_shape=0.1)


def _noise(values: Floats) -> float:
    """Standard deviation of readings around their neighbours' level."""
    filled = values[np.isfinite(values)]
    steps = np.diff(filled)
    own = TO_SIGMA * float(np.median(np.abs(filled - np.median(filled))))
    return max(TO_SIGMA * float(np.median(np.abs(steps))) / np.sqrt(2), 0.2 * own)
