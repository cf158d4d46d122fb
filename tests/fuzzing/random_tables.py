"""Tables of columns of any kind, in files of any format: strategies of Hypothesis."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

FORMATS = ("csv", "semicolon.csv", "tsv", "csv.gz", "zip", "jsonl", "json", "parquet", "xlsx")
NAMES = (
    "x",
    "y",
    "id",
    "when",
    "status",
    "price €",
    "a,b",
    'q"',
    "new\nline",
    "=1+1",
    "\x1b[31m",
    "é",
    "0",
    "x.1",
)


def _numbers(rng: np.random.Generator, n: int) -> Any:
    return rng.normal(size=n) * 10.0 ** rng.integers(-8, 9)


def _extremes(rng: np.random.Generator, n: int) -> Any:
    return rng.choice([0.0, 1.0, -1e300, 1e300, 1e-300, 5e-324, 1.7e308], n)


def _whole(rng: np.random.Generator, n: int) -> Any:
    return rng.integers(-5, 500, n)


def _heavy(rng: np.random.Generator, n: int) -> Any:
    return rng.standard_cauchy(n)


def _gaps(rng: np.random.Generator, n: int) -> Any:
    return np.where(rng.random(n) < rng.random(), np.nan, rng.normal(size=n))


def _long_ids(rng: np.random.Generator, n: int) -> Any:
    return [str(10**19 + int(i)) for i in rng.integers(0, n + 1, n)]


def _zero_led(rng: np.random.Generator, n: int) -> Any:
    return [f"{i:05d}" for i in rng.integers(0, 30_000, n)]


def _labels(rng: np.random.Generator, n: int) -> Any:
    return rng.choice(["red", "green", "bläu", "NA", "", "=cmd()", "a\nb", "\x1b]0;x\x07", "\u202e"], n)


def _texts(rng: np.random.Generator, n: int) -> Any:
    return ["".join(rng.choice(list("abc \",;\n\té中'-@=+"), 12)) for _ in range(n)]


def _dates(rng: np.random.Generator, n: int) -> Any:
    return [datetime(2020, 1, 1) + timedelta(hours=int(h)) for h in rng.integers(0, 40_000, n)]


def _written_dates(rng: np.random.Generator, n: int) -> Any:
    return [d.strftime("%d.%m.%Y") for d in _dates(rng, n)]


def _truths(rng: np.random.Generator, n: int) -> Any:
    return rng.random(n) < 0.3


def _money(rng: np.random.Generator, n: int) -> Any:
    return [f"${v:,.2f}" for v in rng.lognormal(5, 2, n)]


def _constant(rng: np.random.Generator, n: int) -> Any:
    return [7] * n


def _empty(rng: np.random.Generator, n: int) -> Any:
    return [None] * n


def _counter(rng: np.random.Generator, n: int) -> Any:
    return list(range(n))


def _mixture(rng: np.random.Generator, n: int) -> Any:
    return [("12", "x", "3.5", None, "2024-01-01", "yes")[i] for i in rng.integers(0, 6, n)]


def _durations(rng: np.random.Generator, n: int) -> Any:
    return pd.to_timedelta(rng.integers(0, 10**6, n), unit="s")


KINDS = (_numbers, _extremes, _whole, _heavy, _gaps, _long_ids, _zero_led, _labels, _texts, _dates)
KINDS += (_written_dates, _truths, _money, _constant, _empty, _counter, _mixture, _durations)


@st.composite
def tables(draw: Any, least: int = 1) -> pd.DataFrame:
    """Draw one to six columns of any kind under any names."""
    n = draw(st.integers(20, 60)) if draw(st.integers(0, 9)) else draw(st.integers(least, 20))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=len(names), max_size=len(names)))
    return pd.DataFrame({name: pd.Series(kind(rng, n)) for name, kind in zip(names, kinds, strict=True)})


def write(table: pd.DataFrame, folder: Path, form: str) -> Path:
    """Write a table in one of the formats, and return the file."""
    path = folder / f"table.{form}"
    text = table.map(lambda cell: str(cell) if isinstance(cell, pd.Timedelta) else cell)
    if form in ("csv", "semicolon.csv", "tsv", "csv.gz", "zip"):
        mark = {"semicolon.csv": ";", "tsv": "\t"}.get(form, ",")
        content = text.to_csv(index=False, sep=mark).encode()
        path.write_bytes(_packed(content, form))
    elif form in ("jsonl", "json"):
        records = json.loads(text.to_json(orient="records", date_format="iso"))
        lines = "\n".join(json.dumps(record) for record in records)
        path.write_text(lines if form == "jsonl" else json.dumps(records), encoding="utf-8")
    elif form == "parquet":
        table.to_parquet(path, index=False)
    else:
        _write_workbook(table, path)
    return path


def _packed(content: bytes, form: str) -> bytes:
    if form == "csv.gz":
        return gzip.compress(content, 1)
    if form != "zip":
        return content
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("t.csv", content)
    return archive.getvalue()


def _write_workbook(table: pd.DataFrame, path: Path) -> None:
    import openpyxl
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = openpyxl.Workbook()
    for row in [list(table.columns), *table.astype(object).where(table.notna(), None).to_numpy().tolist()]:
        book.active.append(
            [ILLEGAL_CHARACTERS_RE.sub("", c) if isinstance(c, str) else _cell(c) for c in row]
        )
    book.save(path)


def _cell(cell: Any) -> Any:
    if isinstance(cell, (pd.Timestamp, pd.Timedelta)):
        return cell.to_pydatetime() if isinstance(cell, pd.Timestamp) else cell.to_pytimedelta()
    return cell
