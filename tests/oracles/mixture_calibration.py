"""Is the mixture's sampler right? Geweke's test, calibration, planted mixtures and coverage, as functions."""

import warnings

import numpy as np
from oracles.mixture_oracles import (
    geweke_z,
    inverse_gaussian_scales,
    marginal_conditional,
    metropolis_variances,
    penalties_without_jacobian,
    printed_alpha,
    printed_net_weights,
    printed_scales,
    prior_draw,
    simulate,
    small_data,
    successive_conditional,
)
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from tellwhy.core.errors import NotConverged
from tellwhy.explainers import DMMMEN
from tellwhy.explainers.surrogate import _compiled_sweep as _compiled
from tellwhy.explainers.surrogate.chains import Priors, design, make_kept_arrays
from tellwhy.explainers.surrogate.sampler import Settings, sample

OWN = Priors(
    alpha_shape=2.0,
    lambda1_shape=3.0,
    lambda2_shape=3.0,
    lambda_rate=1.0,
    variance_shape=4.0,
    variance_scale=1.2,  # variances far from 1, where σ² and 1/σ² are told apart
    intercept_variance=1.0,
)
SIZES = (3, 2)  # components, elastic nets

PRINTED = {
    "concentration": {"draw_alpha": printed_alpha},
    "net weights": {"draw_net_weights": printed_net_weights},
    "latent scales": {"draw_scales": printed_scales},
    "latent scales, only the norm": {"draw_scales": inverse_gaussian_scales(norm=True)},
    "latent scales, only × variance": {"draw_scales": inverse_gaussian_scales(times_variance=True)},
    "variance proposal": {"draw_variances": metropolis_variances(lambda p: 1)},
    "penalties without Jacobian": {"draw_penalties": penalties_without_jacobian},
}
RIGHT = {
    "latent scales by numpy": {"draw_scales": inverse_gaussian_scales()},
    "variance proposal that counts all coefficients": {"draw_variances": metropolis_variances(lambda p: p)},
}


def geweke_data(n=8, p=3, q=1):
    return small_data(n, p, q, np.random.default_rng(5))


def expected_statistics(n_draws, shape=(), seed=0):
    """Statistics of independent draws from the prior."""
    return marginal_conditional(
        n_draws, geweke_data(*shape), SIZES, OWN.numbers(), np.random.default_rng(seed)
    )


def geweke(independent, steps, n_draws, *, shape=(), seed=1):
    """|z| of each statistic: draws from the prior against a chain of these steps (None: the compiled sweep)."""
    rng = np.random.default_rng(seed)
    chain = successive_conditional(n_draws, geweke_data(*shape), SIZES, OWN.numbers(), rng, steps)
    return np.abs(geweke_z(independent, chain))


INVARIANT = (
    "concentration",
    "fitted value, row 0",
    "fitted value, row 1",
    "coefficient 1 of row 0",
    "coefficient 2 of row 1",
    "mean log variance",
    "mean size of coefficients",
    "sum of squared weights",
)


def invariant(state, data):
    """Quantities that do not depend on the labels of the components."""
    fitted = (data.X * state.coef[state.z]).sum(axis=1)
    return np.array(
        [
            state.alpha[0],
            fitted[0],
            fitted[1],
            state.coef[state.z[0], 1],
            state.coef[state.z[1], 2],
            np.log(state.sigma2[state.z]).mean(),
            np.abs(state.coef[state.z, 1:]).mean(),
            np.exp(2 * state.log_pi).sum(),
        ]
    )


def calibration_ranks(n_sets, n_draws, thin, seed):
    """Rank of each true quantity among posterior draws, over data sets drawn from the prior."""
    rng, priors, ranks = np.random.default_rng(seed), OWN.numbers(), []
    data = geweke_data(15, 2, 0)
    for _ in range(n_sets):
        truth = prior_draw(data, *SIZES, priors, rng)
        simulate(truth, data, rng)
        true = invariant(truth, data)
        state = prior_draw(data, *SIZES, priors, rng)
        none = make_kept_arrays(state, 0)
        _compiled.run_sweeps(state, data, priors, rng, 200, 1, none)
        draws = []
        for _ in range(n_draws):
            _compiled.run_sweeps(state, data, priors, rng, thin, 1, none)
            draws.append(invariant(state, data))
        ranks.append((np.array(draws) < true).sum(axis=0))
    return np.array(ranks)


def rank_histograms(ranks, n_draws, n_bins):
    """Counts (quantities, bins) of the ranks, and χ² p-values of their being uniform."""
    edges = np.linspace(-0.5, n_draws + 0.5, n_bins + 1)
    counts = np.array([np.histogram(column, edges)[0] for column in ranks.T])
    return counts, stats.chisquare(counts, axis=1).pvalue


def planted(seed, n=400, p=8, noise=0.05):
    """Rows of three regressions with two, one and three non-zero coefficients."""
    rng = np.random.default_rng(seed)
    coef = np.zeros((3, p))
    coef[0, [0, 1]], coef[1, [2]], coef[2, [3, 4, 5]] = [1.0, -1.0], [1.5], [1.0, 1.0, -1.0]
    z = rng.integers(3, size=n)
    X = rng.normal(size=(n, p))
    y = np.array([-4.0, 0.0, 4.0])[z] + (X * coef[z]).sum(axis=1) + noise * rng.normal(size=n)
    return X, y, z, coef


def recovery(seed):
    """What is found of a planted mixture: agreement of components, non-zero coefficients, largest error of a row."""
    X, y, z, coef = planted(seed)
    settings = Settings(n_components=6, n_sweeps=600, n_burn=300)
    posterior = sample(
        design(X, y), Priors(variance_scale=0.01), settings, rng=np.random.default_rng(seed + 1)
    )
    of_rows = posterior.coef[np.arange(len(posterior.z))[:, None], posterior.z.astype(int), 1:]
    low, high = np.quantile(of_rows, [0.025, 0.975], axis=0)
    nonzero, sure = coef[z] != 0, (low > 0) | (high < 0)
    return {
        "ARI": float(np.mean([adjusted_rand_score(z, draw) for draw in posterior.z])),
        "non-zero coefficients found": float(sure[nonzero].mean()),
        "zero coefficients taken for others": float(sure[~nonzero].mean()),
        "median error of a row's coefficients": float(
            np.median(np.abs(of_rows.mean(axis=0) - coef[z]).max(axis=1))
        ),
        "R̂": posterior.convergence.worst_r_hat,
    }


def coverage(levels, n_sets, n_explained=6):
    """Share of planted coefficients inside the intervals of some rows, per level and data set."""
    inside = {level: [] for level in levels}
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        X, z = rng.normal(size=(60, 3)), rng.integers(2, size=60)
        coef = rng.normal(size=(2, 3))
        y = np.array([-4.0, 4.0])[z] + (X * coef[z]).sum(axis=1) + rng.normal(size=60)
        known = {row.tobytes(): value for row, value in zip(X, y, strict=True)}
        explainer = DMMMEN(
            lambda rows, known=known: np.array([known[r.tobytes()] for r in rows]),
            n_components=4,
            n_sweeps=400,
            n_burn=200,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            explainer.fit(X)
        truth = coef[z[:n_explained]]
        for level, found in inside.items():
            explainer.credibility = level
            low, high = np.moveaxis(explainer.explain(X[:n_explained]).extras["coefficient_interval"], -1, 0)
            found.append(((low <= truth) & (truth <= high)).mean())
    return {level: np.array(found) for level, found in inside.items()}
