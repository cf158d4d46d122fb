"""Which events of an endless stream are alarms, so that the share of false ones stays as stated.

Each event has a p-value, and each rule a level for it, which depends on what was found before and not on
what comes. `lord` is LORD++ (Ramdas, Yang, Wainwright and Jordan, "Online control of the false discovery rate
with decaying memory", 2017): the expected share of false alarms among all alarms, at any time, is at most
`level` if the p-value of an ordinary event is uniform or larger whatever came before. `elond` is e-LOND (Xu
and Ramdas, "Online multiple testing with e-values", 2024): the same, however events depend on one another.
`rate` has the same level for every event: of a million ordinary events `level` times a million are alarms,
for ever.

On a stream without anomalies, the first two raise any alarm at all with probability at most `level`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.score import Floats

RULES = ("lord", "elond", "rate")
MOST_KEPT = (
    10_000  # discoveries; one that is forgotten makes later levels smaller, so that the rate still holds
)
_SUM = 0.07720838  # makes the weights add up to 1
_START = 0.5  # share of the level that is there before the first discovery


def weigh_ages(ages: Floats) -> Floats:
    """γ_j = .0772 log(max(j, 2)) / (j e^√log j): what an event is given by another j events before it.

    Examples
    --------
    >>> bool(weigh_ages(np.arange(1.0, 1e6)).sum() < 1)
    True
    """
    j = np.asarray(ages, dtype=np.float64)
    return np.asarray(_SUM * np.log(np.maximum(j, 2)) / (j * np.exp(np.sqrt(np.log(j)))))


def turn_into_e_values(p_values: Floats) -> Floats:
    """e = ∫₀¹ κ p^(κ−1) dκ = (1 − p + p log p) / (p log² p): at most 1 on average where p is uniform.

    Examples
    --------
    >>> float(turn_into_e_values(np.array([1.0]))[0])
    0.5
    """
    p = np.clip(np.asarray(p_values, dtype=np.float64), 1e-300, 1.0)
    log = np.log(p)
    near_one = p > 1 - 1e-4  # where both halves vanish; the series begins with ½
    safe = np.where(near_one, -1.0, log)
    return np.asarray(np.where(near_one, 0.5, (1 - p + p * log) / (p * safe**2)))


@dataclass(frozen=True)
class OnlineRule:
    """A rule, and what it remembers of the stream.

    Attributes
    ----------
    kind, level
        See the module.
    n
        Events so far.
    found
        Numbers of the events that were alarms, from 1; the last 10,000 of them.
    n_found
        How many there were.
    """

    kind: str = "lord"
    level: float = 0.1
    n: int = 0
    found: tuple[int, ...] = ()
    n_found: int = field(default=0)

    def __post_init__(self) -> None:
        if self.kind not in RULES:
            raise InvalidParameter(f"The rule must be one of {', '.join(RULES)}. Got {self.kind!r}.")
        if not 0 < self.level < 1:
            raise InvalidParameter(f"The level must lie between 0 and 1. Got {self.level!r}.")

    def decide(self, p_values: Floats) -> tuple[NDArray[np.bool_], OnlineRule]:
        """Say which of the next events are alarms, and what the rule remembers then."""
        p = np.asarray(p_values, dtype=np.float64)
        is_alarm = np.zeros(len(p), dtype=bool)
        found = list(self.found)
        n_found = self.n_found
        # No level is above that of the whole stream: all other events need no look.
        for i in np.flatnonzero(p <= self.level):
            t = self.n + int(i) + 1
            if self._passes(float(p[i]), t, found, n_found):
                is_alarm[i] = True
                found.append(t)
                n_found += 1
        kept = tuple(found[-MOST_KEPT:])
        return is_alarm, replace(self, n=self.n + len(p), found=kept, n_found=n_found)

    def _passes(self, p: float, t: int, found: list[int], n_found: int) -> bool:
        if self.kind == "rate":
            return p <= self.level
        if self.kind == "elond":
            level = self.level * float(weigh_ages(np.array([t]))[0]) * (n_found + 1)
            return float(turn_into_e_values(np.array([p]))[0]) >= 1 / level
        return p <= self._level_of_lord(t, found, n_found)

    def _level_of_lord(self, t: int, found: list[int], n_found: int) -> float:
        start = _START * self.level
        level = start * float(weigh_ages(np.array([t]))[0])
        if not found:
            return level
        weights = weigh_ages(t - np.array(found, dtype=np.float64))
        # The first discovery of all pays back what was there at the start, each other one the whole level.
        has_first = n_found == len(found)
        shares = np.full(len(found), self.level)
        shares[0] = self.level - start if has_first else self.level
        return level + float(shares @ weights)

    def record(self) -> dict[str, Any]:
        """The rule as JSON."""
        return {**vars(self), "found": list(self.found)}

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> OnlineRule:
        """The rule of `record`."""
        return cls(**{**record, "found": tuple(record["found"])})
