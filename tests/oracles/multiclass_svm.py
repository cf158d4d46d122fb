"""Multi-class SVMs as quadratic programmes over all dual variables at once, with the Hessian formed in full."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np


def pairs_of(y, n_classes):
    """All variables (row, class) with class ≠ label."""
    return [(i, c) for i, c in itertools.product(range(len(y)), range(n_classes)) if c != y[i]]


def directions(X, y, n_classes, loss):
    """The change of W (classes × features, flattened) per unit of each variable."""
    found = []
    variables = (
        pairs_of(y, n_classes) if loss != "ovr" else list(itertools.product(range(len(y)), range(n_classes)))
    )
    for i, c in variables:
        V = np.zeros((n_classes, X.shape[1]))
        if loss in ("ww", "cs"):
            V[y[i]] += X[i]
            V[c] -= X[i]
        elif loss == "llw":
            V[c] -= X[i]
            V -= V.mean(axis=0)
        else:
            V[c] += X[i] if c == y[i] else -X[i]
        found.append(V.ravel())
    return np.array(found), variables


def primal(W, X, y, caps, loss):
    """Objective of weights W, classes × features."""
    scores = X @ W.T
    total = 0.5 * (W**2).sum()
    for i in range(len(y)):
        others = [c for c in range(len(W)) if c != y[i]]
        if loss == "llw":
            losses = [max(0.0, 1 + scores[i, c]) for c in others]
        elif loss == "ovr":
            losses = [max(0.0, 1 - scores[i, y[i]])] + [max(0.0, 1 + scores[i, c]) for c in others]
        else:
            losses = [max(0.0, 1 - scores[i, y[i]] + scores[i, c]) for c in others]
        total += caps[i] * (max(losses) if loss == "cs" else sum(losses))
    return total


def optimum(X, y, caps, n_classes, loss):
    """Return (optimal value, W) from the dual quadratic programme max 1ᵀα − ½‖Vᵀα‖², solved by scipy's SLSQP."""
    from scipy.optimize import minimize

    V, variables = directions(X, y, n_classes, loss)
    Q, cap = V @ V.T, np.array([caps[i] for i, _ in variables])
    constraints = []
    if loss == "cs":
        rows = np.array([i for i, _ in variables])
        for i in range(len(y)):
            mine = (rows == i).astype(float)
            constraints.append(
                {"type": "ineq", "fun": lambda a, m=mine, b=caps[i]: b - m @ a, "jac": lambda a, m=mine: -m}
            )
    found = minimize(
        lambda a: 0.5 * a @ Q @ a - a.sum(),
        np.zeros(len(cap)),
        jac=lambda a: Q @ a - 1,
        bounds=[(0, b) for b in cap],
        constraints=constraints,
        method="SLSQP" if constraints else "L-BFGS-B",
        options={"maxiter": 20000, "ftol": 1e-15} | ({} if constraints else {"gtol": 1e-10, "maxfun": 10**6}),
    )
    W = (V.T @ found.x).reshape(n_classes, X.shape[1])
    return -found.fun, W


@dataclass(frozen=True)
class Certificate:
    """Both objectives at the weights of given dual variables, and gain and violation of each variable."""

    primal: float
    dual: float
    gains: np.ndarray
    violations: np.ndarray


def certificate(duals, X, y, caps, loss):
    """The certificate of dual variables, rows × classes, from the formulas."""
    n_classes = duals.shape[1]
    V, variables = directions(X, y, n_classes, loss)
    alpha = np.array([duals[variable] for variable in variables])
    flat = V.T @ alpha
    W = flat.reshape(n_classes, X.shape[1])
    gains = np.full(duals.shape, -np.inf)
    violations = np.zeros(duals.shape)
    for direction, (i, c) in zip(V, variables, strict=True):
        gains[i, c] = 1 - direction @ flat  # the slope of 1ᵀα − ½‖Vᵀα‖²
    for i, c in variables:
        is_below = duals[i].sum() < caps[i] * (1 - 1e-9) if loss == "cs" else duals[i, c] < caps[i]
        # Where only a sum is bounded, a variable at the bound can still grow at the cost of another.
        grows = max(gains[i, c], 0) if is_below else 0.0
        held = [max(gains[i].max(), 0) if loss == "cs" else 0.0] if duals[i, c] > 0 else []
        violations[i, c] = max([grows, *(most - gains[i, c] for most in held)])
    return Certificate(primal(W, X, y, caps, loss), alpha.sum() - 0.5 * flat @ flat, gains, violations)
