"""Twenty small tables, each with the trouble that it is named after, and how they are asked about."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

REFERENCE_SHARE = 0.6  # of the rows, from the first on, that the others are compared with


@dataclass(frozen=True)
class Pinned:
    """A table, settings of `explain_table`, and the columns that the other ways need."""

    frame: pd.DataFrame
    settings: dict[str, Any] = field(default_factory=dict)
    time: str | None = None
    by: tuple[str, ...] = ()

    @property
    def n_reference(self) -> int:
        return int(REFERENCE_SHARE * len(self.frame))


def _numbers(n: int, seed: int, names: str = "abcd") -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n)
    return pd.DataFrame({name: (common + rng.normal(size=n)).round(3) for name in names})


def numbers() -> Pinned:
    frame = _numbers(120, 1)
    frame.loc[100, "b"] = 9.5
    frame.loc[20, "c"] = -8.0
    return Pinned(frame)


def few_rows() -> Pinned:
    frame = _numbers(40, 2, "ab")
    frame.loc[30, "a"] = 14.0
    return Pinned(frame)


def labels() -> Pinned:
    rng = np.random.default_rng(3)
    city = rng.choice(["Bonn", "Köln", "Trier"], 160)
    land = np.where(city == "Trier", "RP", "NRW")
    frame = pd.DataFrame({"city": city, "land": land, "size": rng.normal(50, 5, 160).round(1)})
    frame.loc[120, "city"] = "Bnon"
    frame.loc[130, "land"] = "Bayern"
    frame.loc[150, "land"] = "RP" if frame.loc[150, "land"] == "NRW" else "NRW"
    return Pinned(frame)


def dates() -> Pinned:
    rng = np.random.default_rng(4)
    stamps = pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 90 * 8, 150) + 8, unit="h")
    text = pd.Series(stamps.strftime("%d.%m.%Y %H:%M"))
    text[110] = "31.02.2021 10:00"
    frame = pd.DataFrame({"seen": text, "weight": rng.gamma(9, 8, 150).round(1)})
    frame.loc[140, "seen"] = "04.03.2021 02:00"
    return Pinned(frame)


def placeholders() -> Pinned:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 180), "income": rng.normal(40, 8, 180).round(1)})
    frame.loc[[10, 60, 130, 170], "age"] = 999
    frame["job"] = rng.choice(["baker", "clerk", "nurse"], 180)
    frame.loc[[40, 150], "job"] = "unknown"
    return Pinned(frame)


def slips() -> Pinned:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"bill": rng.normal(30, 3, 150).round(2), "mass": rng.normal(70, 4, 150).round(1)})
    frame.loc[115, "bill"] *= 10
    frame.loc[[30, 125, 140], "mass"] *= 1000
    return Pinned(frame)


def sums() -> Pinned:
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"price": rng.integers(1, 60, 150), "count": rng.integers(1, 9, 150)})
    frame["total"] = frame["price"] * frame["count"]
    frame.loc[[105, 133], "total"] += 7
    frame.loc[22, "total"] *= -1
    return Pinned(frame)


def gaps() -> Pinned:
    rng = np.random.default_rng(8)
    frame = _numbers(150, 8)
    frame.loc[rng.choice(150, 45, replace=False), "c"] = np.nan
    frame.loc[[99, 101], ["a", "b", "c", "d"]] = np.nan
    frame.loc[120, "d"] = -11.0
    return Pinned(frame)


def dropped_gaps() -> Pinned:
    found = gaps()
    return Pinned(found.frame, {"missing": "drop"})


def constants() -> Pinned:
    frame = _numbers(140, 9, "ab")
    frame["unit"] = "kg"
    frame["factor"] = 1.0
    frame.loc[125, "unit"] = "lb"
    frame.loc[133, "factor"] = 3.0
    return Pinned(frame)


def texts() -> Pinned:
    rng = np.random.default_rng(10)
    parts = ["belt worn", "oil low", "valve stuck", "pump loud", "filter full", "door open"]
    notes = [" and ".join(rng.choice(parts, 3, replace=False)) + " on line two" for _ in range(120)]
    notes[100] = "gorilla entered the warehouse singing loudly at midnight"
    notes[30] = ""
    frame = pd.DataFrame({"note": notes, "hours": rng.gamma(6, 2, 120).round(1)})
    frame.loc[110, "hours"] = 90.0
    return Pinned(frame, {"text": ("note",)})


def segments() -> Pinned:
    rng = np.random.default_rng(11)
    role = rng.choice(["intern", "clerk", "boss"], 180)
    pay = np.select([role == "intern", role == "clerk"], [12.0, 30.0], 95.0) + rng.normal(0, 2, 180)
    frame = pd.DataFrame({"role": role, "pay": pay.round(2), "age": rng.integers(20, 65, 180)})
    frame["land"] = rng.choice(["DE", "FR"], 180)
    row = 120 + int(np.flatnonzero(role[120:] == "intern")[0])
    frame.loc[row, "pay"] = 94.0
    return Pinned(frame, by=("role",))


def nested_segments() -> Pinned:
    found = segments()
    return Pinned(found.frame, by=("land", "role"))


def series() -> Pinned:
    rng = np.random.default_rng(12)
    hours = np.arange(168)
    stamps = pd.Timestamp("2022-05-02") + pd.to_timedelta(hours, unit="h")
    load = 50 + 20 * np.sin(2 * np.pi * hours / 24) + rng.normal(0, 2, 168)
    load[120:123] += 40
    load[140:150] = load[140]
    frame = pd.DataFrame({"at": stamps.strftime("%Y-%m-%d %H:%M"), "load": load.round(2)})
    frame["heat"] = (15 + rng.normal(0, 1, 168)).round(2)
    return Pinned(frame, time="at")


def zeros() -> Pinned:
    rng = np.random.default_rng(13)
    frame = pd.DataFrame({name: rng.gamma(2, 50, 160).round() for name in ("gain", "loss")})
    frame[rng.random(frame.shape) < 0.85] = 0.0
    frame["age"] = rng.integers(18, 80, 160)
    frame.loc[128, "gain"] = 9_000.0
    return Pinned(frame)


def long_tails() -> Pinned:
    rng = np.random.default_rng(14)
    frame = pd.DataFrame({name: np.exp(rng.normal(3, 1.2, 150)).round(2) for name in "xyz"})
    frame.loc[[105, 117], "y"] = [60_000.0, 0.01]
    return Pinned(frame)


def repeats() -> Pinned:
    rng = np.random.default_rng(15)
    frame = pd.DataFrame({"order": [f"A-{1000 + i}" for i in range(130)]})
    frame["amount"] = rng.gamma(3, 40, 130).round(2)
    frame["paid"] = rng.choice(["yes", "no"], 130, p=[0.97, 0.03])
    frame.loc[[100, 111]] = frame.loc[[12, 12]].to_numpy()
    frame.loc[121, "order"] = frame.loc[122, "order"]
    return Pinned(frame, {"id_column": "order"})


def written_numbers() -> Pinned:
    rng = np.random.default_rng(16)
    euros = [f"{v:.2f} €".replace(".", ",") for v in rng.gamma(5, 30, 140)]
    euros[110] = "n/a"
    frame = pd.DataFrame({"cost": euros, "share": [f"{v:.1f} %" for v in rng.uniform(2, 9, 140)]})
    frame["code"] = [f"X{i % 7}-{i % 10}" for i in range(140)]
    frame.loc[130, "code"] = "12//34"
    frame.loc[125, "share"] = "88.0 %"
    return Pinned(frame)


def kernel_detector() -> Pinned:
    found = numbers()
    return Pinned(found.frame, {"detector": "OneClassSVM", "contamination": 0.05})


def sampled_method() -> Pinned:
    found = segments()
    settings = {"detector": "GaussianMixture", "method": "AnomalyShapley", "alarms": 3, "exclude": ("land",)}
    return Pinned(found.frame.iloc[:90].reset_index(drop=True), settings)


def marked_ordinary() -> Pinned:
    found = placeholders()
    label = np.where(np.arange(180) % 3 == 0, "new", "checked")
    return Pinned(found.frame.assign(state=label), {"normal": "state=checked", "fdr": 0.2})


TABLES: dict[str, Callable[[], Pinned]] = {
    make.__name__: make
    for make in (
        numbers,
        few_rows,
        labels,
        dates,
        placeholders,
        slips,
        sums,
        gaps,
        dropped_gaps,
        constants,
        texts,
        segments,
        nested_segments,
        series,
        zeros,
        long_tails,
        repeats,
        written_numbers,
        kernel_detector,
        sampled_method,
        marked_ordinary,
    )
}
