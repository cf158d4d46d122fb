"""From scores to probabilities: one temperature, fitted on rows that were held out."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from tellwhy.core.score_function import Floats, Integers


def softmax(scores: Floats) -> Floats:
    """exp(s) / Σ exp(s), row by row."""
    return np.exp(scores - logsumexp(scores, axis=1, keepdims=True))


def best_temperature(scores: Floats, y: Integers) -> float:
    """T > 0 that maximises the likelihood of the classes y under softmax(scores / T).

    Examples
    --------
    >>> scores = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    >>> T = best_temperature(scores, np.array([0, 0, 0, 1]))
    >>> softmax(scores / T)[0].round(4)
    array([0.75, 0.25])
    """
    at = np.arange(len(y))
    # Over log T: any real number is allowed, and halving T is as large a step as doubling it.

    def loss(log_temperature: float) -> float:
        s = scores / np.exp(log_temperature)
        return float((logsumexp(s, axis=1) - s[at, y]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-8, 8), method="bounded", options={"xatol": 1e-8}).x))
