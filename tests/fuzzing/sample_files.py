"""Small sound files of every format that is read, to be damaged."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import zipfile
from datetime import datetime, timedelta

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

N = 30


def frame() -> pd.DataFrame:
    """Numbers, whole numbers, text, dates and truths, some of them missing."""
    rng = np.random.default_rng(0)
    days = [datetime(2024, 1, 1) + timedelta(hours=7 * i) for i in range(N)]
    table = pd.DataFrame({"x": rng.normal(size=N), "n": rng.integers(0, 99, N), "day": days})
    table["k"] = [["a", "b\nc", 'd"e', None][i % 4] for i in range(N)]
    table["yes"] = rng.random(N) < 0.5
    table.loc[3, "x"] = np.nan
    return table


def csv_bytes() -> bytes:
    return frame().to_csv(index=False).encode()


def json_lines() -> bytes:
    return frame().to_json(orient="records", lines=True, date_format="iso").encode()


def json_list() -> bytes:
    nested = [{**row, "in": {"a": [1, {"b": i}]}} for i, row in enumerate(json.loads(_records()))]
    return json.dumps(nested).encode()


def _records() -> str:
    return str(frame().to_json(orient="records", date_format="iso"))


def parquet(**settings: object) -> bytes:
    content = io.BytesIO()
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    table = table.append_column("list", pa.array([[i, None] for i in range(N)]))
    table = table.append_column("cat", pa.array(list("ab") * (N // 2)).dictionary_encode())
    pq.write_table(table, content, write_page_checksum=True, row_group_size=10, **settings)
    return content.getvalue()


def number_parquet() -> bytes:
    """Numbers and a column of labels, in several row groups."""
    content = io.BytesIO()
    table = pa.table({"x": frame()["x"], "n": frame()["n"], "k": list("ab") * (N // 2)})
    pq.write_table(table, content, write_page_checksum=True, row_group_size=10, compression="zstd")
    return content.getvalue()


def workbook() -> bytes:
    book = openpyxl.Workbook()
    table = frame()
    book.active.append(list(table.columns))
    for row in table.astype(object).where(table.notna(), None).itertuples(index=False):
        book.active.append([cell.to_pydatetime() if isinstance(cell, pd.Timestamp) else cell for cell in row])
    book.create_sheet("second").append(["a"])
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/t.csv", csv_bytes())
    return content.getvalue()


def gzipped() -> bytes:
    return gzip.compress(csv_bytes(), mtime=0)


def arrays(*, packed: bool = True) -> bytes:
    rng = np.random.default_rng(1)
    content = io.BytesIO()
    save = np.savez_compressed if packed else np.savez
    save(
        content,
        a=rng.normal(size=(6, 5)),
        b=rng.normal(size=(6, 5)).astype("f4"),
        c=np.arange(30).reshape(6, 5),
    )
    return content.getvalue()


def labelled_arrays() -> bytes:
    rng = np.random.default_rng(3)
    content = io.BytesIO()
    np.savez_compressed(content, X=rng.normal(size=(12, 4)), y=np.arange(12) % 3)
    return content.getvalue()


def one_array() -> bytes:
    content = io.BytesIO()
    np.save(content, np.random.default_rng(1).normal(size=(6, 5)))
    return content.getvalue()


def libsvm() -> bytes:
    rng = np.random.default_rng(2)
    lines = [
        f"{i % 3} " + " ".join(f"{j + 1}:{rng.normal():.4f}" for j in range(5) if rng.random() < 0.7)
        for i in range(N)
    ]
    return ("\n".join(lines) + "\n").encode()


def database() -> bytes:
    """A SQLite database with one table."""
    connection = sqlite3.connect(":memory:")
    frame().assign(day=range(N)).to_sql("t", connection, index=False)
    return connection.serialize()
