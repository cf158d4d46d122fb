"""A small BERT in NumPy, one text and one head at a time."""

import numpy as np
from scipy.special import erf


def _normed(x, weights, name):
    away = x - x.mean(axis=1, keepdims=True)
    spread = np.sqrt((away**2).mean(axis=1, keepdims=True) + 1e-12)
    return away / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _linear(x, weights, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def vector(weights, numbers, n_heads, n_layers):
    """The vector of one text, of length 1."""
    x = weights["embeddings.word_embeddings.weight"][numbers]
    x = x + weights["embeddings.position_embeddings.weight"][: len(numbers)]
    x = _normed(x + weights["embeddings.token_type_embeddings.weight"][0], weights, "embeddings.LayerNorm")
    width = x.shape[1] // n_heads
    for k in range(n_layers):
        name = f"encoder.layer.{k}."
        query, key, value = [
            _linear(x, weights, f"{name}attention.self.{part}") for part in ("query", "key", "value")
        ]
        seen = np.zeros_like(x)
        for h in range(n_heads):
            part = slice(h * width, (h + 1) * width)
            likeness = query[:, part] @ key[:, part].T / np.sqrt(width)
            share = np.exp(likeness - likeness.max(axis=1, keepdims=True))
            seen[:, part] = share / share.sum(axis=1, keepdims=True) @ value[:, part]
        x = _normed(
            _linear(seen, weights, f"{name}attention.output.dense") + x,
            weights,
            f"{name}attention.output.LayerNorm",
        )
        inner = _linear(x, weights, f"{name}intermediate.dense")
        inner = 0.5 * inner * (1 + erf(inner / np.sqrt(2)))
        x = _normed(_linear(inner, weights, f"{name}output.dense") + x, weights, f"{name}output.LayerNorm")
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def random_weights(n_words, *, width=8, inner=12, n_layers=2, n_places=130, seed=0):
    """Weights of such a network."""
    rng = np.random.default_rng(seed)
    found = {
        "embeddings.word_embeddings.weight": rng.normal(size=(n_words, width)),
        "embeddings.position_embeddings.weight": 0.3 * rng.normal(size=(n_places, width)),
        "embeddings.token_type_embeddings.weight": 0.3 * rng.normal(size=(2, width)),
    }
    norms = ["embeddings.LayerNorm"]
    for k in range(n_layers):
        name = f"encoder.layer.{k}."
        shapes = {f"attention.self.{part}": (width, width) for part in ("query", "key", "value")}
        shapes |= {"attention.output.dense": (width, width), "intermediate.dense": (inner, width)}
        shapes |= {"output.dense": (width, inner)}
        for part, shape in shapes.items():
            found[f"{name}{part}.weight"] = rng.normal(size=shape) / np.sqrt(shape[1])
            found[f"{name}{part}.bias"] = 0.1 * rng.normal(size=shape[0])
        norms += [f"{name}attention.output.LayerNorm", f"{name}output.LayerNorm"]
    for name in norms:
        found[f"{name}.weight"] = 1 + 0.1 * rng.normal(size=width)
        found[f"{name}.bias"] = 0.1 * rng.normal(size=width)
    return found
