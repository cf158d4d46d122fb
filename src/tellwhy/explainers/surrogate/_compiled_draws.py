"""Compiled numbers and draws that the full conditionals are made of."""

import math
from collections import namedtuple

import numpy as np

from tellwhy.core.compiled import njit

LOG_SQRT_PI = 0.5 * math.log(math.pi)
LOG_2PI = math.log(2.0 * math.pi)
REACH = 60.0  # logarithms of λ and σ² stay within ±60: from an odd start a slice may be hundreds wide

LogScale = namedtuple("LogScale", "slope weight power p inner factors")
"""Log density of x, the logarithm of σ², λ1 or λ2: all three have this form, with other numbers in it.

slope·x − weight·exp(power·x) − p·Σ_j log erfcx(factors_j·exp(inner·x)): the first two terms are those of a
gamma density (power 1) or an inverse-gamma density (power −1), the last is the constant Z of the elastic net
for the p coefficients of each component j. The Jacobian of taking logarithms is part of the slope.
"""


@njit(nogil=True, cache=True)
def log_erfcx(x):
    """log(exp(x²)·erfc(x)) for x ≥ 0, where erfc itself would underflow."""
    if x < 5.0:
        return x * x + math.log(math.erfc(x))
    # √π·erfcx(x) = 1/(x + (1/2)/(x + (2/2)/(x + …))), from the inside out; 30 terms give 13 digits from 5 on.
    fraction = x
    for k in range(30, 0, -1):
        fraction = x + 0.5 * k / fraction
    return -LOG_SQRT_PI - math.log(fraction)


@njit(nogil=True, cache=True)
def log_elastic_net(l1, l2, p, sigma2, lambda1, lambda2):
    """Log density EN of p coefficients with Σ|β| = l1 and Σβ² = l2; it depends on them by these sums only."""
    x = lambda1 / (2.0 * math.sqrt(sigma2 * lambda2))
    log_z = 0.5 * (LOG_2PI + math.log(sigma2) - math.log(lambda2)) + log_erfcx(x / math.sqrt(2.0))
    return -(lambda1 * l1 + lambda2 * l2) / (2.0 * sigma2) - p * log_z


@njit(nogil=True, cache=True)
def log_gamma_draw(shape, rng):
    """Logarithm of a Gamma(shape, 1) draw, also where the draw itself is below the smallest number."""
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    # Gamma(a) = Gamma(a + 1)·U^(1/a): for a tiny shape the power underflows, its logarithm does not.
    # 1 − U is in (0, 1], so that its logarithm is finite.
    return math.log(rng.standard_gamma(shape + 1.0)) + math.log(1.0 - rng.random()) / shape


@njit(nogil=True, cache=True)
def log_sum(a, b):
    """log(eᵃ + eᵇ)."""
    high = max(a, b)
    return high + math.log1p(math.exp(min(a, b) - high))


@njit(nogil=True, cache=True)
def draw_inverse_gaussian(mean, shape, rng):
    """Draw of InverseGaussian(mean, shape), after Michael, Schucany and Haas (1976).

    A squared normal leads to two roots, of which one is returned with the right chance. The smaller root is
    written as a reciprocal of a sum of positive terms: the textbook's difference cancels where the mean is
    large, which it is for coefficients near 0.
    """
    y = rng.standard_normal() ** 2
    half = y / (2.0 * shape)
    first = 1.0 / (1.0 / mean + half + math.sqrt(y / (shape * mean) + half * half))
    if rng.random() * (1.0 + first / mean) <= 1.0:
        return first
    return mean * (mean / first)  # mean² may overflow


@njit(nogil=True, cache=True)
def draw_normal_above(low, rng):
    """Draw of a standard normal above low ≥ 0 (Robert, 1995)."""
    if low < 0.45:  # here plain rejection succeeds often enough, and costs less
        while True:
            x = abs(rng.standard_normal())
            if x > low:
                return x
    # Rejection from a shifted exponential, with the rate that accepts most.
    rate = 0.5 * (low + math.sqrt(low * low + 4.0))
    while True:
        x = low + rng.standard_exponential() / rate
        if math.log(1.0 - rng.random()) <= -0.5 * (x - rate) ** 2:
            return x


@njit(nogil=True, cache=True)
def pick(logits, rng):
    """Draw of an index with probability ∝ exp(logits)."""
    high = logits.max()  # taken out, so that the largest exponential is 1 and none overflows
    total = 0.0
    for value in logits:
        total += math.exp(value - high)
    left = rng.random() * total
    for j in range(len(logits)):
        left -= math.exp(logits[j] - high)
        if left < 0.0:
            return j
    return int(np.argmax(logits))  # rounding may leave a little after the last


@njit(nogil=True, cache=True)
def log_density(x, target):
    """Log density of a `LogScale` at x, up to a constant; none beyond REACH."""
    if abs(x) > REACH:
        return -np.inf
    found = target.slope * x - target.weight * math.exp(target.power * x)
    for factor in target.factors:
        found -= target.p * log_erfcx(factor * math.exp(target.inner * x))
    return found


@njit(nogil=True, cache=True)
def slice_step(x, target, rng):
    """One slice-sampling step from x: stepping out, then shrinking (Neal, 2003, figures 3 and 5).

    Steps out are 1 wide, in which λ or σ² changes by a factor e.
    """
    level = log_density(x, target) - rng.standard_exponential()
    low = x - rng.random()
    high = low + 1.0
    while log_density(low, target) > level:
        low -= 1.0
    while log_density(high, target) > level:
        high += 1.0
    while True:
        new = low + rng.random() * (high - low)
        # An interval that has shrunk to x itself ends the search, whatever rounding says of the level.
        if log_density(new, target) > level or high - low < 1e-12:
            return new
        if new < x:
            low = new
        else:
            high = new
