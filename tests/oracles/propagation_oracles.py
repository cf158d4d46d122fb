"""Relevance rules of one layer, element by element, on a plain weight matrix."""

import numpy as np


def positive(value):
    return max(value, 0.0)


def negative(value):
    return min(value, 0.0)


def share(part, whole):
    return part / whole if whole != 0 else 0.0


def sign(value):
    return 1.0 if value >= 0 else -1.0


def layer_relevance(rule, x, W, b, R, **params):
    """R_i of the inputs x (d,) of z = W x + b, from R (k,) of the outputs; W is (k, d)."""
    out = np.zeros(len(x))
    for j in range(len(b)):
        fractions = FRACTIONS[rule](x, W[j], b[j], **params)
        for i in range(len(x)):
            out[i] += fractions[i] * R[j]
    return out


def z(x, w, b):
    total = sum(x * w) + b
    return [share(xi * wi, total) for xi, wi in zip(x, w, strict=True)]


def epsilon(x, w, b, epsilon):
    total = sum(x * w) + b
    return [share(xi * wi, total + sign(total) * epsilon) for xi, wi in zip(x, w, strict=True)]


def gamma(x, w, b, gamma):
    total = sum(x * w) + b
    chosen = positive if total > 0 else negative
    whole = (
        sum(xi * wi + gamma * chosen(xi * wi) for xi, wi in zip(x, w, strict=True)) + b + gamma * chosen(b)
    )
    return [share(xi * wi + gamma * chosen(xi * wi), whole) for xi, wi in zip(x, w, strict=True)]


def alpha_beta(x, w, b, alpha, beta, conserve=False):
    P = sum(positive(p) for p in x * w) + positive(b)
    N = sum(negative(p) for p in x * w) + negative(b)
    if conserve and N == 0:
        alpha = 1
    if conserve and P == 0:
        beta = -1
    return [alpha * share(positive(p), P) - beta * share(negative(p), N) for p in x * w]


def z_plus(x, w, b):
    P = sum(positive(p) for p in x * w)
    return [share(positive(p), P) for p in x * w]


def w_square(x, w, b):
    return [share(wi**2, sum(w**2)) for wi in w]


def flat(x, w, b):
    connected = sum(wi != 0 for wi in w)
    return [share(float(wi != 0), connected) for wi in w]


def z_box(x, w, b, low, high):
    parts = [xi * wi - low * positive(wi) - high * negative(wi) for xi, wi in zip(x, w, strict=True)]
    return [share(part, sum(parts)) for part in parts]


FRACTIONS = {
    "z": z,
    "epsilon": epsilon,
    "gamma": gamma,
    "alpha_beta": alpha_beta,
    "z_plus": z_plus,
    "w_square": w_square,
    "flat": flat,
    "z_box": z_box,
}


def network_relevance(rules, layers, x, chosen):
    """Relevance of the inputs of a network of layers (W, b) with ReLU between them; one (rule, params) per layer."""
    inputs = [x]
    for W, b in layers[:-1]:
        inputs.append(np.maximum(W @ inputs[-1] + b, 0))
    output = layers[-1][0] @ inputs[-1] + layers[-1][1]
    R = np.where(np.arange(len(output)) == chosen, output, 0.0)
    for (name, params), (W, b), a in zip(rules[::-1], layers[::-1], inputs[::-1], strict=True):
        R = layer_relevance(name, a, W, b, R, **params)
    return R
