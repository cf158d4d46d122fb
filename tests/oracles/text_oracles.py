"""Texts scored in the slow, obvious way: strings of characters counted in dictionaries, words one by one."""

import math
import re
from collections import Counter


def surprises(texts, text):
    """−log p of each character of a text and of its end, by the formula of Witten and Bell."""
    counts = Counter()
    for other in texts:
        for string in _strings(other):
            for k in range(1, 5):
                counts[string[-k:]] += 1
    return [-math.log(_probability(counts, string)) for string in _strings(text)]


def _strings(text):
    line = "\x02" * 3 + " ".join(text.lower().split())[:1500] + "\x03"
    return [line[k - 3 : k + 1] for k in range(3, len(line))]


def _probability(counts, string):
    p = 1 / 200
    for k in range(1, 5):
        before = string[-k:-1]
        following = [n for key, n in counts.items() if len(key) == k and key[:-1] == before]
        if not following:
            break
        p = (counts[string[-k:]] + len(following) * p) / (sum(following) + len(following))
    return p


def unlikeness(texts, text, n_neighbours):
    """1 − the mean cosine with the nearest texts; words of one text alone count in the lengths only."""
    documents = Counter(word for other in texts for word in set(_words(other)))

    def weighted(of):
        found = {}
        for word, m in Counter(_words(of)).items():
            n_with = documents[word] if documents[word] > 1 else 1
            rarer = max(len(texts) - n_with, 1) if n_with > len(texts) / 2 else n_with
            found[word] = (1 + math.log(m)) * (1 + math.log(len(texts) / rarer))
        length = math.sqrt(sum(value**2 for value in found.values())) or 1.0
        return {word: value / length for word, value in found.items()}

    mine = weighted(text)
    cosines = []
    for other in texts:
        theirs = weighted(other)
        shared = [word for word in mine if word in theirs and documents[word] > 1]
        cosines.append(sum(mine[word] * theirs[word] for word in shared))
    return 1 - sum(sorted(cosines)[-n_neighbours:]) / n_neighbours


def _words(text):
    return re.findall(r"\w+(?:['’]\w+)*", text.lower())
