"""Tables with nothing wrong, of many kinds, with parameters drawn at random."""

import numpy as np
import pandas as pd


def normal(rng, n):
    p = int(rng.integers(3, 10))
    mix = rng.normal(size=(p, p))
    return pd.DataFrame(rng.normal(size=(n, p)) @ mix + rng.normal(0, 20, size=p)).add_prefix("x")


def heavy_tails(rng, n):
    freedom = rng.uniform(1.5, 4)
    table = pd.DataFrame(rng.standard_t(freedom, size=(n, 5)) * rng.lognormal(0, 2, size=5)).add_prefix("t")
    table["income"] = rng.lognormal(10, rng.uniform(0.3, 1.5), size=n).round(2)
    table["pareto"] = rng.pareto(rng.uniform(1, 3), size=n)
    return table


def integers(rng, n):
    return pd.DataFrame(
        {
            "visits": rng.poisson(rng.uniform(0.3, 20), size=n),
            "calls": rng.negative_binomial(1, rng.uniform(0.02, 0.3), size=n),
            "age": rng.integers(18, 95, size=n),
            "score": rng.normal(rng.uniform(2, 60), rng.uniform(1, 15), size=n).round().astype(int),
            "digits": rng.integers(0, 10, size=n),
        }
    )


def categories(rng, n):
    table = {}
    for j in range(5):
        k = int(rng.integers(2, 9))
        shares = rng.dirichlet(np.full(k, rng.uniform(1, 5)))
        table[f"c{j}"] = rng.choice([f"level {chr(97 + i)}{chr(97 + i)}" for i in range(k)], size=n, p=shares)
    return pd.DataFrame(table)


def long_tailed_categories(rng, n):
    k = 300
    shares = 1 / np.arange(1, k + 1) ** rng.uniform(0.8, 2)
    words = ["".join(rng.choice(list("abcdeilmnorst"), size=7)) for _ in range(k)]
    table = pd.DataFrame({"product": rng.choice(words, size=n, p=shares / shares.sum())})
    table["shop"] = rng.choice(words[:40], size=n, p=(shares[:40] / shares[:40].sum()))
    table["amount"] = rng.gamma(2, 20, size=n).round(2)
    return table


def half_missing(rng, n):
    table = pd.DataFrame(rng.lognormal(1, 0.5, size=(n, 8))).add_prefix("lab").round(3)
    table = table.mask(rng.random(size=table.shape) < rng.uniform(0.2, 0.5))
    panel = rng.random(n) < 0.1
    table.loc[panel, ["lab1", "lab2", "lab3", "lab4"]] = np.nan
    table["ward"] = rng.choice(["A", "B", "C"], size=n)
    return table


def many_zeros(rng, n):
    table = {}
    for name in ("rain", "claims", "purchases", "overtime"):
        is_zero = rng.random(n) < rng.uniform(0.1, 0.95)
        table[name] = np.where(is_zero, 0, rng.gamma(rng.uniform(0.5, 3), 10, size=n).round(1))
    table["children"] = rng.poisson(0.6, size=n)
    return pd.DataFrame(table)


def ratings(rng, n):
    mood = rng.normal(size=n)
    columns = {f"q{j}": np.clip(np.round(3 + mood + rng.normal(size=n)), 1, 5).astype(int) for j in range(8)}
    return pd.DataFrame(
        {**columns, "sex": rng.choice(["f", "m"], size=n), "age": rng.integers(18, 80, size=n)}
    )


def coordinates(rng, n):
    centre = rng.uniform([-60, -170], [60, 170], size=(6, 2))
    place = centre[rng.integers(0, 6, size=n)] + rng.normal(0, 0.5, size=(n, 2))
    return pd.DataFrame(
        {"lat": place[:, 0], "lon": place[:, 1], "height": rng.gamma(1.5, 200, size=n).round()}
    )


def codes(rng, n):
    status = rng.choice([200, 301, 404, 500], size=n, p=[0.85, 0.08, 0.05, 0.02])
    return pd.DataFrame(
        {
            "id": np.arange(n) + 1000,
            "zip": rng.choice([f"{z:05d}" for z in rng.integers(10000, 99999, size=60)], size=n),
            "status": status.astype(str),
            "bytes": rng.lognormal(8, 2, size=n).astype(int),
            "method": rng.choice(["GET", "POST", "PUT"], size=n, p=[0.8, 0.15, 0.05]),
        }
    )


def orders(rng, n):
    price = rng.lognormal(3, 0.7, size=n).round(2)
    quantity = rng.integers(1, 9, size=n)
    shipping = rng.choice([0, 4.99, 9.99], size=n)
    ordered = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.uniform(0, 500, size=n), unit="D").floor("s")
    city = rng.choice(["Berlin", "Paris", "Lyon", "Rome", "Bonn"], size=n)
    country = pd.Series(city).map({"Berlin": "DE", "Bonn": "DE", "Paris": "FR", "Lyon": "FR", "Rome": "IT"})
    return pd.DataFrame(
        {
            "ordered": ordered,
            "delivered": ordered + pd.to_timedelta(rng.gamma(2, 2, size=n), unit="D").floor("s"),
            "price": price,
            "quantity": quantity,
            "shipping": shipping,
            "total": (price * quantity + shipping).round(2),
            "city": city,
            "country": country,
            "payment": rng.choice(["card", "invoice", "paypal"], size=n),
        }
    )


def series(rng, n):
    hours = pd.date_range("2024-01-01", periods=n, freq="h")
    day = np.sin(np.arange(n) / 24 * 2 * np.pi)
    walk = np.cumsum(rng.normal(size=n)) * 0.1
    return pd.DataFrame(
        {
            "time": hours,
            "temperature": (15 + 8 * day + rng.normal(0, 1, size=n)).round(1),
            "light": np.maximum(0, 500 * day + rng.normal(0, 30, size=n)).round(),
            "level": (10 + walk).round(2),
            "humidity": np.clip(60 - 20 * day + rng.normal(0, 8, size=n), 0, 100).round(),
            "state": rng.choice(["on", "off"], size=n),
        }
    )


def correlated(rng, n):
    size = rng.normal(170, 10, size=n)
    weight = 0.9 * (size - 100) + rng.normal(0, 8, size=n)
    return pd.DataFrame(
        {
            "height": size.round(1),
            "weight": weight.round(1),
            "systolic": (120 + rng.normal(0, 12, size=n)).round(),
            "diastolic": (80 + rng.normal(0, 8, size=n)).round(),
            "bmi": (weight / (size / 100) ** 2).round(1),
            "before": (x := rng.normal(50, 10, size=n)).round(2),
            "after": (x + rng.normal(2, 1, size=n)).round(2),
        }
    )


def clusters(rng, n):
    centre = rng.normal(0, 10, size=(4, 6))
    which = rng.choice(4, size=n, p=[0.5, 0.3, 0.15, 0.05])
    table = pd.DataFrame(centre[which] + rng.normal(size=(n, 6))).add_prefix("v")
    table["kind"] = np.array(["p", "q", "r", "s"])[which]
    return table


def tiny_categories(rng, n):
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], size=n),
            "smoker": rng.random(n) < 0.2,
            "group": rng.choice(["a", "b", "c"], size=n),
            "flag": (rng.random(n) < 0.002).astype(int),
        }
    )


CLEAN = (
    normal, heavy_tails, integers, categories, long_tailed_categories, half_missing, many_zeros, ratings,
    coordinates, codes, orders, series, correlated, clusters, tiny_categories,
)  # fmt: skip
