"""Room to work in for compiled loops."""

import numpy as np

from tellwhy.classifiers.svm.engines._compiled_steps import compiled

# Entries, at least 256 bytes. Before a vector loop, compiled code looks whether two arrays lie so close that
# a vector of one could reach into the other, and then takes a loop that sums in another order. With less room
# between arrays the last bits of a result would depend on where they happen to lie in memory.
GAP = 64


@compiled
def scratch(n, dtype):
    """Room for n numbers, far from everything else."""
    return np.empty(n + 2 * GAP, dtype)[GAP : GAP + n]


@compiled
def scratch_rows(n_rows, n, dtype):
    """The same for several rows of at least n numbers each."""
    return np.empty((n_rows + 2, n + GAP), dtype)[1 : n_rows + 1]
