"""Mixes of public texts: what is ordinary, what is odd, and in some of them a reference of ordinary texts."""

from __future__ import annotations

import gzip
import json
from typing import Any, NamedTuple

import numpy as np

from tellwhy.data.benchmarks import data_folder

SPANISH = [
    "quiero saber cuánto dinero queda en mi cuenta del banco",
    "por favor dime dónde está la estación más cercana",
    "mañana tengo que viajar a madrid con mi hermana",
    "no entiendo por qué el pago fue rechazado",
    "puedes poner una alarma para las siete",
    "el restaurante estaba cerrado ayer por la noche",
    "necesito cambiar la fecha de mi vuelo",
    "cómo se prepara una buena tortilla",
    "cuál es el tiempo para el fin de semana",
    "la tarjeta nueva todavía no ha llegado",
    "llama a mi madre cuando puedas",
    "busca una canción alegre para la fiesta",
    "cuántos días de vacaciones me quedan",
    "apaga las luces de la cocina",
    "dónde dejé las llaves del coche",
    "cuánto cuesta llenar el depósito",
]


class TextSet(NamedTuple):
    """Texts that are judged, which of them are odd, and others that are known to be ordinary."""

    name: str
    texts: list[str]
    is_odd: np.ndarray
    reference: list[str] | None


def lines_of(name: str) -> list[dict[str, Any]]:
    """The lines of a public file of texts."""
    with gzip.open(data_folder() / name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def mixed(name: str, usual: list[str], odd: list[str], n: tuple[int, int], n_reference: int = 0) -> TextSet:
    """Draw so many of either, with a fixed seed, and put them in any order."""
    rng = np.random.default_rng(0)
    drawn = [usual[k] for k in rng.permutation(len(usual))]
    strange = [odd[k] for k in rng.permutation(len(odd))[: n[1]]]
    texts = [*drawn[: n[0]], *strange]
    order = rng.permutation(len(texts))
    reference = drawn[n[0] : n[0] + n_reference] if n_reference else None
    return TextSet(name, [texts[k] for k in order], order >= n[0], reference)


def queries() -> tuple[list[str], list[str], list[str]]:
    """Queries of fifteen intents, queries of the other intents, and those out of scope."""
    with gzip.open(data_folder() / "mc_clinc150.json.gz", "rt", encoding="utf-8") as file:
        parts = json.load(file)
    intents = sorted({intent for _, intent in parts["train"]})[::10]
    asked = [(text, intent in intents) for text, intent in parts["train"]]
    others = [text for text, _ in parts["oos_test"]]
    return [t for t, known in asked if known], [t for t, known in asked if not known], others


def gibberish(n: int) -> list[str]:
    """Strings of letters struck at random."""
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return [
        " ".join("".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(rng.integers(4, 10)))
        for _ in range(n)
    ]


def text_sets() -> list[TextSet]:
    """All mixes."""
    known, others, outside = queries()
    trades = lines_of("mc_naics2017_text.jsonl.gz")
    factories = [row["text"] for row in trades if row["code"].startswith("33")]
    schools = [row["text"] for row in trades if row["code"].startswith(("61", "62"))]
    posts = lines_of("20news_pc_mac.jsonl.gz")
    bodies = [(row["text"], "mac" in row["group"]) for row in posts]
    pcs = [text for text, is_mac in bodies if not is_mac]
    macs = [text for text, is_mac in bodies if is_mac]
    comments = lines_of("wiki_toxicity_1492.jsonl.gz")
    polite = [row["comment"] for row in comments if not row["toxic"]]
    rude = [row["comment"] for row in comments if row["toxic"]]
    return [
        mixed("unusual intents", known, others, (285, 15)),
        mixed("unusual intents, with a reference", known, others, (250, 50), 300),
        mixed("out of scope, with a reference", known, outside, (250, 50), 300),
        mixed("out of scope, few, with a reference", known, outside, (280, 20), 300),
        mixed("schools among factories", factories, schools, (285, 15)),
        mixed("Macs among PCs", pcs, macs, (475, 25)),
        mixed("Macs among PCs, with a reference", pcs, macs, (250, 50), 300),
        mixed("gibberish", known, gibberish(15), (285, 15)),
        mixed("another language", known, SPANISH, (285, 15)),
        mixed("rude comments", polite, rude, (285, 15)),
        mixed("rude comments, with a reference", polite, rude, (250, 50), 300),
    ]
