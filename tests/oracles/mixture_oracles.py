"""The mixture with several elastic nets in plain numpy: prior draws, printed formulas, Geweke's two simulators."""

import numpy as np
from scipy import special, stats

from tellwhy.explainers.surrogate import (
    _compiled_conditionals as _compiled_nets,
    _compiled_sweep as _compiled,
)
from tellwhy.explainers.surrogate.chains import design, make_empty_state, make_kept_arrays

STEPS = (
    "draw_assignments",
    "draw_gates",
    "draw_order",
    "draw_sticks",
    "draw_alpha",
    "draw_nets",
    "draw_net_weights",
    "draw_penalties",
    "draw_variances",
    "draw_scales",
    "draw_coefficients",
    "draw_partition",
)


def elastic_net_draw(shape, lambda1, lambda2, sigma2, rng):
    """Coefficients from the elastic net, by the inverse of its distribution function."""
    deviation = np.sqrt(sigma2 / lambda2)
    low = lambda1 / (2 * lambda2 * deviation)
    sizes = -special.ndtri(rng.random(shape) * special.ndtr(-low)) - low
    return rng.choice([-1.0, 1.0], size=shape) * deviation * sizes


def prior_draw(data, n_components, n_elastic_nets, priors, rng):
    """A state drawn from the prior, row by row of the model's definition."""
    J, K = n_components, n_elastic_nets
    state = make_empty_state(data, J, K)
    state.alpha[0] = rng.gamma(priors.alpha_shape) / priors.alpha_rate
    u = np.append(rng.beta(1, state.alpha[0], size=J - 1), 1.0)
    left = np.append(1.0, np.cumprod(1 - u[:-1]))
    state.log_rest[:-1] = np.log(np.maximum(1 - u[:-1], 1e-300))
    state.log_pi[:] = np.log(np.maximum(u * left, 1e-300))
    state.log_w[:] = np.log(np.maximum(rng.dirichlet(np.full(K, 1 / K)), 1e-300))
    state.lambda1[:] = rng.gamma(priors.lambda1_shape, 1 / priors.lambda_rate, size=K)
    state.lambda2[:] = rng.gamma(priors.lambda2_shape, 1 / priors.lambda_rate, size=K)
    state.c[:] = rng.choice(K, size=J, p=np.exp(state.log_w) / np.exp(state.log_w).sum())
    state.sigma2[:] = priors.variance_scale / rng.gamma(priors.variance_shape, size=J)
    for j, c in enumerate(state.c):
        state.coef[j, 0] = rng.normal() * np.sqrt(priors.intercept_variance * state.sigma2[j])
        state.coef[j, 1:] = elastic_net_draw(
            state.coef.shape[1] - 1, state.lambda1[c], state.lambda2[c], state.sigma2[j], rng
        )
    state.gate_var[:] = priors.gate_scale / rng.gamma(priors.gate_shape, size=state.gate_var.shape)
    state.gate_mean[:] = rng.normal(size=state.gate_mean.shape) * np.sqrt(state.gate_var / priors.gate_count)
    state.z[:] = rng.choice(J, size=len(data.y), p=np.exp(state.log_pi) / np.exp(state.log_pi).sum())
    state.counts[:] = np.bincount(state.z, minlength=J)
    return state


def simulate(state, data, rng):
    """Outputs (and gates) of the rows, given the state; changes the data in place."""
    fitted = (data.X * state.coef[state.z]).sum(axis=1)
    data.y[:] = fitted + np.sqrt(state.sigma2[state.z]) * rng.normal(size=len(data.y))
    data.gates[:] = state.gate_mean[state.z] + np.sqrt(state.gate_var[state.z]) * rng.normal(
        size=data.gates.shape
    )


def small_data(n, p, q, rng):
    return design(rng.normal(size=(n, p)), np.zeros(n), np.zeros((n, q)))


def statistics(state, data):
    """Bounded or logarithmic functions of everything that is drawn."""
    coef, sizes = np.tanh(state.coef), np.log(np.abs(state.coef[:, 1:]) + 1e-3)
    groups = [
        np.log(state.alpha),
        np.exp(state.log_pi),
        np.maximum(state.log_pi, -20.0),
        np.exp(state.log_w),
        np.maximum(state.log_w, -20.0),
        np.log(state.lambda1),
        np.log(state.lambda2),
        np.log(state.lambda1) * np.log(state.lambda2),
        np.log(state.sigma2),
        np.log(state.sigma2) ** 2,
        coef.ravel(),
        coef.ravel() ** 2,
        sizes.mean(axis=1),
        (sizes * np.log(state.sigma2)[:, None]).mean(axis=1),
        (sizes * np.log(state.lambda2)[state.c][:, None]).mean(axis=1),
        (state.c == 0) * np.log(state.sigma2),
        state.c[:2],
        state.counts[:-1],
        np.tanh(data.y[:2]),
        np.tanh(np.abs(data.y[:2])),
        np.tanh(data.y[:1] * state.coef[state.z[:1], 1]),
        np.tanh(state.gate_mean).ravel(),
        np.log(state.gate_var).ravel(),
    ]
    return np.concatenate(groups)


def marginal_conditional(n_draws, data, sizes, priors, rng):
    """Statistics of independent draws of everything from the prior."""
    found = []
    for _ in range(n_draws):
        state = prior_draw(data, *sizes, priors, rng)
        simulate(state, data, rng)
        found.append(statistics(state, data))
    return np.array(found)


def successive_conditional(n_draws, data, sizes, priors, rng, steps=None, per_draw=1):
    """Statistics along a chain that alternates a sweep and new outputs."""
    state = prior_draw(data, *sizes, priors, rng)
    simulate(state, data, rng)
    none = make_kept_arrays(state, 0)
    found = []
    for _ in range(n_draws):
        for _ in range(per_draw):
            if steps is None:
                _compiled.run_sweeps(state, data, priors, rng, 1, 1, none)
            else:
                state.gram[:], state.moment[:], state.member[:] = 0.0, 0.0, -1
                for step in steps:
                    step(state, data, priors, rng)
            simulate(state, data, rng)
        found.append(statistics(state, data))
    return np.array(found)


def geweke_z(independent, chain, n_batches=40):
    """Difference of means over its standard error, by batch means for the chain."""
    batches = np.array([b.mean(axis=0) for b in np.array_split(chain, n_batches)])
    error2 = independent.var(axis=0, ddof=1) / len(independent) + batches.var(axis=0, ddof=1) / n_batches
    return (independent.mean(axis=0) - chain.mean(axis=0)) / np.sqrt(np.maximum(error2, 1e-300))


def steps_with(**replaced):
    """The sweep's steps in order, some of them replaced."""
    return [replaced.get(name, getattr(_compiled, name)) for name in STEPS]


def printed_alpha(state, data, priors, rng):
    J = len(state.counts)
    rate = priors.alpha_rate - state.log_rest[: J - 1].sum()
    state.alpha[0] = rng.gamma(J + priors.alpha_shape + 1) / rate


def printed_net_weights(state, data, priors, rng):
    K = len(state.log_w)
    shapes = 1 / K + np.bincount(state.c, minlength=K) - 1
    draws = rng.gamma(np.maximum(shapes, 1e-3))
    state.log_w[:] = np.log(np.maximum(draws / draws.sum(), 1e-300))


def printed_scales(state, data, priors, rng):
    """Inverse-gamma, with the norm of β_j and × σ²."""
    for j, c in enumerate(state.c):
        lambda1, lambda2 = state.lambda1[c], state.lambda2[c]
        shape = lambda1 / (2 * lambda2 * np.linalg.norm(state.coef[j, 1:]))
        scale = lambda1**2 / (4 * lambda2) * state.sigma2[j]
        state.t[j] = np.minimum(scale / np.maximum(rng.gamma(shape, size=state.t.shape[1]), 1e-30), 1e30)


def inverse_gaussian_scales(*, norm=False, times_variance=False):
    """The latent scales by numpy's Wald draws; one slip of the printed formula at a time."""

    def step(state, data, priors, rng):
        for j, c in enumerate(state.c):
            lambda1, lambda2 = state.lambda1[c], state.lambda2[c]
            sizes = (
                np.full(state.t.shape[1], np.linalg.norm(state.coef[j, 1:]))
                if norm
                else np.abs(state.coef[j, 1:])
            )
            variance = 1 / state.sigma2[j] if times_variance else state.sigma2[j]
            state.t[j] = rng.wald(lambda1 / (2 * lambda2 * sizes), lambda1**2 / (4 * lambda2 * variance))

    return step


def penalties_without_jacobian(state, data, priors, rng):
    less = priors._replace(lambda1_shape=priors.lambda1_shape - 1, lambda2_shape=priors.lambda2_shape - 1)
    used = np.unique(state.c)
    before = state.lambda1.copy(), state.lambda2.copy()
    _compiled.draw_penalties(state, data, priors, rng)
    keep = state.lambda1.copy(), state.lambda2.copy()
    state.lambda1[:], state.lambda2[:] = before
    positive = less._replace(
        lambda1_shape=max(less.lambda1_shape, 1e-3), lambda2_shape=max(less.lambda2_shape, 1e-3)
    )
    _compiled.draw_penalties(state, data, positive, rng)
    unused = np.setdiff1d(np.arange(len(state.lambda1)), used)
    state.lambda1[unused], state.lambda2[unused] = keep[0][unused], keep[1][unused]


def metropolis_variances(prior_terms):
    """Metropolis–Hastings given τ, as printed, with `prior_terms(p)` halves added to the proposal's shape.

    The printed acceptance ratio is that of p(τ|σ²), which is right only if the proposal counts all p coefficients.
    """

    def step(state, data, priors, rng):
        _compiled.draw_scales(state, data, priors, rng)
        p = state.coef.shape[1] - 1
        rss = _compiled_nets.sum_residuals(state, data)
        for j, c in enumerate(state.c):
            lambda1, lambda2 = state.lambda1[c], state.lambda2[c]
            t = np.maximum(state.t[j], 1e-300)
            if state.counts[j] == 0:  # its τ is not kept: draw it first
                x2 = lambda1**2 / (4 * lambda2 * state.sigma2[j])
                t = rng.wald(lambda1 / (2 * lambda2 * np.abs(state.coef[j, 1:])), x2)
            squares = (state.coef[j, 1:] ** 2 * (1 + t)).sum() * lambda2
            shape = priors.variance_shape + (state.counts[j] + 1 + prior_terms(p)) / 2
            scale = priors.variance_scale + 0.5 * (
                rss[j] + squares + state.coef[j, 0] ** 2 / priors.intercept_variance
            )
            new = scale / rng.gamma(shape)
            log_ratio = _log_tau(t, lambda1, lambda2, new) - _log_tau(t, lambda1, lambda2, state.sigma2[j])
            if np.log(rng.random()) < log_ratio:
                state.sigma2[j] = new

    return step


def _log_tau(t, lambda1, lambda2, sigma2):
    x = lambda1 / (2 * np.sqrt(sigma2 * lambda2))
    return (np.log(x) - x**2 / (2 * t) - np.log(special.erfcx(x / np.sqrt(2)))).sum()


def log_joint(state, data, priors):
    """Log density of everything but the gates, term by term of the model's definition."""
    u = -np.expm1(state.log_rest[:-1])
    total = stats.gamma.logpdf(state.alpha[0], priors.alpha_shape, scale=1 / priors.alpha_rate)
    total += stats.beta.logpdf(u, 1, state.alpha[0]).sum()
    K = len(state.log_w)
    total += stats.dirichlet.logpdf(np.exp(state.log_w) / np.exp(state.log_w).sum(), np.full(K, 1 / K))
    total += state.log_w[state.c].sum() + state.log_pi[state.z].sum()
    total += stats.gamma.logpdf(state.lambda1, priors.lambda1_shape, scale=1 / priors.lambda_rate).sum()
    total += stats.gamma.logpdf(state.lambda2, priors.lambda2_shape, scale=1 / priors.lambda_rate).sum()
    total += stats.invgamma.logpdf(state.sigma2, priors.variance_shape, scale=priors.variance_scale).sum()
    for beta, c, sigma2 in zip(state.coef, state.c, state.sigma2, strict=True):
        total += stats.norm.logpdf(beta[0], 0, np.sqrt(priors.intercept_variance * sigma2))
        total += elastic_net_log_density(beta[1:], state.lambda1[c], state.lambda2[c], sigma2).sum()
    fitted = (data.X * state.coef[state.z]).sum(axis=1)
    return total + stats.norm.logpdf(data.y, fitted, np.sqrt(state.sigma2[state.z])).sum()


def elastic_net_log_density(beta, lambda1, lambda2, sigma2):
    """Log density of each coefficient: two halves of normals, cut at zero."""
    centre, deviation = lambda1 / (2 * lambda2), np.sqrt(sigma2 / lambda2)
    half = stats.norm.logpdf(np.abs(beta), -centre, deviation)
    return half - np.log(2) - stats.norm.logsf(0, -centre, deviation)


def independent_elastic_net(X, y, priors, rng, n_walkers=400, n_steps=1500):
    """Posterior of one regression with one elastic net, by walkers that stretch towards each other.

    The affine-invariant sampler of Goodman and Weare (2010) on (β, log σ², log λ1, log λ2): no latent scales, no Gibbs
    steps, no slices. Returns draws (walkers × kept steps, 1 + p + 3).
    """
    design_matrix = np.column_stack([np.ones(len(y)), X])
    width = design_matrix.shape[1]

    def log_density(points):
        beta, (s, l1, l2) = points[:, :width], points[:, width:].T
        sigma2, lambda1, lambda2 = np.exp(s), np.exp(l1), np.exp(l2)
        total = stats.invgamma.logpdf(sigma2, priors.variance_shape, scale=priors.variance_scale) + s
        total += stats.gamma.logpdf(lambda1, priors.lambda1_shape, scale=1 / priors.lambda_rate) + l1
        total += stats.gamma.logpdf(lambda2, priors.lambda2_shape, scale=1 / priors.lambda_rate) + l2
        total += stats.norm.logpdf(beta[:, 0], 0, np.sqrt(priors.intercept_variance * sigma2))
        column = [v[:, None] for v in (lambda1, lambda2, sigma2)]
        total += elastic_net_log_density(beta[:, 1:], *column).sum(axis=1)
        residual = y - beta @ design_matrix.T
        return total - 0.5 * len(y) * s - 0.5 * (residual**2).sum(axis=1) / sigma2

    at = np.linalg.lstsq(design_matrix, y, rcond=None)[0]
    walkers = np.column_stack(
        [at + 0.1 * rng.normal(size=(n_walkers, width)), 0.3 * rng.normal(size=(n_walkers, 3))]
    )
    half, kept = n_walkers // 2, []
    level = log_density(walkers)
    for step in range(n_steps):
        for mine, others in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
            z = (1 + rng.random(half)) ** 2 / 2
            partners = walkers[others][rng.integers(half, size=half)]
            new = partners + z[:, None] * (walkers[mine] - partners)
            new_level = log_density(new)
            better = np.log(rng.random(half)) < (new.shape[1] - 1) * np.log(z) + new_level - level[mine]
            walkers[mine] = np.where(better[:, None], new, walkers[mine])
            level[mine] = np.where(better, new_level, level[mine])
        if step >= n_steps // 3 and step % 5 == 0:
            kept.append(walkers.copy())
    return np.concatenate(kept)
