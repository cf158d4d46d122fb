"""The law of a number and the rates of mistakes, by the slowest way that is surely right."""

from __future__ import annotations

import itertools
import math


def kernel_density(values, at, bandwidth, without=None):
    """Mean of Gaussian kernels on the values, one of them left out where asked."""
    others = [v for i, v in enumerate(values) if i != without]
    kernels = [math.exp(-0.5 * ((at - v) / bandwidth) ** 2) for v in others]
    return sum(kernels) / len(others) / bandwidth / math.sqrt(2 * math.pi)


def likelihood(gains, size, rate):
    """Of a column with a mistake in each cell with the chance `rate`; other cells than those cannot have it."""
    return math.prod(1 - rate + rate * math.exp(g) for g in gains) * (1 - rate) ** (size - len(gains))


def chances_of_erring(columns, few, many, priors):
    """P(a column errs | all columns), over every way in which a table and its columns may err.

    `columns` are (gains, size); `few` and `many` are the rates of those that hardly err and of those that do;
    `priors` the chances that the table errs, and that a column does where it does, and where it does not.
    """
    table, if_errs, if_not = priors
    weights = {}
    for errs in (False, True):
        column = if_errs if errs else if_not
        for state in itertools.product((False, True), repeat=len(columns)):
            weight = table if errs else 1 - table
            for does, (gains, size) in zip(state, columns, strict=True):
                rates = many if does else few
                weight *= column if does else 1 - column
                weight *= sum(likelihood(gains, size, rate) for rate in rates) / len(rates)
            weights[errs, state] = weight
    total = sum(weights.values())
    return [sum(w for (_, state), w in weights.items() if state[at]) / total for at in range(len(columns))]


def mean_and_spread(values, prior_rows, prior_spread):
    """Of the values of a level, its spread drawn to what is usual in levels."""
    mean = sum(values) / len(values)
    squares = sum((v - mean) ** 2 for v in values)
    return mean, math.sqrt((squares + prior_rows * prior_spread**2) / (len(values) + prior_rows))
