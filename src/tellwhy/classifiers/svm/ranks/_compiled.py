"""Compiled loops of ranks that each hold a part of the weights and the variables of some examples."""

import numpy as np

from tellwhy.classifiers.svm._compiled_lists import certify_scored, has_room, longer
from tellwhy.classifiers.svm._compiled_steps import compiled, make_scratch_rows, scratch, to_the_bit
from tellwhy.classifiers.svm.records import ListArrays
from tellwhy.classifiers.svm.threads._compiled_sweeps import add_listed_steps, add_slots, score_all


@compiled
def copy_lists(examples, lengths, held, held_starts, held_first, out, out_starts, out_first):
    """Copy the listed entries of some examples from one array to another."""
    for e in examples:
        source = held_starts[e - held_first]
        target = out_starts[e - out_first]
        for j in range(lengths[e]):
            out[target + j] = held[source + j]


@compiled
def score_rows(first, last, at, entries, examples, weights, share, scores):
    """Set a part's sums for the examples first … last, in the lines of `scores` from `at` on."""
    lines = make_scratch_rows(share.last - share.first, share.high - share.low + 1, weights.dtype)
    for e in range(first, last):
        score_all(entries, examples.rows[e], share, weights, scores[share.slot, at + e - first], lines)


@compiled
def certify_rows(first, last, at, unit, scores, examples, block, lists, slack, losses, dual_sums, worsts):
    """Certify examples first … last, whose parts of scores lie in the lines from `at` on.

    Sets sums of each unit of examples; returns the new lists, whose `starts` count from this part's first.
    """
    n = block.n_classes
    gains = scratch(n, scores.dtype)
    duals = scratch(n, scores.dtype)
    size = n + 16 * (last - first)
    classes = np.empty(size, lists.classes.dtype)
    values = np.empty(size, lists.duals.dtype)
    found = ListArrays(lists.starts, lists.lengths, classes, values, lists.idle)
    used = 0
    for e in range(first, last):
        if not has_room(found, used + n):
            found = longer(found, used + n)
        add_slots(scores, at + e - first, n, gains)
        base = 1.0 - gains[examples.labels[e]]
        listed = certify_scored(e, examples, base, block, lists, slack, gains, duals, found, used)
        used = listed.used
        losses[e // unit] += listed.loss
        dual_sums[e // unit] += listed.dual_sum
        worsts[e // unit] = max(worsts[e // unit], listed.worst)
    return found.classes[:used].copy(), found.duals[:used].copy()


@compiled
def add_variables(chosen, entries, examples, weights, share, lists):
    """Add what the listed variables of some examples contribute to a part of the weights."""
    for e in chosen:
        at = lists.starts[e]
        n = lists.lengths[e]
        held = 0.0
        for j in range(n):
            held += lists.duals[at + j]
        add_listed_steps(
            entries,
            examples.rows[e],
            share,
            weights,
            examples.labels[e],
            lists.duals[at : at + n],
            lists.classes[at : at + n],
            n,
            held,
        )


@to_the_bit
def add_shard_squares(weights, shards, n_classes, squares):
    """Add up the squares of the weights of each class, shard by shard."""
    for f in range(len(weights)):
        line = squares[shards[f]]
        w = weights[f]
        for c in range(n_classes):
            line[c] += float(w[c]) * float(w[c])
