"""Named arrays that the compiled loops take and return, of one thread and of several.

numba reads a NamedTuple field by field, as if each were an argument of its own, so that a loop of thirty
arrays has a signature of eight words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tellwhy.core.score import Floats, Integers


class Entries(NamedTuple):
    """Sparse rows: row i has the entries indptr[i] … indptr[i + 1], each a feature and its value."""

    indptr: Integers
    indices: Any
    values: Any


class Examples(NamedTuple):
    """Examples: example e is a row of the data with its labels, and one of these to defend (pair losses)."""

    rows: Integers  # which row of `Entries` each example is
    labels: Integers  # column of the label to defend in the weights of its class block
    squares: Floats  # ‖x‖²
    caps: Floats  # most that each of its variables may be
    sum_caps: Floats  # most that all of them together may be
    own_at: Integers
    own: Integers  # its labels own[own_at[e] : own_at[e + 1]], as positions among the classes of all blocks
    own_is_positive: bool  # labels have a variable of the other sign (one-vs-rest), or none at all


class Block(NamedTuple):
    """Weights of one class block: weights[f, c] is that of feature f for class c.

    Features come first, so that an entry of a sparse row touches weights that lie side by side.
    """

    weights: Any
    offset: int  # position of its first class among the classes of all blocks
    n_classes: int


class ListArrays(NamedTuple):
    """Listed dual variables: those of example e are the entries starts[e] … starts[e] + lengths[e]."""

    starts: Integers
    lengths: Any
    classes: Any
    duals: Any
    idle: Any  # for how many visits in a row an example had only a negligible violation


class Sweep(NamedTuple):
    """How to visit listed variables."""

    patience: int  # an example that was idle for so many visits is left out
    negligible: float  # violations of at most this much count as none
    is_exact: bool  # solve for all variables of an example together, or for one after the other


class Limits(NamedTuple):
    """What bounds the variables of one example."""

    square: float
    cap: float
    sum_cap: float


class Swept(NamedTuple):
    """What a sweep met: the largest violation, the sum of each example's largest, and examples visited."""

    worst: float
    summed: float
    visited: int


class Certified(NamedTuple):
    """New lists of some examples, their Σ losses and Σ dual variables, and their largest violation."""

    classes: Any
    duals: Any
    losses: float
    dual_sum: float
    worst: float


class Judged(NamedTuple):
    """Loss of one example, the gain above which its variables are listed, and its violation so far."""

    loss: float
    bound: float
    worst: float


class Listed(NamedTuple):
    """What listing one example gave: the entries used then, its loss, Σ dual variables, largest violation."""

    used: int
    loss: float
    dual_sum: float
    worst: float


class SingleRoom(NamedTuple):
    """Room for one example of a loss that judges each class on its own."""

    scores: Any
    steps: Any
    step_classes: Integers
    duals: Any
    caps: Any
    signs: Any  # −1, and +1 at the example's labels while it is visited (one-vs-rest)
    every: Any


class SingleSteps(NamedTuple):
    """An example's violation, and how many of its variables moved by how much together."""

    violation: float
    n_steps: int
    total: float


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


class Writer(NamedTuple):
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
