"""Files cut into blocks: every row once, in order, however it is written."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import tellwhy
from tellwhy.bulk import blocks, blocks as text_parts, fit as fit_blocks
from tellwhy.bulk.blocks import detect_layout, find_cuts, plan_blocks, read_block
from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.kinds import table_model
from tellwhy.workflow import fit_model
from workflow.models.tables import orders


def texts(n, seed=0):
    """Cells with commas, quotes, line ends and letters of several bytes."""
    rng = np.random.default_rng(seed)
    odd = ["plain", "a, b", 'say "x"', "two\nlines", "ünïcödé", "\r\nwin", '"', "", "x" * 50]
    return pd.DataFrame(
        {
            "number": np.arange(n),
            "text": rng.choice(odd, n),
            "value": rng.normal(size=n).round(3),
        }
    )


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("size", [200, 1000, 10_000_000])
@pytest.mark.parametrize("scanned", [64, 999, 2**20])
def test_every_row_of_a_text_file_is_in_one_part(tmp_path, monkeypatch, ending, size, scanned):
    monkeypatch.setattr(text_parts, "_SCANNED", scanned)
    monkeypatch.setattr(blocks, "PART_BYTES", 1)
    path = tmp_path / "t.csv"
    frame = texts(300)
    frame.to_csv(path, index=False, lineterminator=ending)
    layout = detect_layout(path)
    cuts = find_cuts(path, layout, size)
    assert sum(cut.n_rows for cut in cuts) == 300
    assert [cut.first_row for cut in cuts] == np.cumsum([0, *(cut.n_rows for cut in cuts[:-1])]).tolist()
    assert cuts[0].begin == layout.header_end
    assert cuts[-1].end == path.stat().st_size
    monkeypatch.setattr(blocks, "find_cuts", lambda path, layout: cuts)
    found = [piece.read() for block in plan_blocks([path]) for piece in block.pieces]
    assert [len(part) for part in found] == [cut.n_rows for cut in cuts]
    assert pd.concat(found)["number"].tolist() == list(range(300))
    assert np.array_equal(pd.concat(found)["value"], frame["value"])


def test_blank_lines_are_no_rows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n\n3,4\n" * 50 + "5,6", encoding="utf-8")
    cuts = find_cuts(path, detect_layout(path), 40)
    assert len(cuts) > 5
    assert sum(cut.n_rows for cut in cuts) == 101


def test_what_cannot_be_cut_is_read_whole(tmp_path):
    (tmp_path / "numbers.csv").write_text("1,2\n3,4\n")
    orders(20).to_csv(tmp_path / "t.csv.gz", index=False)
    (tmp_path / "wide.csv").write_bytes("a,b\n1,2\n".encode("utf-16"))
    assert detect_layout(tmp_path / "numbers.csv") is None
    assert detect_layout(tmp_path / "wide.csv") is None
    assert [piece.kind for piece in plan_blocks([tmp_path / "t.csv.gz"])[0].pieces] == ["file"]


@pytest.mark.parametrize("group", [30, 100, 1000])
def test_row_groups_are_cut_and_joined(tmp_path, monkeypatch, group):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 100)
    frame = orders(450)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=group, index=False)
    planned = plan_blocks([tmp_path / "t.parquet"])
    assert all(sum(piece.n_rows for piece in block.pieces) <= 100 for block in planned)
    read = [read_block(block) for block in planned]
    assert [row for each in read for row in each.rows] == list(range(450))
    found = pd.concat([each.table.frame for each in read], ignore_index=True)
    found.attrs = {}
    assert list(found.columns) == list(frame.columns)
    for name in frame.columns:
        assert found[name].tolist() == frame[name].tolist(), name


def test_a_file_that_changed_is_told(tmp_path):
    orders(100).to_parquet(tmp_path / "t.parquet", index=False)
    block = plan_blocks([tmp_path / "t.parquet"])[0]
    orders(40).to_parquet(tmp_path / "t.parquet", index=False)
    assert "was changed" in read_block(block).failed[0][1]


def test_a_model_fitted_in_passes_is_the_one_fitted_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(table_model, "MOST_ROWS", 200)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 90)
    frame = orders(700, bad=True)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=70, index=False)
    whole = fit_model(tmp_path / "t.parquet", id_column="id")
    parts = fit_blocks.fit_bulk([tmp_path / "t.parquet"], id_column="id")
    one = tellwhy.save(whole, tmp_path / "one").read_bytes()
    # Only the fingerprint of the table is not known without reading it whole.
    other = tellwhy.save(
        table_model.replace(parts, fingerprint=whole.fingerprint), tmp_path / "two"
    ).read_bytes()
    assert one == other
    assert parts.n_rows == 700
    assert parts.seen["country"].labels == frame["country"].value_counts().to_dict()


def test_what_cannot_be_learned_from_is_told(tmp_path):
    orders(60).to_parquet(tmp_path / "t.parquet", index=False)
    with pytest.raises(InvalidParameter, match="normal cannot be used"):
        fit_blocks.fit_bulk([tmp_path / "t.parquet"], normal="is_new=True")
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    column = pq.read_metadata(tmp_path / "t.parquet").row_group(0).column(3)
    content[column.data_page_offset + 20 : column.data_page_offset + 40] = b"\0" * 20
    (tmp_path / "t.parquet").write_bytes(bytes(content))
    with pytest.raises(UnreadableFile):
        fit_blocks.fit_bulk([tmp_path / "t.parquet"])


def test_the_last_of_many_blocks_are_smaller(tmp_path, monkeypatch):
    """Every row is in one block, in order, and what is left at the end is small."""
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 40)
    frame = pd.DataFrame({"number": np.arange(1630)})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=70, index=False)
    planned = plan_blocks([tmp_path / "t.parquet"])
    sizes = [sum(piece.n_rows for piece in block.pieces) for block in planned]
    assert [block.number for block in planned] == list(range(len(planned)))
    assert max(sizes) == 40
    assert max(sizes[-12:]) <= 10
    found = [number for block in planned for number in read_block(block).table.frame["number"]]
    assert found == list(range(1630))
    assert [row for block in planned for row in read_block(block).rows] == list(range(1630))


def test_few_blocks_are_cut_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 100)
    orders(1200).to_parquet(tmp_path / "t.parquet", row_group_size=100, index=False)
    assert len(plan_blocks([tmp_path / "t.parquet"])) == 12
