"""LIME beside the package `lime`: pictures and texts, at equal samples, pieces, kernel, penalty and model.

    python -m benchmarks.surrogate.lime_speed

Both explain the same model with the same segments (ours), the cosine kernel of width 0.25, ridge regression with
alpha = 1 and all pieces in it (`lime` then fits what it calls feature selection "none"). Seconds are those of the
processor. `lime` needs scikit-image; where it is not installed, the page says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_sample_image
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy.data.pieces import segment
from tellwhy.explainers import Lime
from tellwhy.explainers.perturbation.lime import design
from tellwhy.scoring import FunctionScore

WIDTH = 0.25
ALPHA = 1.0


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of the fastest of three runs, and what came out."""
    spent = []
    for _ in range(3):
        started = time.process_time()
        found = work()
        spent.append(time.process_time() - started)
    return min(spent), found


def picture(name: str) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """A picture (height, width, 3) between 0 and 1, and a model of two classes for many of them."""
    if name == "digit":
        digits = load_digits()
        small = digits.images[0] / 16
        x = np.repeat(np.kron(small, np.ones((4, 4)))[..., None], 3, axis=2)  # 32 × 32
        classifier = LogisticRegression(max_iter=2_000).fit(digits.data / 16, digits.target == 0)

        def model(X: np.ndarray) -> np.ndarray:
            cells = X[..., 0].reshape(len(X), 8, 4, 8, 4).mean(axis=(2, 4)).reshape(len(X), 64)
            return classifier.predict_proba(cells)

        return x, model
    x = load_sample_image("flower.jpg")[100:324, 200:424] / 255  # 224 × 224

    def reddish(X: np.ndarray) -> np.ndarray:
        level = (X[:, ::4, ::4, 0] - X[:, ::4, ::4, 1]).mean(axis=(1, 2))
        p = 1 / (1 + np.exp(-8 * level))
        return np.column_stack([1 - p, p])

    return x, reddish


def of_picture(name: str, n_samples: int, n_segments: int) -> list[dict[str, Any]]:
    x, model = picture(name)
    labels = segment(x, n_segments)
    flat = labels[..., 0]
    fill = _segment_means(x, flat)
    score = FunctionScore(lambda X: model(X)[:, 1], feature_shape=x.shape)
    ours = Lime(score, n_samples=n_samples, n_segments=n_segments, width=WIDTH, alpha=ALPHA)
    taken, found = seconds(lambda: ours.explain(x[None]))
    mine = np.array([found.values[0][labels == k].sum() for k in range(flat.max() + 1)])
    lines = [_line("tellwhy", f"picture, {x.shape[0]}×{x.shape[1]}", flat.max() + 1, n_samples, taken)]
    many = 20 * n_samples if name == "digit" else 2 * n_samples
    exact = _oracle(model, x, fill, labels, n_samples=many)
    lines[0]["correlation with many samples"] = float(np.corrcoef(mine, exact)[0, 1])
    try:
        from lime import lime_image
    except ImportError as error:
        return [*lines, {**lines[0], "library": "lime", "seconds": np.nan, "note": f"not installed: {error}"}]
    explainer = lime_image.LimeImageExplainer(kernel_width=WIDTH, feature_selection="none", random_state=0)

    def theirs() -> Any:
        return explainer.explain_instance(
            x,
            model,
            labels=(1,),
            top_labels=None,
            num_samples=n_samples,
            segmentation_fn=lambda _: flat,
        )

    taken, told = seconds(theirs)
    lines.append(_line("lime", lines[0]["input"], flat.max() + 1, n_samples, taken))
    weights = np.zeros(flat.max() + 1)
    for piece, weight in told.local_exp[1]:
        weights[piece] = weight
    lines[1]["correlation with many samples"] = float(np.corrcoef(weights, exact)[0, 1])
    return lines


def _segment_means(x: np.ndarray, flat: np.ndarray) -> np.ndarray:
    filled = np.zeros(x.shape)
    for k in range(flat.max() + 1):
        filled[flat == k] = x[flat == k].mean(axis=0)
    return filled


def _oracle(model: Any, x: np.ndarray, fill: np.ndarray, labels: np.ndarray, n_samples: int) -> np.ndarray:
    """Coefficients of scikit-learn's ridge regression on many samples of another seed."""
    prepared = design(n_samples, int(labels.max()) + 1, WIDTH, ALPHA, 12345)
    answers = []
    for start in range(0, len(prepared.masks), 250):
        keep = prepared.masks[start : start + 250][:, labels.ravel()].reshape(-1, *x.shape) > 0
        answers.append(model(np.where(keep, x, fill))[:, 1])
    ridge = Ridge(alpha=ALPHA).fit(prepared.masks, np.concatenate(answers), sample_weight=prepared.weights)
    return np.asarray(ridge.coef_)


def _texts() -> tuple[list[str], Any]:
    """Sentences of two kinds, made of words that tell and words that do not."""
    rng = np.random.default_rng(0)
    fillers = [f"word{k}" for k in range(200)]
    tells = {0: ["slow", "late", "broken", "refund"], 1: ["thanks", "great", "works", "happy"]}
    texts, kinds = [], rng.integers(2, size=400)
    for kind in kinds:
        words = list(rng.choice(fillers, size=40)) + list(rng.choice(tells[int(kind)], size=3))
        texts.append(" ".join(rng.permutation(words)))
    return texts, make_pipeline(TfidfVectorizer(), LogisticRegression(C=10)).fit(texts, kinds)


def of_text(n_samples: int) -> list[dict[str, Any]]:
    texts, model = _texts()
    text = texts[0]
    ours = Lime(model, n_samples=n_samples, width=WIDTH, alpha=ALPHA)
    taken, _ = seconds(lambda: ours.explain_texts([text], target=1))
    n_words = len(text.split())
    lines = [_line("tellwhy", "text", n_words, n_samples, taken)]
    try:
        from lime.lime_text import LimeTextExplainer
    except ImportError as error:
        return [*lines, {**lines[0], "library": "lime", "seconds": np.nan, "note": f"not installed: {error}"}]
    # Its distances are cosine distances times 100.
    explainer = LimeTextExplainer(
        kernel_width=100 * WIDTH, feature_selection="none", bow=False, random_state=0
    )
    taken, _ = seconds(
        lambda: explainer.explain_instance(
            text, model.predict_proba, num_features=n_words, num_samples=n_samples
        )
    )
    return [*lines, _line("lime", "text", n_words, n_samples, taken)]


def _line(library: str, what: str, n_pieces: int, n_samples: int, taken: float) -> dict[str, Any]:
    return {"library": library, "input": what, "pieces": n_pieces, "samples": n_samples, "seconds": taken}


def model_alone(n_samples: int) -> list[dict[str, Any]]:
    """What the model itself takes for as many inputs: no explainer can be faster."""
    lines = []
    for name in ("digit", "flower"):
        x, model = picture(name)
        many = np.repeat(x[None], 100, axis=0)
        taken = seconds(lambda many=many, model=model: [model(many) for _ in range(n_samples // 100)])[0]
        lines.append(_line("model alone", f"picture, {x.shape[0]}×{x.shape[1]}", 0, n_samples, taken))
    texts, classifier = _texts()
    words = texts[0].split()
    drawn = np.random.default_rng(0).random((n_samples, len(words))) < 0.5  # samples keep half of the words
    some = [" ".join(np.array(words)[row]) for row in drawn]
    return [
        *lines,
        _line("model alone", "text", 0, n_samples, seconds(lambda: classifier.predict_proba(some))[0]),
    ]


def main() -> None:
    n = arguments(__doc__, samples=1_000).samples
    lines = [*of_picture("digit", n, 50), *of_picture("flower", n, 60), *of_text(n), *model_alone(n)]
    times = {(line["library"], line["input"]): line["seconds"] for line in lines}
    for line in lines:
        beside = times.get(("lime", line["input"]))
        if line["library"] == "tellwhy" and beside:
            line["times lime's speed"] = beside / line["seconds"]
    columns = ["input", "library", "pieces", "samples", "seconds", "times lime's speed"]
    columns += ["correlation with many samples", "note"]
    table = pd.DataFrame(lines).reindex(columns=columns)
    table = table.astype(dict.fromkeys(columns, object)).where(table.notna(), "")
    text = (
        "One input, explained by both libraries with the same model, the same segments (or words), the same cosine "
        "kernel of width 0.25, and ridge regression with alpha = 1 on all pieces. Processor seconds on one thread, the "
        "best of three. The last figures are the correlation of coefficients with those of scikit-learn's weighted ridge "
        "regression on twenty times as many samples (of the large picture twice as many) of another seed. "
        "'model alone' is the model's own time for as many inputs (texts with half of the words), below which no "
        "explainer can be: of the text it is most of what there is."
    )
    publish("lime_speed", "LIME beside the package lime", [(text, table)], peers=("lime", "scikit-image"))


if __name__ == "__main__":
    main()
