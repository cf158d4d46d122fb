"""Slow, obvious evaluation: one row, one step, one support point at a time."""

import itertools
import math

import numpy as np


def order_of(values):
    """Features from highest to lowest value, ties by column."""
    return sorted(range(len(values)), key=lambda i: (-values[i], i))


def remaining_distance(x, u, columns):
    return math.sqrt(math.fsum((x[c] - u[c]) ** 2 for c in columns))


def kernel_outlierness(distances, weights, *, kind, q, sigma, a=1.0, scale="count"):
    if kind == "exponential":
        exponents = [math.log(w) - (r / sigma) ** q / q for r, w in zip(distances, weights, strict=True)]
        top = max(exponents)
        return -(top + math.log(math.fsum(math.exp(e - top) for e in exponents)))
    g = math.fsum(w / (a + (r / sigma) ** q) for r, w in zip(distances, weights, strict=True))
    return (len(weights) if scale == "count" else 1) / g


def flip(x, points, relevance, *, pool, owner=None, left_out=-1):
    """Curve of one row: after each step, distances over the columns of the features still present, pooled."""
    owner = list(range(len(x))) if owner is None else list(owner)
    gone, curve = set(), []
    kept = [j for j in range(len(points)) if j != left_out]
    for feature in [None, *order_of(relevance)]:
        gone.add(feature)
        columns = [c for c in range(len(x)) if owner[c] not in gone]
        curve.append(pool([remaining_distance(x, points[j], columns) for j in kept], kept))
    return curve


def normalised_area(curve):
    heights = [(c - curve[-1]) / (curve[0] - curve[-1]) for c in curve]
    return math.fsum((left + right) / 2 for left, right in itertools.pairwise(heights)) / (len(curve) - 1)


def replace_in_turn(x, normal_rows, relevance, function):
    """Mean score over the normal rows as features of x take their values in turn."""
    curve = []
    order = order_of(relevance)
    for t in range(len(x) + 1):
        scores = []
        for normal in normal_rows:
            mixed = [normal[i] if i in order[:t] else x[i] for i in range(len(x))]
            scores.append(function(np.array([mixed]))[0])
        curve.append(math.fsum(scores) / len(scores))
    return curve


def expected_localisation(values, truth, k):
    """1/rank of the first true feature and hit@k, averaged over every order that breaks ties."""
    reciprocal, hits, total = 0.0, 0, 0
    for tie_break in itertools.permutations(range(len(values))):
        order = sorted(range(len(values)), key=lambda i, b=tie_break: (-values[i], b[i]))
        rank = 1 + min(place for place, i in enumerate(order) if truth[i])
        reciprocal += 1 / rank
        hits += rank <= k
        total += 1
    return reciprocal / total, hits / total


def pairwise_auroc(values, truth):
    wins = [
        1.0 if values[i] > values[j] else 0.5 if values[i] == values[j] else 0.0
        for i in range(len(values))
        for j in range(len(values))
        if truth[i] and not truth[j]
    ]
    return sum(wins) / len(wins)


def painted_scores(score, X, filled, values, region, *, descending):
    """Scores of pictures (n, channels, height, width) as regions are painted over, one region and row at a time."""
    height, width = X.shape[2:]
    corners = [(i, j) for i in range(0, height, region[0]) for j in range(0, width, region[1])]
    curves = []
    for x, paint, value in zip(X, filled, values, strict=True):
        relevance = [value[:, i : i + region[0], j : j + region[1]].sum() for i, j in corners]
        picture = x.copy()
        curve = [score(picture[None])[0]]
        for k in sorted(range(len(corners)), key=lambda k: -relevance[k] if descending else relevance[k]):
            i, j = corners[k]
            picture[:, i : i + region[0], j : j + region[1]] = paint[:, i : i + region[0], j : j + region[1]]
            curve.append(score(picture[None])[0])
        curves.append(curve)
    return np.array(curves)
