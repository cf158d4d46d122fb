"""Compiled moves that change which component comes first: numbers of components are exchanged.

A share is a piece of what earlier components leave of the stick. So large components with high numbers go
with other sticks, and another α, than large components with low ones; and α says how easily new components
come up. A component gets another number only if all its rows leave it, one by one: chains would keep the
order that they started with. Here two components exchange their numbers, with all that belongs to them and
the sticks u integrated out; only the probability of the components' sizes changes then. Sticks must be drawn
right afterwards. (Moves of this kind that keep the sticks: Papaspiliopoulos and Roberts, 2008; Hastie,
Liverani and Richardson, 2015.)
"""

import math

import numpy as np

from tellwhy.core.storage.compiled_loops import njit

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
def proposed_order(counts, alpha, rng):
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
    order = proposed_order(state.counts, state.alpha[0], rng)
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
