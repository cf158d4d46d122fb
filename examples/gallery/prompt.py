"""Which words of a prompt an answer hangs on.

A small language model learns what colour things have. `explain_prompt` shares its answer among the words of the prompt, in
one backward pass (AttnLRP). Any causal model of PyTorch or transformers will do.

Area: language models
Needs: torch
Prints:
    answer: green
    strongest word: grass
"""

import re

import torch

import tellwhy

THINGS = {"snow": "white", "grass": "green", "coal": "black", "blood": "red"}
STARTS = ["they say", "in our town the", "look , the", "i think that"]
WORDS = sorted(
    {word for start in STARTS for word in start.split()} | set(THINGS) | set(THINGS.values()) | {"is"}
)


class Tokenizer:
    """Words by their numbers."""

    def __call__(self, text, **_):
        found = list(re.finditer(r"\w+|,", text))
        numbers = [WORDS.index(match.group()) for match in found]
        return {"input_ids": numbers, "offset_mapping": [match.span() for match in found]}

    def decode(self, numbers):
        return " ".join(WORDS[number] for number in numbers)


class Decoder(torch.nn.Module):
    """One layer of causal attention."""

    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(len(WORDS), 16)
        self.query, self.key, self.value = (torch.nn.Linear(16, 16) for _ in range(3))
        self.head = torch.nn.Linear(16, len(WORDS))

    def forward(self, numbers):
        x = self.tokens(numbers)
        parts = (part(x)[:, None] for part in (self.query, self.key, self.value))
        seen = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.head(x + seen.squeeze(1))


torch.manual_seed(0)
tokenizer, model = Tokenizer(), Decoder()
optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
pairs = [
    (f"{start} {thing}{end}", colour)
    for start in STARTS
    for thing, colour in THINGS.items()
    for end in (" is", "")
]
for _ in range(30):
    for prompt, colour in pairs:
        logits = model(torch.tensor([tokenizer(prompt)["input_ids"]]))[0, -1]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(WORDS.index(colour)))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

explanation = tellwhy.explain_prompt(model.eval(), tokenizer, "in our town the grass is", pieces="words")
print("answer:", explanation.params["answer"].strip())
print("strongest word:", explanation.data[0][explanation.values[0].argmax()].strip())
figure = tellwhy.plot.text(explanation)
