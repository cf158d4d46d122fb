"""What others make of the same tables: isolation forest with shap, ECOD, nearest neighbours, LOF, simple rules.

All four detectors read one matrix: numbers as they are (missing ones as the median, with a column that says so),
dates as days, hour and day of the week, categories as one column per level, columns of texts that hardly repeat as
their lengths. Neighbours and LOF read it standardised. Isolation forest is explained by shap, ECOD by its own scores
of columns, the other two by the largest standardised deviation, as PyOD does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import shap
from pyod.models.ecod import ECOD
from pyod.models.knn import KNN
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor

MOST_LEVELS = 50
SENTINELS = (-9999, -999, -99, -1, 99, 999, 9999, 99999)
WORDS = ("unknown", "?", "n/a", "na", "none", "null", "-", "xxx", "test")
DAYS = tuple(pd.Timestamp(day) for day in ("1900-01-01", "1970-01-01", "9999-12-31"))
NAMES = ("IsolationForest + shap", "ECOD", "neighbours", "LOF", "simple rules")


@dataclass(frozen=True, eq=False)
class Judged:
    """A peer's verdict: how odd each row is, how many rows it flags by itself (None: it has no say), why."""

    scores: np.ndarray
    n_flagged: int | None
    causes: list[str]  # of the asked rows: the column it names


@dataclass(frozen=True, eq=False)
class Matrix:
    values: np.ndarray
    columns: np.ndarray  # of each feature: the column it comes from
    standard: np.ndarray

    def cause(self, per_feature: np.ndarray) -> str:
        sums = pd.Series(per_feature).groupby(self.columns).sum()
        return str(sums.idxmax())


def encoded(frame: pd.DataFrame) -> Matrix:
    """The matrix that all detectors read."""
    parts, owners = [], []
    for name in frame.columns:
        for feature in _features(frame[name]):
            parts.append(np.asarray(feature, dtype=float))
            owners.append(name)
    values = np.column_stack(parts)
    varied = values.std(axis=0) > 0
    values = values[:, varied]
    standard = (values - values.mean(axis=0)) / values.std(axis=0)
    return Matrix(values, np.array(owners, dtype=object)[varied], standard)


def _features(cells: pd.Series) -> list[np.ndarray]:
    gone = cells.isna().to_numpy()
    flag = [gone] if gone.any() else []
    if pd.api.types.is_datetime64_any_dtype(cells.dtype):
        days = (cells - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
        parts = [days, cells.dt.hour.astype(float), cells.dt.dayofweek.astype(float)]
        return [part.fillna(part.median()).to_numpy() for part in parts] + flag
    numbers = pd.to_numeric(cells, errors="coerce")
    if numbers.notna().sum() > 0.9 * cells.notna().sum():
        bad = numbers.isna().to_numpy()
        return [numbers.astype(float).fillna(numbers.median()).to_numpy()] + ([bad] if bad.any() else [])
    texts = cells.astype(str)
    levels = texts.value_counts()
    if len(levels) <= MOST_LEVELS:
        return [(texts == level).to_numpy() for level in levels.index]
    if len(levels) > 0.9 * len(texts):
        return [texts.str.len().to_numpy()]
    return [-np.log(texts.map(levels).to_numpy(float))]


def judge(frame: pd.DataFrame, rows: list[int]) -> dict[str, Judged]:
    """Verdicts of all peers; the asked rows are explained."""
    matrix = encoded(frame)
    return {
        "IsolationForest + shap": isolation_forest(matrix, rows),
        "ECOD": ecod(matrix, rows),
        "neighbours": by_deviation(matrix, KNN(n_neighbors=10).fit(matrix.standard).decision_scores_, rows),
        "LOF": by_deviation(
            matrix, -LocalOutlierFactor(20).fit(matrix.standard).negative_outlier_factor_, rows
        ),
        "simple rules": simple_rules(frame, rows),
    }


def isolation_forest(matrix: Matrix, rows: list[int]) -> Judged:
    forest = IsolationForest(random_state=0).fit(matrix.values)
    parts = -shap.TreeExplainer(forest).shap_values(matrix.values[rows]) if rows else np.empty((0, 0))
    return Judged(-forest.score_samples(matrix.values), None, [matrix.cause(part) for part in parts])


def ecod(matrix: Matrix, rows: list[int]) -> Judged:
    model = ECOD().fit(matrix.values)
    return Judged(model.decision_scores_, None, [matrix.cause(model.O[row]) for row in rows])


def by_deviation(matrix: Matrix, scores: np.ndarray, rows: list[int]) -> Judged:
    worst = [str(matrix.columns[np.abs(matrix.standard[row]).argmax()]) for row in rows]
    return Judged(np.asarray(scores), None, worst)


def simple_rules(frame: pd.DataFrame, rows: list[int]) -> Judged:
    """Robust z beyond 5, levels below 0.1 %, known placeholders, whole rows or identifiers that occur twice."""
    severity = pd.DataFrame({name: _rule(frame[name]) for name in frame.columns})
    whole = np.where(frame.duplicated(keep=False), 70.0, 0.0)
    severity["(duplicate)"] = whole
    scores = severity.max(axis=1).to_numpy()
    causes = [str(severity.columns[severity.iloc[row].to_numpy().argmax()]) for row in rows]
    return Judged(scores, int((scores > 0).sum()), causes)


def _rule(cells: pd.Series) -> np.ndarray:
    """How badly each cell breaks a rule; 0 where it breaks none."""
    if pd.api.types.is_datetime64_any_dtype(cells.dtype):
        days = ((cells - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)).to_numpy(float)
        return np.maximum(_far(days), np.where(cells.isin(DAYS), 100.0, 0.0))
    numbers = pd.to_numeric(cells, errors="coerce")
    if numbers.notna().sum() > 0.9 * cells.notna().sum():
        values = numbers.to_numpy(float)
        inside = np.nanquantile(values, [0.005, 0.995])
        placeholder = np.isin(values, SENTINELS) & ((values < inside[0]) | (values > inside[1]))
        text = (numbers.isna() & cells.notna()).to_numpy()
        unique = _used_twice(cells)
        return np.maximum.reduce([_far(values), np.where(placeholder | text, 100.0, 0.0), unique])
    texts = cells.astype(str).where(cells.notna())
    counts = texts.map(texts.value_counts()).to_numpy(float)
    few_levels = texts.nunique() <= MOST_LEVELS
    rare = np.where(few_levels & (counts < max(2, 0.001 * len(cells))), 40.0, 0.0)
    words = np.where(texts.str.strip().str.lower().isin(WORDS), 100.0, 0.0)
    return np.maximum.reduce([rare, words, _used_twice(cells)])


def _far(values: np.ndarray) -> np.ndarray:
    middle = np.nanmedian(values)
    spread = 1.4826 * np.nanmedian(np.abs(values - middle))
    if not spread > 0:
        return np.zeros(len(values))
    z = np.nan_to_num(np.abs(values - middle) / spread)
    return np.where(z > 5, z, 0.0)


def _used_twice(cells: pd.Series) -> np.ndarray:
    """Identifiers: columns in which all but a few cells are unique and whole."""
    is_key = cells.nunique() > 0.995 * len(cells) and not pd.api.types.is_float_dtype(cells.dtype)
    return np.where(is_key & cells.duplicated(keep=False).to_numpy(), 60.0, 0.0)
