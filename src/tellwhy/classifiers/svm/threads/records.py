"""Named arrays that the compiled loops of several threads take."""

from __future__ import annotations

from typing import Any, NamedTuple

from tellwhy.core.score_function import Floats, Integers


class Barrier(NamedTuple):
    """A point that no thread passes before all have come: `arrived` counts how often each thread came."""

    n_threads: int
    arrived: Integers  # thread t's count is entry LINE · t: a cache line each


class BatchArrays(NamedTuple):
    """Examples by batches: those of part k of batch b are members[at[b, k] : at[b, k + 1]].

    products[q, j] is the inner product of the example at q with the j-th of its batch, for those before it.
    """

    members: Integers
    at: Integers
    products: Floats


class BatchShape(NamedTuple):
    """How batches of separate parts are filled."""

    n_parts: int
    depth: int  # examples of a part at most
    n_open: int  # batches that are filled at the same time


class Filling(NamedTuple):
    """Batches that are being filled."""

    part_of_feature: Any  # features × open batches: the part whose rows have the feature, or FREE
    filled: Integers  # open batches × parts: how many examples each has
    examples: Integers  # open batches × parts × depth


class Chain(NamedTuple):
    """Entries of the rows of a batch, linked by feature."""

    older: Integers  # of each entry: the one before it with the same feature, −1 for none
    holder: Integers  # of each entry: which row of the batch it belongs to
    held: Any  # of each entry: its value


class ShardedEntries(NamedTuple):
    """Sparse rows with entries ordered by shard: those of shard s are cuts[row, s] … cuts[row, s + 1]."""

    cuts: Integers
    indices: Any
    values: Any


class Share(NamedTuple):
    """The part of the weights that one thread reads and moves: some shards, and the classes low … high."""

    first: int  # shard, among those of the entries that are held here
    last: int
    low: int
    high: int
    skip: int  # class of the first column of the weights that are held here
    slot: int  # where its sums over shards go: those of other slots are added to them


class Keeper(NamedTuple):
    """What of the results, which all threads find alike, one thread writes down."""

    is_one: bool  # whether examples visited are idle, and their violations
    first: int  # variables of the examples first … last
    last: int


class BatchRoom(NamedTuple):
    """What one thread keeps of the examples of a batch, a line each, and room for the one it is at."""

    old: Floats  # variables before
    steps: Any
    step_classes: Integers
    n_steps: Integers  # −1 where an example is not visited
    totals: Floats  # sums of the steps
    shift: Floats  # what the steps so far change in the score of each class
    scores: Floats
    new: Floats
    levels: Floats
    every: Any
    lines: Any  # sums of each shard
