"""Compiled loops of multi-class SVMs over ranks: examples of one rank, judged by the classes of another.

Guests are examples in consecutive arrays. Their host, which has the weights of the classes they list, tells
their scores; the rank that they come from solves for their variables, and the host adds the steps to its
weights.
"""

import numpy as np

from tellwhy.classifiers.svm.engines._compiled_steps import compiled, exact_step, for_each_row, violation_of
from tellwhy.classifiers.svm.engines._compiled_weights import listed_scores, one_score
from tellwhy.classifiers.svm.engines.records import Limits, Swept
from tellwhy.classifiers.svm.ranks._compiled_two_blocks import add_own, add_own_steps, keep_steps
from tellwhy.classifiers.svm.ranks.records import Chain


@compiled
def send_guests(visitors, rows, entries, lists, guests):
    """Copy entries and listed classes of some examples into arrays with room for them."""
    for t in range(len(visitors)):
        e = visitors[t]
        at = guests.indptr[t]
        low = entries.indptr[rows[e]]
        high = entries.indptr[rows[e] + 1]
        for p in range(low, high):
            guests.indices[at + p - low] = entries.indices[p]
            guests.values[at + p - low] = entries.values[p]
        guests.indptr[t + 1] = at + high - low
        at = guests.listed[t]
        for j in range(lists.lengths[e]):
            guests.classes[at + j] = lists.classes[lists.starts[e] + j]
        guests.listed[t + 1] = at + lists.lengths[e]


@compiled
def score_guests(first, last, guests, block, scores):
    """Scores of guests first … last for the classes that they list."""
    every = np.empty(block.n_classes, block.weights.dtype)
    for t in range(first, last):
        at = guests.listed[t]
        n = guests.listed[t + 1] - at
        out = scores[at - guests.listed[first] :]
        listed_scores(
            guests, guests.indptr[t], guests.indptr[t + 1], block, guests.classes, at, n, out, every
        )


@compiled
def add_guest_steps(first, last, guests, W, steps):
    """Take what the steps of guests first … last contribute from the weights of the classes they list."""
    step = np.empty(W.shape[1], W.dtype)
    step_classes = np.empty(W.shape[1], np.int64)
    for t in range(first, last):
        n_steps = 0
        for j in range(guests.listed[t], guests.listed[t + 1]):
            if steps[j - guests.listed[first]] != 0.0:
                step[n_steps] = steps[j - guests.listed[first]]
                step_classes[n_steps] = guests.classes[j]
                n_steps += 1
        for p in range(guests.indptr[t], guests.indptr[t + 1]):
            x = guests.values[p]
            w = W[guests.indices[p]]
            for j in range(n_steps):
                w[step_classes[j]] -= x * step[j]


@compiled
def add_to_labels(entries, examples, W, lists):
    """Add what the variables of a tile contribute to the weights of the labels of its examples."""
    for e in range(len(examples.rows)):
        row = examples.rows[e]
        held = 0.0
        for j in range(lists.starts[e], lists.starts[e] + lists.lengths[e]):
            held += lists.duals[j]
        if held != 0.0:
            for p in range(entries.indptr[row], entries.indptr[row + 1]):
                W[entries.indices[p], examples.labels[e]] += entries.values[p] * held


@compiled
def _new_chain(heads, n_guests, n_entries, n_listed):
    return Chain(
        heads=heads,
        links=np.empty(n_entries, np.int64),
        owner=np.empty(n_entries, np.int64),
        moved=np.zeros(n_guests + 1, np.int64),
        steps=np.empty(n_listed),
        step_classes=np.empty(n_listed, np.int64),
        inner=np.empty(n_guests),
        met=np.empty(n_guests, np.int64),
        is_near=np.zeros(n_guests, np.bool_),
    )


@for_each_row
def _add_earlier_steps(low, high, first_entry, guests, chain, shift):
    """Sum what the guests before this one moved into `shift`: the change of its scores, class by class.

    Entries of guests that moved are linked by feature, so that inner products with all of them are one pass.
    Returns how many guests had a feature in common.
    """
    n_met = 0
    for p in range(low, high):
        x = guests.values[p]
        e = chain.heads[guests.indices[p]]
        while e >= 0:
            i = chain.owner[e]
            if not chain.is_near[i]:
                chain.is_near[i] = True
                chain.inner[i] = 0.0
                chain.met[n_met] = i
                n_met += 1
            chain.inner[i] += x * guests.values[first_entry + e]
            e = chain.links[e]
    for k in range(n_met):
        i = chain.met[k]
        chain.is_near[i] = False
        for q in range(chain.moved[i], chain.moved[i + 1]):
            shift[chain.step_classes[q]] -= chain.inner[i] * chain.steps[q]
    return n_met


@for_each_row
def _link(low, high, first_entry, guests, chain, i):
    for p in range(low, high):
        e = p - first_entry
        f = guests.indices[p]
        chain.links[e] = chain.heads[f]
        chain.owner[e] = i
        chain.heads[f] = e


@for_each_row
def _keep_guest_steps(i, at, n, told, listing, lists, duals, chain, steps):
    """Keep the new values of a guest's variables and tell their steps; returns the sum of these."""
    total = 0.0
    for j in range(n):
        if duals[j] != lists.duals[at + j]:
            steps[told + j] = duals[j] - lists.duals[at + j]
            chain.steps[chain.moved[i + 1]] = steps[told + j]
            chain.step_classes[chain.moved[i + 1]] = listing[j]
            chain.moved[i + 1] += 1
            total += steps[told + j]
            lists.duals[at + j] = duals[j]
    return total


@for_each_row
def _guest_gains(at, n, told, listing, lists, scores, shift, base, cap, gains, duals, steps):
    """Set gains and variables of a guest for the classes of its host; returns Σ variables and violation."""
    held = 0.0
    violation = 0.0
    for j in range(n):
        duals[j] = lists.duals[at + j]
        held += duals[j]
        gains[j] = scores[told + j] + shift[listing[j]] + base
        violation = max(violation, violation_of(gains[j], duals[j], cap))
        steps[told + j] = 0.0
    return held, violation


@compiled
def sweep_guests(
    first,
    last,
    visitors,
    examples,
    guests,
    scores,
    own_block,
    own_lists,
    n_classes,
    lists,
    negligible,
    heads,
    steps,
):
    """Solve for guests first … last and the classes of their host and of their own block together.

    As `sweep_two_blocks` does. `scores` are those before the first guest moved; the steps of the host's
    variables come into `steps`.
    """
    first_entry = guests.indptr[first]
    n_entries = guests.indptr[last] - first_entry
    chain = _new_chain(heads, last - first, n_entries, guests.listed[last] - guests.listed[first])
    width = n_classes + own_block.n_classes
    gains = np.empty(width)
    v = np.empty(width)
    duals = np.empty(width)
    own_steps = np.empty(own_block.n_classes, own_block.weights.dtype)
    own_classes = np.empty(own_block.n_classes, np.int64)
    every = np.empty(own_block.n_classes, own_block.weights.dtype)
    shift = np.zeros(n_classes)
    worst = 0.0
    summed = 0.0
    for t in range(first, last):
        i = t - first
        e = visitors[t]
        low = guests.indptr[t]
        high = guests.indptr[t + 1]
        at = lists.starts[e]
        n = guests.listed[t + 1] - guests.listed[t]
        told = guests.listed[t] - guests.listed[first]
        listing = guests.classes[guests.listed[t] : guests.listed[t + 1]]
        n_met = _add_earlier_steps(low, high, first_entry, guests, chain, shift)
        base = 1.0 - one_score(guests, low, high, own_block.weights, examples.labels[e])
        cap = examples.caps[e]
        held, violation = _guest_gains(
            at, n, told, listing, lists, scores, shift, base, cap, gains, duals, steps
        )
        if n_met > 0:
            shift[:] = 0.0
        worst = max(worst, violation)
        summed += violation
        chain.moved[i + 1] = chain.moved[i]
        if violation <= negligible:
            lists.idle[e] += 1
            continue
        lists.idle[e] = 0
        own = own_lists.lengths[e]
        own_at = own_lists.starts[e]
        listed_scores(guests, low, high, own_block, own_lists.classes, own_at, own, gains[n:], every)
        held += add_own(e, own_lists, base, gains[n:], duals[n:])
        exact_step(gains, duals, v, n + own, Limits(examples.squares[e], cap, np.inf), held)
        total = _keep_guest_steps(i, at, n, told, listing, lists, duals, chain, steps)
        n_steps = keep_steps(e, own_lists, duals[n:], own_steps, own_classes)
        label = examples.labels[e]
        add_own_steps(low, high, guests, own_block.weights, label, own_classes, own_steps, n_steps, total)
        if chain.moved[i + 1] > chain.moved[i]:
            _link(low, high, first_entry, guests, chain, i)
    for p in range(first_entry, guests.indptr[last]):
        heads[guests.indices[p]] = -1
    return Swept(worst, summed, last - first)
