"""`fit_bulk`: a model of more rows than fit into memory, learned in two passes over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.bulk.blocks import Block, ReadBlock, list_files, plan_blocks, read_block
from tellwhy.core.arrays import draw_sample
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnreadableFile
from tellwhy.core.params import generator
from tellwhy.core.progress import track
from tellwhy.core.score import Integers
from tellwhy.data import Table
from tellwhy.data.columns.roles import read_columns
from tellwhy.kinds import table_model
from tellwhy.kinds.request import Request
from tellwhy.kinds.table_model import TableModel, fit_rows
from tellwhy.verdicts.seen_values import SeenValues, join_seen, look_at_columns


def fit_bulk(names: Sequence[str | Path], *, clean: bool = False, **settings: Any) -> TableModel:
    """Learn what is ordinary in files that need not fit into memory.

    The first pass draws 50,000 rows at random, from which the model is learned: the same rows, and so the
    same model, as `fit_model` draws from a table in memory. The second counts ranges, labels and gaps over
    all rows. What fewer than one row in some 10,000 shows is likely not among the rows drawn: rare relations
    and segments are not learned, and the detector does not know such rows.

    Parameters
    ----------
    names
        Parquet or text files, or folders of them.
    clean
        Whether all rows are ordinary.
    settings
        As of `fit_model`, without `normal`.
    """
    request = Request(**settings)
    if request.normal is not None:
        raise InvalidParameter(
            "normal cannot be used with a folder or a file this large. Write the ordinary rows to a file of "
            "their own, and say clean=True."
        )
    blocks = plan_blocks(names)
    counts = [_count_rows(block) for block in track(blocks, len(blocks), "counting rows")]
    n = int(sum(counts))
    if not n:
        raise InvalidInput("The files hold no rows; expected at least ten to learn from.")
    chosen = np.sort(draw_sample(n, table_model.MOST_ROWS, generator(request.random_state)))
    files = list_files(names)
    source = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    table = Table(_draw_rows(blocks, counts, chosen), source)
    model = fit_rows(table, request, clean=clean, n_rows=n)
    return replace(model, seen={**model.seen, **_look_at_values(blocks, model)})


def _count_rows(block: Block) -> int:
    if all(piece.n_rows >= 0 for piece in block.pieces):
        return sum(piece.n_rows for piece in block.pieces)
    return len(_read(block).rows)


def _read(block: Block, columns: Sequence[str] | None = None, *, required: Sequence[str] = ()) -> ReadBlock:
    read = read_block(block, columns, required=required)
    if read.failed:
        raise UnreadableFile(
            f"{read.failed[0][0]} cannot be learned from: {read.failed[0][1]} Leave it out, or mend it."
        )
    return read


def _draw_rows(blocks: Sequence[Block], counts: Sequence[int], chosen: Integers) -> pd.DataFrame:
    """The chosen rows, counted over all blocks."""
    ends = np.cumsum(counts)
    frames = []
    pairs = zip(blocks, ends.tolist(), counts, strict=True)
    for block, end, count in track(pairs, len(blocks), "drawing rows"):
        own = chosen[(chosen >= end - count) & (chosen < end)] - (end - count)
        if len(own):
            read = _read(block)
            if read.table is None or len(read.rows) != count:
                raise UnreadableFile(
                    f"{block.pieces[0].file} holds {len(read.rows):,} rows where {count:,} were counted: it "
                    "was changed, or its quotation marks do not pair."
                )
            frame = read.table.frame.iloc[own]
            frame.attrs = {}
            frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _look_at_values(blocks: Sequence[Block], model: TableModel) -> dict[str, SeenValues]:
    """What the features held, over all rows."""
    names = [name for name in model.roles if name not in model.texts]
    roles = {name: model.roles[name] for name in names}
    used = list(model.encoder.columns_)
    found: dict[str, SeenValues] | None = None
    for block in track(blocks, len(blocks), "counting values"):
        read = _read(block, names, required=used)
        if read.table is None:
            continue
        frame = read_columns(read.table.frame.reindex(columns=names), roles=roles).frame
        own = look_at_columns(frame, roles)
        found = own if found is None else join_seen(found, own)
    return found or {}
