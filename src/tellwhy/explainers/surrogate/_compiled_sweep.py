"""Compiled sweeps of the sampler: each full conditional once, in an order that is part of the method.

Every draw changes a `State` in place and takes the same four arguments: state, data, numbers of the priors,
random numbers. Two moves are made between sweeps.

Order. A share is a piece of what earlier components leave of the stick. So large components with high numbers
go with other sticks, and another α, than large components with low ones; and α says how easily new components
come up. A component gets another number only if all its rows leave it, one by one: chains would keep the
order that they started with. Here two components exchange their numbers, with all that belongs to them and
the sticks u integrated out; only the probability of the components' sizes changes then. Sticks must be drawn
right afterwards. (Moves of this kind that keep the sticks: Papaspiliopoulos and Roberts, 2008; Hastie,
Liverani and Richardson, 2015.)

Partition. Gibbs steps move rows one by one, so that two components that should be one, or one that should be
two, take long to change. Here the rows S of a pair of components (a, b) are given out anew, with their
coefficients and the sticks u integrated out; scales t and variances are kept, but for those of b:

- both have rows: propose that all of S go to a, and that σ_b² be drawn from its prior;
- b is empty: propose σ_b² from a lognormal around σ_a², and a division of S.

As b's variance changes, its scales change with it, by t′ = t·σ²/σ′²: the prior of t/x², x = λ1/(2σ√λ2),
hardly depends on σ, while that of t does. After Jain and Neal (2007), divisions are drawn row by row from a
launch: two regressions, fitted in a few rounds from a random start that does not depend on the division that
there is. So the probability of the opposite proposal can be computed, and the step is Metropolis–Hastings.
"""

import math
from collections import namedtuple

import numpy as np

from tellwhy.core.compiled import njit
from tellwhy.explainers.surrogate._compiled_conditionals import (
    draw_alpha,
    draw_assignments,
    draw_coefficients,
    draw_coefficients_of,
    draw_gates,
    draw_net_weights,
    draw_nets,
    draw_penalties,
    draw_scales,
    draw_sticks,
    draw_variances,
    solve_regression,
)
from tellwhy.explainers.surrogate._compiled_draws import (
    LOG_2PI,
    draw_inverse_gaussian,
    log_erfcx,
    log_gamma_draw,
)

TRIES = 3  # exchanges that are tried in a sweep, for each component


@njit(nogil=True, cache=True)
def log_stick_prior(counts, alpha):
    """Log probability of the rows' components, the sticks integrated out, up to a constant."""
    found = 0.0
    beyond = counts.sum()
    for j in range(len(counts) - 1):
        beyond -= counts[j]
        found += math.lgamma(1.0 + counts[j]) + math.lgamma(alpha + beyond)
        found -= math.lgamma(1.0 + alpha + counts[j] + beyond)
    return found


@njit(nogil=True, cache=True)
def propose_order(counts, alpha, rng):
    """Component that takes each number, by Metropolis steps that exchange two; changes the counts as well."""
    J = len(counts)
    order = np.arange(J)
    level = log_stick_prior(counts, alpha)
    for _ in range(TRIES * J):
        a = rng.integers(0, J)
        b = (a + rng.integers(1, J)) % J
        counts[a], counts[b] = counts[b], counts[a]
        new = log_stick_prior(counts, alpha)
        if math.log(1.0 - rng.random()) < new - level:
            level = new
            order[a], order[b] = order[b], order[a]
        else:
            counts[a], counts[b] = counts[b], counts[a]
    return order


@njit(nogil=True, cache=True)
def draw_order(state, data, priors, rng):
    """Give the components other numbers, with a probability ∝ that of their sizes in the new order."""
    J = len(state.counts)
    if J == 1:
        return
    order = propose_order(state.counts, state.alpha[0], rng)
    number = np.empty(J, dtype=np.int64)  # new number of each component
    number[order] = np.arange(J)
    if (order == np.arange(J)).all():
        return
    state.c[:] = state.c[order]
    state.sigma2[:] = state.sigma2[order]
    state.t[:] = state.t[order]
    state.coef[:] = state.coef[order]
    state.gate_mean[:] = state.gate_mean[order]
    state.gate_var[:] = state.gate_var[order]
    if len(state.gram) > 0:
        state.gram[:J] = state.gram[:J][order]
        state.moment[:J] = state.moment[:J][order]
    for i in range(len(state.z)):
        state.z[i] = number[state.z[i]]
        if state.member[i] >= 0:
            state.member[i] = number[state.member[i]]


OFTEN = 0.1  # of the sweeps end with such a move, which costs as much as a few sweeps
FEW = 1000  # rows; with more, moves are as much rarer: they are hardly ever accepted then
ROUNDS = 3  # of the launch
WIDTH = 0.5  # standard deviation of the lognormal proposal of a variance

Pair = namedtuple("Pair", "is_merge a b rows sigma2_a sigma2_b empty t_b t_empty precision_a precision_b")
"""Two components whose rows are given out anew: σ² and t of b are those with rows, `empty` those without."""


@njit(nogil=True, cache=True)
def precision(j, t, state, priors):
    """D: prior precision of the intercept and of each coefficient of component j, in units of 1/σ²."""
    found = np.empty(state.coef.shape[1])
    found[0] = 1.0 / priors.intercept_variance
    found[1:] = state.lambda2[state.c[j]] * (1.0 + t)
    return found


@njit(nogil=True, cache=True)
def compute_gate_odds(row, pair, state, data):
    """Log odds of a row's place for b against a; 0 without gates."""
    found = 0.0
    for q in range(data.gates.shape[1]):
        place = data.gates[row, q]
        for j, sign in ((pair.a, -1.0), (pair.b, 1.0)):
            var = state.gate_var[j, q]
            found -= sign * 0.5 * (math.log(var) + (place - state.gate_mean[j, q]) ** 2 / var)
    return found


@njit(nogil=True, cache=True)
def compare_nearness(rows, data, rng):
    """Which of two random rows each row is nearer to, as log odds for the second: a start of two groups."""
    n = len(rows)
    first = rows[rng.integers(0, n)]
    second = rows[rng.integers(0, n)]
    p = max(data.X.shape[1] - 1, 1)
    odds = np.empty(n)
    for i in range(n):
        x = data.X[rows[i]]
        y = data.y[rows[i]]
        to_first = ((x - data.X[first]) ** 2).sum() / p + (y - data.y[first]) ** 2
        to_second = ((x - data.X[second]) ** 2).sum() / p + (y - data.y[second]) ** 2
        odds[i] = to_first - to_second
    return odds


@njit(nogil=True, cache=True)
def launch(pair, state, data, rng):
    """Log odds of each row for b, by two regressions that are fitted in rounds from a random start.

    It depends on which rows the pair has together, not on how these are divided at the moment.
    """
    rows = pair.rows
    n = len(rows)
    odds = compare_nearness(rows, data, rng)
    for _ in range(ROUNDS):
        in_b = odds > 0.0
        mean_a = solve_regression(rows[~in_b], data, pair.precision_a, pair.sigma2_a)[0]
        mean_b = solve_regression(rows[in_b], data, pair.precision_b, pair.sigma2_b)[0]
        shares = math.log((in_b.sum() + 0.5) / (n - in_b.sum() + 0.5))
        shares += 0.5 * math.log(pair.sigma2_a / pair.sigma2_b)
        for i in range(n):
            row = rows[i]
            miss_a = (data.y[row] - np.dot(data.X[row], mean_a)) ** 2 / pair.sigma2_a
            miss_b = (data.y[row] - np.dot(data.X[row], mean_b)) ** 2 / pair.sigma2_b
            odds[i] = shares + 0.5 * (miss_a - miss_b) + compute_gate_odds(row, pair, state, data)
    return odds


@njit(nogil=True, cache=True)
def log_sigmoid(x):
    """log(1/(1 + e⁻ˣ))."""
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


@njit(nogil=True, cache=True)
def log_variance_prior(sigma2, priors):
    """Log density of InverseGamma(a, b) at σ²."""
    a = priors.variance_shape
    b = priors.variance_scale
    return a * math.log(b) - math.lgamma(a) - (a + 1.0) * math.log(sigma2) - b / sigma2


@njit(nogil=True, cache=True)
def log_variance_proposal(sigma2, centre):
    """Log density of the lognormal around `centre` at σ²."""
    distance = (math.log(sigma2) - math.log(centre)) / WIDTH
    return -0.5 * (LOG_2PI + distance * distance) - math.log(WIDTH) - math.log(sigma2)


@njit(nogil=True, cache=True)
def log_scales_prior(j, t, sigma2, state):
    """Log prior density of x²-free scales t/x² of component j, up to what does not depend on σ²."""
    x = state.lambda1[state.c[j]] / (2.0 * math.sqrt(sigma2 * state.lambda2[state.c[j]]))
    return -0.5 * np.log(1.0 + t).sum() - len(t) * log_erfcx(x / math.sqrt(2.0))


@njit(nogil=True, cache=True)
def fill_scales(j, state, rng):
    """Draw the scales of an empty component given its coefficients: a sweep leaves them out."""
    lambda1 = state.lambda1[state.c[j]]
    lambda2 = state.lambda2[state.c[j]]
    shape = lambda1 * lambda1 / (4.0 * lambda2 * state.sigma2[j])
    for k in range(state.t.shape[1]):
        size = max(abs(state.coef[j, k + 1]), 1e-150)
        state.t[j, k] = draw_inverse_gaussian(lambda1 / (2.0 * lambda2 * size), shape, rng)


@njit(nogil=True, cache=True)
def choose_pair(a, b, state, priors, rng):
    """Components a and b, with what one of them is proposed to change to.

    Of σ_b² with rows and without, one is there and the other is proposed.
    """
    is_merge = state.counts[b] > 0
    if is_merge:
        with_rows = state.sigma2[b]
        empty = priors.variance_scale / math.exp(log_gamma_draw(priors.variance_shape, rng))
    else:
        fill_scales(b, state, rng)
        with_rows = state.sigma2[a] * math.exp(WIDTH * rng.standard_normal())
        empty = state.sigma2[b]
    t_with_rows = state.t[b] * (state.sigma2[b] / with_rows)
    t_empty = state.t[b] * (state.sigma2[b] / empty)
    rows = np.flatnonzero((state.z == a) | (state.z == b))
    precision_a = precision(a, state.t[a], state, priors)
    precision_b = precision(b, t_with_rows, state, priors)
    found = (is_merge, a, b, rows, state.sigma2[a], with_rows, empty, t_with_rows, t_empty)
    return Pair(*found, precision_a, precision_b)


@njit(nogil=True, cache=True)
def count_rows_of(pair, n_b, state):
    """Rows of each component when b has n_b of the pair's."""
    found = state.counts.copy()
    found[pair.a] = len(pair.rows) - n_b
    found[pair.b] = n_b
    return found


@njit(nogil=True, cache=True)
def log_merge_ratio(pair, in_b, odds, state, data, priors):
    """Log acceptance ratio of the merge; that of the split into the same division is its negative."""
    rows = pair.rows
    alpha = state.alpha[0]
    ratio = log_stick_prior(count_rows_of(pair, 0, state), alpha)
    ratio -= log_stick_prior(count_rows_of(pair, in_b.sum(), state), alpha)
    ratio += solve_regression(rows, data, pair.precision_a, pair.sigma2_a)[1]
    ratio -= solve_regression(rows[~in_b], data, pair.precision_a, pair.sigma2_a)[1]
    ratio -= solve_regression(rows[in_b], data, pair.precision_b, pair.sigma2_b)[1]
    ratio += log_scales_prior(pair.b, pair.t_empty, pair.empty, state)
    ratio -= log_scales_prior(pair.b, pair.t_b, pair.sigma2_b, state)
    # The prior of σ_b² without rows is its proposal, too, and cancels.
    ratio += log_variance_proposal(pair.sigma2_b, pair.sigma2_a) - log_variance_prior(pair.sigma2_b, priors)
    for i in range(len(rows)):
        ratio += log_sigmoid(odds[i]) if in_b[i] else log_sigmoid(-odds[i])
        if in_b[i]:
            ratio -= compute_gate_odds(rows[i], pair, state, data)
    return ratio


@njit(nogil=True, cache=True)
def accept(pair, in_b, state, data, priors, rng):
    """Change the state to what was proposed; draw sticks and coefficients from their full conditionals."""
    state.sigma2[pair.b] = pair.empty if pair.is_merge else pair.sigma2_b
    state.t[pair.b] = pair.t_empty if pair.is_merge else pair.t_b
    state.counts[:] = count_rows_of(pair, 0 if pair.is_merge else in_b.sum(), state)
    for i in range(len(pair.rows)):
        state.z[pair.rows[i]] = pair.b if in_b[i] and not pair.is_merge else pair.a
    draw_sticks(state, data, priors, rng)
    for j in (pair.a, pair.b):
        diagonal = precision(j, state.t[j], state, priors)
        state.coef[j] = draw_coefficients_of(
            np.flatnonzero(state.z == j), data, diagonal, state.sigma2[j], rng
        )


@njit(nogil=True, cache=True)
def split_or_merge(state, data, priors, rng):
    """Propose to merge a random pair of components or, where its second is empty, to split the first."""
    J = len(state.counts)
    a = rng.integers(0, J)
    b = (a + rng.integers(1, J)) % J
    if state.counts[a] == 0 or state.counts[a] + state.counts[b] < 2:
        return
    pair = choose_pair(a, b, state, priors, rng)
    tried = 2 if pair.is_merge else 0
    state.moves[tried] += 1
    odds = launch(pair, state, data, rng)
    in_b = state.z[pair.rows] == b
    if not pair.is_merge:
        for i in range(len(odds)):
            in_b[i] = math.log(1.0 - rng.random()) < log_sigmoid(odds[i])
        if in_b.sum() == 0 or in_b.all():  # no split, and no merge would lead back
            return
    ratio = log_merge_ratio(pair, in_b, odds, state, data, priors)
    if math.log(1.0 - rng.random()) < (ratio if pair.is_merge else -ratio):
        state.moves[tried + 1] += 1
        accept(pair, in_b, state, data, priors, rng)


@njit(nogil=True, cache=True)
def draw_partition(state, data, priors, rng):
    """After some of the sweeps, split or merge; not while a burn-in is annealed, nor without a pair."""
    often = OFTEN * min(1.0, FEW / len(state.z))
    if len(state.counts) > 1 and state.cold[0] >= 1.0 and rng.random() < often:
        split_or_merge(state, data, priors, rng)


@njit(nogil=True, cache=True)
def sweep(state, data, priors, rng):
    """One pass over all full conditionals and, after some of them, a move of whole groups of rows.

    The order of the components is drawn with the sticks integrated out: the sticks come right after it.
    Nets, penalties and variances are drawn with the scales t integrated out. So t comes after the last of
    them, and β after t: any β drawn from older scales would belong to other penalties. Moves that split and
    merge need scales and coefficients that belong together, and come last.
    """
    draw_assignments(state, data, priors, rng)
    draw_gates(state, data, priors, rng)
    draw_order(state, data, priors, rng)
    draw_sticks(state, data, priors, rng)
    draw_alpha(state, data, priors, rng)
    draw_nets(state, data, priors, rng)
    draw_net_weights(state, data, priors, rng)
    draw_penalties(state, data, priors, rng)
    draw_variances(state, data, priors, rng)
    draw_scales(state, data, priors, rng)
    draw_coefficients(state, data, priors, rng)
    draw_partition(state, data, priors, rng)


@njit(nogil=True, cache=True)
def run_sweeps(state, data, priors, rng, n_sweeps, thin, kept):
    """Run several sweeps; every `thin`-th state goes into `kept`, until that is full.

    Gram matrices are summed anew first: their rounding errors depend on how they came about, and a chain that
    is resumed from a checkpoint, which does not hold them, must give the same bits as one that ran through.
    """
    state.gram[:] = 0.0
    state.moment[:] = 0.0
    state.member[:] = -1
    for s in range(1, n_sweeps + 1):
        sweep(state, data, priors, rng)
        d = s // thin - 1
        if s % thin == 0 and d < len(kept.z):
            kept.z[d] = state.z
            kept.coef[d] = state.coef
            kept.log_pi[d] = state.log_pi
            kept.sigma2[d] = state.sigma2
            kept.gate_mean[d] = state.gate_mean
            kept.gate_var[d] = state.gate_var
