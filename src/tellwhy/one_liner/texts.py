"""Texts in the one-liner: any function, pipeline or detector of texts, explained by its words.

Each text is a row of pieces that are kept or left out (`PiecesScore`), which a method for tables explains.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import TOKENS, Extras
from tellwhy.core.params import Rule, one_of, validate_value
from tellwhy.core.progress import track
from tellwhy.core.registry import Card, find_explainer
from tellwhy.core.score import Floats, GivesScore, IsPrediction, KeepsOutput
from tellwhy.explainers.perturbation.text_pieces import (
    UNITS,
    Cut,
    PiecesScore,
    check_texts,
    text_pieces,
)
from tellwhy.one_liner.method import make_explainer
from tellwhy.one_liner.question import Asked, owner_of_method
from tellwhy.scoring import FunctionScore, PredictionScore, as_score
from tellwhy.scoring.model_rows import find_estimator_kind, look_up
from tellwhy.scoring.predictions import whole_prediction

METHODS = ("KernelShap", "Occlusion", "Lime")
_OWN = ("pieces", "baseline")  # parameters that are the texts', not the method's
_PIPELINE = {"transformers.pipelines.base.Pipeline": True}

_cut_rule = Rule("a function from a text to its pieces", callable)
_text_rule = Rule("a text", lambda value: isinstance(value, str))


@dataclass(frozen=True)
class Settings:
    """How texts are cut, and what replaces a piece that is left out."""

    pieces: Cut = "words"
    baseline: str = ""

    @classmethod
    def taken(cls, params: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
        """Return the settings among some parameters, and the method's own."""
        found = cls(**{name: params[name] for name in _OWN if name in params})
        validate_value("explain", "pieces", found.pieces, (one_of(*UNITS), _cut_rule))
        validate_value("explain", "baseline", found.baseline, _text_rule)
        return found, {name: value for name, value in params.items() if name not in _OWN}


def asks_for_pieces(params: Mapping[str, Any]) -> bool:
    """Whether parameters say how texts are cut: a method that reads weights has no use for them."""
    return any(name in params for name in _OWN)


def explain_texts(
    model: Any, X: Any, chosen: Card | None, asked: Asked, params: Mapping[str, Any]
) -> Explanation:
    """Explain texts by their pieces: a value for each, in the order of the text, zeros after the last."""
    card = find_explainer("KernelShap") if chosen is None else chosen
    if card.name not in METHODS:
        raise UnsupportedModel(
            f"{card.name} does not explain texts. Those that do: {', '.join(METHODS)}; "
            "LinearRelevance explains linear classifiers of texts by their weights."
        )
    texts = check_texts(X)
    settings, own = Settings.taken(params)
    score = read_texts(model, texts, asked)
    found = []
    for text in track(texts, len(texts), "explaining texts"):
        pieces = text_pieces(text, settings.pieces)
        found.append(_one_text(card, PiecesScore(score, pieces, settings.baseline), own))
    words = settings.pieces if isinstance(settings.pieces, str) else "pieces"
    said = {TOKENS: words, "baseline": settings.baseline or "left out", "task": _task(score)}
    return joined_texts(found, texts, settings.pieces, {**said, **_explained(score, texts)})


def _task(score: Any) -> str:
    return "prediction" if isinstance(score, IsPrediction) else "anomaly"


def _explained(score: Any, texts: Sequence[str]) -> dict[str, Any]:
    """The output of each text, and its name, where the model has several."""
    if not isinstance(score, KeepsOutput):
        return {}
    numbers = score.fixed(list(texts))[0]
    names = score.output_names(numbers) if isinstance(score, IsPrediction) else None
    return {"output": numbers} if names is None else {"output": numbers, "explained": names}


def _one_text(card: Card, score: PiecesScore, params: Mapping[str, Any]) -> Explanation | float:
    """Explain one text; of one without pieces, only its score is returned."""
    n = len(score.pieces.places)
    if n == 0:
        return float(score.of_texts([score.pieces.text])[0])
    explainer, further = make_explainer(card, score, params)
    explainer.fit(np.zeros((1, n)))
    explanation: Explanation = explainer.explain(np.ones((1, n)), **further)
    return explanation


def joined_texts(
    found: Sequence[Explanation | float], texts: Sequence[str], cut: Cut, said: Mapping[str, Any]
) -> Explanation:
    """Return explanations of single texts as one: as many columns as the longest has pieces."""
    pieces = [text_pieces(text, cut).written for text in texts]
    shape = (len(texts), max(1, *map(len, pieces)))
    values = np.zeros(shape)
    stderr = np.zeros(shape)
    base = np.zeros(len(texts))
    scores = np.zeros(len(texts))
    for i, one in enumerate(found):
        if not isinstance(one, Explanation):
            base[i] = scores[i] = one
            continue
        values[i, : len(pieces[i])] = one.values[0]
        base[i] = one.base_values[0]
        scores[i] = one.scores[0]
        if one.stderr is not None:
            stderr[i, : len(pieces[i])] = one.stderr[0]
    first = next((one for one in found if isinstance(one, Explanation)), None)
    per_row = {name: said[name] for name in ("output", "explained") if name in said}
    params = {} if first is None else {k: v for k, v in first.params.items() if k not in _USED_BY_ROW}
    return Explanation(
        values=values,
        scores=scores,
        base_values=base,
        stderr=stderr if stderr.any() else None,
        data=np.array([each + [""] * (shape[1] - len(each)) for each in pieces]),
        method="KernelShap" if first is None else first.method,
        kind="attribution" if first is None else first.kind,
        params={**params, **{k: v for k, v in said.items() if k not in per_row}},
        extras=Extras({**per_row, **_pairs(found, shape)}),
    )


_USED_BY_ROW = ("coalitions_used", "groups", "reference_rows")  # of one text, not of all


def _pairs(found: Sequence[Explanation | float], shape: tuple[int, int]) -> dict[str, Any]:
    """Interactions of pairs of pieces, where the method gives them."""
    if not any(isinstance(one, Explanation) and "interactions" in one.extras for one in found):
        return {}
    pairs = np.zeros((*shape, shape[1]))
    for i, one in enumerate(found):
        if isinstance(one, Explanation):
            n = one.values.shape[1]
            pairs[i, :n, :n] = one.extras["interactions"][0]
    return {"interactions": pairs}


def read_texts(model: Any, texts: Sequence[str], asked: Asked) -> Any:
    """Return what is explained of a model of texts, as a score of lists of texts."""
    owner, asked = owner_of_method(model, asked)
    if look_up(_PIPELINE, owner) is not None:
        return _labelled(partial(_called_pipeline, owner, asked.output), texts, asked, _pipeline_words(asked))
    kind = find_estimator_kind(owner)
    if kind in ("classifier", "regressor") and asked.task != "anomaly":
        return whole_prediction(owner, target=asked.target, output=asked.output)
    is_plain = callable(owner) and kind is None and not isinstance(owner, GivesScore)
    if not is_plain:
        score = as_score(owner)
        if asked.target is not None or asked.output != "auto":
            raise InvalidParameter(
                f"{type(owner).__name__} is explained by its one anomaly score: target and output would "
                "change nothing. Leave them out."
            )
        return score
    name = getattr(owner, "__qualname__", type(owner).__name__)
    first = owner(list(texts[:1]))
    if _are_labels(first):
        return _labelled(owner, texts, asked, f"score of {{which}} by {name}")
    if asked.output != "auto":
        raise InvalidParameter(
            f"output={asked.output!r} would change nothing: a function is explained as the number that it "
            "gives. Leave it out."
        )
    if np.ndim(first) == 2 and np.shape(first)[1] > 1:
        target = "predicted" if asked.target is None else asked.target
        return PredictionScore(_arrays(owner), target=target, describes=f"output {{which}} of {name}")
    if asked.target is not None:
        raise InvalidParameter(
            f"target={asked.target!r} would change nothing: {name} gives one number per text. Leave it out."
        )
    score = FunctionScore(owner)
    return score if asked.task == "anomaly" else _prediction_of(score)


def _prediction_of(score: FunctionScore) -> PredictionScore:
    return PredictionScore(score.value, describes=score.describes)


def _arrays(function: Any) -> Any:
    """The same function, whose outputs are arrays."""
    return lambda texts: np.asarray(function(texts))


def _pipeline_words(asked: Asked) -> str:
    return "logit of {which}" if asked.output == "margin" else "probability of {which}"


def _called_pipeline(pipeline: Any, output: str, texts: Sequence[str]) -> Any:
    """Call a text classifier of transformers for the scores of all its labels."""
    if "top_k" not in inspect.signature(pipeline._sanitize_parameters).parameters:
        raise UnsupportedModel(
            f"The {getattr(pipeline, 'task', '')} pipeline gives no scores of labels. Wrap what you ask in a "
            "function from texts to numbers, or see tellwhy.explain_prompt for language models."
        )
    further = {"function_to_apply": "none"} if output == "margin" else {}
    return pipeline(list(texts), top_k=None, **further)


def _are_labels(returned: Any) -> bool:
    """Whether a function gives labels with scores: of each text a dict, or a list of them."""
    if not isinstance(returned, (list, tuple)) or not returned:
        return False
    first = returned[0][0] if isinstance(returned[0], (list, tuple)) and returned[0] else returned[0]
    return isinstance(first, Mapping) and "label" in first and "score" in first


def _labelled(function: Any, texts: Sequence[str], asked: Asked, words: str) -> PredictionScore:
    """Return the score of one label, as a function gives it by name."""
    first = function(list(texts[:1]))
    if not _are_labels(first):
        raise InvalidInput(f"Expected labels with scores from the model; got {str(first)[:80]!r}.")
    if not isinstance(first[0], (list, tuple)):
        raise InvalidInput(
            f"The model gives one label for each text ({str(first[0])[:60]}), which may be another one where "
            "words are left out. Have it give the scores of all labels: lambda texts: model(texts, "
            "top_k=None)."
        )
    names = sorted(str(one["label"]) for one in first[0])
    target = asked.target
    if target is None:
        target = names[1] if len(names) == 2 else "predicted"
    return PredictionScore(partial(_scores_by_label, function, names), names, target=target, describes=words)


def _scores_by_label(function: Any, names: Sequence[str], texts: Sequence[str]) -> Floats:
    """Scores of each text, one column for each label; a label that is not listed has 0."""
    found = np.zeros((len(texts), len(names)))
    for row, labels in enumerate(function(list(texts))):
        for one in labels:
            found[row, names.index(str(one["label"]))] = float(one["score"])
    return found
