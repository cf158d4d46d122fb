"""The maths of one example: the best values of its dual variables, and how far they are from them.

Around it, the loops between the entries of a row and the weights (scores, and steps added to weights), and
the room that compiled loops work in.
"""

import numpy as np

from tellwhy.core.compiled import njit

# Sums may be reordered into vector instructions; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "arcp", "nsz"}
compiled = njit(nogil=True, cache=True, fastmath=FAST)
# What is called for each row allocates nothing, so that counting references to its arrays (_nrt) is waste: by
# atomic operations, which take up to half of the time where rows are short.
for_each_row = njit(nogil=True, cache=True, fastmath=FAST, _nrt=False)
# The same for what is called in one place of a loop: handing over all its arrays would cost as much again.
inlined = njit(nogil=True, cache=True, fastmath=FAST, _nrt=False, forceinline=True)
# Steps are added to weights without fast math: a weight gets the same bits however its loop was cut up. It
# has to be told: a function that does not say takes over the fast math of the first one that calls it.
to_the_bit = njit(nogil=True, cache=True, fastmath=False, _nrt=False)
NEVER = -1e30  # a gain so low that an example's own label is never taken for a rival
_ALL_BUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
NEWTON_STEPS = 200  # far more than the bracket needs: each halves it at worst


@inlined
def place(x):
    """A whole number that is larger for a larger x: the largest of these is found by vector instructions."""
    # Of numbers below zero the bits are the larger the further they are from it.
    bits = np.float64(x).view(np.int64)
    return bits ^ ((bits >> np.int64(63)) & _ALL_BUT_SIGN)


@inlined
def placed(number):
    """The x whose place this is."""
    return np.int64(number ^ ((number >> np.int64(63)) & _ALL_BUT_SIGN)).view(np.float64)


@for_each_row
def find_block_level(v, n, cap, sum_cap, guess):
    """Root t of Σ_c clip(v_c − t, 0, cap) = min(t, sum_cap), by Newton steps kept inside a bracket.

    Weston–Watkins: cap = C_i, sum_cap = ∞. Crammer–Singer: cap = ∞, sum_cap = C_i.
    """
    low = -np.inf
    high = np.inf
    t = min(max(guess, 0.0), sum_cap)
    for _ in range(NEWTON_STEPS):
        total = 0.0
        slope = 0.0
        for j in range(n):
            u = v[j] - t
            total += min(max(u, 0.0), cap)
            slope += 1.0 if (u > 0.0 and u < cap) else 0.0
        if t < sum_cap:
            excess = total - t
            slope += 1.0
        else:
            excess = total - sum_cap
        if abs(excess) <= 1e-14 * max(1.0, t):
            break
        # The left side falls and the right side rises with t, together by at least as much as t itself up to
        # the root: it is no further away than the first excess. Twice that leaves it inside the bracket.
        if excess > 0.0:
            low = t
            high = t + 2.0 * excess if high == np.inf else high
        else:
            high = t
            low = t + 2.0 * excess if low == -np.inf else low
        # Both sides are piecewise linear, so that plain Newton can jump between two kinks for ever: a step
        # that leaves the bracket is replaced by its middle.
        step = t + excess / slope if slope > 0.0 else low
        if not (step > low and step < high):
            step = 0.5 * (low + high)
        if step == t:
            break
        t = step
    return t


@for_each_row
def take_coordinate_steps(gains, duals, n, square, cap):
    """Algorithm 3: one class of an example after the other; `duals` change in place. Returns Σ steps."""
    moved = 0.0
    for j in range(n):
        # Earlier steps moved the label's weights too, which lowers the gain of every class by ‖x‖² of each.
        step = min(max((gains[j] - square * moved) / (2.0 * square), -duals[j]), cap - duals[j])
        if step != 0.0:
            duals[j] += step
            moved += step
    return moved


@for_each_row
def keep_sum(duals, n, sum_cap):
    """Scale variables down to a sum that is allowed, where rounding took them beyond it.

    Of tiny rows, gains are divided by ‖x‖²: what is left of v − t then has an error of many C.
    """
    if sum_cap == np.inf:
        return
    total = 0.0
    for j in range(n):
        total += duals[j]
    if total > sum_cap * (1.0 + 1e-9):
        for j in range(n):
            duals[j] *= sum_cap / total


@for_each_row
def take_exact_step(gains, duals, v, n, limits, dual_sum):
    """Set all variables of an example to their best values together; v is room to work in."""
    for j in range(n):
        v[j] = gains[j] / limits.square + duals[j] + dual_sum
    level = find_block_level(v, n, limits.cap, limits.sum_cap, dual_sum)
    for j in range(n):
        duals[j] = min(max(v[j] - level, 0.0), limits.cap)
    keep_sum(duals, n, limits.sum_cap)


@for_each_row
def measure_violation_of(gain, dual, cap):
    """How far a variable is from its optimality condition: at a bound, only one sign of the gain counts."""
    if gain > 0.0:
        return gain if dual < cap else 0.0
    return -gain if dual > 0.0 else 0.0


@for_each_row
def find_largest_violation(gains, duals, n, cap):
    """The largest violation of n variables."""
    worst = place(0.0)
    for j in range(n):
        up = gains[j] if duals[j] < cap else 0.0
        down = -gains[j] if duals[j] > 0.0 else 0.0
        worst = max(worst, place(up), place(down))
    return placed(worst)


@for_each_row
def find_extremes(gains, duals, n, least):
    """The largest gain of n variables, at least `least`, and the smallest of those that are not zero."""
    most = place(least)
    never = place(np.inf)
    least_held = never
    for j in range(n):
        gain = place(gains[j])
        most = max(most, gain)
        least_held = min(least_held, gain if duals[j] > 0.0 else never)
    return placed(most), placed(least_held)


@for_each_row
def sum_violation(most, least_held, dual_sum, sum_cap):
    """The same where the sum of an example's variables is bounded: all that are held should gain the most.

    `most` is the largest gain, `least_held` the smallest gain of a variable that is not zero.
    """
    worst = max(most, 0.0) - least_held if dual_sum > 0.0 else 0.0
    # A sum at its bound cannot grow, so that a positive gain is no violation; rounding leaves it just below.
    return worst if dual_sum >= sum_cap * (1.0 - 1e-12) else max(worst, most)


@for_each_row
def solve_listed(gains, base, limits, n, old, new, v, sweep):
    """Solve for the n variables `old` of an example into `new`, unless its violation is negligible.

    Returns the violation. `gains` come as scores; 1 − the score of the label, `base`, is added to them.
    """
    dual_sum = 0.0
    for j in range(n):
        new[j] = old[j]
        dual_sum += old[j]
        gains[j] += base
    if limits.sum_cap < np.inf:
        most, least_held = find_extremes(gains, old, n, NEVER)
        violation = sum_violation(most, least_held, dual_sum, limits.sum_cap)
    else:
        violation = find_largest_violation(gains, old, n, limits.cap)
    if violation > sweep.negligible:
        if sweep.is_exact:
            take_exact_step(gains, new, v, n, limits, dual_sum)
        else:
            take_coordinate_steps(gains, new, n, limits.square, limits.cap)
    return violation


@for_each_row
def bar_own(e, examples, block, gains):
    """Give the labels of an example among the classes of a block a gain that no step can follow."""
    for j in range(examples.own_at[e], examples.own_at[e + 1]):
        c = examples.own[j] - block.offset
        if 0 <= c < block.n_classes:
            gains[c] = NEVER


@for_each_row
def solve_all(e, scores, base, limits, examples, block, duals, v, steps, is_exact):
    """Solve for the variables `duals` of an example against all classes of a block, in place.

    Returns whether there is a step, and the sum of the steps. `scores` are lost: the old values need room.
    """
    n = block.n_classes
    dual_sum = 0.0
    for c in range(n):
        dual_sum += duals[c]
    for c in range(n):
        v[c] = (base + scores[c]) / limits.square + duals[c] + dual_sum if is_exact else base + scores[c]
        scores[c] = duals[c]
    bar_own(e, examples, block, v)
    if is_exact:
        level = find_block_level(v, n, limits.cap, limits.sum_cap, dual_sum)
        for c in range(n):
            duals[c] = min(max(v[c] - level, 0.0), limits.cap)
        keep_sum(duals, n, limits.sum_cap)
    else:
        take_coordinate_steps(v, duals, n, limits.square, limits.cap)
    moved = 0
    total = 0.0
    for c in range(n):
        steps[c] = duals[c] - scores[c]
        total += steps[c]
        moved |= steps[c] != 0.0
    return moved, total


@for_each_row
def collect_steps(at, n, classes, old, new, steps, step_classes):
    """List the steps from `old` to `new` that are not zero with their classes: how many, and their sum."""
    n_steps = 0
    total = 0.0
    for j in range(n):
        steps[n_steps] = new[j] - old[j]
        if steps[n_steps] != 0.0:
            total += steps[n_steps]
            step_classes[n_steps] = classes[at + j]
            n_steps += 1
    return n_steps, total


MANY = 8  # where more than one class of so many is listed, computing all scores is faster than picking


@for_each_row
def score_all_classes(entries, low, high, weights, n_classes, scores):
    """Scores of all classes of a block from the entries low … high of a row."""
    for c in range(n_classes):
        scores[c] = 0.0
    # Classes inside: their weights lie side by side, so that the inner loop becomes vector instructions.
    for p in range(low, high):
        x = entries.values[p]
        w = weights[entries.indices[p]]
        for c in range(n_classes):
            scores[c] += x * w[c]


@for_each_row
def score_listed_classes(entries, low, high, block, classes, at, n, scores, every):
    """Scores of the n classes listed from `at` on; `every` is room for those of all classes."""
    if MANY * n > block.n_classes:
        score_all_classes(entries, low, high, block.weights, block.n_classes, every)
        for j in range(n):
            scores[j] = every[classes[at + j]]
        return
    for j in range(n):
        scores[j] = 0.0
    for p in range(low, high):
        x = entries.values[p]
        w = block.weights[entries.indices[p]]
        for j in range(n):
            scores[j] += x * w[classes[at + j]]


@for_each_row
def score_one(entries, low, high, weights, c):
    """Score of one class."""
    # One class: a weight from each of many cache lines, which no order of loops could avoid.
    score = 0.0
    for p in range(low, high):
        score += entries.values[p] * weights[entries.indices[p], c]
    return score


@for_each_row
def dot(entries, low, high, w):
    """Inner product of a row with a dense vector."""
    product = 0.0
    for p in range(low, high):
        product += entries.values[p] * w[entries.indices[p]]
    return product


@to_the_bit
def add_steps(entries, low, high, label_weights, label, weights, steps, step_classes, n_steps, total):
    """Take the listed steps of an example from the weights of their classes; the label's gain the sum."""
    for p in range(low, high):
        x = entries.values[p]
        f = entries.indices[p]
        w = weights[f]
        for j in range(n_steps):
            w[step_classes[j]] -= x * steps[j]
        label_weights[f, label] += x * total


@to_the_bit
def add_all_steps(entries, low, high, label_weights, label, weights, n_classes, steps, total):
    """The same for the steps of all classes of a block."""
    for p in range(low, high):
        x = entries.values[p]
        f = entries.indices[p]
        w = weights[f]
        for c in range(n_classes):
            w[c] -= x * steps[c]
        label_weights[f, label] += x * total


# Entries, at least 256 bytes. Before a vector loop, compiled code looks whether two arrays lie so close that
# a vector of one could reach into the other, and then takes a loop that sums in another order. With less room
# between arrays the last bits of a result would depend on where they happen to lie in memory.
CACHE_PADDING = 64


@compiled
def scratch(n, dtype):
    """Room for n numbers, far from everything else."""
    return np.empty(n + 2 * CACHE_PADDING, dtype)[CACHE_PADDING : CACHE_PADDING + n]


@compiled
def make_scratch_rows(n_rows, n, dtype):
    """The same for several rows of at least n numbers each."""
    return np.empty((n_rows + 2, n + CACHE_PADDING), dtype)[1 : n_rows + 1]
