"""Odd texts among public ones, by words and letters: how well they are found, and how many false alarms are raised."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from benchmarks.texts._sets import TextSet, text_sets
from tellwhy.core.optional import is_there
from tellwhy.kinds.model import find_kind, fit
from tellwhy.kinds.text_columns import MEANINGS, TextModel
from tellwhy.workflow import explain_table

NEIGHBOURS = 5


def nearest_by_tfidf(texts: TextSet) -> np.ndarray:
    """The peer: mean cosine distance to the five nearest texts by scikit-learn's TF-IDF."""
    good = texts.texts if texts.reference is None else texts.reference
    words = TfidfVectorizer(sublinear_tf=True).fit(good)
    likeness = (words.transform(texts.texts) @ words.transform(good).T).toarray()
    if texts.reference is None:
        np.fill_diagonal(likeness, -1.0)
    return 1.0 - np.sort(likeness, axis=1)[:, -NEIGHBOURS:].mean(axis=1)


def by_parts(texts: TextSet) -> dict[str, np.ndarray]:
    """Scores of words, of letters, of both, of the published model, of meanings, and of all three."""
    good = texts.texts if texts.reference is None else texts.reference
    own = np.arange(len(good)) if texts.reference is None else np.full(len(texts.texts), -1)
    is_clean = texts.reference is not None
    model = TextModel.learn(good, likeness="plain", is_clean=is_clean)
    paper = TextModel.learn(good, likeness="paper")
    words, letters = (part.scores(texts.texts, own) for part in model.parts)
    both = model.scores(texts.texts, own)
    found = {"published": paper.scores(texts.texts, own), "words": words, "letters": letters, "both": both}
    if is_there("torch", MEANINGS):
        whole = TextModel.learn(good, is_clean=is_clean)
        found |= {
            "meanings": whole.parts[2].scores(texts.texts, own),
            "all three": whole.scores(texts.texts, own),
        }
    return found


def by_table(texts: TextSet) -> np.ndarray:
    """Scores of the rows of a table whose only column is the text, `explain texts.csv --text body`."""
    frame = pd.DataFrame({"body": texts.texts})
    reference = None if texts.reference is None else pd.DataFrame({"body": texts.reference})
    run = explain_table(frame, text=["body"], reference=reference, top=1)
    found = np.full(len(frame), np.nan)
    found[np.asarray(run.rows)] = run.scores
    return found


def line_of(texts: TextSet) -> dict[str, object]:
    """One line of the table."""
    scores = {"TF-IDF": nearest_by_tfidf(texts), **by_parts(texts), "in a table": by_table(texts)}
    line: dict[str, object] = {"texts": texts.name, "odd": f"{texts.is_odd.sum()} of {len(texts.texts)}"}
    line |= {name: round(float(roc_auc_score(texts.is_odd, each)), 3) for name, each in scores.items()}
    line |= alarms_of(texts, "plain", "")
    return line | (alarms_of(texts, "auto", ", all three") if is_there("torch", MEANINGS) else {})


def alarms_of(texts: TextSet, likeness: str, mark: str) -> dict[str, str]:
    """Alarms at the default, and how many ordinary texts have a p-value of 5 % or less."""
    frame = pd.DataFrame({"body": texts.texts})
    good = texts.texts if texts.reference is None else texts.reference
    model = fit(
        pd.DataFrame({"body": good}), text="body", likeness=likeness, clean=texts.reference is not None
    )
    texts_kind = find_kind("texts")
    batch = texts_kind.read(model, frame, {})
    scores = texts_kind.score(model, batch)
    judged = model.judged(scores, None)
    is_alarm = judged.are_alarms(scores)
    low = (judged.p_values[~texts.is_odd] <= 0.05).mean()
    told = f"{is_alarm.sum()}, {(is_alarm & ~texts.is_odd).sum()} false"
    return {f"alarms{mark}": told, f"ordinary with p ≤ 5 %{mark}": f"{low:.1%}"}


def main() -> None:
    """Write the table."""
    lines = []
    for texts in text_sets():
        lines.append(line_of(texts))
        print(lines[-1], flush=True)
    table = pd.DataFrame(lines)
    numbers = table.select_dtypes("number")
    means = {name: round(float(table[name].mean()), 3) for name in numbers}
    table.loc[len(table)] = {**dict.fromkeys(table.columns, ""), "texts": "mean", **means}
    publish(
        "odd_texts",
        "Odd texts among public ones",
        [
            (
                "AUROC. “TF-IDF”: mean cosine distance to the five nearest texts by scikit-learn; “published”: one-class "
                "SVM of binary words; “words” and “letters”: the two parts of the base install, “both” joined; "
                "“meanings”: vectors of a small network (the extra `sentences`), “all three” joined; “in a table”: the "
                "same text as the only column of a table. Alarms at the default, one ordinary text in twenty, and how many "
                "ordinary texts have a p-value of 5 % or less, without and with meanings. Words, letters and how they are "
                "joined were chosen after seeing these sets (some twenty combinations). A rude comment need not be odd.",
                table,
            )
        ],
    )


if __name__ == "__main__":
    arguments(__doc__)
    main()
