"""Slow, obvious counterparts of the mixtures and networks of `tellwhy.detectors`: one row and one unit at a time."""

import math

import numpy as np


def log_normal(x, mean, covariance):
    """log N(x; mean, covariance)."""
    deviation = x - mean
    _, log_determinant = np.linalg.slogdet(covariance)
    square = deviation @ np.linalg.solve(covariance, deviation)
    return -0.5 * (len(x) * math.log(2 * math.pi) + log_determinant + square)


def log_sum(terms):
    top = max(terms)
    return top + math.log(sum(math.exp(term - top) for term in terms))


def mixture_energy(x, weights, means, covariances):
    """−log Σ_k π_k N(x; μ_k, Σ_k)."""
    parts = zip(weights, means, covariances, strict=True)
    return -log_sum([math.log(w) + log_normal(x, m, c) for w, m, c in parts])


def shares(x, weights, means, covariances):
    """Share of each component in the density at x."""
    terms = [math.log(w) + log_normal(x, m, c) for w, m, c in zip(weights, means, covariances, strict=True)]
    return np.exp(np.array(terms) - log_sum(terms))


def reestimated(X, R, *, diagonal=False):
    """Weights, means and covariances of rows X whose shares in the components are R (n, K)."""
    weights, means, covariances = [], [], []
    for share in R.T:
        mean = (share[:, None] * X).sum(axis=0) / share.sum()
        deviation = X - mean
        covariance = (deviation * share[:, None]).T @ deviation / share.sum()
        weights.append(share.sum() / len(X))
        means.append(mean)
        covariances.append(np.diag(np.diag(covariance)) if diagonal else covariance)
    return np.array(weights), np.array(means), np.array(covariances)


def softplus(values):
    return np.array([math.log1p(math.exp(-abs(v))) + max(v, 0.0) for v in np.ravel(values)])


def layer(network, name, x):
    """X W + b, one output at a time."""
    weight, bias = network[f"{name}.weight"], network[f"{name}.bias"]
    return np.array([sum(x[i] * weight[i, j] for i in range(len(x))) + bias[j] for j in range(len(bias))])


def decode(network, code):
    hidden = softplus(layer(network, "decode", code))
    return layer(network, "output", softplus(layer(network, "refine", hidden))) + beside(
        network, "bypass_output", code
    )


def beside(network, name, x):
    """X W + b of a linear map beside the layers, where the network has one."""
    return layer(network, name, x) if f"{name}.weight" in network else 0.0


def vae_code(network, x):
    """Mean and variance of the code of a scaled row."""
    hidden = softplus(layer(network, "encode", x))
    mean = layer(network, "mean", hidden) + beside(network, "bypass_mean", x)
    return mean, softplus(layer(network, "variance", hidden)) + 1e-6


def vae_errors(network, x, likelihood):
    """(x_i − x̂_i)² of a scaled row."""
    output = decode(network, vae_code(network, x)[0])
    return (x - (1 / (1 + np.exp(-output)) if likelihood == "bernoulli" else output)) ** 2


def vae_bound(network, x, noise, likelihood, output_variance=1.0):
    """−ELBO of a scaled row, the noise multiplied by the standard deviation of the code."""
    mean, variance = vae_code(network, x)
    surprises = []
    for draw in noise:
        output = decode(network, mean + np.sqrt(variance) * draw)
        if likelihood == "bernoulli":
            p = 1 / (1 + np.exp(-output))
            surprises.append(-np.sum(x * np.log(p) + (1 - x) * np.log(1 - p)))
        else:
            surprises.append(
                -sum(log_normal(x[[i]], output[[i]], output_variance * np.eye(1)) for i in range(len(x)))
            )
    divergence = sum(0.5 * (m * m + v - 1 - math.log(v)) for m, v in zip(mean, variance, strict=True))
    return np.mean(surprises) + divergence


def dagmm_summary(network, x, anchor):
    """(relative distance, cosine, code) of a scaled row; x and x̂ have a further coordinate, the anchor."""
    code = layer(network, "code", softplus(layer(network, "encode", x)))
    rebuilt = decode(network, code)
    a, b = np.append(x, anchor), np.append(rebuilt, anchor)
    distance = np.linalg.norm(a - b) / np.linalg.norm(a)
    return np.array([distance, a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), *code])


def dagmm_shares(network, summary):
    logits = layer(network, "share", softplus(layer(network, "estimate", summary)))
    return np.exp(logits - log_sum(list(logits)))


def dagmm_energy(network, X, Z, anchor, regularisation):
    """Energy of scaled rows X under the mixture that scaled rows Z imply."""
    summaries = np.array([dagmm_summary(network, z, anchor) for z in Z])
    weights, means, covariances = reestimated(
        summaries, np.array([dagmm_shares(network, s) for s in summaries])
    )
    covariances = covariances + regularisation * np.eye(summaries.shape[1])
    return np.array(
        [mixture_energy(dagmm_summary(network, x, anchor), weights, means, covariances) for x in X]
    )
