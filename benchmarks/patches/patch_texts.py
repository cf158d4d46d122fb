"""Texts (section 8.3 of the paper): one-class SVM on binary bags of words, σ = 10, ν = 0.3.

Wikipedia talk pages: learned from neutral comments, judged on other neutral and on toxic ones (numbers only, no words
are printed). CLINC150: learned from in-scope queries, judged on in-scope and out-of-scope ones.
"""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy.data.benchmarks import data_folder
from tellwhy.evaluation import flipping
from tellwhy.explainers import ExpectedValue, NearestSupport, OneClassDTD, RandomAttribution, Sensitivity
from tellwhy.kinds.text_columns import PaperWords

METHODS = (OneClassDTD, NearestSupport, Sensitivity, ExpectedValue, RandomAttribution)
FLIPPED = 60  # odd texts whose words are taken away


def wiki() -> tuple[list[str], list[str], list[str]]:
    """Neutral comments to learn from, other neutral ones, toxic ones."""
    with gzip.open(data_folder() / "wiki_toxicity_1492.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    neutral = [row["comment"] for row in rows if not row["toxic"]]
    order = np.random.default_rng(0).permutation(len(neutral))
    cut = len(neutral) * 4 // 5
    learned, held = ([neutral[k] for k in part] for part in (order[:cut], order[cut:]))
    return learned, held, [row["comment"] for row in rows if row["toxic"]]


def clinc() -> tuple[list[str], list[str], list[str]]:
    """In-scope queries to learn from, others, and out-of-scope ones."""
    with gzip.open(data_folder() / "mc_clinc150.json.gz", "rt", encoding="utf-8") as file:
        parts = json.load(file)
    order = np.random.default_rng(0).permutation(len(parts["train"]))[:3000]
    held = [text for text, _ in parts["test"]][::5]
    return [parts["train"][k][0] for k in order], held, [text for text, _ in parts["oos_test"]]


def judged(
    texts: tuple[list[str], list[str], list[str]], name: str, **settings: object
) -> tuple[dict, list[dict]]:
    """How well odd texts are found, where relevance falls, and how well methods order words."""
    learned, held, odd = texts
    model = PaperWords.learn(learned, **settings)
    bag, detector = model.bag, model.detector
    new = [np.full(len(part), -1) for part in (held, odd)]
    scores = np.concatenate([model.scores(part, own) for part, own in zip((held, odd), new, strict=True)])
    truth = np.append(np.zeros(len(held)), np.ones(len(odd)))
    rows = bag.transform(odd)
    values = model.values(odd, new[1])
    present = (values * (bag.counts(odd) > 0)).sum() / values.sum()
    lengths = [len({token.feature for token in bag.tokens(text)}) for text in (*held, *odd)]
    head = {
        "set": name,
        "learned from": len(learned),
        "columns": len(bag.words_),
        "ordinary": len(held),
        "odd": len(odd),
        "AUROC": round(float(roc_auc_score(truth, scores)), 3),
        "rank correlation with the length": round(float(spearmanr(lengths, scores).statistic), 2),
        "AUROC of the length": round(float(roc_auc_score(truth, lengths)), 3),
        "relevance on present words": round(float(present), 3),
        "on rare and new words": round(float(values[:, -1].sum() / values.sum()), 3),
    }
    some = rows[np.argsort(-detector.outlierness(rows), kind="stable")[:FLIPPED]]
    areas = [{"set": name, "method": m.__name__, "area": flipped(m, detector, some)} for m in METHODS]
    return head, areas


def flipped(method: type, model: object, rows: np.ndarray) -> float:
    """Mean area below the flipping curve."""
    return round(float(flipping(method(model).explain(rows), model).area), 4)


def main() -> None:
    """Write the tables."""
    sets = [
        (wiki(), "wiki talk, stems", {"stem": True}),
        (wiki(), "wiki talk, letters", {"unit": "letters"}),
        (clinc(), "CLINC150, words", {"min_documents": 2}),
        (clinc(), "CLINC150, letters", {"unit": "letters", "min_documents": 5}),
    ]
    found = []
    for texts, name, settings in sets:
        found.append(judged(texts, name, **settings))
        print(found[-1][0], flush=True)
    publish(
        "patch_texts",
        "Odd texts by one-class models of their words",
        [
            (
                "Detection by the published model, and where the relevance of odd texts falls: on words that they have, or "
                "on words that they lack. [Odd texts](odd_texts.md) compares it with the default.",
                pd.DataFrame([head for head, _ in found]),
            ),
            (
                f"Words taken away in the order of each method, for the {FLIPPED} oddest texts: area below the curve, "
                "lower is better.",
                pd.DataFrame([line for _, lines in found for line in lines]),
            ),
        ],
    )


if __name__ == "__main__":
    arguments(__doc__)
    main()
