"""Prompts of language models: which of their tokens, sentences or passages an answer comes from.

Two ways: relevance is handed down through the network (LRP with the rules for attention, one pass for the
whole answer), or parts of the prompt are left out and the answer is scored again (`PiecesScore`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import TOKENS, Extras
from tellwhy.core.optional import require
from tellwhy.core.params import integer, none, one_of, validate_value
from tellwhy.core.progress import shown
from tellwhy.core.registry import Card, find_explainer
from tellwhy.core.score import Floats
from tellwhy.explainers.perturbation.text_pieces import PiecesScore, TextPieces, text_pieces
from tellwhy.one_liner.known_names import known_name
from tellwhy.one_liner.method import make_explainer
from tellwhy.one_liner.texts import METHODS
from tellwhy.scoring import FunctionScore

OUTPUTS = ("auto", "logit", "log_probability")
_ROWS = 16  # prompts that go through the network at once, unless it is told otherwise


def explain_prompt(
    model: Any,
    tokenizer: Any,
    prompt: str,
    *,
    answer: str | None = None,
    method: str = "LRP",
    pieces: str | Sequence[str] | Callable[[str], Sequence[str]] = "tokens",
    output: str = "auto",
    progress: bool | None = None,
    **params: Any,
) -> Explanation:
    """Explain a language model's answer, or its next token, by the parts of the prompt.

    Parameters
    ----------
    model
        A PyTorch module that takes numbers of tokens (1, time) and gives logits (1, time, vocabulary), or an
        object that has them as `logits`: the causal models of transformers.
    tokenizer
        Gives `input_ids` of a text, as tokenizers of transformers do.
    prompt
        The text that the answer follows.
    answer
        What is explained, as it would follow the prompt (with its leading space); None: the token that the
        model finds likeliest.
    method
        "LRP" (AttnLRP; one backward pass for the whole answer) or another method of networks; "Occlusion",
        "KernelShap" or "Lime", which leave parts out and ask the model again.
    pieces
        Parts that get a value each: "tokens", "words", "sentences", "lines", a list of passages as they stand
        in the prompt (retrieved documents, say), or a function that gives such a list.
    output
        "logit": the sum of the answer's logits; "log_probability": the logarithm of its probability after
        the prompt. "auto": the first for methods of networks, the second for those that leave parts out.
    progress
        As in `tellwhy.explain`.
    params
        Parameters of the method; `baseline` is the text that replaces what is left out.

    Returns
    -------
    Explanation
        One row: a value for each part, whose text is in `data`. `params["answer"]` is what was explained;
        `extras["elsewhere"]` is what tokens outside of all parts got, and the answer's own earlier tokens.

    Examples
    --------
    >>> import torch, tellwhy
    >>> class Words:  # a tokenizer of three words
    ...     known = ["yes", "no", "why"]
    ...     def __call__(self, text, **_):
    ...         return {"input_ids": [self.known.index(word) for word in text.split()]}
    ...     def decode(self, numbers):
    ...         return " ".join(self.known[number] for number in numbers)
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Embedding(3, 4), torch.nn.Linear(4, 3)).eval()
    >>> found = tellwhy.explain_prompt(model, Words(), "why no why", answer="yes")
    >>> found.data.tolist(), int(np.abs(found.values[0]).argmax())
    ([['why', 'no', 'why']], 2)
    """
    require("torch", "explaining a language model")
    validate_value("explain_prompt", "output", output, one_of(*OUTPUTS))
    name, settings = known_name(method, is_network=True)
    card = find_explainer(name)
    task = _Task.of(model, tokenizer, prompt, answer, pieces)
    with shown(progress):
        if card.role == "network explainer":
            return task.by_network(card, output, {**settings, **params})
        if card.name in METHODS:
            return task.by_removal(card, output, {**settings, **params})
    raise UnsupportedModel(
        f"{card.name} does not explain prompts. Use 'LRP' or another method of networks, 'Occlusion', "
        "'KernelShap' or 'Lime'."
    )


@dataclass(frozen=True, eq=False)
class _Task:
    """A prompt and its answer as tokens, and the parts that get values."""

    model: Any
    tokenizer: Any
    prompt: list[int]
    places: list[tuple[int, int]]  # of each token of the prompt in its text
    answer: list[int]
    parts: TextPieces

    @classmethod
    def of(cls, model: Any, tokenizer: Any, prompt: str, answer: str | None, pieces: Any) -> _Task:
        if not isinstance(prompt, str) or not prompt.strip():
            raise InvalidInput(f"prompt must be a text that is not empty. Got {prompt!r}.")
        numbers = _numbers(tokenizer, prompt)
        if not numbers:
            raise InvalidInput(f"The tokenizer makes no tokens of the prompt {prompt[:60]!r}.")
        places = _places(tokenizer, prompt, numbers)
        following = (
            _likeliest(model, numbers) if answer is None else _numbers(tokenizer, answer, is_begun=True)
        )
        if not following:
            raise InvalidInput(f"The tokenizer makes no tokens of the answer {answer!r}.")
        return cls(model, tokenizer, numbers, places, following, _parts(prompt, pieces, places))

    def by_network(self, card: Card, output: str, params: dict[str, Any]) -> Explanation:
        """Hand relevance down to the tokens, and add it up in the parts."""
        import torch

        if "baseline" in params:
            raise InvalidParameter(f"{card.name} leaves nothing out, so that baseline= would be ignored.")
        asked = _answer_module(self.model, self.answer, is_probability=output == "log_probability")
        explainer, further = make_explainer(card, asked, params)
        whole = torch.tensor([self.prompt + self.answer[:-1]])
        found: Explanation = explainer.explain(whole, **further)
        tokens = found.values.reshape(-1)
        values = np.zeros(len(self.parts.places))
        owner = self._owners()
        for place, part in enumerate(owner):
            if part >= 0:
                values[part] += tokens[place]
        elsewhere = float(tokens.sum() - values.sum())
        return replace(
            found,
            values=values[None],
            stderr=None,
            data=np.array([self.parts.written]),
            feature_names=None,
            params={**found.params, **self._said("logit" if output == "auto" else output)},
            extras=Extras({"elsewhere": np.array([elsewhere])}),
        )

    def by_removal(self, card: Card, output: str, params: dict[str, Any]) -> Explanation:
        """Leave parts of the prompt out, and score the answer again."""
        baseline = params.pop("baseline", "")
        size = params.get("batch_size")
        validate_value("explain_prompt", "batch_size", size, (none, integer(1)))
        is_probability = output != "logit"
        words = "log-probability" if is_probability else "logits"

        def scored(texts: Sequence[str]) -> Floats:
            return self._scores(texts, size or _ROWS, is_probability=is_probability)

        score = FunctionScore(scored, describes=f"the {words} of the answer after the prompt")
        n = len(self.parts.places)
        explainer, further = make_explainer(card, PiecesScore(score, self.parts, baseline), params)
        explainer.fit(np.zeros((1, n)))
        found: Explanation = explainer.explain(np.ones((1, n)), **further)
        said = {
            **self._said("log_probability" if is_probability else "logit"),
            "baseline": baseline or "left out",
        }
        return replace(found, data=np.array([self.parts.written]), params={**found.params, **said})

    def _said(self, output: str) -> dict[str, Any]:
        """What was explained, as parameters tell it."""
        text = self.tokenizer.decode(self.answer)
        return {TOKENS: "parts of the prompt", "answer": text, "output": output, "task": "prediction"}

    def _owners(self) -> list[int]:
        """The part that each token of the prompt begins in, or −1."""
        found = []
        for start, end in self.places:
            inside = (k for k, (a, b) in enumerate(self.parts.places) if start < b and end > a)
            found.append(next(inside, -1) if end > start else -1)
        return found

    def _scores(self, texts: Sequence[str], size: int, *, is_probability: bool) -> Floats:
        """Score the answer after each text; those of as many tokens go through the network together."""
        import torch

        asked = _answer_module(self.model, self.answer, is_probability=is_probability)
        device = next(self.model.parameters()).device
        numbers = [(_numbers(self.tokenizer, text) or self.prompt[:1]) + self.answer[:-1] for text in texts]
        scores = np.zeros(len(texts))
        by_length: dict[int, list[int]] = {}
        for row, each in enumerate(numbers):
            by_length.setdefault(len(each), []).append(row)
        with torch.no_grad():
            for rows in by_length.values():
                for start in range(0, len(rows), size):
                    some = rows[start : start + size]
                    batch = torch.tensor([numbers[row] for row in some], device=device)
                    scores[some] = asked(batch)[:, 0].double().cpu().numpy()
        return scores


def _numbers(tokenizer: Any, text: str, *, is_begun: bool = False) -> list[int]:
    """Numbers of a text's tokens; what follows another text has no token for a beginning."""
    found = tokenizer(text, add_special_tokens=False) if is_begun else tokenizer(text)
    return [int(number) for number in found["input_ids"]]


def _places(tokenizer: Any, text: str, numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Where each token stands in the text; at (0, 0) one that stands nowhere, such as a beginning's mark."""
    try:
        given = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        return [(int(start), int(end)) for start, end in given]
    except (NotImplementedError, TypeError, KeyError, ValueError):  # tokenizers that do not know
        pass
    places = []
    at = 0
    for number in numbers:
        written = tokenizer.decode([number]).strip()
        start = text.find(written, at) if written else -1
        places.append((start, start + len(written)) if start >= 0 else (0, 0))
        at = max(at, places[-1][1])
    return places


def _parts(prompt: str, pieces: Any, places: Sequence[tuple[int, int]]) -> TextPieces:
    """Cut the prompt into the parts that are asked for."""
    if isinstance(pieces, str) and pieces == "tokens":
        shown_places = [(start + _n_spaces(prompt[start:end]), end) for start, end in places if end > start]
        return TextPieces(prompt, tuple(place for place in shown_places if place[1] > place[0]))
    if isinstance(pieces, str):
        validate_value("explain_prompt", "pieces", pieces, one_of("tokens", "words", "sentences", "lines"))
        return text_pieces(prompt, pieces)
    if callable(pieces):
        return text_pieces(prompt, pieces)
    passages = list(pieces)
    if not passages or not all(isinstance(passage, str) for passage in passages):
        raise InvalidParameter(f"pieces must be a word, a function or a list of passages. Got {pieces!r}.")
    return text_pieces(prompt, lambda _: passages)


def _n_spaces(token: str) -> int:
    """Spaces that a token begins with: they are no part of what is shown."""
    return len(token) - len(token.lstrip())


def _likeliest(model: Any, numbers: Sequence[int]) -> list[int]:
    import torch

    device = next(model.parameters()).device
    with torch.no_grad():
        logits = _logits(model, torch.tensor([list(numbers)], device=device))
    return [int(logits[0, -1].argmax())]


def _logits(model: Any, numbers: Any) -> Any:
    """The logits that a model gives, without what it keeps for going on."""
    takes_cache = "use_cache" in inspect.signature(model.forward).parameters
    given = model(numbers, use_cache=False) if takes_cache else model(numbers)
    found = getattr(given, "logits", given)
    if getattr(found, "ndim", 0) != 3:
        raise UnsupportedModel(
            f"{type(model).__name__} gives {type(given).__name__} for tokens; expected logits of shape "
            "(1, time, vocabulary), or an object that has them as `logits`."
        )
    return found


def _answer_module(model: Any, answer: Sequence[int], *, is_probability: bool) -> Any:
    """Return a network that takes the prompt with all of the answer but its end, and scores the answer."""
    import torch

    class Answer(torch.nn.Module):
        """The sum of the logits, or of the log-probabilities, of an answer's tokens."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, numbers: Any) -> Any:
            logits = _logits(self.model, numbers)[:, -len(answer) :]
            told = torch.log_softmax(logits, dim=-1) if is_probability else logits
            places = torch.arange(len(answer), device=told.device)
            return told[:, places, torch.tensor(answer, device=told.device)].sum(dim=1, keepdim=True)

    return Answer().train(model.training)
