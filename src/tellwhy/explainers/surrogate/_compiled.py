"""Compiled draws of the mixture of regressions with several elastic nets: one function per full conditional.

y_i | z_i=j ~ N(x̃_iᵀβ_j, σ_j²) with x̃ = (1, x); z ~ π by stick breaking; β_jl has the density exp{−(λ1|β| +
λ2β²)/(2σ_j²)}/Z with Z = √(2πσ²/λ2)·erfcx(x/√2), x = λ1/(2σ√λ2), of the elastic net k = c_j, c_j ~ w. Every
function changes `State` in place and takes the same four arguments.
"""

import math
from collections import namedtuple

import numba
import numpy as np

State = namedtuple(
    "State",
    "z counts log_rest log_pi alpha log_w c lambda1 lambda2 sigma2 t coef gate_mean gate_var gram moment "
    "member cold",
)
Data = namedtuple("Data", "X y gates")  # X (n, 1 + p) with a first column of ones, y (n,), gates (n, q)
Numbers = namedtuple(
    "Numbers",
    "alpha_shape alpha_rate lambda1_shape lambda2_shape lambda_rate variance_shape variance_scale "
    "intercept_variance gate_count gate_shape gate_scale",
)

Kept = namedtuple("Kept", "z coef log_pi sigma2 gate_mean gate_var")  # one entry per kept draw

LOG_SQRT_PI = 0.5 * math.log(math.pi)
LOG_2PI = math.log(2.0 * math.pi)
JITTER = 1e-12
REACH = 60.0  # logarithms of λ and σ² stay within ±60: from an odd start a slice may be hundreds wide


@numba.njit(nogil=True, cache=True)
def log_erfcx(x):
    """log(exp(x²)·erfc(x)) for x ≥ 0, where erfc itself would underflow."""
    if x < 5.0:
        return x * x + math.log(math.erfc(x))
    fraction = x
    for k in range(30, 0, -1):
        fraction = x + 0.5 * k / fraction
    return -LOG_SQRT_PI - math.log(fraction)


@numba.njit(nogil=True, cache=True)
def log_elastic_net(l1, l2, p, sigma2, lambda1, lambda2):
    """Log density of p coefficients with Σ|β| = l1 and Σβ² = l2."""
    x = lambda1 / (2.0 * math.sqrt(sigma2 * lambda2))
    log_z = 0.5 * (LOG_2PI + math.log(sigma2) - math.log(lambda2)) + log_erfcx(x / math.sqrt(2.0))
    return -(lambda1 * l1 + lambda2 * l2) / (2.0 * sigma2) - p * log_z


@numba.njit(nogil=True, cache=True)
def log_gamma_draw(shape, rng):
    """Logarithm of a Gamma(shape, 1) draw, also where the draw itself is below the smallest number."""
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    return math.log(rng.standard_gamma(shape + 1.0)) + math.log(1.0 - rng.random()) / shape


@numba.njit(nogil=True, cache=True)
def log_sum(a, b):
    """log(eᵃ + eᵇ)."""
    high = max(a, b)
    return high + math.log1p(math.exp(min(a, b) - high))


@numba.njit(nogil=True, cache=True)
def inverse_gaussian(mean, shape, rng):
    """Draw of InverseGaussian(mean, shape) by the root that does not cancel."""
    y = rng.standard_normal() ** 2
    half = y / (2.0 * shape)
    first = 1.0 / (1.0 / mean + half + math.sqrt(y / (shape * mean) + half * half))
    if rng.random() * (1.0 + first / mean) <= 1.0:
        return first
    return mean * (mean / first)


@numba.njit(nogil=True, cache=True)
def normal_above(low, rng):
    """Draw of a standard normal above low ≥ 0, by rejection from a shifted exponential (Robert, 1995)."""
    if low < 0.45:
        while True:
            x = abs(rng.standard_normal())
            if x > low:
                return x
    rate = 0.5 * (low + math.sqrt(low * low + 4.0))
    while True:
        x = low + rng.standard_exponential() / rate
        if math.log(1.0 - rng.random()) <= -0.5 * (x - rate) ** 2:
            return x


@numba.njit(nogil=True, cache=True)
def pick(logits, rng):
    """Draw of an index with probability ∝ exp(logits)."""
    high = logits.max()
    total = 0.0
    for value in logits:
        total += math.exp(value - high)
    left = rng.random() * total
    for j in range(len(logits)):
        left -= math.exp(logits[j] - high)
        if left < 0.0:
            return j
    return int(np.argmax(logits))


@numba.njit(nogil=True, cache=True)
def log_scale_target(x, slope, weight, power, p, inner, factors):
    """slope·x − weight·e^{±x} − p·Σ_j log erfcx(factor_j·e^{inner·x}): log σ², log λ1 and log λ2 all have this form."""
    if abs(x) > REACH:
        return -np.inf
    found = slope * x - weight * math.exp(power * x)
    for factor in factors:
        found -= p * log_erfcx(factor * math.exp(inner * x))
    return found


@numba.njit(nogil=True, cache=True)
def slice_step(x, slope, weight, power, p, inner, factors, rng):
    """One slice-sampling step (Neal, 2003) on `log_scale_target`, by stepping out and shrinking."""
    level = log_scale_target(x, slope, weight, power, p, inner, factors) - rng.standard_exponential()
    low = x - rng.random()
    high = low + 1.0
    while log_scale_target(low, slope, weight, power, p, inner, factors) > level:
        low -= 1.0
    while log_scale_target(high, slope, weight, power, p, inner, factors) > level:
        high += 1.0
    while True:
        new = low + rng.random() * (high - low)
        if log_scale_target(new, slope, weight, power, p, inner, factors) > level or high - low < 1e-12:
            return new
        if new < x:
            low = new
        else:
            high = new


@numba.njit(nogil=True, cache=True)
def row_log_densities(state, data):
    """log π_j + log N(y_i; x̃_iᵀβ_j, σ_j²), and the gate's density of each row, shape (n, J)."""
    found = np.dot(data.X, np.ascontiguousarray(state.coef.T))
    n, J = found.shape
    for j in range(J):
        constant = state.log_pi[j] - 0.5 * (LOG_2PI + math.log(state.sigma2[j]))
        for i in range(n):
            found[i, j] = constant - 0.5 * (data.y[i] - found[i, j]) ** 2 / state.sigma2[j]
        for q in range(data.gates.shape[1]):
            mean, var = state.gate_mean[j, q], state.gate_var[j, q]
            log_scale = 0.5 * (LOG_2PI + math.log(var))
            for i in range(n):
                found[i, j] -= log_scale + 0.5 * (data.gates[i, q] - mean) ** 2 / var
    return found


@numba.njit(nogil=True, cache=True)
def draw_assignments(state, data, priors, rng):
    """z_i ∝ π_j N(y_i; x̃_iᵀβ_j, σ_j²); raised to the power `cold` ≤ 1 while a burn-in is annealed."""
    densities = row_log_densities(state, data) * state.cold[0]
    state.counts[:] = 0
    for i in range(len(densities)):
        j = pick(densities[i], rng)
        state.z[i] = j
        state.counts[j] += 1


@numba.njit(nogil=True, cache=True)
def draw_sticks(state, data, priors, rng):
    """u_j ~ Beta(1+n_j, α+Σ_{l>j} n_l), u_J = 1; keeps log(1−u_j) and log π_j."""
    J = len(state.counts)
    beyond, left = len(state.z), 0.0
    for j in range(J - 1):
        beyond -= state.counts[j]
        taken = log_gamma_draw(1.0 + state.counts[j], rng)
        rest = log_gamma_draw(state.alpha[0] + beyond, rng)
        total = log_sum(taken, rest)
        state.log_pi[j] = left + taken - total
        state.log_rest[j] = rest - total
        left += state.log_rest[j]
    state.log_pi[J - 1] = left


@numba.njit(nogil=True, cache=True)
def draw_alpha(state, data, priors, rng):
    """α ~ Gamma(e+J−1, rate f−Σ_{j<J} log(1−u_j))."""
    J = len(state.counts)
    rate = priors.alpha_rate - state.log_rest[: J - 1].sum()
    state.alpha[0] = math.exp(log_gamma_draw(priors.alpha_shape + J - 1, rng)) / rate


@numba.njit(nogil=True, cache=True)
def norms(state):
    """Σ|β_jl| and Σβ_jl² of each component, the intercept left out."""
    J, width = state.coef.shape
    l1, l2 = np.zeros(J), np.zeros(J)
    for j in range(J):
        for k in range(1, width):
            l1[j] += abs(state.coef[j, k])
            l2[j] += state.coef[j, k] ** 2
    return l1, l2


@numba.njit(nogil=True, cache=True)
def draw_nets(state, data, priors, rng):
    """c_j ∝ w_k·EN(β_j | σ_j², λ_k), the scales τ integrated out."""
    l1, l2 = norms(state)
    J, K = len(state.c), len(state.log_w)
    p = state.coef.shape[1] - 1
    logits = np.empty(K)
    for j in range(J):
        for k in range(K):
            density = log_elastic_net(l1[j], l2[j], p, state.sigma2[j], state.lambda1[k], state.lambda2[k])
            logits[k] = state.log_w[k] + density
        state.c[j] = pick(logits, rng)


@numba.njit(nogil=True, cache=True)
def draw_net_weights(state, data, priors, rng):
    """w ~ Dir(1/K+m_k), m_k = #{j: c_j=k}, empty components included."""
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


@numba.njit(nogil=True, cache=True)
def draw_penalties(state, data, priors, rng):
    """λ1_k and λ2_k by slice steps on their logarithms (the Jacobian is in the slopes); from the prior if unused."""
    l1, l2 = norms(state)
    p = state.coef.shape[1] - 1
    for k in range(len(state.log_w)):
        members = np.flatnonzero(state.c == k)
        if len(members) == 0:
            log_rate = math.log(priors.lambda_rate)
            state.lambda1[k] = math.exp(max(log_gamma_draw(priors.lambda1_shape, rng) - log_rate, -REACH))
            state.lambda2[k] = math.exp(max(log_gamma_draw(priors.lambda2_shape, rng) - log_rate, -REACH))
            continue
        sigma2 = state.sigma2[members]
        half = 1.0 / np.sqrt(8.0 * sigma2)  # x/√2 = λ1/√(8σ²λ2)
        weight1 = priors.lambda_rate + (0.5 * l1[members] / sigma2).sum()
        weight2 = priors.lambda_rate + (0.5 * l2[members] / sigma2).sum()
        factors = half / math.sqrt(state.lambda2[k])
        x = slice_step(math.log(state.lambda1[k]), priors.lambda1_shape, weight1, 1.0, p, 1.0, factors, rng)
        state.lambda1[k] = math.exp(x)
        slope = priors.lambda2_shape + 0.5 * p * len(members)
        x = slice_step(math.log(state.lambda2[k]), slope, weight2, 1.0, p, -0.5, half * state.lambda1[k], rng)
        state.lambda2[k] = math.exp(x)


@numba.njit(nogil=True, cache=True)
def residual_sums(state, data):
    """Σ_{z_i=j} (y_i − x̃_iᵀβ_j)² of each component."""
    found = np.zeros(len(state.counts))
    for i in range(len(data.y)):
        j = state.z[i]
        found[j] += (data.y[i] - np.dot(data.X[i], state.coef[j])) ** 2
    return found


@numba.njit(nogil=True, cache=True)
def draw_variances(state, data, priors, rng):
    """σ_j² by a slice step on its logarithm, τ integrated out; empty components included."""
    l1, l2 = norms(state)
    rss = residual_sums(state, data)
    p = state.coef.shape[1] - 1
    for j in range(len(state.sigma2)):
        lambda1, lambda2 = state.lambda1[state.c[j]], state.lambda2[state.c[j]]
        slope = -(priors.variance_shape + 0.5 * (state.counts[j] + p + 1))
        intercept = state.coef[j, 0] ** 2 / priors.intercept_variance
        weight = priors.variance_scale + 0.5 * (rss[j] + lambda1 * l1[j] + lambda2 * l2[j] + intercept)
        factors = np.full(1, lambda1 / math.sqrt(8.0 * lambda2))
        x = slice_step(math.log(state.sigma2[j]), slope, weight, -1.0, p, -0.5, factors, rng)
        state.sigma2[j] = math.exp(x)


@numba.njit(nogil=True, cache=True)
def draw_scales(state, data, priors, rng):
    """t_jl = τ/(1−τ) ~ InverseGaussian(λ1/(2λ2|β_jl|), λ1²/(4λ2σ_j²)); empty components do not need it."""
    for j in range(len(state.counts)):
        if state.counts[j] == 0:
            continue
        lambda1, lambda2 = state.lambda1[state.c[j]], state.lambda2[state.c[j]]
        shape = lambda1 * lambda1 / (4.0 * lambda2 * state.sigma2[j])
        for k in range(state.t.shape[1]):
            size = max(abs(state.coef[j, k + 1]), 1e-150)
            state.t[j, k] = inverse_gaussian(lambda1 / (2.0 * lambda2 * size), shape, rng)


@numba.njit(nogil=True, cache=True)
def solve_lower(L, b):
    """Solve L x = b in place; L in Fortran order."""
    for k in range(len(b)):
        b[k] /= L[k, k]
        for i in range(k + 1, len(b)):
            b[i] -= L[i, k] * b[k]


@numba.njit(nogil=True, cache=True)
def solve_upper(L, b):
    """Solve Lᵀ x = b in place; L in Fortran order."""
    for k in range(len(b) - 1, -1, -1):
        total = b[k]
        for i in range(k + 1, len(b)):
            total -= L[i, k] * b[i]
        b[k] = total / L[k, k]


@numba.njit(nogil=True, cache=True)
def normal_by_precision(gram, moment, diagonal, sigma2, rng):
    """Draw of N(M·moment, σ²M), M = (gram + diag)⁻¹, by Cholesky of the matrix scaled to a unit diagonal."""
    width = len(moment)
    scale = 1.0 / np.sqrt(np.diag(gram) + diagonal)
    scaled = gram.copy()
    for k in range(width):
        scaled[k] *= scale * scale[k]
        scaled[k, k] = 1.0 + JITTER
    L = np.asfortranarray(np.linalg.cholesky(scaled))
    found = moment * scale
    solve_lower(L, found)
    for k in range(width):
        found[k] += math.sqrt(sigma2) * rng.standard_normal()
    solve_upper(L, found)
    return found * scale


@numba.njit(nogil=True, cache=True)
def normal_by_rows(X, y, diagonal, sigma2, rng):
    """The same draw for fewer rows than columns: n × n instead of p × p (Bhattacharya et al., 2016)."""
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
    matrix = np.dot(scaled, scaled.T)
    for i in range(n):
        matrix[i, i] += 1.0
    L = np.asfortranarray(np.linalg.cholesky(matrix))
    solve_lower(L, right)
    solve_upper(L, right)
    return root * (start + np.dot(right, scaled))


@numba.njit(nogil=True, cache=True)
def prior_coefficients(j, state, priors, rng):
    """Coefficients of an empty component: random sign × N(−λ1/2λ2, σ²/λ2) above 0."""
    lambda1, lambda2 = state.lambda1[state.c[j]], state.lambda2[state.c[j]]
    deviation = math.sqrt(state.sigma2[j] / lambda2)
    low = lambda1 / (2.0 * lambda2 * deviation)
    state.coef[j, 0] = math.sqrt(state.sigma2[j] * priors.intercept_variance) * rng.standard_normal()
    for k in range(1, state.coef.shape[1]):
        size = deviation * (normal_above(low, rng) - low)
        state.coef[j, k] = size if rng.random() < 0.5 else -size


@numba.njit(nogil=True, cache=True)
def update_grams(state, data):
    """Bring X_jᵀX_j and X_jᵀy_j up to date with the rows that changed component."""
    moved = np.flatnonzero(state.member != state.z)
    if 2 * len(moved) > len(state.z):  # summing anew is cheaper
        state.gram[:] = 0.0
        state.moment[:] = 0.0
        state.member[:] = -1
        moved = np.arange(len(state.z))
    for j in range(len(state.counts)):
        for sign in (-1.0, 1.0):
            before_or_after = state.member[moved] if sign < 0 else state.z[moved]
            rows = moved[before_or_after == j]
            if len(rows) == 0:
                continue
            X = data.X[rows]
            state.gram[j] += sign * np.dot(X.T, X)
            state.moment[j] += sign * np.dot(data.y[rows], X)
    state.member[:] = state.z


@numba.njit(nogil=True, cache=True)
def draw_coefficients(state, data, priors, rng):
    """β_j ~ N(MX_jᵀy_j, σ_j²M), M = (X_jᵀX_j + λ2·diag(1+t))⁻¹, with 1/κ for the intercept."""
    J, width = state.coef.shape
    has_grams = len(state.gram) > 0
    if has_grams:
        update_grams(state, data)
    diagonal = np.empty(width)
    for j in range(J):
        if state.counts[j] == 0:
            prior_coefficients(j, state, priors, rng)
            continue
        diagonal[0] = 1.0 / priors.intercept_variance
        diagonal[1:] = state.lambda2[state.c[j]] * (1.0 + state.t[j])
        if has_grams and 2 * state.counts[j] >= width:
            found = normal_by_precision(state.gram[j], state.moment[j], diagonal, state.sigma2[j], rng)
        else:
            rows = np.flatnonzero(state.z == j)
            found = normal_by_rows(data.X[rows], data.y[rows], diagonal, state.sigma2[j], rng)
        state.coef[j] = found


@numba.njit(nogil=True, cache=True)
def draw_gates(state, data, priors, rng):
    """Mean and variance of each component's gate, one normal-inverse-gamma draw per column; nothing without gates."""
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


@numba.njit(nogil=True, cache=True)
def sweep(state, data, priors, rng):
    """One pass over all conditionals: t and β come after the last draw from which τ was integrated out."""
    draw_assignments(state, data, priors, rng)
    draw_gates(state, data, priors, rng)
    draw_sticks(state, data, priors, rng)
    draw_alpha(state, data, priors, rng)
    draw_nets(state, data, priors, rng)
    draw_net_weights(state, data, priors, rng)
    draw_penalties(state, data, priors, rng)
    draw_variances(state, data, priors, rng)
    draw_scales(state, data, priors, rng)
    draw_coefficients(state, data, priors, rng)


@numba.njit(nogil=True, cache=True)
def run_sweeps(state, data, priors, rng, n_sweeps, thin, kept):
    """Several sweeps from Gram matrices summed anew, so that a resumed chain gives the same bits.

    Every `thin`-th state goes into `kept`, until that is full.
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
