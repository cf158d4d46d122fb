"""Prompts of a small language model with random weights, against what its definition says."""

import re

import numpy as np
import pytest
from oracles.shapley_oracles import shapley_by_definition

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel

torch = pytest.importorskip("torch")

WORDS = ["<s>", "The", "cat", "sat", "on", "mats", ".", "Dogs", "bark", "loudly", "?", "why"]


class Tokenizer:
    """Words and marks by their numbers, after a mark of the beginning; knows where they stand."""

    def __init__(self, *, knows_places=True):
        self.knows_places = knows_places

    def __call__(self, text, *, add_special_tokens=True, return_offsets_mapping=False):
        if return_offsets_mapping and not self.knows_places:
            raise NotImplementedError
        found = list(re.finditer(r"\w+|[.?]", text))
        numbers = [WORDS.index(match.group()) for match in found]
        places = [match.span() for match in found]
        if add_special_tokens:
            numbers, places = [0, *numbers], [(0, 0), *places]
        return {"input_ids": numbers, "offset_mapping": places}

    def decode(self, numbers):
        return " ".join(WORDS[number] for number in numbers)


class Decoder(torch.nn.Module):
    """Embeddings, one layer of causal attention, one of rectified units, logits."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.tokens = torch.nn.Embedding(len(WORDS), 8)
        self.query, self.key, self.value = (torch.nn.Linear(8, 8, bias=False) for _ in range(3))
        self.wide, self.narrow = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.head = torch.nn.Linear(8, len(WORDS), bias=False)

    def forward(self, numbers):
        x = self.tokens(numbers)
        x = x + torch.nn.functional.scaled_dot_product_attention(
            self.query(x)[:, None], self.key(x)[:, None], self.value(x)[:, None], is_causal=True
        ).squeeze(1)
        return self.head(x + self.narrow(torch.relu(self.wide(x))))


MODEL = Decoder().double().eval()
PROMPT = "The cat sat on mats. Dogs bark loudly."


def log_probability(text, answer):
    """Log-probability of an answer after a text, token after token."""
    numbers = Tokenizer()(text)["input_ids"]
    total = 0.0
    for number in Tokenizer()(answer, add_special_tokens=False)["input_ids"]:
        with torch.no_grad():
            total += torch.log_softmax(MODEL(torch.tensor([numbers]))[0, -1], dim=0)[number].item()
        numbers.append(number)
    return total


@pytest.mark.parametrize("answer", ["why", "why cat ?"])
def test_words_that_are_left_out_cost_log_probability(answer):
    found = tellwhy.explain_prompt(
        MODEL, Tokenizer(), "The cat sat.", answer=answer, method="Occlusion", pieces="words"
    )
    texts = ["cat sat.", "The sat.", "The cat.", "The cat sat"]
    whole = log_probability("The cat sat.", answer)
    np.testing.assert_allclose(found.values[0], [whole - log_probability(text, answer) for text in texts])
    np.testing.assert_allclose(found.scores, [whole])
    assert found.params["answer"] == answer


def test_passages_have_their_shapley_values():
    passages = ["The cat", "sat on mats.", "bark loudly."]
    found = tellwhy.explain_prompt(
        MODEL, Tokenizer(), PROMPT, answer="why", method="KernelShap", pieces=passages
    )
    parts = ["The cat", " sat on mats.", " Dogs", " bark loudly."]

    def worth(S):
        kept = [parts[0] * (0 in S), parts[1] * (1 in S), parts[2], parts[3] * (2 in S)]
        return log_probability("".join(kept), "why")

    np.testing.assert_allclose(found.values[0], shapley_by_definition(worth, 3), atol=1e-9)
    assert found.data.tolist() == [passages]


def test_relevance_of_tokens_is_that_of_the_network_and_adds_up_in_sentences():
    from tellwhy.explainers import LRP

    found = tellwhy.explain_prompt(MODEL, Tokenizer(), PROMPT, answer="why cat")
    numbers = torch.tensor([[*Tokenizer()(PROMPT)["input_ids"], WORDS.index("why")]])

    class LogitsOfAnswer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = MODEL

        def forward(self, rows):
            logits = self.model(rows)
            return (logits[:, -2, WORDS.index("why")] + logits[:, -1, WORDS.index("cat")])[:, None]

    by_hand = LRP(LogitsOfAnswer().eval()).explain(numbers)
    np.testing.assert_allclose(found.scores, by_hand.scores, rtol=1e-10)
    np.testing.assert_allclose(found.values[0], by_hand.values[0, 1:-1], atol=1e-9)
    np.testing.assert_allclose(found.extras["elsewhere"], by_hand.values[0, [0, -1]].sum(), atol=1e-9)
    assert found.data[0].tolist() == ["The", "cat", "sat", "on", "mats", ".", "Dogs", "bark", "loudly", "."]
    whole = tellwhy.explain_prompt(MODEL, Tokenizer(), PROMPT, answer="why cat", pieces="sentences")
    np.testing.assert_allclose(whole.values[0], [found.values[0, :6].sum(), found.values[0, 6:].sum()])
    np.testing.assert_allclose(whole.residual, found.residual, atol=1e-9)


def test_without_an_answer_the_likeliest_token_is_explained():
    found = tellwhy.explain_prompt(MODEL, Tokenizer(), PROMPT)
    with torch.no_grad():
        logits = MODEL(torch.tensor([Tokenizer()(PROMPT)["input_ids"]]))[0, -1]
    assert found.params["answer"] == WORDS[int(logits.argmax())]
    np.testing.assert_allclose(found.scores, logits.max().item())
    other = tellwhy.explain_prompt(MODEL, Tokenizer(), PROMPT, output="log_probability")
    np.testing.assert_allclose(other.scores, log_probability(PROMPT, found.params["answer"]))


def test_a_tokenizer_need_not_know_places():
    plain = tellwhy.explain_prompt(MODEL, Tokenizer(knows_places=False), PROMPT)
    np.testing.assert_array_equal(plain.values, tellwhy.explain_prompt(MODEL, Tokenizer(), PROMPT).values)


class WithFields(torch.nn.Module):
    """A model as transformers has them: it takes `use_cache`, and returns an object with logits."""

    def __init__(self):
        super().__init__()
        self.inner = MODEL

    def forward(self, input_ids, use_cache=True):
        assert not use_cache
        return type("Output", (), {"logits": self.inner(input_ids)})()


@pytest.mark.parametrize("method", ["LRP", "Occlusion", "gradient_x_input"])
def test_models_may_return_objects(method):
    plain = tellwhy.explain_prompt(MODEL, Tokenizer(), PROMPT, method=method)
    found = tellwhy.explain_prompt(WithFields().eval(), Tokenizer(), PROMPT, method=method)
    np.testing.assert_allclose(found.values, plain.values, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"prompt": " "}, InvalidInput, "a text that is not empty"),
        ({"answer": "!"}, InvalidInput, "no tokens of the answer"),
        ({"method": "TreeShapley"}, UnsupportedModel, "does not explain prompts"),
        ({"output": "margin"}, InvalidParameter, "The 'output' parameter"),
        ({"pieces": "letters"}, InvalidParameter, "The 'pieces' parameter"),
        ({"pieces": [1]}, InvalidParameter, "a list of passages"),
        ({"baseline": "x"}, InvalidParameter, "baseline= would be ignored"),
        ({"n_sets": 3}, InvalidParameter, "n_sets"),
    ],
)
def test_what_cannot_be_done_is_told(settings, error, words):
    prompt = settings.pop("prompt", PROMPT)
    with pytest.raises(error, match=words):
        tellwhy.explain_prompt(MODEL, Tokenizer(), prompt, **settings)


def test_what_gives_no_logits_is_told():
    with pytest.raises(UnsupportedModel, match="expected logits of shape"):
        tellwhy.explain_prompt(
            torch.nn.Sequential(torch.nn.Embedding(12, 2), torch.nn.Flatten()), Tokenizer(), PROMPT
        )
