"""Every way to judge a table, and what each of them says, as canonical JSON."""

import hashlib
import json
import math
import platform
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from pins.tables import Pinned
from tellwhy.bulk.block import explain_block
from tellwhy.bulk.run import explain_bulk
from tellwhy.workflow import Run, explain_graph, explain_new, explain_table, fit_model, load, save

DIGITS = 12  # of every number that is pinned


def explain(table: Pinned, folder: Path) -> Run:
    """The table beside its own rows."""
    return explain_table(_file(table.frame, folder, "all"), **table.settings)


def reference(table: Pinned, folder: Path) -> Run | None:
    """The last rows beside the first."""
    if "normal" in table.settings:
        return None
    old, new = _halves(table, folder)
    return explain_table(new, reference=old, **table.settings)


def model(table: Pinned, folder: Path) -> Run:
    """The last rows by a model of the first, some of which may be odd."""
    old, new = _halves(table, folder)
    return explain_new(fit_model(old, **table.settings), new)


def own_model(table: Pinned, folder: Path) -> Run:
    """The rows that the model was fitted to: as beside their own."""
    every = _file(table.frame, folder, "all")
    file = save(fit_model(every, **table.settings), folder / "model.tellwhy")
    return explain_new(load(file), every, method=table.settings.get("method", "auto"))


def clean_model(table: Pinned, folder: Path) -> Run:
    """The last rows by a model of the first, which the user vouches for."""
    old, new = _halves(table, folder)
    return explain_new(fit_model(old, clean=True, **table.settings), new)


def bulk(table: Pinned, folder: Path) -> Run | None:
    """The last rows by a model of the first that was saved, as a block of many."""
    if table.settings.get("method", "auto") != "auto":
        return None
    old, new = _halves(table, folder)
    return _bulk(fit_model(old, **table.settings), new, folder, is_own=False)


def own_bulk(table: Pinned, folder: Path) -> Run | None:
    """The rows that the model was fitted to, as blocks."""
    if "normal" in table.settings or table.settings.get("method", "auto") != "auto":
        return None
    every = _file(table.frame, folder, "all")
    return _bulk(fit_model(every, **table.settings), every, folder, is_own=True)


def by(table: Pinned, folder: Path) -> Run | None:
    """Each row beside the rows of its segment."""
    if not table.by:
        return None
    return explain_table(_file(table.frame, folder, "all"), by=table.by, **table.settings)


def by_model(table: Pinned, folder: Path) -> Run | None:
    """Each row beside the rows of its segment, which a model knows."""
    return model(replace(table, settings={**table.settings, "by": table.by}), folder) if table.by else None


def time(table: Pinned, folder: Path) -> Run | None:
    """Rows in the order of time."""
    if table.time is None:
        return None
    return explain_graph(_file(table.frame, folder, "all"), time=table.time, **table.settings).run


WAYS: dict[str, Callable[[Pinned, Path], Run | None]] = {
    way.__name__: way
    for way in (explain, own_model, reference, model, clean_model, bulk, own_bulk, by, by_model, time)
}


def _file(frame: pd.DataFrame, folder: Path, name: str) -> Path:
    path = folder / f"{name}.csv"
    frame.to_csv(path, index=False)
    return path


def _halves(table: Pinned, folder: Path) -> list[Path]:
    n = table.n_reference
    return [_file(table.frame.iloc[:n], folder, "old"), _file(table.frame.iloc[n:], folder, "new")]


def _bulk(fitted: Any, source: Path, folder: Path, *, is_own: bool) -> Run | None:
    file = save(fitted, folder / "model.tellwhy")

    def runner(workers: int, ray: str | None) -> Any:
        return nullcontext(lambda job, blocks: (explain_block(job, block) for block in blocks))

    with mock.patch("tellwhy.bulk.run._choose_runner", runner):
        return explain_bulk(source, model=file, out=folder / f"bulk-{is_own}", is_own=is_own).run


def told(run: Run | None) -> dict[str, Any] | None:
    """What a run says, but for its sentences; None where there is none."""
    if run is None:
        return None
    return {
        "rows": [int(row) for row in run.rows],
        "scores": _plain(run.scores),
        "threshold": _plain(run.threshold),
        "alarms": [int(r) for r, s in zip(run.rows, run.scores, strict=True) if s > run.threshold],
        "expected_false": _plain(None if run.alarms is None else run.alarms.expected_false),
        "columns": list(run.columns),
        "anomalies": [
            {
                "row": each.row,
                "id": each.id,
                "score": _plain(each.score),
                "p_value": _plain(each.p_value),
                "percentile": _plain(each.percentile),
                "is_alarm": bool(each.above_threshold),
                "unattributed": _plain(each.unattributed),
                "normal": _plain(each.nearest_normal),
                "segment": each.segment,
            }
            for each in run.anomalies
        ],
        "reasons": [
            [
                {
                    "feature": reason.feature,
                    "value": _plain(reason.value),
                    "usual": _plain(reason.typical),
                    "share": _plain(reason.share),
                    "holds": bool(reason.holds),
                }
                for reason in each.reasons
            ]
            for each in run.anomalies
        ],
        "values": _plain(run.explanation.values),
        "findings": [[each.kind, list(each.columns), [int(r) for r in each.rows]] for each in run.findings],
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it, numbers with as many digits as are pinned."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (bool, np.bool_)) or value is None or isinstance(value, str):
        return bool(value) if isinstance(value, np.bool_) else value
    if isinstance(value, (int, float, np.number)):
        return float(f"{value:.{DIGITS - 1}e}") + 0.0 if math.isfinite(value) else str(value)
    return str(value)


HASHED = ("scores", "anomalies", "reasons", "values", "findings")


def pinned(said: dict[str, Any] | None) -> dict[str, Any] | None:
    """What is kept of it: the hash of each part, and a few things in clear."""
    if said is None:
        return None
    return {
        "alarms": said["alarms"],
        "first": [each["row"] for each in said["anomalies"][:3]],
        "reasons": [[r["feature"] for r in each if r["holds"]] for each in said["reasons"][:3]],
        "findings": [[kind, columns, len(rows)] for kind, columns, rows in said["findings"]],
        "hashes": {part: _hash(said[part]) for part in HASHED},
    }


def _hash(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def made_with() -> dict[str, str]:
    """What the last digits of a number depend on."""
    packages = ("numpy", "scipy", "scikit-learn", "pandas", "numba")
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {
        "processor": processor or platform.processor(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{name: version(name) for name in packages},
    }
