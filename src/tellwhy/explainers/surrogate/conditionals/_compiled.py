"""Compiled sweeps of the sampler: each full conditional once, in an order that is part of the method.

Every draw changes a `State` in place and takes the same four arguments: state, data, numbers of the priors,
random numbers.
"""

from tellwhy.core.storage.compiled_loops import njit
from tellwhy.explainers.surrogate.conditionals._compiled_coefficients import draw_coefficients
from tellwhy.explainers.surrogate.conditionals._compiled_components import (
    draw_alpha,
    draw_assignments,
    draw_gates,
    draw_sticks,
)
from tellwhy.explainers.surrogate.conditionals._compiled_nets import (
    draw_net_weights,
    draw_nets,
    draw_penalties,
    draw_scales,
    draw_variances,
)
from tellwhy.explainers.surrogate.conditionals._compiled_order import draw_order
from tellwhy.explainers.surrogate.conditionals._compiled_partition import draw_partition


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
