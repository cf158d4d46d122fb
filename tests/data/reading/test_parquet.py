from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.data import read_table
from tellwhy.data.reading import bytes as byte_source

FRAME = pd.DataFrame(
    {"x": [1.5, np.nan], "k": [1, 2], "t": ["a", "NA"], "on": pd.to_datetime(["2024-05-31", None])}
)


def test_values_stay_as_they_were_stored(tmp_path):
    FRAME.to_parquet(tmp_path / "t.parquet")
    frame = read_table(tmp_path / "t.parquet").frame
    pd.testing.assert_frame_equal(frame, FRAME, check_column_type=False)
    assert frame["t"].tolist() == ["a", "NA"]


def test_the_content_tells_the_format(tmp_path):
    FRAME.to_parquet(tmp_path / "table.csv")
    assert read_table(tmp_path / "table.csv").frame["k"].tolist() == [1, 2]


@pytest.mark.parametrize("cut", [3, 9, 200])
def test_truncated(tmp_path, cut):
    path = tmp_path / "t.parquet"
    FRAME.to_parquet(path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(UnreadableFile, match=r"t\.parquet cannot be read as Parquet"):
        read_table(path)


def test_no_rows_and_duplicate_names(tmp_path):
    FRAME.iloc[:0].to_parquet(tmp_path / "t.parquet")
    with pytest.raises(UnreadableFile, match="4 columns and 0 data rows"):
        read_table(tmp_path / "t.parquet")
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "u.parquet")
    with pytest.raises(InvalidInput, match=r"'a' \(columns 1, 2\)"):
        read_table(tmp_path / "u.parquet")


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    FRAME.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(byte_source, "LARGEST_UNPACKED", 10)
    with pytest.raises(UnreadableFile, match="unpacks to more than"):
        read_table(tmp_path / "t.parquet")


def test_the_reason_of_damage_is_told(tmp_path):
    path = tmp_path / "t.parquet"
    FRAME.to_parquet(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(
        UnreadableFile, match=r"not written to the end \(.*[Pp]arquet.*\)\. Write or fetch it again\."
    ):
        read_table(path)
