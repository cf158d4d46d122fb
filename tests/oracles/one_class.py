"""One-class models and One-Class DTD by plain loops over rows, support points and features."""

import numpy as np


def kernel(r, kind, *, q, bandwidth, a=1.0):
    scaled = (r / bandwidth) ** q
    return np.exp(-scaled / q) if kind == "exponential" else 1.0 / (a + scaled)


def distance(x, u):
    return float(np.sqrt(sum((xi - ui) ** 2 for xi, ui in zip(x, u, strict=True))))


def discriminant(x, points, weights, kind, **kw):
    return sum(w * kernel(distance(x, u), kind, **kw) for w, u in zip(weights, points, strict=True))


def outlierness(x, points, weights, kind, **kw):
    """o = −logsumexp(−h) or the harmonic mean of the effective distances h."""
    q, bandwidth, a = kw["q"], kw["bandwidth"], kw.get("a", 1.0)
    scaled = np.array([(distance(x, u) / bandwidth) ** q for u in points])
    if kind == "exponential":
        h = -np.log(weights) + scaled / q
        least = h.min()
        return float(least - np.log(np.exp(least - h).sum()))
    h = (a + scaled) / weights
    return float(len(h) / (1.0 / h).sum())


def shares(x, points, weights, kind, **kw):
    """p_j = α_j k_j / g in log space."""
    q, bandwidth, a = kw["q"], kw["bandwidth"], kw.get("a", 1.0)
    scaled = np.array([(distance(x, u) / bandwidth) ** q for u in points])
    log_k = -scaled / q if kind == "exponential" else -np.log(a + scaled)
    e = np.log(weights) + log_k
    e = np.exp(e - e.max())
    return e / e.sum()


def relevance(x, points, weights, kind, **kw):
    """R_i = Σ_j Δ_j (x_i − u_ji)² / r_j² over a double loop."""
    q, bandwidth, a = kw["q"], kw["bandwidth"], kw.get("a", 1.0)
    o = outlierness(x, points, weights, kind, **kw)
    p = shares(x, points, weights, kind, **kw)
    R = np.zeros(len(x))
    for j, u in enumerate(points):
        r = distance(x, u)
        if r == 0:
            continue
        scaled = (r / bandwidth) ** q
        delta = p[j] * min(o, scaled / q) if kind == "exponential" else p[j] * scaled / (a + scaled) * o
        for i in range(len(x)):
            R[i] += delta * (x[i] - u[i]) ** 2 / r**2
    return R


def without(i, points, weights):
    """The model without its support point i, weights rescaled to sum to one."""
    keep = np.arange(len(weights)) != i
    return points[keep], weights[keep] / (1 - weights[i])


def integrated_gradients_of_support_relevance(x, u, C, D, q, steps=20_000):
    """Numerical integrated gradients of R_j = C r^q + D from its root (or minimum) on the segment from u to x."""
    z = x - u
    r = np.linalg.norm(z)
    start = (max(-D, 0.0) / C) ** (
        1 / q
    ) / r  # share of the way from u to x where R_j = 0; 0 if it has no root
    middle = start + (np.arange(steps) + 0.5) / steps * (1 - start)
    total = np.zeros_like(x)
    for t in middle:
        point = t * z
        total += C * q * np.linalg.norm(point) ** (q - 2) * point
    return total * (1 - start) / steps * z


def one_class_qp(K, cap, p=None):
    """min ½αᵀKα + pᵀα, Σα=1, 0≤α≤cap by a general-purpose solver."""
    from scipy.optimize import minimize

    n = len(K)
    p = np.zeros(n) if p is None else p
    result = minimize(
        lambda a: 0.5 * a @ K @ a + p @ a,
        np.full(n, 1 / n),
        jac=lambda a: K @ a + p,
        bounds=[(0, cap)] * n,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(n)},
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    return result.x


def usual_relevance(points, weights, kind, **kw):
    """Relevance that columns have on the model's own points, each left out, by loops.

    The mean over the nine tenths of the points that score lowest, plus a tenth of the average column's.
    """
    scores, values = [], []
    for i, x in enumerate(points):
        others = without(i, points, weights)
        scores.append(outlierness(x, *others, kind, **kw))
        values.append(relevance(x, *others, kind, **kw))
    limit = np.quantile(scores, 0.9)
    ordinary = [R for R, o in zip(values, scores, strict=True) if o <= limit]
    mean = [sum(R[i] for R in ordinary) / len(ordinary) for i in range(points.shape[1])]
    return np.array([m + 0.1 * sum(mean) / len(mean) for m in mean])
