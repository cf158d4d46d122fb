"""Chains on disk: `chains.json` (how far, random numbers) and `arrays.npz`; never pickle."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.storage.files import new_folder, read_versioned, write_json

if TYPE_CHECKING:
    from tellwhy.explainers.surrogate.sampler import Chain, Settings

SCHEMA = 1
_HEAD = "chains.json"
_CACHED = ("gram", "moment", "member")  # summed anew at the start of every block


def fingerprint(data: Any, numbers: Any, settings: Settings) -> str:
    """SHA-256 of all that the draws depend on but the seed."""
    digest = hashlib.sha256(json.dumps([list(numbers), asdict(settings)]).encode())
    for array in data:
        digest.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save(folder: Path, mark: str, chains: list[Chain]) -> None:
    """Write how far the chains are, whole or not at all."""
    arrays = {}
    for i, chain in enumerate(chains):
        for name, array in chain.state._asdict().items():
            if name not in _CACHED:
                arrays[f"{i}:state:{name}"] = array
        arrays.update(
            {f"{i}:kept:{name}": array[: chain.n_kept] for name, array in chain.kept._asdict().items()}
        )
    head = {
        "schema": SCHEMA,
        "data": mark,
        "chains": [{"done": c.done, "kept": c.n_kept, "random": c.rng.bit_generator.state} for c in chains],
        "origins": [c.origin for c in chains],
    }
    with new_folder(folder, marker=_HEAD) as work:
        write_json(work / _HEAD, head)
        np.savez(work / "arrays.npz", allow_pickle=False, **arrays)


def resume(folder: Path, mark: str, chains: list[Chain]) -> None:
    """Put chains where they were, if there is a checkpoint; refuse one of other data, settings or seeds."""
    if not (folder / _HEAD).is_file():
        return
    head = read_versioned(folder / _HEAD, SCHEMA, "a checkpoint of chains")
    if head["data"] != mark or head["origins"] != [c.origin for c in chains]:
        raise UnreadableFile(
            f"{folder} is a checkpoint of other rows, another model, other settings or another seed. Give the same "
            "ones, or another folder."
        )
    try:
        with np.load(folder / "arrays.npz", allow_pickle=False) as stored:
            for i, (chain, line) in enumerate(zip(chains, head["chains"], strict=True)):
                _restore(i, chain, line, stored)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise UnreadableFile(f"{folder / 'arrays.npz'} is missing or damaged: {error}.") from error


def _restore(i: int, chain: Chain, line: dict[str, Any], stored: Any) -> None:
    chain.done, chain.n_kept = line["done"], line["kept"]
    chain.rng.bit_generator.state = line["random"]
    for name, array in chain.state._asdict().items():
        if name not in _CACHED:
            array[...] = stored[f"{i}:state:{name}"]
    for name, array in chain.kept._asdict().items():
        array[: chain.n_kept] = stored[f"{i}:kept:{name}"]
