"""Compiled loops between the entries of a row and the weights: scores, and steps added to weights."""

from tellwhy.classifiers.svm.engines._compiled_steps import for_each_row, to_the_bit

MANY = 8  # where more than one class of so many is listed, computing all scores is faster than picking


@for_each_row
def all_scores(entries, low, high, weights, n_classes, scores):
    """Scores of all classes of a block from the entries low … high of a row."""
    for c in range(n_classes):
        scores[c] = 0.0
    # Classes inside: their weights lie side by side, so that the inner loop becomes vector instructions.
    for p in range(low, high):
        x = entries.values[p]
        w = weights[entries.indices[p]]
        for c in range(n_classes):
            scores[c] += x * w[c]


@for_each_row
def listed_scores(entries, low, high, block, classes, at, n, scores, every):
    """Scores of the n classes listed from `at` on; `every` is room for those of all classes."""
    if MANY * n > block.n_classes:
        all_scores(entries, low, high, block.weights, block.n_classes, every)
        for j in range(n):
            scores[j] = every[classes[at + j]]
        return
    for j in range(n):
        scores[j] = 0.0
    for p in range(low, high):
        x = entries.values[p]
        w = block.weights[entries.indices[p]]
        for j in range(n):
            scores[j] += x * w[classes[at + j]]


@for_each_row
def one_score(entries, low, high, weights, c):
    """Score of one class."""
    # One class: a weight from each of many cache lines, which no order of loops could avoid.
    score = 0.0
    for p in range(low, high):
        score += entries.values[p] * weights[entries.indices[p], c]
    return score


@for_each_row
def dot(entries, low, high, w):
    """Inner product of a row with a dense vector."""
    product = 0.0
    for p in range(low, high):
        product += entries.values[p] * w[entries.indices[p]]
    return product


@to_the_bit
def add_steps(entries, low, high, label_weights, label, weights, steps, step_classes, n_steps, total):
    """Take the listed steps of an example from the weights of their classes; the label's gain the sum."""
    for p in range(low, high):
        x = entries.values[p]
        f = entries.indices[p]
        w = weights[f]
        for j in range(n_steps):
            w[step_classes[j]] -= x * steps[j]
        label_weights[f, label] += x * total


@to_the_bit
def add_all_steps(entries, low, high, label_weights, label, weights, n_classes, steps, total):
    """The same for the steps of all classes of a block."""
    for p in range(low, high):
        x = entries.values[p]
        f = entries.indices[p]
        w = weights[f]
        for c in range(n_classes):
            w[c] -= x * steps[c]
        label_weights[f, label] += x * total
