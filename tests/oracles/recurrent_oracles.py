"""Relevance of recurrent layers by explicit algebra, one sequence at a time, in numpy (Arras et al., 2017).

Each layer of (x, h) is LRP-0 with the whole sum; sums share in proportion; elementwise functions pass
relevance on; products with a gate give `share` of it to the gate (0: signal takes all, 1/2: half). The first
state is a constant, which absorbs.
"""

import numpy as np


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def quotient(a, b):
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b != 0)


def joint(x, h, w, R):
    """Relevance of x and h from that of W x + U h + b."""
    z = w["Wx"] @ x + w["Wh"] @ h + w["b"]
    c = quotient(R, z)
    return x * (w["Wx"].T @ c), h * (w["Wh"].T @ c)


def split(R, *summands):
    total = sum(summands)
    return [quotient(R * part, total) for part in summands]


def lstm(xs, w, R_last, *, share=0.0):
    """Relevance of xs (time, d) from that of the last h; also the h of each step."""
    n = w["Wh"].shape[1]
    h, c = np.zeros(n), np.zeros(n)
    kept = []
    for x in xs:
        i, f, g, o = np.split(w["Wx"] @ x + w["Wh"] @ h + w["b"], 4)
        new = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        kept.append((x, h, c, sigmoid(i), sigmoid(f), np.tanh(g), new))
        h, c = sigmoid(o) * np.tanh(new), new
    R_h, R_c = R_last, np.zeros(n)
    found = np.zeros_like(xs)
    for t in range(len(xs) - 1, -1, -1):
        x, h_before, c_before, i, f, g, new = kept[t]
        R_o = share * R_h
        R_c = R_c + (1 - share) * R_h
        R_kept, R_fresh = split(R_c, f * c_before, i * g)
        gates = np.concatenate([share * R_fresh, share * R_kept, (1 - share) * R_fresh, R_o])
        found[t], R_h = joint(x, h_before, w, gates)
        R_c = (1 - share) * R_kept
    return found, h


def gru(xs, w, R_last, *, share=0.0):
    """The same for a GRU; `w` has weights of gates (r, z) and of the candidate n."""
    n = w["Un"].shape[1]
    h = np.zeros(n)
    kept = []
    for x in xs:
        r, z = np.split(sigmoid(w["Wx"] @ x + w["Wh"] @ h + w["b"]), 2)
        fresh, recalled = w["Wn"] @ x + w["bn"], w["Un"] @ h + w["cn"]
        candidate = np.tanh(fresh + r * recalled)
        kept.append((x, h, r, z, fresh, recalled, candidate))
        h = (1 - z) * candidate + z * h
    R_h = R_last
    found = np.zeros_like(xs)
    for t in range(len(xs) - 1, -1, -1):
        x, before, r, z, fresh, recalled, candidate = kept[t]
        R_new, R_old = split(R_h, (1 - z) * candidate, z * before)
        # 1 − z is a gate as well; its relevance goes on to z in proportion, where the constant 1 absorbs.
        R_z = share * R_new * quotient(-z, 1 - z) + share * R_old
        R_fresh, R_recalled = split((1 - share) * R_new, fresh, r * recalled)
        R_x = x * (w["Wn"].T @ quotient(R_fresh, fresh))
        R_before = before * (w["Un"].T @ quotient((1 - share) * R_recalled, recalled))
        R_gates_x, R_gates_h = joint(x, before, w, np.concatenate([share * R_recalled, R_z]))
        found[t] = R_x + R_gates_x
        R_h = R_before + R_gates_h + (1 - share) * R_old
    return found, h


def plain(xs, w, R_last):
    """The same for a plain recurrent layer with tanh."""
    h = np.zeros(w["Wh"].shape[1])
    kept = []
    for x in xs:
        kept.append((x, h))
        h = np.tanh(w["Wx"] @ x + w["Wh"] @ h + w["b"])
    R_h, found = R_last, np.zeros_like(xs)
    for t in range(len(xs) - 1, -1, -1):
        found[t], R_h = joint(*kept[t], w, R_h)
    return found, h
