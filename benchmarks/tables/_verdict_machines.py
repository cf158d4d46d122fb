"""Generated tables of measurements: sensors, telemetry, labs, web logs, geography."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.tables._verdict_draws import CITIES, COUNTRIES, Draw, Schema


def sensors(g: Draw) -> dict[str, object]:
    day = g.between(72, 300)
    temperature = g.between(12, 24) + g.between(1.5, 4) * g.wave(day, (0.1, 0.3))
    humidity = 55 - g.between(5, 8) * g.follow(temperature, (0.8, 0.95))
    current = g.between(4, 12) + g.between(0.3, 0.8) * g.wave(day, (0.2, 0.5))
    voltage = g.normal((225, 235), (0.5, 2))
    start = pd.Timestamp("2025-03-01") + pd.Timedelta(hours=int(g.rng.integers(2_000)))
    return {
        "time": pd.date_range(start, periods=g.n, freq=f"{g.rng.choice([1, 5, 10])}min"),
        "mode": g.levels(("run", "idle", "clean"), count=(2, 3), least=0.05),
        "temperature": temperature.round(2),
        "humidity": humidity.round(1),
        "pressure": (g.between(990, 1_020) + g.between(2, 6) * g.wave(6 * day, (0.05, 0.2))).round(1),
        "vibration": g.lognormal((0.2, 1), (0.1, 0.3)).round(3),
        "voltage": voltage.round(2),
        "current": current.round(3),
        "power": (voltage.round(2) * current.round(3)).round(1),
        "flow": g.missing(np.abs(g.normal((20, 60), (2, 5))).round(2), g.between(0, 0.1)),
        **g.extras(6),
    }


SENSORS = Schema(
    bell=("voltage", "flow", "temperature"),
    series=("temperature", "pressure", "current"),
    slips=("pressure", "voltage"),
    positive=("voltage", "pressure", "vibration"),
    nonzero=("voltage", "pressure", "flow"),
    celsius=("temperature",),
    levels=("mode",),
    events=("time",),
    products=(("power", "voltage", "current"),),
    correlated=(("temperature", "humidity"), ("current", "power")),
    swaps=(("temperature", "pressure"), ("voltage", "current")),
)


def telemetry(g: Draw) -> dict[str, object]:
    gear = 1 + g.rng.binomial(5, 0.6, g.n)
    speed = np.clip(gear * g.between(14, 18) + g.normal((0, 1), (2, 4)), 1, None)
    rpm = 900 + speed / gear * g.between(60, 100) + g.rng.normal(size=g.n) * g.between(30, 60)
    models = np.array(["A1", "A2", "B1", "C3"], dtype=object)
    which = g.rng.integers(4, size=g.n)
    towns = np.array(CITIES[: g.rng.integers(3, 7)], dtype=object)
    depot = g.rng.integers(len(towns), size=g.n)
    latitude, longitude = g.rng.uniform(41, 54, len(towns)), g.rng.uniform(-3, 18, len(towns))
    return {
        "time": g.moments(days=(5, 40), ordered=True),
        "vehicle": g.levels([f"V{i:02d}" for i in range(30)], count=(10, 30), least=0.02),
        "model": models[which],
        "fuel": np.array(["diesel", "diesel", "electric", "hybrid"], dtype=object)[which],
        "depot": towns[depot],
        "latitude": (latitude[depot] + 0.15 * g.rng.normal(size=g.n)).round(5),
        "longitude": (longitude[depot] + 0.2 * g.rng.normal(size=g.n)).round(5),
        "gear": gear,
        "speed_kmh": speed.round(1),
        "rpm": rpm.round(),
        "engine_temp_c": g.normal((82, 92), (1.5, 4)).round(1),
        "battery_v": g.normal((12.2, 13.8), (0.1, 0.3)).round(2),
        "fuel_pct": (100 * g.rng.beta(2, 2, g.n)).round(1),
        "load_kg": g.normal((700, 1_500), (60, 150)).round(),
        "latency_ms": g.lognormal((40, 150), (0.2, 0.4)).round(1),
        "retries": g.rng.poisson(g.between(0.05, 0.5), g.n),
        **g.extras(6),
    }


TELEMETRY = Schema(
    bell=("engine_temp_c", "battery_v", "load_kg"),
    series=("engine_temp_c", "battery_v"),
    slips=("load_kg", "latency_ms", "battery_v"),
    positive=("speed_kmh", "rpm", "load_kg"),
    nonzero=("engine_temp_c", "battery_v", "load_kg"),
    percents=("fuel_pct",),
    counts=("retries",),
    celsius=("engine_temp_c",),
    kilograms=("load_kg",),
    milliseconds=("latency_ms",),
    levels=("model", "depot", "fuel"),
    letters=("depot",),
    events=("time",),
    dependencies=(("model", "fuel"),),
    correlated=(("gear", "speed_kmh"),),
    swaps=(("engine_temp_c", "battery_v"),),
    coordinates=(("latitude", "longitude", "depot"),),
)


def labs(g: Draw) -> dict[str, object]:
    sex = g.levels(("F", "M"), count=(2, 2), least=0.3)
    age = np.clip(g.normal((45, 62), (12, 18)), 18, 97).round()
    height = np.where(sex == "M", 178.0, 166.0) + g.rng.normal(size=g.n) * 7
    weight = (height / 100) ** 2 * (g.between(23, 27) * np.exp(g.between(0.04, 0.1) * g.rng.normal(size=g.n)))
    born = pd.Timestamp("2025-06-30") - pd.to_timedelta(
        (age * 365.25 + g.rng.integers(0, 365, g.n)).round(), unit="D"
    )
    tests = {
        "tsh": g.lognormal((1.2, 2.2), (0.3, 0.6)).round(2),
        "glucose": g.lognormal((85, 105), (0.1, 0.2)).round(),
        "creatinine": g.lognormal((0.8, 1.0), (0.15, 0.25)).round(2),
        "sodium": g.normal((138, 141), (1.5, 3)).round(1),
        "potassium": g.normal((4.0, 4.4), (0.25, 0.4)).round(2),
        "haemoglobin": (
            np.where(sex == "M", 15.0, 13.4) + g.between(0.7, 1.2) * g.rng.normal(size=g.n)
        ).round(1),
        "alt": g.lognormal((18, 30), (0.4, 0.7)).round(),
    }
    share = g.between(0.3, 0.5)
    pregnant = np.where((sex == "F") & (age < 45), g.rng.choice(["yes", "no"], g.n, p=[0.15, 0.85]), "no")
    tests["haematocrit"] = (3 * tests["haemoglobin"] * np.exp(0.015 * g.rng.normal(size=g.n))).round(1)
    both = g.rng.random(g.n) < share
    measured = {k: g.missing(v, share * g.between(0.6, 1.4)) for k, v in tests.items()}
    for name in ("haemoglobin", "haematocrit"):
        measured[name] = pd.Series(tests[name]).mask(both)
    return {
        "sample": [f"L-{i:06d}" for i in g.rng.permutation(g.n) + 120_000],
        "visit": g.moments(days=(60, 300)).normalize(),
        "birth_date": born,
        "age": age,
        "sex": sex,
        "pregnant": pregnant,
        "ward": g.levels(("med", "surg", "icu", "neuro", "onco"), count=(4, 5), least=0.03),
        "height_cm": height.round(),
        "weight_kg": weight.round(1),
        "body_temp_c": g.normal((36.6, 37.0), (0.3, 0.5)).round(1),
        **measured,
        **g.extras(3),
    }


LABS = Schema(
    bell=("sodium", "potassium", "body_temp_c"),
    slips=("glucose", "creatinine", "potassium"),
    positive=("weight_kg", "sodium"),
    nonzero=("height_cm", "sodium", "weight_kg"),
    ages=("age",),
    celsius=("body_temp_c",),
    kilograms=("weight_kg",),
    levels=("ward", "sex"),
    events=("visit",),
    births=("birth_date",),
    orders=(("birth_date", "visit"),),
    ids=("sample",),
    codes=("sample",),
    pairs=(("sex", "M", "pregnant", "yes"),),
    correlated=(("haemoglobin", "haematocrit"),),
    swaps=(("height_cm", "weight_kg"), ("sodium", "potassium")),
)


def weblogs(g: Draw) -> dict[str, object]:
    method = g.levels(("GET", "POST", "HEAD", "PUT"), count=(3, 4), least=0.03)
    cache = np.where(method == "GET", g.levels(("HIT", "MISS"), count=(2, 2), least=0.2), "MISS")
    scheme = g.levels(("https", "http"), count=(2, 2), least=0.1)
    size = g.lognormal((2_000, 20_000), (0.8, 1.4)).round()
    duration = np.exp(3.5 + g.between(0.3, 0.7) * g.follow(np.log(size), (0.5, 0.9)))
    return {
        "time": g.moments(days=(2, 20), ordered=True),
        "client": [f"10.{a}.{b}.{c}" for a, b, c in g.rng.integers(0, 60, (g.n, 3))],
        "method": method,
        "path": g.long_tail("/page/", count=400),
        "status": g.levels((200, 304, 404, 302, 500), count=(4, 5), least=0.02),
        "bytes": size,
        "duration_ms": duration.round(1),
        "cache": cache,
        "scheme": scheme,
        "port": np.where(scheme == "https", 443, 80),
        "country": g.levels(COUNTRIES, count=(6, 12), least=0.01),
        "agent": g.long_tail("Browser ", count=60),
        "referrer": g.missing(g.long_tail("site", count=50), g.between(0.3, 0.7)),
        **g.extras(3),
    }


WEBLOGS = Schema(
    positive=("bytes", "duration_ms"),
    milliseconds=("duration_ms",),
    levels=("method", "scheme", "country", "cache"),
    events=("time",),
    dependencies=(("scheme", "port"),),
    pairs=(("method", "POST", "cache", "HIT"),),
    swaps=(),
)


def geography(g: Draw) -> dict[str, object]:
    names = np.array(CITIES[: g.rng.integers(5, 13)], dtype=object)
    states = np.array(["DE", "CH", "FR", "ES", "SE", "IT", "PL"], dtype=object)[
        g.rng.integers(7, size=len(names))
    ]
    which = g.rng.choice(len(names), g.n, p=g.rng.dirichlet(np.full(len(names), 8.0)))
    codes = which * 10 + g.rng.integers(0, 8, g.n)
    area = g.lognormal((5, 40), (0.3, 0.6)).round(1)
    density = g.lognormal((300, 3_000), (0.3, 0.7)).round(1)
    elevation = g.rng.uniform(20, 600, len(names))
    latitude, longitude = g.rng.uniform(37, 58, len(names)), g.rng.uniform(-6, 20, len(names))
    return {
        "place": np.arange(g.n) + 70_001,
        "zip": [f"{10_000 + 137 * c:05d}" for c in codes],
        "city": names[which],
        "country": states[which],
        "latitude": (latitude[which] + 0.08 * g.rng.normal(size=g.n)).round(5),
        "longitude": (longitude[which] + 0.1 * g.rng.normal(size=g.n)).round(5),
        "elevation_m": (elevation[which] + g.between(3, 12) * g.rng.normal(size=g.n)).round(1),
        "area_km2": area,
        "density": density,
        "population": (area * density).round(),
        "distance_m": g.lognormal((800, 3_000), (0.2, 0.4)).round(),
        "kind": g.levels(("village", "suburb", "centre", "industry"), count=(3, 4), least=0.05),
        "green_pct": (100 * g.rng.beta(2, 4, g.n)).round(1),
        "surveyed": g.moments(days=(100, 300)).normalize(),
        **g.extras(4),
    }


GEOGRAPHY = Schema(
    bell=(),
    positive=("area_km2", "population", "distance_m"),
    nonzero=("distance_m",),
    percents=("green_pct",),
    metres=("distance_m",),
    levels=("kind", "city", "country"),
    letters=("city",),
    events=("surveyed",),
    ids=("place",),
    products=(("population", "area_km2", "density"),),
    dependencies=(("zip", "city"), ("city", "country")),
    clusters=(("latitude", "longitude", "elevation_m"),),
    coordinates=(("latitude", "longitude", "city"),),
)
