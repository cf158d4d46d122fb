"""Sweeps of ranks that share no memory: a message for each batch of rows, between two compiled calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.classifiers.svm.engines._compiled_lists import longest
from tellwhy.classifiers.svm.engines.records import ListArrays
from tellwhy.classifiers.svm.ranks.exchange import summed
from tellwhy.classifiers.svm.threads._compiled_shards import (
    DENSE_BATCH,
    batch_room,
    move_all,
    move_listed,
    read_all,
    read_listed,
)
from tellwhy.classifiers.svm.threads.records import BatchArrays
from tellwhy.core.score_function import Floats

if TYPE_CHECKING:
    from tellwhy.classifiers.svm.ranks.rank_rows import RankRows


def listed_by_messages(rows: RankRows, given: tuple[Any, ...], partial: Any, violations: Floats) -> None:
    """Visit the listed variables of some batches."""
    order = given[0]
    held = given[1:]
    batches: BatchArrays = held[0]
    lists: ListArrays = held[4]
    rooms = _rooms(rows, longest(lists.lengths) + 1, partial.dtype)
    for b in order:
        part = batches.at[b, 0], batches.at[b, 1]
        partial[:] = 0  # each rank fills in its part; the sum is then that of one number and zeros

        def read(t: int, part: Any = part) -> None:
            read_listed(*part, *held, rows.shares[t], partial, rooms[t])

        rows.workers.map(read, range(len(rooms)))
        scores = summed(rows.exchange.comm, partial)

        def move(t: int, part: Any = part, scores: Any = scores) -> None:
            move_listed(*part, *held, rows.shares[t], scores, rooms[t], rows.keeper(t), violations)

        rows.workers.map(move, range(len(rooms)))


def all_by_messages(rows: RankRows, given: tuple[Any, ...], partial: Any, used: int, exact: bool) -> int:
    """Visit every variable of some batches; returns how many entries of the lists are used."""
    order = given[0]
    held = given[1:]
    batches: BatchArrays = held[0]
    rooms = _rooms(rows, rows.block.n_classes, partial.dtype)
    for b in order:
        first = int(batches.at[b, 0])
        size = int(batches.at[b, 1]) - first
        for begin in range(0, size, DENSE_BATCH):
            part = begin, min(begin + DENSE_BATCH, size), first
            partial[:] = 0

            def read(t: int, part: Any = part) -> None:
                read_all(*part, *held, rows.shares[t], partial, rooms[t])

            rows.workers.map(read, range(len(rooms)))
            scores = summed(rows.exchange.comm, partial)

            def move(t: int, part: Any = part, scores: Any = scores, used: int = used) -> int:
                found: int = move_all(*part, *held, used, exact, rows.shares[t], scores, rooms[t], t == 0)
                return found

            used = rows.workers.map(move, range(len(rooms)))[0]
    return used


def _rooms(rows: RankRows, width: int, sum_dtype: Any) -> list[Any]:
    """Room for each thread of this rank."""
    dtype = np.zeros(0, dtype=rows.block.weights.dtype)
    return [
        batch_room(rows.size, width, rows.block.n_classes, share, dtype.dtype, np.dtype(sum_dtype))
        for share in rows.shares
    ]
