"""The published word tables of DMM-MEN: PC and Mac posts, and queries of CLINC150, with words swapped.

Posts are not printed (their licence is not known), only what models say of them; queries are CC BY 3.0.
"""

from __future__ import annotations

import gzip
import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from benchmarks.surrogate.dmm_men_text import NAMES, PRESETS, local_words, of_single_posts, posts, sure_words
from tellwhy.data.benchmarks import data_folder
from tellwhy.explainers import DMMMEN

TOP = 4
QUERIES = (
    "book_flight",
    "lost_luggage",
    "car_rental",
    "weather",
    "recipe",
    "report_fraud",
    "pto_request",
    "play_music",
)
SWAPS = (
    (
        "ab245@cleveland",
        "Heatsink",
        "pc",
        "dos",
        {
            "mac": (10.8, 0.01),
            "apple": (13.0, 1.72),
            "quadra": (16.6, 0.41),
            "macintosh": (58.0, 0.24),
            "edu": (19.7, 60.47),
        },
        (94.2, 93.47),
    ),
    (
        "feilimau@leland",
        "IIsi Power",
        "mac",
        "mac",
        {
            "dos": (18.2, 0.87),
            "controller": (20.0, 9.51),
            "pc": (25.4, 1.58),
            "ide": (28.6, 0.02),
            "gateway": (29.92, 0.14),
            "windows": (26.45, 35.36),
        },
        (99.4, 99.9),
    ),
)
"""Sender and subject of a post, its class, the word that goes, the words that come with what was published (random
forest, SVM), and what was published of the post as it is."""
SINGLE = (("noah@apple.com", "How long do RAM SIMM", "mac"), ("guyd@austin", "IDE vs SCSI\tOrig", "pc"))
READ = {
    (
        "mac",
        "random forest",
    ): "DMM-MEN mac apple quadra edu; LIME Macintosh edu apple Re; SHAP mac Macintosh edu apple",
    (
        "mac",
        "SVM",
    ): "DMM-MEN mac Macintosh quadra apple; LIME apple SIMM Macintosh about; SHAP mac apple Macintosh noah",
    (
        "pc",
        "random forest",
    ): "DMM-MEN dos controller pc windows; LIME ide dos controller pc; SHAP dos controller ide pc",
    ("pc", "SVM"): "DMM-MEN ide gateway dos pc; LIME ide SCSI pc windows; SHAP ide dos pc windows",
}


OWN_TEXTS = (
    "## Queries to an assistant\n\nEight classes of CLINC150, a network with one layer of 64 units on which words a query "
    "has ({right:.1f} % of the test queries right). Fitted the published way, to the queries that the network puts into a "
    "class (largest R̂ {r_hat:.2f}). A word that nearly all of them have (luggage) does not vary there, and cannot be "
    "found. In every test query with one of the four learned words of its class, that word becomes each of the four of the "
    "next class, or four random words: mean probability of the class."
)
ALL_TEXTS = (
    "The same with one fit for each class to its log-odds over the queries of all classes (largest R̂ {r_hat:.2f}): what "
    "tells the class from the others is found now."
)


def models() -> dict[str, Any]:
    """The published two, and a network."""
    return {
        "random forest": RandomForestClassifier(500, min_samples_leaf=2, random_state=0, n_jobs=1),
        "SVM": CalibratedClassifierCV(LinearSVC(C=0.05), cv=5),
        "network": MLPClassifier((64,), alpha=1.0, max_iter=40, random_state=0),
    }


def bag(texts: list[str], *, least: int, pattern: str, stop: str | None) -> CountVectorizer:
    """Which words a text has."""
    return CountVectorizer(min_df=least, binary=True, stop_words=stop, token_pattern=pattern).fit(texts)


def find(table: pd.DataFrame, sender: str, subject: str) -> int:
    """Number of the post that was published."""
    head = table["text"].str[:200]  # sender and subject
    found = np.flatnonzero(head.str.contains(sender, regex=False) & head.str.contains(subject, regex=False))
    return int(found[0])


def learned_words(
    model: Any, X: np.ndarray, words: np.ndarray, kind: str, sweeps: int
) -> tuple[dict[str, list[str]], float]:
    """Words that raise the log-odds of each class most, and the largest R̂ of the fits."""
    preset = PRESETS["svm" if kind == "SVM" else "random forest"]
    explainer = DMMMEN(model, features=150, scale="common", n_sweeps=sweeps, n_burn=sweeps // 2, **preset)
    explainer.fit(pd.DataFrame(X, columns=words))
    found = {str(name): sure_words(explainer, str(name)) for name in model.classes_}
    return found, max(c.worst_r_hat for c in explainer.convergence_.values())


def learned_of_class(
    model: Any, X: np.ndarray, words: np.ndarray, sweeps: int
) -> tuple[dict[str, list[str]], float]:
    """The words of each class from the texts that the model puts into it: the published way."""
    return learned_words(model, X, words, "network", sweeps)


def learned_beside_others(
    model: Any, X: np.ndarray, words: np.ndarray, sweeps: int
) -> tuple[dict[str, list[str]], float]:
    """The same from one fit for each class to its log-odds over the texts of all classes."""
    found, r_hats = {}, []
    for number, name in enumerate(model.classes_):

        def odds(rows: Any, number: int = number) -> np.ndarray:
            p = np.clip(model.predict_proba(np.asarray(rows))[:, number], 1e-6, 1 - 1e-6)
            return np.log(p) - np.log1p(-p)

        settings = PRESETS["random forest"]
        explainer = DMMMEN(
            odds, features=150, scale="common", n_sweeps=sweeps, n_burn=sweeps // 2, **settings
        )
        explainer.fit(pd.DataFrame(X, columns=words))
        found[str(name)] = sure_words(explainer, "score")
        r_hats += [c.worst_r_hat for c in explainer.convergence_.values()]
    return found, max(r_hats)


def swapped(row: np.ndarray, column: dict[str, int], old: str, new: str) -> np.ndarray:
    """The same text with one word in the place of another."""
    made = row.copy()
    made[column[old]] = 0.0
    made[column[new]] = 1.0
    return made


def published_posts(
    fitted: dict[str, Any], rows: dict[str, np.ndarray], column: dict[str, int]
) -> list[dict[str, Any]]:
    """The posts of the supplement's figures 3 and 4: probability of the class with one word swapped."""
    lines = []
    for sender, subject, own, old, news, before in SWAPS:
        row = rows[sender]
        published = {"as it is": before, **news}
        for new, (forest, svm) in published.items():
            made = row if new == "as it is" else swapped(row, column, old, new)
            line: dict[str, Any] = {
                "post": f"{subject.split(chr(9))[0]} ({own})",
                "the word becomes": f"{old} → {new}",
            }
            if new == "as it is":
                line["the word becomes"] = f"{old}, as it is"
            for kind, model in fitted.items():
                p = model.predict_proba(made[None])[0][list(model.classes_).index(own)]
                line[kind] = f"{100 * p:.1f} %"
            line["published: forest, SVM"] = f"{forest:.1f} %, {svm:.2f} %"
            lines.append(line)
    return lines


def single_posts(
    fitted: dict[str, Any], rows: dict[str, np.ndarray], words: np.ndarray
) -> list[dict[str, Any]]:
    """The posts of figures 5 and 6: four words by each method, the probability without them and with them alone."""
    lines = []
    for sender, subject, own in SINGLE:
        row = rows[sender]
        for kind, model in fitted.items():
            local = of_single_posts(model, row[None])
            number = list(model.classes_).index(own)
            weights = {"DMM-MEN": local.explain(row[None]).values[0]}
            weights |= {peer: local_words(peer, model)(row) for peer in ("LIME", "SHAP")}
            for method, found in weights.items():
                top = np.argsort(-np.where(row > 0, found, -np.inf))[:TOP]
                without, alone = row.copy(), np.zeros_like(row)
                without[top] = 0.0
                alone[top] = row[top]
                p = model.predict_proba(np.array([row, without, alone]))[:, number]
                lines.append(
                    {
                        "post": f"{subject.split(chr(9))[0]} ({own})",
                        "model": kind,
                        "method": method,
                        "words": ", ".join(words[top]),
                        "as it is": f"{100 * p[0]:.1f} %",
                        "without them": f"{100 * p[1]:.1f} %",
                        "they alone": f"{100 * p[2]:.1f} %",
                        "published": READ.get((own, kind), "") if method == "DMM-MEN" else "",
                    }
                )
    return lines


def pc_and_mac(sweeps: int) -> list[tuple[str, pd.DataFrame]]:
    """The supplement's table 5 and figures 3 to 6."""
    table = posts()
    y = table["group"].map(NAMES).to_numpy()
    named = {sender: find(table, sender, subject) for sender, subject, *_ in (*SWAPS, *SINGLE)}
    train = (table["split"] == "train").to_numpy()
    for sender in named:  # what is explained was not learned by heart: some sent the same post twice
        train = train & ~table["text"].str[:200].str.contains(sender, regex=False).to_numpy()
    vectoriser = bag(table["text"][train].tolist(), least=5, pattern=r"[a-zA-Z]{2,}", stop="english")
    X = vectoriser.transform(table["text"]).toarray().astype(float)
    words = vectoriser.get_feature_names_out()
    column = {word: i for i, word in enumerate(words)}
    test = ~train
    fitted = {kind: model.fit(X[train], y[train]) for kind, model in models().items()}
    lines = []
    for kind, model in fitted.items():
        found, r_hat = learned_words(model, X[train], words, kind, sweeps)
        right = 100 * model.score(X[test], y[test])
        line: dict[str, Any] = {"model": f"{kind} ({right:.1f} %)"}
        line |= {f"{name}, top 8": ", ".join(found[name][:8]) for name in ("pc", "mac")}
        lines.append({**line, "largest R̂": f"{r_hat:.2f}"})
    rows = {sender: X[i] for sender, i in named.items()}
    return [
        (
            "## PC and Mac posts\n\nPublished (table 5): dos, controller, pc, windows and mac, apple, quadra, edu of a "
            "random forest; ide, gateway, dos, pc and mac, Macintosh, quadra, apple of an SVM. Here the words that raise "
            f"the log-odds of their class most, {sweeps} sweeps after {sweeps // 2}, 150 words; in brackets the accuracy "
            "on the posts that were left out. The network has one layer of 64 units.",
            pd.DataFrame(lines),
        ),
        (
            "The two posts of the supplement's figures 3 and 4 (all posts of their senders were left out of training): "
            "one word becomes another, and the models give the class of the post this probability. Published: any such "
            "word takes the class away.",
            pd.DataFrame(published_posts(fitted, rows, column)),
        ),
        (
            "The two posts of figures 5 and 6, left out of training: the four words that each method names, 500 questions. "
            "Published: DMM-MEN's words tell the classes apart better than those of LIME and SHAP.",
            pd.DataFrame(single_posts(fitted, rows, words)),
        ),
    ]


def queries() -> dict[str, list[tuple[str, str]]]:
    """Queries of some classes of CLINC150 (Larson et al., EMNLP 2019; CC BY 3.0)."""
    with gzip.open(data_folder() / "mc_clinc150.json.gz", "rt", encoding="utf-8") as file:
        read = json.load(file)
    return {
        part: [(text, name) for text, name in read[part] if name in QUERIES] for part in ("train", "test")
    }


def swap_queries(
    model: Any, X: np.ndarray, texts: list[str], column: dict[str, int], learned: dict[str, list[str]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """In every query with a learned word of its class, that word becomes one of another class, or any word."""
    rng = np.random.default_rng(0)
    words = np.array(list(column))
    p = model.predict_proba(X)
    lines, shown = [], []
    for number, name in enumerate(model.classes_):
        other = model.classes_[(number + 1) % len(model.classes_)]
        before, after, chance, taken = [], [], [], []
        for i in np.flatnonzero(p.argmax(axis=1) == number):
            mine = [word for word in learned[name][:TOP] if X[i, column[word]] > 0]
            if not mine:
                continue
            made = [swapped(X[i], column, mine[0], new) for new in learned[other][:TOP]]
            random = [swapped(X[i], column, mine[0], new) for new in rng.choice(words, TOP)]
            found = model.predict_proba(np.array(made))
            before.append(p[i, number])
            after.append(found[:, number].mean())
            chance.append(model.predict_proba(np.array(random))[:, number].mean())
            taken.append((found.argmax(axis=1) == list(model.classes_).index(other)).mean())
            if len(before) == 1:
                line = {"query": texts[i], "swap": f"{mine[0]} → {learned[other][0]}", "class before": name}
                line |= {"before": f"{100 * p[i, number]:.0f} %", "after": f"{100 * found[0, number]:.0f} %"}
                shown.append({**line, "class after": model.classes_[found[0].argmax()]})
        lines.append(
            {
                "class": name,
                "learned words": ", ".join(learned[name][:TOP]),
                "words of": other,
                "queries": len(before),
                "before": f"{100 * np.mean(before):.0f} %",
                "after, learned words": f"{100 * np.mean(after):.0f} %",
                "now the other class": f"{100 * np.mean(taken):.0f} %",
                "after, random words": f"{100 * np.mean(chance):.0f} %",
            }
        )
    return lines, shown


def assistant(sweeps: int) -> list[tuple[str, pd.DataFrame]]:
    """The same experiment with a network on queries that may be printed."""
    found = queries()
    texts, y = zip(*found["train"], strict=True)
    test, y_test = zip(*found["test"], strict=True)
    vectoriser = bag(list(texts), least=3, pattern=r"(?u)\b[a-z']{2,}\b", stop=None)
    X, X_test = (vectoriser.transform(list(part)).toarray().astype(float) for part in (texts, test))
    words = vectoriser.get_feature_names_out()
    model = MLPClassifier((64,), alpha=0.1, max_iter=60, random_state=0).fit(X, np.array(y))
    column = {word: i for i, word in enumerate(words)}
    right = 100 * model.score(X_test, np.array(y_test))
    parts = []
    for fit, about in ((learned_of_class, OWN_TEXTS), (learned_beside_others, ALL_TEXTS)):
        learned, r_hat = fit(model, X, words, sweeps)
        lines, shown = swap_queries(model, X_test, list(test), column, learned)
        parts.append((about.format(right=right, r_hat=r_hat), pd.DataFrame(lines)))
        parts.append(("The first such query of each class, and the first swap:", pd.DataFrame(shown)))
    return parts


def main() -> None:
    chosen = arguments(__doc__, sweeps=1500)
    warnings.simplefilter("ignore")
    parts = [*pc_and_mac(chosen.sweeps), *assistant(chosen.sweeps)]
    publish("dmm_men_figures_text", "DMM-MEN: the published word tables", parts)


if __name__ == "__main__":
    main()
