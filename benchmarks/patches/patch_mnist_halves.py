"""One-Class DTD on a digit beside a blank half (section 8.1 of the paper): where does relevance fall?

Inliers have a digit of one class on the left and nothing on the right. Type I outliers have another digit on the
right; of type II, the left digit is of another class too. The paper's one-class SVM (Gaussian, σ = 400 on 0..255,
ν = 0.01), beside a diagonal Gaussian with variance + λ.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.shared.arguments import arguments
from benchmarks.shared.places import IMAGES
from benchmarks.shared.results import publish
from tellwhy.data import fetch
from tellwhy.detectors import OneClassSVM
from tellwhy.explainers import OneClassDTD

LAMBDAS = (1.0, 100.0, 1000.0)
KINDS = ("inlier", "type I", "type II")


def beside(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Two images of 28 × 28 in one row of numbers."""
    return np.concatenate([left, right], axis=2).reshape(len(left), -1)


def halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Relevance on the left and on the right."""
    shaped = values.reshape(-1, 28, 56)
    return shaped[:, :, :28].sum(axis=(1, 2)), shaped[:, :, 28:].sum(axis=(1, 2))


def explained(digit: int, data: dict, n_train: int, n_test: int) -> dict:
    """H_left and H_right of each method and kind, for one class."""
    rng = np.random.default_rng(digit)
    train = data["X_train"][data["y_train"] == digit][:n_train].astype(np.float64)
    own = data["X_test"][data["y_test"] == digit][:n_test].astype(np.float64)
    others = data["X_test"][data["y_test"] != digit].astype(np.float64)
    blank = np.zeros_like(own)
    right, left = (others[rng.choice(len(others), len(own), replace=False)] for _ in range(2))
    rows = dict(zip(KINDS, (beside(own, blank), beside(own, right), beside(left, right)), strict=True))
    X = beside(train, np.zeros_like(train))
    model = OneClassSVM(bandwidth=400.0, nu=0.01).fit(X)
    found = {}
    for kind, test in rows.items():
        found["OC-DTD", kind] = halves(OneClassDTD(model).explain(test).values)
        for lam in LAMBDAS:
            values = (test - X.mean(axis=0)) ** 2 / (2.0 * (X.var(axis=0) + lam))
            found[f"Gaussian λ={lam:g}", kind] = halves(values)
    return found


def tables(found: dict[int, dict]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Share of the right half (type I) and of the left half (type II), per class; mean relevance per half."""
    methods = list(dict.fromkeys(method for method, _ in found[0]))
    lines = []
    for digit, halves_of in found.items():
        line: dict = {"class": digit}
        for kind, side in (("type I", 1), ("type II", 0)):
            for method in methods:
                left, right = halves_of[method, kind]
                part = (left, right)[side] / (left + right)
                line[f"{kind} {('left', 'right')[side]}: {method}"] = round(float(part.mean()), 3)
        lines.append(line)
    totals = []
    for method in methods:
        for kind in KINDS:
            left, right = (np.concatenate([f[method, kind][side] for f in found.values()]) for side in (0, 1))
            totals.append(
                {"method": method, "kind": kind, "mean H_left": left.mean(), "mean H_right": right.mean()}
            )
    return pd.DataFrame(lines), pd.DataFrame(totals)


def scatter(found: dict[int, dict], digit: int) -> None:
    """H_left against H_right of one class, drawn as an SVG without a library of figures."""
    colors = {"inlier": "#2f6ea8", "type I": "#11806a", "type II": "#c65307"}
    panels = ("OC-DTD", "Gaussian λ=100")
    parts = []
    for k, method in enumerate(panels):
        reach = max(max(h.max() for h in found[digit][method, kind]) for kind in KINDS)
        parts.append(
            f'<text x="{20 + 320 * k}" y="16" font-size="13">{method}: H_left up, H_right across</text>'
        )
        for kind in KINDS:
            for left, right in zip(*found[digit][method, kind], strict=True):
                x, y = 20 + 320 * k + 280 * right / reach, 320 - 280 * left / reach
                parts.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colors[kind]}" opacity="0.6"/>'
                )
    key = "".join(
        f'<text x="{20 + 100 * k}" y="345" font-size="12" fill="{c}">{kind}</text>'
        for k, (kind, c) in enumerate(colors.items())
    )
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 355" font-family="sans-serif">'
    svg = f"{head}{''.join(parts)}{key}</svg>"
    (IMAGES / "patch_mnist_halves.svg").write_text(svg, encoding="utf-8")


def main() -> None:
    """Write the tables and the scatter plot."""
    sizes = arguments(__doc__, train=1_000, test=100)
    data = fetch("mnist")
    found = {digit: explained(digit, data, sizes.train, sizes.test) for digit in range(10)}
    shares, totals = tables(found)
    scatter(found, 0)
    words = f"{sizes.train} training and {sizes.test} test images of each class"
    publish(
        "patch_mnist_halves",
        "Digits beside a blank half: where relevance falls",
        [
            (
                f"Share of the relevance on the half that is odd, {words}. Type I: the right half is. Type II: both are, "
                "and the share of the left one is told.",
                shares,
            ),
            (
                "Mean relevance of each half, over all classes. "
                "![H_left and H_right of the class 0](../images/patch_mnist_halves.svg)",
                totals,
            ),
        ],
    )


if __name__ == "__main__":
    main()
