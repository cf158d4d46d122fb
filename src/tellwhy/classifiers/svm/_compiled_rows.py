"""Compiled pieces of dual coordinate ascent for the variables of one row."""

import numba
import numpy as np

# Sums may be reordered into vector instructions; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "arcp", "nsz"}
_compiled = numba.njit(nogil=True, cache=True, fastmath=FAST)
NEVER = -1e30  # a score so low that a row's own label is never taken for another class


@_compiled
def block_level(v, m, top, total, level):
    """Root t of Σ_c clip(v_c − t, 0, top) = min(t, total), by Newton steps kept inside a bracket.

    Weston–Watkins: top = C_i, total = ∞. Crammer–Singer: top = ∞, total = C_i. `level` is a first guess.
    """
    low, high, most = 0.0, 0.0, 0.0
    for j in range(m):
        high += min(max(v[j], 0.0), top)
        most = max(most, v[j])
    high = min(high, most)
    t = min(max(level, 0.0), high)
    for _ in range(200):
        mass, inside = 0.0, 0.0
        for j in range(m):
            u = v[j] - t
            mass += min(max(u, 0.0), top)
            inside += 1.0 if (u > 0.0 and u < top) else 0.0
        if t < total:
            excess = mass - t
            inside += 1.0
        else:
            excess = mass - total
        if abs(excess) <= 1e-14 * max(1.0, t):
            break
        if excess > 0.0:
            low = t
        else:
            high = t
        step = t + excess / inside if inside > 0.0 else low
        if not (step > low and step < high):
            step = 0.5 * (low + high)
        if step == t:
            break
        t = step
    return t


@_compiled
def coordinate_steps(gain, a, m, k, top):
    """Algorithm 3 for the classes of one row in turn; `a` is updated in place. Returns Σ steps."""
    moved = 0.0
    for j in range(m):
        step = min(max((gain[j] - k * moved) / (2.0 * k), -a[j]), top - a[j])
        if step != 0.0:
            a[j] += step
            moved += step
    return moved


@_compiled
def _all_scores(indices, values, low, high, W, m, scores):
    for c in range(m):
        scores[c] = 0.0
    for p in range(low, high):
        x, w = values[p], W[indices[p]]
        for c in range(m):
            scores[c] += x * w[c]


@_compiled
def _listed_scores(indices, values, low, high, W, m, cls, at, n, scores, every):
    """Scores of the n listed classes; where they are many, of all m classes by vector instructions."""
    if 8 * n > m:
        _all_scores(indices, values, low, high, W, m, every)
        for j in range(n):
            scores[j] = every[cls[at + j]]
        return
    for j in range(n):
        scores[j] = 0.0
    for p in range(low, high):
        x, w = values[p], W[indices[p]]
        for j in range(n):
            scores[j] += x * w[cls[at + j]]


@_compiled
def _one_score(indices, values, low, high, W, c):
    s = 0.0
    for p in range(low, high):
        s += values[p] * W[indices[p], c]
    return s


@_compiled
def _dot(indices, values, low, high, w):
    s = 0.0
    for p in range(low, high):
        s += values[p] * w[indices[p]]
    return s


@_compiled
def _violation(gain, a, top):
    """How far a variable is from satisfying its optimality condition."""
    if gain > 0.0:
        return gain if a < top else 0.0
    return -gain if a > 0.0 else 0.0


@_compiled
def _total_violation(most, least_held, held, total):
    """The same for the variables of a row whose sum is bounded: all that are held should gain the most."""
    worst = max(most, 0.0) - least_held if held > 0.0 else 0.0
    return worst if held >= total * (1.0 - 1e-12) else max(worst, most)


@_compiled
def _exact_step(scores, a, v, n, k, top, total, held):
    """Set all variables of a row to their best values together; v is room to work in."""
    for j in range(n):
        v[j] = scores[j] / k + a[j] + held
    level = block_level(v, n, top, total, held)
    for j in range(n):
        a[j] = min(max(v[j] - level, 0.0), top)


@_compiled
def _settle(scores, base, k, top, total, n, val, v, a, calm, exact):
    """Solve for the variables `val` of a row into `a` unless it is calm; returns its violation. Scores become gains."""
    held, violation, least_held, most = 0.0, 0.0, np.inf, NEVER
    for j in range(n):
        a[j] = val[j]
        held += a[j]
        scores[j] += base
        most = max(most, scores[j])
        if a[j] > 0.0:
            least_held = min(least_held, scores[j])
        violation = max(violation, _violation(scores[j], a[j], top))
    if total < np.inf:
        violation = _total_violation(most, least_held, held, total)
    if violation > calm:
        if exact:
            _exact_step(scores, a, v, n, k, top, total, held)
        else:
            coordinate_steps(scores, a, n, k, top)
    return violation


@_compiled
def _differences(at, n, cls, val, a, step, at_class):
    """Steps from the variables of a row to `a`, without those that are zero: how many there are, and their sum."""
    changed, change = 0, 0.0
    for j in range(n):
        step[changed] = a[j] - val[j]
        if step[changed] != 0.0:
            change += step[changed]
            at_class[changed] = cls[at + j]
            changed += 1
    return changed, change


@numba.njit(nogil=True, cache=True)
def _add_step(indices, values, low, high, W, label, at_class, step, changed, change):
    for p in range(low, high):
        x, w = values[p], W[indices[p]]
        for j in range(changed):
            w[at_class[j]] -= x * step[j]
        w[label] += x * change


@_compiled
def _unlist_row(r, start, count, cls, val, m, a):
    """Set a to the variables of all classes of a row."""
    for c in range(m):
        a[c] = 0.0
    for j in range(start[r], start[r] + count[r]):
        a[cls[j]] = val[j]


@_compiled
def _settle_all(scores, base, k, top, total, m, first, last, owned, a, v, step, exact):
    """Solve for the variables `a` of all classes of a row, in place.

    Returns whether there is a `step`, and the sum of the steps of all classes.
    """
    held, change, moved = 0.0, 0.0, 0
    for c in range(m):
        held += a[c]
    for c in range(m):
        v[c] = (base + scores[c]) / k + a[c] + held if exact else base + scores[c]
        scores[c] = a[c]
    for j in range(first, last):
        v[owned[j]] = NEVER
    if exact:
        level = block_level(v, m, top, total, held)
        for c in range(m):
            a[c] = min(max(v[c] - level, 0.0), top)
    else:
        coordinate_steps(v, a, m, k, top)
    for c in range(m):
        step[c] = a[c] - scores[c]
        change += step[c]
        moved |= step[c] != 0.0
    return moved, change


@_compiled
def _list_row(r, a, m, start, count, cls, val, used):
    """List the variables of a row that are not zero behind the `used` entries; returns how many are used then."""
    start[r] = used
    for c in range(m):
        if a[c] > 0.0:
            cls[used], val[used] = c, a[c]
            used += 1
    count[r] = used - start[r]
    return used


@numba.njit(nogil=True, cache=True)
def _add_full_step(indices, values, low, high, W, label, m, step, change):
    for p in range(low, high):
        x, w = values[p], W[indices[p]]
        for c in range(m):
            w[c] -= x * step[c]
        w[label] += x * change
