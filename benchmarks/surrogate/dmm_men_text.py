"""DMM-MEN on text: PC and Mac newsgroups, a random forest and a linear SVM; words learned, swapped and kept."""

from __future__ import annotations

import gzip
import hashlib
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import pairwise_distances
from sklearn.svm import LinearSVC

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy.data.benchmarks import data_folder
from tellwhy.explainers import DMMMEN, PRESETS
from tellwhy.explainers.surrogate.chains import rank_r_hat

FILE = "20news_pc_mac.jsonl.gz"
SHA256 = "027a972ffc3ed329cefd0b7ad93c20d9f91ccc7df353806403c0a2166d227bd6"
NAMES = {"comp.sys.ibm.pc.hardware": "pc", "comp.sys.mac.hardware": "mac"}
SAMPLES = 500
TOP = 4
FEATURES = 150  # words in use; of 60, 150 and 400, chosen on the training posts


def posts() -> pd.DataFrame:
    data = (data_folder() / FILE).read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise SystemExit(f"{FILE} is not the file that the numbers are quoted for.")
    lines = [json.loads(line) for line in gzip.decompress(data).decode("utf-8").splitlines()]
    return pd.DataFrame(lines)


def sure_words(explainer: DMMMEN, target: str) -> list[str]:
    """Words that raise the log-odds of their class most, over the rows of the class."""
    insight = next(i for i in explainer.insights(1000, per="target") if i.target == target)
    effects, names = insight.effects.ravel()[insight.top], np.array(insight.names)
    return [str(w) for w in names[np.argsort(-effects)][:20]]


def agreement(explainer: DMMMEN, target: str, names: list[str]) -> dict[str, float]:
    """Split-R̂ of what is watched, and of the shown words' mean coefficients; none of these depends on labels."""
    surrogate = explainer.surrogates_[explainer.targets_.index(target)]
    posterior, watched = surrogate.posterior, surrogate.posterior.convergence.r_hat
    J = surrogate.coef.shape[1]
    shares = np.array([(posterior.z == j).mean(axis=1) for j in range(J)])
    slopes = surrogate.slopes(np.einsum("jd,djk->dk", shares, surrogate.coef))
    shown = slopes[:, [explainer.names_.index(name) for name in names]]
    return {
        "R̂, shown words": float(rank_r_hat(posterior.by_chain(shown)).max()),
        "R̂, 8 fitted values": max(r for name, r in watched.items() if name.startswith("fitted")),
        "R̂, mean log variance": watched["mean log variance of the rows"],
    }


def own_words(model: Any, words: np.ndarray, kind: str, X: np.ndarray, y: np.ndarray) -> dict[str, list[str]]:
    """The model's own weights; a forest's importances go to the class in which the word is commoner."""
    if kind == "SVM":
        weights = np.mean([c.estimator.coef_[0] for c in model.calibrated_classifiers_], axis=0)
    else:
        side = np.sign(X[y == "pc"].mean(axis=0) - X[y == "mac"].mean(axis=0))
        weights = model.feature_importances_ * side
    order = np.argsort(-weights)  # classes_ are mac, pc: positive weights speak for pc
    return {"pc": words[order[:20]].tolist(), "mac": words[order[::-1][:20]].tolist()}


def swapped(
    model: Any, X: np.ndarray, words: np.ndarray, learned: dict[str, list[str]]
) -> list[dict[str, Any]]:
    """Replace the first learned word that a post has by learned words of the other class, or by random words."""
    column = {w: i for i, w in enumerate(words)}
    rng = np.random.default_rng(0)
    lines = []
    for number, name in enumerate(model.classes_):
        other = "pc" if name == "mac" else "mac"
        p = model.predict_proba(X)[:, number]
        found = []
        for row in X[p > 0.5]:
            mine = [w for w in learned[name][:TOP] if row[column[w]] > 0]
            if mine:
                found.append((row, column[mine[0]]))
        line: dict[str, Any] = {"class": name, "posts": len(found)}
        before = model.predict_proba(np.array([row for row, _ in found]))[:, number]
        line["before"] = before.mean()
        for choice in ("learned", "random"):
            changed = []
            for row, at in found:
                for new in learned[other][:TOP] if choice == "learned" else rng.choice(words, TOP):
                    made = row.copy()
                    made[column[new]] += made[at]
                    made[at] = 0
                    changed.append(made)
            after = model.predict_proba(np.array(changed))[:, number].reshape(len(found), TOP).mean(axis=1)
            drawn = rng.integers(len(after), size=(1000, len(after)))
            low, high = np.quantile(after[drawn].mean(axis=1), [0.025, 0.975])
            line[f"after, {choice} words"] = f"{after.mean():.3f} ({low:.3f}, {high:.3f})"
        lines.append(line)
    return lines


def local_words(method: str, model: Any, seed: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that gives the weight of each column of a row, by LIME or SHAP over the words that it has."""

    def weigh(row: np.ndarray) -> np.ndarray:
        there = np.flatnonzero(row)
        number = int(model.predict_proba(row[None])[0].argmax())

        def ask(masks: np.ndarray) -> np.ndarray:
            rows = np.zeros((len(masks), len(row)))
            rows[:, there] = masks * row[there]
            return model.predict_proba(rows)

        weights = np.zeros(len(row))
        if method == "LIME":
            from lime.lime_base import LimeBase

            base = LimeBase(lambda d: np.sqrt(np.exp(-(d**2) / 25.0**2)), random_state=seed)
            rng = np.random.RandomState(seed)
            masks = np.ones((SAMPLES, len(there)))
            for i in range(1, SAMPLES):
                masks[i, rng.choice(len(there), rng.randint(1, len(there) + 1), replace=False)] = 0
            distances = 100 * pairwise_distances(masks, masks[:1], metric="cosine").ravel()
            _, found, _, _ = base.explain_instance_with_data(masks, ask(masks), distances, number, len(there))
            for at, weight in found:
                weights[there[at]] = weight
            return weights
        import shap

        np.random.seed(seed)  # noqa: NPY002 (shap draws from it)
        explainer = shap.KernelExplainer(lambda m: ask(m)[:, number], np.zeros((1, len(there))))
        found = explainer.shap_values(np.ones((1, len(there))), nsamples=SAMPLES, silent=True)
        weights[there] = np.asarray(found).ravel()[: len(there)]
        return weights

    return weigh


def of_single_posts(model: Any, X: np.ndarray) -> DMMMEN:
    """Posts explained one by one, by leaving words out."""
    return DMMMEN(
        model,
        features="segments",
        baseline=0.0,
        n_components=3,
        n_sweeps=200,
        n_burn=200,
        n_neighbors=SAMPLES,
    ).fit(X)


def kept_and_removed(model: Any, X: np.ndarray) -> list[dict[str, Any]]:
    """Probability of the class after the top four words of a post are removed, and with them alone."""
    local = of_single_posts(model, X)
    chosen = model.predict_proba(X).argmax(axis=1)
    lines = []
    for method in ("DMMMEN", "LIME", "SHAP"):
        begin = time.process_time()
        try:
            if method == "DMMMEN":
                weights = local.explain(X).values
            else:
                weights = np.array([local_words(method, model)(row) for row in X])
        except ImportError:
            continue
        seconds = (time.process_time() - begin) / len(X)
        top = np.argsort(-np.where(X > 0, weights, -np.inf), axis=1)[:, :TOP]
        removed, alone = X.copy(), np.zeros_like(X)
        for i, columns in enumerate(top):
            removed[i, columns] = 0
            alone[i, columns] = X[i, columns]
        each = np.arange(len(X))
        lines.append(
            {
                "method": method,
                "posts": len(X),
                "all words": model.predict_proba(X)[each, chosen].mean(),
                "without the top 4": model.predict_proba(removed)[each, chosen].mean(),
                "the top 4 alone": model.predict_proba(alone)[each, chosen].mean(),
                "processor s a post": seconds,
            }
        )
    return lines


def main(n_posts: int, sweeps: int) -> None:
    table = posts()
    train = table["split"] == "train"
    y = table["group"].map(NAMES).to_numpy()
    vectoriser = CountVectorizer(
        min_df=5, binary=True, stop_words="english", token_pattern=r"(?u)\b[a-zA-Z]{2,}\b"
    )
    X = vectoriser.fit_transform(table["text"][train]).toarray().astype(float)
    X_test = vectoriser.transform(table["text"][~train]).toarray().astype(float)
    words = vectoriser.get_feature_names_out()
    learned_lines, swap_lines, local_lines = [], [], []
    for kind, model in (
        ("random forest", RandomForestClassifier(500, min_samples_leaf=2, random_state=0, n_jobs=1)),
        ("SVM", CalibratedClassifierCV(LinearSVC(C=0.05), cv=5)),
    ):
        model.fit(X, y[train])
        right = model.score(X_test, y[~train])
        preset = PRESETS["random forest" if kind == "random forest" else "svm"]
        explainer = DMMMEN(
            model, features=FEATURES, scale="common", n_sweeps=sweeps, n_burn=sweeps // 2, **preset
        )
        begin = time.process_time()
        explainer.fit(pd.DataFrame(X, columns=words))
        seconds = time.process_time() - begin
        learned = {name: sure_words(explainer, name) for name in ("pc", "mac")}
        own = own_words(model, words, kind, X, y[train])
        for name in ("pc", "mac"):
            learned_lines.append(
                {
                    "model": f"{kind} ({100 * right:.1f} %)",
                    "class": name,
                    "DMM-MEN, top 8": ", ".join(learned[name][:8]),
                    "the model's own top 8": ", ".join(own[name][:8]),
                    "of its top 4 among our 10": len(set(own[name][:4]) & set(learned[name][:10])),
                    **agreement(explainer, name, learned[name][:8]),
                    "fit, processor s": seconds,
                }
            )
        swap_lines += [{"model": kind, **line} for line in swapped(model, X_test, words, learned)]
        local_lines += [{"model": kind, **line} for line in kept_and_removed(model, X_test[:n_posts])]
    publish(
        "dmm_men_text",
        "DMM-MEN on text",
        [
            (
                "Newsgroup posts with their headers (1,168 for training, 777 for testing), words of at least 5 posts, "
                f"present or not; the {FEATURES} most correlated with the output are used. Words that raise the "
                "log-odds of a class most over the posts of that class, and the words the model weighs most itself "
                f"(test accuracy in brackets). {sweeps} sweeps after {sweeps // 2}; R̂ of quantities that do not depend "
                "on labels: where the last two stay above 1.1, chains differ in the posts that they give to a second, "
                "small component, not in the words.",
                pd.DataFrame(learned_lines),
            ),
            (
                "Word swap: in every test post of a class that has one of its four learned words, that word becomes "
                "each of the four learned words of the other class, or four random words: mean probability of the "
                "class (95 % interval).",
                pd.DataFrame(swap_lines),
            ),
            (
                f"Single posts: the first {n_posts} test posts, {SAMPLES} questions to the model each. Mean "
                "probability of the preferred class.",
                pd.DataFrame(local_lines),
            ),
        ],
    )


if __name__ == "__main__":
    chosen = arguments(__doc__, posts=100, sweeps=4_000)
    warnings.simplefilter("ignore")
    main(chosen.posts, chosen.sweeps)
