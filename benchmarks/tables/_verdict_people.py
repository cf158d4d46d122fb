"""Generated tables that were written after the quality pass: staff and trips."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.tables._verdict_draws import CITIES, Draw, Schema


def staff(g: Draw) -> dict[str, object]:
    departments = np.array(["sales", "research", "finance", "support", "legal"], dtype=object)
    teams = np.array(
        [f"{d[:3]}{i}" for d in departments for i in range(1, g.rng.integers(3, 6))], dtype=object
    )
    team = g.levels(g.rng.permutation(teams), count=(10, len(teams)), least=0.02)
    grade = 1 + g.rng.binomial(6, g.between(0.2, 0.5), g.n)
    salary = (g.between(24_000, 40_000) * 1.18**grade * np.exp(0.06 * g.rng.normal(size=g.n))).round(-2)
    contract = g.levels(("permanent", "temporary", "trainee"), count=(2, 3), least=0.06)
    bonus = pd.Series((salary * g.rng.choice([0.02, 0.05, 0.08], g.n)).round(2)).mask(contract == "temporary")
    age = np.clip(g.normal((36, 46), (8, 11)), 18, 67).round()
    hired = pd.Timestamp("2025-09-01") - pd.to_timedelta(
        (g.rng.beta(1, 3, g.n) * 9_000).astype(int), unit="D"
    )
    granted = g.rng.integers(24, 33, g.n)
    taken = g.rng.binomial(granted, g.between(0.3, 0.7))
    review = pd.Series(hired + pd.to_timedelta(g.rng.integers(30, 2_500, g.n), unit="D"))
    return {
        "employee": [f"E{i:05d}" for i in g.rng.permutation(g.n) + 20_000],
        "team": team,
        "department": pd.Series(team).str[:3].map({d[:3]: d for d in departments}),
        "grade": grade,
        "contract": contract,
        "remote": np.where(contract == "trainee", "no", g.rng.choice(["yes", "no"], g.n, p=[0.4, 0.6])),
        "site": g.levels(CITIES, count=(4, 9), least=0.03),
        "age": age,
        "hired": hired,
        "last_review": review.where(review < pd.Timestamp("2026-01-01")),
        "salary": salary,
        "bonus": bonus,
        "hours": g.normal((36, 40), (1, 2.5)).round(1),
        "sick_days": g.rng.negative_binomial(1, g.between(0.1, 0.3), g.n),
        "leave_taken": taken,
        "leave_left": granted - taken,
        "leave_granted": granted,
        "score": g.missing(np.clip(g.normal((3, 3.8), (0.6, 0.9)).round(), 1, 5), g.between(0.05, 0.3)),
        **g.extras(3),
    }


STAFF = Schema(
    bell=("hours",),
    slips=("salary",),
    positive=("salary", "hours"),
    nonzero=("salary", "hours"),
    ages=("age",),
    ratings=("score",),
    counts=("sick_days", "leave_taken"),
    levels=("contract", "department", "site"),
    letters=("site",),
    events=("hired",),
    orders=(("hired", "last_review"),),
    ids=("employee",),
    codes=("employee",),
    sums=(("leave_granted", "leave_taken", "leave_left"),),
    dependencies=(("team", "department"),),
    correlated=(("grade", "salary"),),
    swaps=(("hours", "salary"), ("age", "salary")),
    absent=(("contract", "temporary", "bonus"),),
)


def trips(g: Draw) -> dict[str, object]:
    zones = np.array([f"Z{i:02d}" for i in range(1, g.rng.integers(12, 40))], dtype=object)
    boroughs = np.array(["Centre", "Nørrebro", "Harbour", "Vällingby"], dtype=object)[
        g.rng.integers(4, size=len(zones))
    ]
    which = g.rng.integers(len(zones), size=g.n)
    latitude, longitude = g.rng.uniform(55.5, 56.2, len(zones)), g.rng.uniform(11.8, 12.8, len(zones))
    distance = (0.4 + g.lognormal((2, 6), (0.4, 0.7))).round(2)
    minutes = (distance * g.between(2, 4) * np.exp(0.2 * g.rng.normal(size=g.n)) + 2).round(1)
    fare = (g.between(2, 4) + distance * g.between(1.2, 2.5) + 0.3 * g.rng.random(g.n)).round(2)
    payment = g.levels(("card", "cash", "app", "voucher"), count=(3, 4), least=0.05)
    vendor = g.levels(("Blue", "Green", "Yellow"), count=(3, 3), least=0.1)
    tip = (fare * g.rng.choice([0, 0.1, 0.15, 0.2], g.n)).round(2)
    pickup = g.moments(days=(10, 60), ordered=True)
    return {
        "trip": np.arange(g.n) + int(g.rng.integers(10_000, 900_000)),
        "pickup": pickup,
        "dropoff": pickup + pd.to_timedelta((minutes * 60).round(), unit="s"),
        "vendor": vendor,
        "zone": zones[which],
        "borough": boroughs[which],
        "pickup_lat": (latitude[which] + 0.004 * g.rng.normal(size=g.n)).round(5),
        "pickup_lon": (longitude[which] + 0.006 * g.rng.normal(size=g.n)).round(5),
        "distance_km": distance,
        "minutes": minutes,
        "passengers": 1 + g.rng.binomial(5, g.between(0.05, 0.3), g.n),
        "payment": np.where((vendor == "Green") & (payment == "cash"), "card", payment),
        "fare": fare,
        "tip": tip,
        "total": (fare + tip).round(2),
        "driver_age": np.clip(g.normal((38, 48), (7, 11)), 20, 75).round(),
        "battery_pct": (100 * g.rng.beta(3, 2, g.n)).round(),
        "cabin_c": g.normal((19, 22), (0.6, 1.2)).round(1),
        **g.extras(4),
    }


TRIPS = Schema(
    bell=("cabin_c", "driver_age"),
    series=("cabin_c",),
    positive=("fare", "distance_km", "total"),
    nonzero=("cabin_c", "driver_age"),
    ages=("driver_age",),
    percents=("battery_pct",),
    counts=("passengers",),
    celsius=("cabin_c",),
    levels=("vendor", "payment", "borough"),
    letters=("borough",),
    events=("pickup",),
    orders=(("pickup", "dropoff"),),
    ids=("trip",),
    sums=(("total", "fare", "tip"),),
    dependencies=(("zone", "borough"),),
    pairs=(("vendor", "Green", "payment", "cash"),),
    correlated=(("distance_km", "fare"),),
    swaps=(("driver_age", "cabin_c"),),
    coordinates=(("pickup_lat", "pickup_lon", "zone"),),
)
