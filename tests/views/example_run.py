"""A run made by hand: thyroid-like columns, a score that is a sum of squared robust distances, known reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from zoo.anomalies import moved, odd_row

from tellwhy.core.explanation import Explanation
from tellwhy.results.evidence import Agreement, Detection, Evidence
from tellwhy.results.notice import written
from tellwhy.results.result import Anomaly, Group, Reason, Result, Typical

NUMBERS = ("TSH", "T3", "TT4", "T4U", "FTI", "age")
COLUMNS = (*NUMBERS, "sex", "on thyroxine", "referral source", "measured")

HOSTILE = (
    "<script>alert(1)</script>",
    '"onmouseover="alert(2)',
    "</script><img src=x onerror=alert(3)>",
    "=cmd|' /C calc'!A0",
    "' autofocus onfocus=alert(4) x='",
    "{{ 7 * 7 }}",
)


def said(feature, value, typical, share, text):  # type: ignore[no-untyped-def]
    """Return a reason that is told as it is written here."""
    return Reason(feature, value, typical, share, kind="as_written", facts={"text": text}, is_share=False)


def table(n: int, seed: int = 0) -> pd.DataFrame:
    """Measurements of n patients; the first thirty are odd in one of four ways."""
    rng = np.random.default_rng(seed)
    t4 = rng.normal(108, 22, n)
    uptake = rng.normal(0.99, 0.12, n)
    frame = pd.DataFrame(
        {
            "TSH": rng.lognormal(0.4, 0.55, n).round(2),
            "T3": rng.normal(2.0, 0.4, n).round(2),
            "TT4": t4.round(0),
            "T4U": uptake.round(3),
            "FTI": (t4 / uptake).round(0),
            "age": rng.integers(18, 90, n).astype(float),
            "sex": rng.choice(["F", "M", "?"], n, p=[0.66, 0.31, 0.03]),
            "on thyroxine": rng.random(n) < 0.12,
            "referral source": rng.choice(
                ["other", "SVI", "SVHC", "STMW", "SVHD"], n, p=[0.58, 0.28, 0.1, 0.03, 0.01]
            ),
            "measured": pd.Timestamp("1987-01-05") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
        }
    )
    odd = min(30, n)
    for i in range(odd):
        kind = i % 4
        if kind == 0:
            frame.loc[i, ["TSH", "FTI", "TT4"]] = [round(rng.uniform(60, 150), 1), rng.integers(10, 30), 24.0]
        elif kind == 1:
            frame.loc[i, ["T3", "TT4"]] = [round(rng.uniform(5, 9), 1), rng.integers(210, 290)]
        elif kind == 2:
            frame.loc[i, "age"] = 455.0 - i
        else:
            frame.loc[i, ["measured", "referral source"]] = [pd.Timestamp("2019-03-01"), "STMW"]
    return frame


def typical_of(frame: pd.DataFrame) -> dict[str, Typical]:
    found = {}
    probabilities = [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]
    for name, column in frame.items():
        if column.dtype == bool or not (
            pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column)
        ):
            shares = column.astype(str).value_counts(normalize=True).head(8)
            kind = "boolean" if column.dtype == bool else "category"
            found[str(name)] = Typical(str(name), kind, shares={str(k): float(v) for k, v in shares.items()})
        elif pd.api.types.is_datetime64_any_dtype(column):
            dates = column.quantile(probabilities)
            days = [(d - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D") for d in dates]
            found[str(name)] = Typical(
                str(name), "date", quantiles=days, labels=[d.date().isoformat() for d in dates]
            )
        else:
            found[str(name)] = Typical(
                str(name), "number", quantiles=[float(q) for q in column.quantile(probabilities)]
            )
    return found


def contributions(frame: pd.DataFrame) -> np.ndarray:
    """Half the squared robust distance of numbers and dates, minus the log share of categories."""
    values = np.zeros(frame.shape)
    for j, name in enumerate(frame.columns):
        column = frame[name]
        if pd.api.types.is_datetime64_any_dtype(column):
            column = (column - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")
        if pd.api.types.is_numeric_dtype(column) and column.dtype != bool:
            x = column.to_numpy(float)
            low, middle, high = np.quantile(x, [0.16, 0.5, 0.84])
            values[:, j] = 0.5 * ((x - middle) / (high - low)) ** 2
        else:
            share = column.astype(str).map(column.astype(str).value_counts(normalize=True))
            values[:, j] = 0.3 * -np.log(share.to_numpy(float))
    return np.log1p(values) * 3


def cell(value: Any) -> Any:
    if isinstance(value, pd.Timestamp):
        return value.date().isoformat()
    return value.item() if isinstance(value, np.generic) else value


def reasons_of(
    values: np.ndarray, data: Sequence[Any], typical: dict[str, Typical], names: list[str]
) -> list[Reason]:
    shares = values / values.sum()
    reasons = []
    for j in np.argsort(-values)[:3]:
        usual = typical[names[j]]
        value = cell(data[j])
        if usual.kind == "number":
            bounds: list[Any] = [usual.quantiles[1], usual.quantiles[5]]
            words = f"{names[j]} = {value:g} (usually {bounds[0]:.3g}–{bounds[1]:.3g})"
        elif usual.kind == "date":
            bounds = [usual.labels[1], usual.labels[5]]
            words = f"{names[j]} = {value} (usually {bounds[0]}–{bounds[1]})"
        else:
            bounds = list(usual.shares)[:2]
            words = f"{names[j]} = {value} (usually {', '.join(bounds)})"
        text = f"{words} · {100 * shares[j]:.0f} %"
        reasons.append(said(names[j], value, bounds, float(shares[j]), text))
    return reasons


def example_run(
    n: int = 3772, top: int = 40, *, kind: str = "attribution", columns: int | None = None
) -> Result:
    """Return a run over n generated rows, with the `top` most odd ones explained."""
    frame = table(n).iloc[:, : columns or len(COLUMNS)]
    names = list(frame.columns)
    values = contributions(frame)
    unattributed = 0.06 * values.sum(axis=1) + 0.2
    scores = values.sum(axis=1) + unattributed
    order = np.argsort(-scores, kind="stable")[:top]
    threshold = float(np.quantile(scores, 1 - 25 / n)) if n > 25 else float(scores.mean())
    typical = typical_of(frame.iloc[min(30, n - 1) :])
    anomalies = []
    for rank, i in enumerate(order):
        reasons = reasons_of(values[i], list(frame.iloc[i]), typical, names)
        normal = {
            r.feature: typical[r.feature].quantiles[4]
            for r in reasons[:2]
            if typical[r.feature].kind == "number"
        }
        anomalies.append(
            odd_row(
                int(i),
                f"patient {10_000 + i}" if rank != 1 else None,
                float(scores[i]),
                float(100 * (scores < scores[i]).mean()),
                bool(scores[i] > threshold),
                reasons=reasons,
                nearest_normal=normal if normal and rank % 3 != 2 else None,
            )
        )
    explanation = Explanation(
        values=values[order],
        scores=scores[order],
        method="OneClassDTD" if kind == "attribution" else "Sensitivity",
        data=frame.iloc[order],
        feature_names=names,
        params={"explains": "outlierness −log Σ α k of the one-class SVM"},
        kind=kind,
    )
    return Result(
        source="thyroid.csv",
        settings={
            "detector": "OneClassSVM(kernel='student_t', nu=0.1)",
            "method": explanation.method,
            "seed": 0,
            "contamination": 0.0066,
            "reference": None,
            "missing": "impute",
            "columns": names,
        },
        done=written(
            f"{n} rows of thyroid.csv were read, with {len(names)} columns used. A one-class SVM with a t-Student "
            "kernel learned what is usual from the same rows, each scored as if it were new. The most odd rows were "
            f"explained with {explanation.method}."
        ),
        notices=[
            written("Column 'patient' identifies rows and was left out."),
            written("Column 'TBG' is constant and was left out."),
            written("Column 'T3': 769 missing values were replaced by the median, 2."),
        ],
        columns=names,
        scores=scores,
        rows=np.arange(n),
        threshold=threshold,
        anomalies=anomalies,
        explanation=explanation,
        usual=typical,
        column_shares=shares_of(values[order], names) if top else {},
        groups=groups_of(anomalies),
        evidence=evidence_of(len(names), explanation.method),
        detection=Detection("diagnosis", "sick", 93, 0.947, 0.612),
        versions={"tellwhy": "0.1.0", "python": "3.11.9", "numpy": "2.2.0", "scikit-learn": "1.9.0"},
        fingerprint="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        created="2025-03-04T17:20:11+00:00",
    )


def shares_of(values: np.ndarray, names: list[str]) -> dict[str, float]:
    parts = values.sum(axis=0) / values.sum()
    return dict(sorted(zip(names, map(float, parts), strict=True), key=lambda pair: -pair[1]))


def groups_of(anomalies: Sequence[Anomaly]) -> list[Group]:
    found: dict[tuple[str, ...], list[int]] = {}
    for anomaly in anomalies:
        key = tuple(sorted(r.feature for r in anomaly.reasons[:2]))
        found.setdefault(key, []).append(anomaly.row)
    return [
        Group(list(k), rows) for k, rows in sorted(found.items(), key=lambda p: -len(p[1])) if len(rows) > 1
    ]


def evidence_of(d: int, method: str) -> Evidence:
    steps = np.linspace(0, 1, d + 1)
    return Evidence(
        explains="outlierness −log Σ α k of the one-class SVM",
        unattributed=0.081,
        flipping={
            method: list(0.08 + 0.92 * np.exp(-5 * steps)),
            "Sensitivity": list(0.08 + 0.92 * np.exp(-3 * steps)),
            "RandomAttribution": list(1 - 0.92 * steps),
        },
        flipping_area={method: 0.262, "Sensitivity": 0.371, "RandomAttribution": 0.54},
        agreement=[Agreement("AnomalyShapley", 0.93, 0.81), Agreement("GaussianNLL", 0.62, 0.44)],
    )


def hostile_run() -> Result:
    """Return a run in which every text that can come from a user's file tries to leave its place."""
    run = example_run(200, top=12)
    names = [f"{name} {HOSTILE[j % len(HOSTILE)]}" for j, name in enumerate(run.columns)]
    new = dict(zip(run.columns, names, strict=True))

    def named(reason: Reason, k: int) -> Reason:
        value = HOSTILE[k % len(HOSTILE)] if isinstance(reason.value, str) else reason.value
        text = f"{HOSTILE[k % len(HOSTILE)]} {reason.text}"
        return replace(reason, feature=new[reason.feature], value=value, facts={"text": text})

    anomalies = [
        replace(
            moved(a, name=HOSTILE[k % len(HOSTILE)]),
            reasons=[named(r, k) for r in a.reasons],
            nearest_normal={new[c]: HOSTILE[k % len(HOSTILE)] for c in a.nearest_normal or ()} or None,
        )
        for k, a in enumerate(run.anomalies)
    ]
    typical = {
        new[c]: replace(
            t,
            column=new[c],
            labels=[*t.labels[:-1], HOSTILE[0]] if t.labels else (),
            shares={f"{value} {HOSTILE[2]}": share for value, share in t.shares.items()},
        )
        for c, t in run.usual.items()
    }
    evidence = replace(
        run.evidence,
        explains=HOSTILE[2],
        flipping={f"{m} {HOSTILE[1]}": curve for m, curve in run.evidence.flipping.items()},
        flipping_area={f"{m} {HOSTILE[1]}": area for m, area in run.evidence.flipping_area.items()},
        agreement=[Agreement(text, 0.5, 0.5) for text in HOSTILE],
    )
    return replace(
        run,
        source=HOSTILE[2],
        settings={text: text for text in HOSTILE},
        done=written(" ".join(HOSTILE)),
        notices=list(map(written, HOSTILE)),
        columns=names,
        anomalies=anomalies,
        explanation=replace(
            run.explanation,
            feature_names=names,
            data=run.explanation.data.set_axis(names, axis=1),
            method=HOSTILE[0],
        ),
        usual=typical,
        column_shares={new[c]: share for c, share in run.column_shares.items()},
        groups=[replace(g, features=[new[c] for c in g.features]) for g in run.groups],
        evidence=evidence,
        detection=Detection(HOSTILE[0], HOSTILE[1], 5, 0.9, 0.4),
        versions={text: text for text in HOSTILE},
        fingerprint=HOSTILE[2],
        created=HOSTILE[3],
    )


def run_of(
    values: Any,
    names: Sequence[str],
    *,
    typical: Sequence[Typical] = (),
    cells: Sequence[Any] | None = None,
    nearest_normal: dict[str, Any] | None = None,
    **changes: Any,
) -> Result:
    """Return a run whose explained rows have the given values; `cells` are those of the first row's reasons."""
    values = np.atleast_2d(np.asarray(values, dtype=float))
    n = len(values)
    settings = {"scores": values.sum(axis=1), "method": "Example", "feature_names": names, "data": None}
    explanation = Explanation(values=values, **(settings | changes))
    reasons = [said(n, v, [], 0.5, f"{n} is odd") for n, v in zip(names, cells or (), strict=False)]
    first = odd_row(0, None, float(explanation.scores[0]), 99.0, True, reasons, nearest_normal)
    rest = [odd_row(i, None, float(explanation.scores[i]), 98.0, True, []) for i in range(1, n)]
    return replace(
        example_run(60, top=1),
        columns=list(names),
        anomalies=[first, *rest],
        explanation=explanation,
        usual={t.column: t for t in typical},
        column_shares=dict.fromkeys(names, 1 / len(names)),
        groups=[],
    )
