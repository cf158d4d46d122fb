"""Relevance of a small transformer by explicit algebra, in the language of relevance R and numpy.

Each function maps the relevance of an operation's output to that of its inputs, with no stabiliser (LRP-0).
AttnLRP: products share in halves, softmax by its Taylor rule, norms with a constant standard deviation.
"""

import math

import numpy as np


def linear(x, W, b, R):
    """R_i = Σ_j x_i w_ij R_j / z_j with z = W x + b, biases absorb."""
    return x * ((R / (x @ W.T + b)) @ W)


def product(A, B, R):
    """One half to each factor of A @ B, in proportion to what each element contributed."""
    shared = R / (A @ B)
    return A * (shared @ np.swapaxes(B, -1, -2)) / 2, B * (np.swapaxes(A, -1, -2) @ shared) / 2


def constant_weights(A, B, R):
    """All to B, with A as a constant."""
    return B * (np.swapaxes(A, -1, -2) @ (R / (A @ B)))


def softmax(S, P, R):
    """R_i = x_i (R_i − s_i Σ R); nothing to what was masked."""
    finite = np.where(np.isfinite(S), S, 0)
    return finite * (R - P * R.sum(axis=-1, keepdims=True))


def norm(x, gamma, beta, R, *, centred=True, eps=1e-5):
    """Through the centring and the factors of y = γ (x − mean)/s + β, with s as a constant."""
    mean = x.mean(-1, keepdims=True) if centred else 0
    s = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    c = gamma * R / (gamma * (x - mean) / s + beta)
    if centred:
        c = c - c.mean(-1, keepdims=True)
    return x * c / s


def erf(values):
    return np.vectorize(math.erf)(values)


def gelu(z):
    return z * 0.5 * (1 + erf(z / math.sqrt(2)))


def soft(S):
    powers = np.exp(S - S.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def heads(x, n_heads):
    """(time, heads · size) as (heads, time, size)."""
    return np.swapaxes(x.reshape(len(x), n_heads, -1), 0, 1)


def joined(x):
    return np.swapaxes(x, 0, 1).reshape(x.shape[1], -1)


def transformer(x, w, *, n_heads, mask, target, centred=True, detached=False, kept=None):
    """Relevance of one input x (time, size) of a pre-norm block with head: see `zoo.transformers`.

    `w` holds the weights by name; `mask` (time, time) is added to the scores. A dict `kept` gets
    the relevance of the heads and of the block's output.
    """

    def normed(v, k):
        mean = v.mean(-1, keepdims=True) if centred else 0
        s = np.sqrt(((v - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
        return w[f"gamma{k}"] * (v - mean) / s + w[f"beta{k}"]

    h = normed(x, 1)
    q, k, v = (heads(h @ w[f"W{n}"].T + w[f"b{n}"], n_heads) for n in "qkv")
    root = math.sqrt(q.shape[-1])
    S = q @ np.swapaxes(k, -1, -2) / root + mask
    P = soft(S)
    o = joined(P @ v)
    attended = o @ w["Wo"].T + w["bo"]
    y = x + attended
    g = normed(y, 2)
    z = g @ w["W1"].T + w["b1"]
    a = gelu(z)
    mlp = a @ w["W2"].T + w["b2"]
    out = y + mlp
    pooled = out.mean(axis=0)
    score = pooled @ w["Wh"].T + w["bh"]

    R = np.zeros_like(score)
    R[target] = score[target]
    R = linear(pooled, w["Wh"], w["bh"], R)
    R = R_out = out / len(out) * R / pooled
    R_y, R_mlp = y * R / out, mlp * R / out
    R_z = linear(a, w["W2"], w["b2"], R_mlp)  # the element keeps its relevance through GELU
    R_y = R_y + norm(y, w["gamma2"], w["beta2"], linear(g, w["W1"], w["b1"], R_z), centred=centred)
    R_x, R_attended = x * R_y / y, attended * R_y / y
    R_o = heads(linear(o, w["Wo"], w["bo"], R_attended), n_heads)
    if kept is not None:
        kept |= {"heads": R_o, "block": R_out}
    if detached:
        R_v, R_q, R_k = constant_weights(P, v, R_o), 0 * q, 0 * k
    else:
        R_P, R_v = product(P, v, R_o)
        R_S = softmax(S, P, R_P)
        raw = q @ np.swapaxes(k, -1, -2) / root
        R_q, R_kT = product(q, np.swapaxes(k, -1, -2) / root, raw * R_S / np.where(np.isfinite(S), S, 1))
        R_k = np.swapaxes(R_kT, -1, -2)
    total = sum(
        linear(h, w[f"W{n}"], w[f"b{n}"], joined(r)) for n, r in zip("qkv", (R_q, R_k, R_v), strict=True)
    )
    return R_x + norm(x, w["gamma1"], w["beta1"], total, centred=centred), score
