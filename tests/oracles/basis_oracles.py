"""Kernels and features computed one pair and one matrix at a time."""

import math

import numpy as np
from scipy.linalg import hadamard


def gaussian_kernel(x, y, bandwidth):
    return math.exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / (2 * bandwidth**2))


def arc_cosine_kernel(x, y, depth=1):
    """The recursion of Cho and Saul, with the square root to the power +½."""
    xx, yy, xy = (float(np.dot(a, b)) for a, b in ((x, x), (y, y), (x, y)))
    for _ in range(depth):
        scale = math.sqrt(xx * yy)
        angle = math.acos(max(-1.0, min(1.0, xy / scale)))
        xy = scale / math.pi * (math.sin(angle) + (math.pi - angle) * math.cos(angle))
    return xy


def hadamard_matrix(diagonals, n_inputs, n_directions):
    """The matrix G, shape (inputs, directions), that a structured projection stands for."""
    p = diagonals.shape[2]
    H = hadamard(p) / math.sqrt(p)
    copies = []
    for blocks in diagonals:
        product = np.eye(p)
        for diagonal in blocks:
            product = product @ H @ np.diag(diagonal)
        copies.append(math.sqrt(p) * product)
    return np.vstack(copies)[:n_directions, :n_inputs].T


def gaussian_features(X, centre, bandwidth, G):
    Z = (X - centre) @ G / bandwidth
    return np.hstack([np.sin(Z), np.cos(Z)]) / math.sqrt(G.shape[1])


def rectified_features(X, matrices):
    for G in matrices:
        X = math.sqrt(2 / G.shape[1]) * np.maximum(X @ G, 0)
    return X


def nth_neighbour_distance(X, nth):
    return float(np.mean([np.sort([np.linalg.norm(x - y) for y in X])[nth] for x in X]))
