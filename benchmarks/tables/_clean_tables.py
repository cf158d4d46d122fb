"""Tables without planted errors: generated ones whose columns are mostly 0, and public ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

SHARES = (0.5, 0.8, 0.9, 0.95, 0.99)
SHAPES = ("lognormal", "normal", "integers", "few values", "signed")
ADULT = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *(
        "relationship",
        "race",
        "sex",
        "capital-gain",
        "capital-loss",
        "hours-per-week",
        "native-country",
        "income",
    ),
)
ROWS = 3_000


def amounts(rng: np.random.Generator, shape: str, n: int) -> np.ndarray:
    """What cells hold that are not 0."""
    if shape == "lognormal":
        return np.exp(rng.normal(6, 1, n)).round(2)
    if shape == "normal":
        return rng.normal(1_900, 350, n).round()
    if shape == "integers":
        return 1.0 + rng.geometric(0.15, n)
    if shape == "few values":
        return rng.choice([1.0, 2.0, 3.0, 5.0, 10.0], n, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    return rng.normal(0, 100, n).round(1)


def mostly_zero(seed: int, n: int, share: float, shape: str, *, goes_together: bool) -> pd.DataFrame:
    """Six plain columns, and three (or six that go together) with this share of zeros."""
    rng = np.random.default_rng(seed)
    mood = rng.normal(size=n)
    table = pd.DataFrame({"age": np.clip(rng.gamma(9, 4.3, n).round(), 17, 95).astype(int)})
    table["height"] = rng.normal(172, 9, n).round(1)
    table["weight"] = (0.9 * (table["height"] - 100) + rng.normal(5, 9, n)).round(1)
    table["income"] = np.exp(rng.normal(10, 0.6, n) + 0.2 * mood).round()
    table["city"] = rng.choice(["Berlin", "Paris", "Rome", "Oslo"], n, p=[0.5, 0.3, 0.15, 0.05])
    table["rating"] = rng.integers(1, 6, n)
    for j in range(6 if goes_together else 3):
        tendency = 0.8 * mood + 0.6 * rng.normal(size=n) if goes_together else rng.normal(size=n)
        some = tendency > np.quantile(tendency, share)
        drawn = amounts(rng, shape, int(some.sum()))
        if goes_together:
            drawn = np.sort(drawn)[np.argsort(np.argsort(tendency[some]))]
        column = np.zeros(n)
        column[some] = drawn
        table[f"extra {j + 1}"] = column
    return table


def other_shapes(seed: int, n: int) -> pd.DataFrame:
    """Columns as people have them: long-tailed counts, capped shares, times, codes, rounded money."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"visits": rng.negative_binomial(0.6, 0.02, n)})
    table["completion pct"] = np.minimum(100, (115 * rng.beta(6, 1.2, n)).round(1))
    table["created"] = 1_700_000_000 + np.sort(rng.integers(0, 60 * 86_400, n))
    table["zip"] = rng.choice(
        [10115, 10117, 20095, 50667, 60311, 80331], n, p=[0.3, 0.25, 0.2, 0.13, 0.1, 0.02]
    )
    table["status"] = rng.choice([0, 1, 9], n, p=[0.99, 0.008, 0.002])
    table["salary"] = 100 * (np.exp(rng.normal(8, 0.5, n)) / 100).round()
    table["downloads"] = np.exp(rng.normal(2, 2.2, n)).round()
    table["battery"] = np.where(rng.random(n) < 0.9, 100, rng.uniform(5, 100, n).round())
    table["errors"] = np.where(rng.random(n) < 0.93, 0, rng.geometric(0.3, n))
    table["change"] = np.where(rng.random(n) < 0.85, 0, rng.normal(0, 50, n).round(2))
    table["price"] = rng.choice(
        [9.99, 19.99, 49.99, 99.0, 199.0, 499.0], n, p=[0.4, 0.3, 0.15, 0.1, 0.04, 0.01]
    )
    table["branch"] = rng.choice(["north", "south", "east"], n)
    return table


def adult(part: str) -> pd.DataFrame:
    """UCI Adult census income: capital-gain and capital-loss are 0 in 92 and 95 % of the rows."""
    path = Path(os.environ.get("TELLWHY_DATA", ".")) / f"adult.{part}.gz"
    return pd.read_csv(path, header=None, names=list(ADULT), skipinitialspace=True)


def public_tables() -> Iterator[tuple[str, pd.DataFrame]]:
    """Ordinary rows of public tables, at most 3,000 of each."""
    yield "Adult, rows 20,000–23,000 *", adult("data").iloc[20_000:23_000]
    yield "Adult (test part), rows 5,000–8,000", adult("test").iloc[5_000:8_000]
    yield from _stored()
    breast = datasets.load_breast_cancer(as_frame=True)
    yield "breast cancer, benign", breast.data[breast.target == 1]
    yield "wine", datasets.load_wine(as_frame=True).data


def _stored() -> Iterator[tuple[str, pd.DataFrame]]:
    folder = Path(os.environ.get("TELLWHY_DATA", "."))
    names = (folder / "nslkdd_columns.txt").read_text(encoding="utf-8").split()
    flows = pd.read_csv(folder / "nslkdd_KDDTrain+_20Percent.txt.gz", header=None)
    flows.columns = [*names, *(f"more {j}" for j in range(flows.shape[1] - len(names)))]
    label = next(name for name in flows if (flows[name] == "normal").any())
    yield "NSL-KDD, normal traffic **", flows.loc[flows[label] == "normal", names[:41]].head(ROWS)
    with np.load(folder / "covtype_93k.npz") as data:
        yield "CoverType, class 2 **", _frame(data["X_num"][data["y"] == 2][:ROWS], data["feature_names"])
    with np.load(folder / "odds_thyroid.npz") as data:
        yield (
            "thyroid, ordinary rows",
            _frame(data["X"][data["y"].ravel() == 0][:ROWS], data["feature_names"]),
        )
    with np.load(folder / "mc_satimage.npz") as data:
        yield "Landsat, first class", _frame(data["X"][data["y"] == data["y"].min()], range(36))


def _frame(X: np.ndarray, names: object) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"{name}" for name in names][: X.shape[1]])
