"""Compiled draws from the full conditionals of z, u, α, c, w, λ, σ², t, β: their table stands in `sampler`.

First the component of each row with shares and places of components; then the elastic nets; then
coefficients, by columns or by rows; last the regression of some rows given the precisions of its
coefficients.
"""

import math

import numpy as np

from tellwhy.core.compiled import njit
from tellwhy.explainers.surrogate._compiled_draws import (
    LOG_2PI,
    REACH,
    LogScale,
    draw_inverse_gaussian,
    draw_normal_above,
    log_elastic_net,
    log_gamma_draw,
    log_sum,
    pick,
    slice_step,
)


@njit(nogil=True, cache=True)
def compute_row_log_densities(state, data):
    """log π_j + log N(y_i; x̃_iᵀβ_j, σ_j²), and the gate's density of each row, shape (n, J)."""
    found = np.dot(data.X, np.ascontiguousarray(state.coef.T))  # fitted values, overwritten below
    n, J = found.shape
    for j in range(J):
        constant = state.log_pi[j] - 0.5 * (LOG_2PI + math.log(state.sigma2[j]))
        for i in range(n):
            found[i, j] = constant - 0.5 * (data.y[i] - found[i, j]) ** 2 / state.sigma2[j]
        for q in range(data.gates.shape[1]):
            mean = state.gate_mean[j, q]
            var = state.gate_var[j, q]
            log_scale = 0.5 * (LOG_2PI + math.log(var))
            for i in range(n):
                found[i, j] -= log_scale + 0.5 * (data.gates[i, q] - mean) ** 2 / var
    return found


@njit(nogil=True, cache=True)
def draw_assignments(state, data, priors, rng):
    """Row z_i: ∝ π_j N(y_i; x̃_iᵀβ_j, σ_j²).

    While a burn-in is annealed, densities are raised to the power `cold` < 1: rows then change component more
    easily, and chains do not stick to the groups they started from.
    """
    densities = compute_row_log_densities(state, data) * state.cold[0]
    state.counts[:] = 0
    for i in range(len(densities)):
        j = pick(densities[i], rng)
        state.z[i] = j
        state.counts[j] += 1


@njit(nogil=True, cache=True)
def draw_sticks(state, data, priors, rng):
    """Row u_j: Beta(1 + n_j, α + Σ_{l>j} n_l), u_J = 1; keeps log(1 − u_j) and log π_j.

    A beta draw is a ratio of gamma draws; it is taken in logarithms because 1 − u_j may underflow, and α is
    drawn from its logarithm.
    """
    J = len(state.counts)
    beyond = len(state.z)  # rows of later components
    left = 0.0  # log of the stick that is left
    for j in range(J - 1):
        beyond -= state.counts[j]
        taken = log_gamma_draw(1.0 + state.counts[j], rng)
        rest = log_gamma_draw(state.alpha[0] + beyond, rng)
        total = log_sum(taken, rest)
        state.log_pi[j] = left + taken - total
        state.log_rest[j] = rest - total
        left += state.log_rest[j]
    state.log_pi[J - 1] = left


@njit(nogil=True, cache=True)
def draw_alpha(state, data, priors, rng):
    """Row α: Gamma(e + J − 1, rate f − Σ_{j<J} log(1 − u_j)); the supplement prints the shape J + e + 1."""
    J = len(state.counts)
    rate = priors.alpha_rate - state.log_rest[: J - 1].sum()
    state.alpha[0] = math.exp(log_gamma_draw(priors.alpha_shape + J - 1, rng)) / rate


@njit(nogil=True, cache=True)
def draw_gates(state, data, priors, rng):
    """Row gates: mean and variance of each component's place, one normal-inverse-gamma draw per coordinate.

    Nothing is drawn without gates. An empty component draws from the prior, N(0, var/gate_count).
    """
    for j in range(len(state.counts)):
        rows = np.flatnonzero(state.z == j)
        n = len(rows)
        for q in range(data.gates.shape[1]):
            column = data.gates[rows, q]
            centre = column.sum() / max(n, 1)
            spread = ((column - centre) ** 2).sum()
            weight = priors.gate_count + n
            shape = priors.gate_shape + 0.5 * n
            scale = priors.gate_scale + 0.5 * (spread + priors.gate_count * n / weight * centre**2)
            state.gate_var[j, q] = scale / math.exp(log_gamma_draw(shape, rng))
            deviation = math.sqrt(state.gate_var[j, q] / weight)
            state.gate_mean[j, q] = n * centre / weight + deviation * rng.standard_normal()


@njit(nogil=True, cache=True)
def compute_norms(state):
    """Σ|β_jl| and Σβ_jl² of each component; the intercept has a prior of its own and is left out."""
    J, width = state.coef.shape
    l1 = np.zeros(J)
    l2 = np.zeros(J)
    for j in range(J):
        for k in range(1, width):
            l1[j] += abs(state.coef[j, k])
            l2[j] += state.coef[j, k] ** 2
    return l1, l2


@njit(nogil=True, cache=True)
def draw_nets(state, data, priors, rng):
    """Row c_j: ∝ w_k EN(β_j | σ_j², λ_k), the scales t integrated out."""
    l1, l2 = compute_norms(state)
    K = len(state.log_w)
    p = state.coef.shape[1] - 1
    logits = np.empty(K)
    for j in range(len(state.c)):
        for k in range(K):
            density = log_elastic_net(l1[j], l2[j], p, state.sigma2[j], state.lambda1[k], state.lambda2[k])
            logits[k] = state.log_w[k] + density
        state.c[j] = pick(logits, rng)


@njit(nogil=True, cache=True)
def draw_net_weights(state, data, priors, rng):
    """Row w: Dirichlet(1/K + m_k), m_k = #{j: c_j = k}, empty components included.

    A Dirichlet draw is gamma draws over their sum, in logarithms because 1/K may be small.
    """
    K = len(state.log_w)
    total = -np.inf
    for k in range(K):
        members = 0
        for j in range(len(state.c)):
            members += state.c[j] == k
        state.log_w[k] = log_gamma_draw(1.0 / K + members, rng)
        total = state.log_w[k] if k == 0 else log_sum(total, state.log_w[k])
    for k in range(K):
        state.log_w[k] -= total


@njit(nogil=True, cache=True)
def draw_penalties(state, data, priors, rng):
    """Rows λ1_k and λ2_k: a slice step on each logarithm; from the prior where no component uses the net.

    With x/√2 = λ1/√(8σ²λ2), the argument of erfcx grows with λ1 (inner = 1) and with λ2^(−½) (inner = −½).
    Slopes hold the prior's shape, whose −1 the Jacobian cancels; Z adds p/2·log λ2 for each component.
    """
    l1, l2 = compute_norms(state)
    p = state.coef.shape[1] - 1
    for k in range(len(state.log_w)):
        members = np.flatnonzero(state.c == k)
        if len(members) == 0:
            log_rate = math.log(priors.lambda_rate)
            # λ2 = 0 would be divided by; so small a prior draw is as good as e^−60.
            state.lambda1[k] = math.exp(max(log_gamma_draw(priors.lambda1_shape, rng) - log_rate, -REACH))
            state.lambda2[k] = math.exp(max(log_gamma_draw(priors.lambda2_shape, rng) - log_rate, -REACH))
            continue
        sigma2 = state.sigma2[members]
        half = 1.0 / np.sqrt(8.0 * sigma2)
        weight1 = priors.lambda_rate + (0.5 * l1[members] / sigma2).sum()
        weight2 = priors.lambda_rate + (0.5 * l2[members] / sigma2).sum()
        factors = half / math.sqrt(state.lambda2[k])
        target1 = LogScale(priors.lambda1_shape, weight1, 1.0, p, 1.0, factors)
        state.lambda1[k] = math.exp(slice_step(math.log(state.lambda1[k]), target1, rng))
        slope = priors.lambda2_shape + 0.5 * p * len(members)
        target2 = LogScale(slope, weight2, 1.0, p, -0.5, half * state.lambda1[k])
        state.lambda2[k] = math.exp(slice_step(math.log(state.lambda2[k]), target2, rng))


@njit(nogil=True, cache=True)
def sum_residuals(state, data):
    """Σ_{z_i=j} (y_i − x̃_iᵀβ_j)² of each component."""
    found = np.zeros(len(state.counts))
    for i in range(len(data.y)):
        j = state.z[i]
        found[j] += (data.y[i] - np.dot(data.X[i], state.coef[j])) ** 2
    return found


@njit(nogil=True, cache=True)
def draw_variances(state, data, priors, rng):
    """Row σ_j²: a slice step on its logarithm, t integrated out, empty components included.

    The slope counts the rows, the p coefficients and the intercept (the + 1), whose prior variances are all
    proportional to σ².
    """
    l1, l2 = compute_norms(state)
    rss = sum_residuals(state, data)
    p = state.coef.shape[1] - 1
    for j in range(len(state.sigma2)):
        lambda1 = state.lambda1[state.c[j]]
        lambda2 = state.lambda2[state.c[j]]
        slope = -(priors.variance_shape + 0.5 * (state.counts[j] + p + 1))
        intercept = state.coef[j, 0] ** 2 / priors.intercept_variance
        weight = priors.variance_scale + 0.5 * (rss[j] + lambda1 * l1[j] + lambda2 * l2[j] + intercept)
        factors = np.full(1, lambda1 / math.sqrt(8.0 * lambda2))
        target = LogScale(slope, weight, -1.0, p, -0.5, factors)
        state.sigma2[j] = math.exp(slice_step(math.log(state.sigma2[j]), target, rng))


@njit(nogil=True, cache=True)
def draw_scales(state, data, priors, rng):
    """Row t_jl: InverseGaussian(mean λ1/(2λ2|β_jl|), shape λ1²/(4λ2σ_j²)).

    Empty components do not need it: their coefficients are drawn from the elastic net itself.
    """
    for j in range(len(state.counts)):
        if state.counts[j] == 0:
            continue
        lambda1 = state.lambda1[state.c[j]]
        lambda2 = state.lambda2[state.c[j]]
        shape = lambda1 * lambda1 / (4.0 * lambda2 * state.sigma2[j])
        for k in range(state.t.shape[1]):
            size = max(abs(state.coef[j, k + 1]), 1e-150)  # a coefficient of 0 would have an infinite mean
            state.t[j, k] = draw_inverse_gaussian(lambda1 / (2.0 * lambda2 * size), shape, rng)


JITTER = 1e-12  # added to a unit diagonal: of nearly equal columns, the matrix is singular after rounding
PIECE = 1024  # rows that are multiplied at a time
STRIP = 96  # columns of a product of which only one half is computed


@njit(nogil=True, cache=True)
def solve_lower(L, b):
    """Solve L x = b in place; L in Fortran order, whose columns the inner loop goes down."""
    for k in range(len(b)):
        b[k] /= L[k, k]
        for i in range(k + 1, len(b)):
            b[i] -= L[i, k] * b[k]


@njit(nogil=True, cache=True)
def solve_upper(L, b):
    """Solve Lᵀ x = b in place; L in Fortran order, whose columns the inner loop goes down."""
    for k in range(len(b) - 1, -1, -1):
        total = b[k]
        for i in range(k + 1, len(b)):
            total -= L[i, k] * b[i]
        b[k] = total / L[k, k]


@njit(nogil=True, cache=True)
def factor_by_columns(gram, diagonal):
    """The factor L of S(gram + diag)S = LLᵀ and S, which gives a unit diagonal; gram is overwritten.

    Scales t range over many orders of magnitude, which would cost Cholesky its digits.
    """
    scale = 1.0 / np.sqrt(np.diag(gram) + diagonal)
    for k in range(len(scale)):
        gram[k] *= scale * scale[k]
        gram[k, k] = 1.0 + JITTER
    return np.asfortranarray(np.linalg.cholesky(gram)), scale


@njit(nogil=True, cache=True)
def factor_by_rows(scaled):
    """The factor L of I + XXᵀ = LLᵀ, for the rows of X."""
    matrix = np.dot(scaled, scaled.T)
    for i in range(len(scaled)):
        matrix[i, i] += 1.0
    return np.asfortranarray(np.linalg.cholesky(matrix))


@njit(nogil=True, cache=True)
def draw_by_precision(gram, moment, diagonal, sigma2, rng):
    """Draw of N(M·moment, σ²M), M = (gram + diag)⁻¹, in time p³.

    With gram + diag = LLᵀ, the draw is L⁻ᵀ(L⁻¹·moment + σ·noise).
    """
    L, scale = factor_by_columns(gram.copy(), diagonal)
    found = moment * scale
    solve_lower(L, found)
    for k in range(len(found)):
        found[k] += math.sqrt(sigma2) * rng.standard_normal()
    solve_upper(L, found)
    return found * scale


@njit(nogil=True, cache=True)
def draw_by_rows(X, y, diagonal, sigma2, rng):
    """The same draw for fewer rows than columns, in time n²p (Bhattacharya, Chakraborty, Mallick, 2016).

    A draw from the prior is corrected by what it gets wrong about the rows, for which n × n equations are
    solved instead of p × p.
    """
    n, width = X.shape
    sigma = math.sqrt(sigma2)
    root = 1.0 / np.sqrt(diagonal)
    scaled = X * root
    start = np.empty(width)
    for k in range(width):
        start[k] = sigma * rng.standard_normal()
    right = y - np.dot(scaled, start)
    for i in range(n):
        right[i] -= sigma * rng.standard_normal()
    L = factor_by_rows(scaled)
    solve_lower(L, right)
    solve_upper(L, right)
    return root * (start + np.dot(right, scaled))


@njit(nogil=True, cache=True)
def draw_prior_coefficients(j, state, priors, rng):
    """Draw the coefficients of an empty component: random sign × N(−λ1/(2λ2), σ²/λ2) above 0."""
    lambda1 = state.lambda1[state.c[j]]
    lambda2 = state.lambda2[state.c[j]]
    deviation = math.sqrt(state.sigma2[j] / lambda2)
    low = lambda1 / (2.0 * lambda2 * deviation)
    state.coef[j, 0] = math.sqrt(state.sigma2[j] * priors.intercept_variance) * rng.standard_normal()
    for k in range(1, state.coef.shape[1]):
        size = deviation * (draw_normal_above(low, rng) - low)
        state.coef[j, k] = size if rng.random() < 0.5 else -size


@njit(nogil=True, cache=True)
def add_products(rows, data, gram, moment, sign):
    """Add (sign 1) or subtract (sign −1) XᵀX and Xᵀy of some rows.

    XᵀX is symmetric: of wide ones only the lower half is multiplied, strip by strip, and then mirrored. Rows
    are taken in pieces, so that a copy of them stays small.
    """
    width = gram.shape[0]
    strip = width if width <= 2 * STRIP else STRIP
    for start in range(0, len(rows), PIECE):
        some = rows[start : start + PIECE]
        X = data.X[some]
        moment += sign * np.dot(data.y[some], X)
        turned = np.ascontiguousarray(X.T)
        for low in range(0, width, strip):
            high = min(low + strip, width)
            gram[low:, low:high] += sign * np.dot(turned[low:], turned[low:high].T)
    for low in range(0, width, strip):
        high = min(low + strip, width)
        gram[low:high, high:] = gram[high:, low:high].T


@njit(nogil=True, cache=True)
def update_grams(state, data):
    """Bring X_jᵀX_j and X_jᵀy_j up to date with the rows that changed component.

    Most of a sweep's time goes here. A component whose rows changed little has these added and subtracted,
    another one is summed anew, and the largest is what the others leave of the sum over all rows, which never
    changes and is kept in the last place.
    """
    J = len(state.counts)
    is_new = state.member[0] < 0
    if is_new:
        add_products(np.arange(len(state.z)), data, state.gram[J], state.moment[J], 1.0)
    largest = np.argmax(state.counts)
    state.gram[largest] = state.gram[J]
    state.moment[largest] = state.moment[J]
    for j in range(J):
        if j == largest:
            continue
        left = np.flatnonzero((state.member == j) & (state.z != j))
        came = np.flatnonzero((state.member != j) & (state.z == j))
        if is_new or len(left) + len(came) >= state.counts[j]:
            state.gram[j] = 0.0
            state.moment[j] = 0.0
            came = np.flatnonzero(state.z == j)
            left = came[:0]
        add_products(left, data, state.gram[j], state.moment[j], -1.0)
        add_products(came, data, state.gram[j], state.moment[j], 1.0)
        if state.counts[j] > 0:
            state.gram[largest] -= state.gram[j]
            state.moment[largest] -= state.moment[j]
    state.member[:] = state.z


@njit(nogil=True, cache=True)
def draw_coefficients(state, data, priors, rng):
    """Row β_j: N(M X_jᵀy_j, σ_j²M), M = (X_jᵀX_j + λ2 diag(1 + t))⁻¹, with 1/κ for the intercept."""
    J, width = state.coef.shape
    has_grams = len(state.gram) > 0
    if has_grams:
        update_grams(state, data)
    diagonal = np.empty(width)
    for j in range(J):
        if state.counts[j] == 0:
            draw_prior_coefficients(j, state, priors, rng)
            continue
        diagonal[0] = 1.0 / priors.intercept_variance
        diagonal[1:] = state.lambda2[state.c[j]] * (1.0 + state.t[j])
        # By columns costs p³, by rows n_j²·p: the latter pays for components of few rows.
        if has_grams and 2 * state.counts[j] >= width:
            found = draw_by_precision(state.gram[j], state.moment[j], diagonal, state.sigma2[j], rng)
        else:
            rows = np.flatnonzero(state.z == j)
            found = draw_by_rows(data.X[rows], data.y[rows], diagonal, state.sigma2[j], rng)
        state.coef[j] = found


@njit(nogil=True, cache=True)
def regress_by_columns(rows, data, diagonal):
    """Mean coefficients, log|I + X D⁻¹ Xᵀ| and yᵀ(I + X D⁻¹ Xᵀ)⁻¹y, by equations of as many columns."""
    width = len(diagonal)
    gram = np.zeros((width, width))
    mean = np.zeros(width)
    add_products(rows, data, gram, mean, 1.0)
    L, scale = factor_by_columns(gram, diagonal)
    mean *= scale
    solve_lower(L, mean)
    y = data.y[rows]
    quadratic = np.dot(y, y) - np.dot(mean, mean)
    solve_upper(L, mean)
    log_det = 2.0 * np.log(np.diag(L) / scale).sum() - np.log(diagonal).sum()
    return mean * scale, log_det, quadratic


@njit(nogil=True, cache=True)
def by_rows(rows, data, diagonal):
    """The same, by equations of as many rows."""
    scaled = data.X[rows] / np.sqrt(diagonal)
    L = factor_by_rows(scaled)
    half = data.y[rows]
    solve_lower(L, half)
    quadratic = np.dot(half, half)
    solve_upper(L, half)
    return np.dot(half, scaled) / np.sqrt(diagonal), 2.0 * np.log(np.diag(L)).sum(), quadratic


@njit(nogil=True, cache=True)
def solve_regression(rows, data, diagonal, sigma2):
    """Mean coefficients of a component that has these rows, and the log density of their outputs.

    The density is N(y; 0, σ²(I + X D⁻¹ Xᵀ)), D the prior precision in units of 1/σ²: β is integrated out.
    """
    if len(rows) == 0:
        return np.zeros(len(diagonal)), 0.0
    solved = (
        regress_by_columns(rows, data, diagonal)
        if len(rows) >= len(diagonal)
        else by_rows(rows, data, diagonal)
    )
    density = -0.5 * (len(rows) * (LOG_2PI + math.log(sigma2)) + solved[1] + solved[2] / sigma2)
    return solved[0], density


@njit(nogil=True, cache=True)
def draw_coefficients_of(rows, data, diagonal, sigma2, rng):
    """Draw of N(M Xᵀy, σ²M), M = (XᵀX + D)⁻¹, for these rows."""
    width = len(diagonal)
    if len(rows) == 0:
        found = np.empty(width)
        for k in range(width):
            found[k] = math.sqrt(sigma2 / diagonal[k]) * rng.standard_normal()
        return found
    if len(rows) < width:
        return draw_by_rows(data.X[rows], data.y[rows], diagonal, sigma2, rng)
    gram = np.zeros((width, width))
    moment = np.zeros(width)
    add_products(rows, data, gram, moment, 1.0)
    return draw_by_precision(gram, moment, diagonal, sigma2, rng)
