"""Chains on disk: `chains.json` (how far, random numbers) and `arrays.npz`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.errors import UnreadableFile
from tellwhy.storage.documents import Arrays, Format

if TYPE_CHECKING:
    from tellwhy.explainers.surrogate.conditionals.state import Data, Numbers
    from tellwhy.explainers.surrogate.sampler import Chain, Settings

FORMAT = Format(
    "a checkpoint of chains",
    "chains.json",
    keys={"data": (str,), "chains": (list,), "origins": (list,)},
    is_compressed=False,  # written every few seconds
)
_CACHED = ("gram", "moment", "member")  # summed anew at the start of every block


def fingerprint(data: Data, numbers: Numbers, settings: Settings) -> str:
    """SHA-256 of all that the draws depend on but the seed."""
    sizes = asdict(settings)
    sizes.pop(
        "max_seconds"
    )  # how long chains may take does not change their draws: they go on with more time
    digest = hashlib.sha256(json.dumps([list(numbers), sizes]).encode())
    for array in data:
        digest.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save(folder: Path, mark: str, chains: list[Chain]) -> None:
    """Write how far the chains are, whole or not at all."""
    arrays: Arrays = {}
    for i, chain in enumerate(chains):
        for name, array in _state(chain).items():
            arrays[f"{i}:state:{name}"] = array
        for name, array in chain.kept._asdict().items():
            arrays[f"{i}:kept:{name}"] = array[: chain.n_kept]
    head = {
        "data": mark,
        "chains": [{"done": c.done, "kept": c.n_kept, "random": c.rng.bit_generator.state} for c in chains],
        "origins": [c.origin for c in chains],
    }
    FORMAT.write(folder, head, arrays)


def _state(chain: Chain) -> Arrays:
    return {name: array for name, array in chain.state._asdict().items() if name not in _CACHED}


def resume(folder: Path, mark: str, chains: list[Chain]) -> None:
    """Put chains where they were, if there is a checkpoint; refuse one of other data, settings or seeds."""
    if not FORMAT.is_in(folder):
        return
    head, arrays = FORMAT.read(folder)
    if head["data"] != mark or head["origins"] != [c.origin for c in chains]:
        raise UnreadableFile(
            f"{folder} is a checkpoint of other rows, another model, other settings or another seed. Give "
            "the same ones, or another folder."
        )
    for i, chain in enumerate(chains):
        with FORMAT.reading(folder, f"chains.{i}"):
            _restore(i, chain, head["chains"][i], arrays)


def _restore(i: int, chain: Chain, line: dict[str, Any], arrays: Arrays) -> None:
    chain.done = line["done"]
    chain.n_kept = line["kept"]
    chain.rng.bit_generator.state = line["random"]
    for name, array in _state(chain).items():
        _fill(array, arrays[f"{i}:state:{name}"])
    for name, array in chain.kept._asdict().items():
        _fill(array[: chain.n_kept], arrays[f"{i}:kept:{name}"])


def _fill(array: Any, stored: Any) -> None:
    # numpy would repeat a shorter array, and cut the digits of numbers put among whole ones.
    if (array.shape, array.dtype) != (stored.shape, stored.dtype):
        raise ValueError(f"it holds {stored.dtype} of shape {stored.shape}, not {array.dtype} {array.shape}")
    array[...] = stored
