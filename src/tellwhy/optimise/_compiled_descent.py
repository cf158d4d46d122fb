"""The decisions of a descent, each written once, and the compiled loops that take them problem by problem.

A function marked `@for_one_or_many` is a decision. Python calls it with arrays that have one entry per
problem (numpy's or PyTorch's). The compiled loops further down call it with the numbers of one problem, and
numba compiles it into them. So a decision holds no `if`: `where` chooses, `&` and `|` combine. Decisions and
loops share this file because numba, which keeps compiled code on disk, notices changes in the file of a loop
but not in other files that the loop calls.

The two-loop recursion of limited-memory BFGS (Nocedal, 1980) multiplies a slope q by an approximate inverse
curvature. The last pairs of a step s and a change of slope y describe it, with ρ = 1/(s·y). Pairs lie in a
ring: pair k of a problem is at place k % history.
"""

from typing import NamedTuple

import numpy as np

from tellwhy.core.compiled import jitable, njit, overloads
from tellwhy.optimise.arrays import Array, find_namespace

# Sums may be added in any order (which makes vector instructions of them) and products fused into them. NaN
# and infinity keep their meaning: a score that overflows must not pass for a low one. The two recursions have
# their sums written out: calls of `dot` with rows of a table take a tenth longer, for counting references.
_sums = njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})


@_sums
def dot(a, b):
    """Return Σ_j a_j b_j."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@_sums
def largest(a):
    """Return the largest magnitude, 0 of nothing."""
    found = 0.0
    for j in range(len(a)):
        found = max(found, abs(a[j]))
    return found


@njit(nogil=True, cache=True)
def copy_scaled(a, b, factor):
    """Set b to factor · a; both may be the same."""
    for j in range(len(a)):
        b[j] = factor * a[j]


@_sums
def run_first_loop(q, steps, changes, rho, count, alphas):
    """First loop for one problem, on q itself: α = ρ s·q and q −= α y, from the newest pair to the oldest.

    Returns 1/curvature along the newest pair with ρ > 0 (0 where there is none).
    """
    history = len(rho)
    scale = 0.0
    for back in range(min(history, count)):
        k = (count - 1 - back) % history
        if rho[k] == 0.0:  # a pair of no use, or a forgotten one
            continue
        product = 0.0
        for j in range(len(q)):
            product += steps[k, j] * q[j]
        alphas[k] = rho[k] * product
        for j in range(len(q)):
            q[j] -= alphas[k] * changes[k, j]
        if scale == 0.0:
            square = 0.0
            for j in range(len(q)):
                square += changes[k, j] ** 2
            scale = 1.0 / (rho[k] * square)
    return scale


@_sums
def run_second_loop(q, steps, changes, rho, count, alphas):
    """Second loop, on q itself: from the oldest pair to the newest, q += (α − ρ y·q) s."""
    history = len(rho)
    for back in range(min(history, count) - 1, -1, -1):
        k = (count - 1 - back) % history
        if rho[k] == 0.0:
            continue
        product = 0.0
        for j in range(len(q)):
            product += changes[k, j] * q[j]
        factor = alphas[k] - rho[k] * product
        for j in range(len(q)):
            q[j] += factor * steps[k, j]


@njit(nogil=True, cache=True)
def take_off_changes(Q, which, pairs):
    """First loop of the problems `which`, on Q itself. Returns α and 1/curvature of each."""
    alphas = np.zeros((len(Q), pairs.rho.shape[1]))
    scale = np.zeros(len(Q))
    for i, p in enumerate(which):
        scale[i] = run_first_loop(
            Q[i], pairs.steps[p], pairs.changes[p], pairs.rho[p], pairs.count[p], alphas[i]
        )
    return alphas, scale


@njit(nogil=True, cache=True)
def add_steps(Q, alphas, which, pairs):
    """Second loop of the problems `which`, on Q itself."""
    for i, p in enumerate(which):
        run_second_loop(Q[i], pairs.steps[p], pairs.changes[p], pairs.rho[p], pairs.count[p], alphas[i])


ARMIJO = 1e-4  # share of the decrease foretold by the slope that a step must bring
WOLFE = 0.9  # share of the slope that may be left where a search ends
LEVEL = 0.5  # a point with less than this share of the slope lies near the bottom of its line
TRIALS = 24
ENOUGH_TRIALS = 4  # a problem that has gone down by then, or has nowhere to go, ends its search
FARTHEST = 1e9
STALLED = 1e-8  # of 1 + |f|: a decrease that is next to nothing where rounding lets no step go down any more
ROUNDING = 1e-11  # values closer than this may differ by rounding only; slopes then tell which point is lower
NEXT_TO_NOTHING = 1e-290  # keeps 1e9 divided by a direction's length below infinity
NO_CURVATURE = 1e-12  # of |step|·|change of slope|: less than this is rounding

# Division by zero gives infinity or NaN, as it does in numpy: decisions compute both sides of a `where`.
for_one_or_many = jitable(error_model="numpy")


def where(condition: Array, a: Array, b: Array) -> Array:
    """Return a where the condition holds, else b."""
    return find_namespace(condition).where(condition, a, b)


@overloads(where)
def _where_for_numbers(condition, a, b):  # noqa: ARG001  numba reads the arguments' names
    return lambda condition, a, b: a if condition else b


class Line(NamedTuple):
    """What stays the same while a problem searches along one direction."""

    f: Array  # value where the search began
    before: Array  # slope along the direction there, below 0
    longest: Array  # length of the step that would leave the range of sensible numbers


class Search(NamedTuple):
    """How far a search has come."""

    t: Array  # length to try next
    low: Array  # longest length so far that went down enough
    high: Array  # shortest length so far that went too far
    best_f: Array
    n_tried: Array


class Verdict(NamedTuple):
    """What a trial means: is it the best so far, is the search over, and how it goes on if not."""

    is_best: Array
    is_over: Array
    search: Search


# One record per problem: compiled loops read and write it in one place of memory. With a table for each name
# they take a third longer, most of it for counting references to tables.
STATE = np.dtype(
    [
        *[(name, np.float64) for name in ("f", "before", "longest", "t", "low", "high", "best_f")],
        ("promise", np.float64),  # decrease that a whole step would bring if the slope stayed as it is
        ("n_tried", np.int64),
        ("iteration", np.int64),
        ("part", np.int64),  # what `evaluate` says of the point for the precondition
        ("best_part", np.int64),
        ("has_moved", np.bool_),  # whether the search has found a best point
        ("converged", np.bool_),
    ],
    align=True,
)


class Pairs(NamedTuple):
    """The last steps of each problem and the changes of slope along them, in rings of equal size."""

    steps: Array  # (n, places, d)
    changes: Array  # (n, places, d)
    rho: Array  # (n, places): 1/(step·change), 0 where a pair is of no use
    count: Array  # (n,): pairs so far; the next one goes to place count % places


class Tables(NamedTuple):
    """All problems of a descent, a row each."""

    U: Array  # (n, d): where a problem is
    G: Array  # (n, d): slope there
    D: Array  # (n, d): direction of its search
    best_U: Array  # (n, d): best point of the search
    best_G: Array  # (n, d): slope there
    states: Array  # (n,) of STATE; for array functions, one array per name of STATE
    past: Pairs


class Rules(NamedTuple):
    """When a problem has arrived: its next step promises less than a tolerance, or than share·(tops − f)."""

    tolerances: Array  # by iteration; a problem ends after the last one
    share: float
    tops: Array  # (n,)


@for_one_or_many
def has_arrived(promise, f, tolerance, left):
    """Whether the next step is not worth taking: it promises too little, or what may be `left` undone."""
    return (promise <= tolerance * (1.0 + abs(f))) | (promise <= left)


@for_one_or_many
def start_line(f, promise, reach):
    """Begin a search in a direction whose largest entry has size `reach`."""
    return Line(f, -promise, FARTHEST / (reach + NEXT_TO_NOTHING))


@for_one_or_many
def judged(line, search, value, after, expected, has_edges):
    """Judge a trial, and choose the next length.

    Parameters
    ----------
    line, search
        The search so far.
    value, after
        Value at the trial point, and the slope along the direction there.
    expected
        Change of the value that the slope at the beginning foretells.
    has_edges
        Whether there are kinks or walls. They bend the way, so slopes along the direction then say nothing.
    """
    rise = value - line.f
    # At the bottom of a line values differ by rounding only; a small slope is then what tells a good step.
    is_level = (abs(after) < LEVEL * abs(line.before)) & (not has_edges)
    is_low = (rise <= ARMIJO * expected) | (is_level & (rise <= ROUNDING * (1.0 + abs(value))))
    is_best = is_low & ((value < search.best_f) | is_level)
    best_f = where(is_best, value, search.best_f)
    n_tried = search.n_tried + 1
    is_flat = (after >= WOLFE * line.before) | (2.0 * search.t > line.longest) | has_edges
    is_noise = -line.before <= STALLED * (1.0 + abs(line.f))
    is_enough = ((best_f < line.f) | is_noise) & (n_tried >= ENOUGH_TRIALS)
    is_over = (is_low & is_flat) | is_enough | (n_tried >= TRIALS)
    low = where(is_low, search.t, search.low)
    high = where(is_low, search.high, search.t)
    t = choose_next_length(search.t, low, high, line.before, rise)
    return Verdict(is_best, is_over, Search(t, low, high, best_f, n_tried))


@for_one_or_many
def choose_next_length(t, low, high, before, rise):
    """Twice as far where every length so far went down; else the lowest point of a parabola, or half-way.

    The parabola has the value and the slope at the beginning and the value at t. It is kept within a tenth
    and a half of t: values far away may be anything.
    """
    lowest = -before * t * t / (2.0 * (rise - before * t))
    is_number = abs(lowest) >= 0.0  # NaN is neither below nor above anything
    parabola = where(lowest > 0.1 * t, where(lowest < 0.5 * t, lowest, 0.5 * t), 0.1 * t)
    inside = where((low == 0.0) & is_number, parabola, 0.5 * (low + high))
    return where(high == np.inf, 2.0 * t, inside)


@for_one_or_many
def is_moving(has_moved, farthest):
    """Whether a search that is over has led anywhere: a best point may be the old one, by rounding."""
    return has_moved & (farthest > 0.0)


@for_one_or_many
def is_as_good_as_there(promise, f):
    """Whether a problem that cannot move counts as converged: no step could have brought much."""
    return promise <= STALLED * (1.0 + abs(f))


@for_one_or_many
def invert_curvature(product, step_square, change_square):
    """1/(step·change), or 0 where the pair tells no curvature: BFGS needs step·change > 0."""
    is_usable = product > NO_CURVATURE * (step_square * change_square) ** 0.5
    return where(is_usable, 1.0 / where(is_usable, product, 1.0), 0.0)


@njit(nogil=True, cache=True)
def _direct(p, tables, alphas):
    """Set the direction to −H·slope by the recursion of limited-memory BFGS."""
    D = tables.D[p]
    past = tables.past
    copy_scaled(tables.G[p], D, 1.0)
    copy_scaled(alphas, alphas, 0.0)  # pairs of no use are passed over and leave their place as it was
    scale = run_first_loop(D, past.steps[p], past.changes[p], past.rho[p], past.count[p], alphas)
    if scale == 0.0:
        scale = 1.0 / max(largest(D), 1.0)
    # The second loop is linear: run on −q with −α it gives −H·slope, without another pass for the sign.
    copy_scaled(D, D, -scale)
    copy_scaled(alphas, alphas, -1.0)
    run_second_loop(D, past.steps[p], past.changes[p], past.rho[p], past.count[p], alphas)


@njit(nogil=True, cache=True)
def _promise(slope, direction, rho):
    """Return the decrease that the direction promises; one that does not go down is replaced."""
    promise = -dot(slope, direction)
    if not promise > 0.0:  # written so that NaN is replaced too
        copy_scaled(slope, direction, -1.0 / max(largest(slope), 1.0))
        copy_scaled(rho, rho, 0.0)
        promise = -dot(slope, direction)
    return promise


@njit(nogil=True, cache=True)
def _begin(p, tables, rules):
    """Begin a search along the direction; tell whether there is any way to go."""
    state = tables.states[p]
    D = tables.D[p]
    f = state.f
    state.promise = _promise(tables.G[p], D, tables.past.rho[p])
    if has_arrived(state.promise, f, rules.tolerances[state.iteration], rules.share * (rules.tops[p] - f)):
        state.converged = True
        return False
    line = start_line(f, state.promise, largest(D))
    state.before = line.before
    state.longest = line.longest
    state.t = 1.0
    state.low = 0.0
    state.high = np.inf
    state.best_f = f
    state.n_tried = 0
    state.has_moved = False
    state.iteration += 1
    return True


@njit(nogil=True, cache=True)
def _is_over(p, trial, value, slope, part, tables):
    """Judge the trial of one problem, keep it if it is the best so far, tell whether the search is over."""
    state = tables.states[p]
    line = Line(state.f, state.before, state.longest)
    search = Search(state.t, state.low, state.high, state.best_f, state.n_tried)
    verdict = judged(line, search, value, dot(slope, tables.D[p]), search.t * line.before, False)
    state.t = verdict.search.t
    state.low = verdict.search.low
    state.high = verdict.search.high
    state.best_f = verdict.search.best_f
    state.n_tried = verdict.search.n_tried
    if verdict.is_best:
        copy_scaled(trial, tables.best_U[p], 1.0)
        copy_scaled(slope, tables.best_G[p], 1.0)
        state.best_part = part
        state.has_moved = True
    return verdict.is_over


@njit(nogil=True, cache=True)
def _move(p, tables):
    """Go to the best point of a search; tell whether the problem can go on.

    A problem that went nowhere forgets its steps and tries again. When it had none to forget, it has ended.
    """
    state = tables.states[p]
    U = tables.U[p]
    best_U = tables.best_U[p]
    past = tables.past
    rho = past.rho[p]
    if not is_moving(state.has_moved, _find_farthest(best_U, U)):
        tries_again = largest(rho) > 0.0
        copy_scaled(rho, rho, 0.0)
        if not tries_again:
            state.converged = is_as_good_as_there(state.promise, state.f)
        return tries_again
    place = past.count[p] % len(rho)
    rho[place] = _go(U, tables.G[p], best_U, tables.best_G[p], past.steps[p, place], past.changes[p, place])
    past.count[p] += 1
    state.f = state.best_f
    state.part = state.best_part
    return True


@njit(nogil=True, cache=True)
def _find_farthest(a, b):
    """Return the largest difference of two rows."""
    found = 0.0
    for j in range(len(a)):
        found = max(found, abs(a[j] - b[j]))
    return found


@njit(nogil=True, cache=True)
def _go(U, G, best_U, best_G, step, change):
    """Go to the best point; write down the step and the change of slope, and return their 1/curvature."""
    for j in range(len(U)):
        step[j] = best_U[j] - U[j]
        change[j] = best_G[j] - G[j]
        U[j] = best_U[j]
        G[j] = best_G[j]
    return invert_curvature(dot(step, change), dot(step, step), dot(change, change))


@njit(nogil=True, cache=True)
def aim(which, is_directed, tables, rules):
    """Begin new searches, in directions chosen here unless they already are; return who has a way to go."""
    kept = np.empty_like(which)
    n = 0
    alphas = np.zeros(tables.past.rho.shape[1])
    for p in which:
        if tables.states[p].iteration >= len(rules.tolerances):
            continue
        if not is_directed:
            _direct(p, tables, alphas)
        if _begin(p, tables, rules):
            kept[n] = p
            n += 1
    return kept[:n]


@njit(nogil=True, cache=True)
def judge(going, trials, values, slopes, parts, tables):
    """Judge the trials of some problems, and move those whose search is over.

    Returns the problems that are still searching, and those that have moved and are to aim anew. One problem
    after the other, so that its rows are read from memory once for all that is done to them.
    """
    searching = np.empty_like(going)
    moved = np.empty_like(going)
    n_searching = 0
    n_moved = 0
    for i, p in enumerate(going):
        if not _is_over(p, trials[i], values[i], slopes[i], parts[i], tables):
            searching[n_searching] = p
            n_searching += 1
        elif _move(p, tables):
            moved[n_moved] = p
            n_moved += 1
    return searching[:n_searching], moved[:n_moved]
