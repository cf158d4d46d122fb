"""Saved models with one part changed in a way that keeps the file sound, then used: no process may end by it.

    python -m fuzzing.model_attacks SEED COUNT PLACE

tries so many changes and writes into PLACE, before each, which it is: who finds a dead process knows what it
was doing. Compiled code that is given a wrong index reads or writes memory that is not its own.
"""

from __future__ import annotations

import io
import json
import resource
import signal
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pins_of_methods.saved_models import SAVED, place

import tellwhy
from tellwhy.core.errors import TellwhyError
from tellwhy.testing.cases import odd_rows
from tellwhy.workflow import explain_new, fit_model
from workflow.models import test_sklearn_files as theirs
from workflow.models.tables import orders

SECONDS = 20  # for one change: numbers of rounds may be changed, too
MEMORY = 24 * 2**30
WORDS = (0, -1, 1, 3, 10**6, 2**31, 1e300, "x", None, True, [], {})


class Sample(NamedTuple):
    """A sound model file, by its members, and what is done with a model that was read from it."""

    name: str
    members: dict[str, bytes]
    use: Callable[[Any], Any]


def of_sklearn(X: Any, model: Any) -> None:
    """Ask a model for all that it gives, and explain two rows."""
    for call in theirs.CALLS:
        if hasattr(model, call):
            attempt(getattr(model, call), X)
    for call in ("apply", "decision_path"):
        if hasattr(model, call):
            attempt(getattr(model, call), X)
    if hasattr(model, "predict") or hasattr(model, "score_samples"):
        attempt(tellwhy.explain, model, X[:2])


def of_rows(numbers: Callable[[Any], Any], model: Any) -> None:
    """Ask one of ours for its numbers, and explain two rows."""
    attempt(numbers, model)
    if hasattr(model, "to_score"):
        attempt(tellwhy.explain, model, odd_rows()[:2])


def of_table(frame: Any, model: Any) -> None:
    """Judge rows of a table."""
    attempt(partial(explain_new, top=1), model, frame)


def attempt(call: Callable[..., Any], *arguments: Any) -> None:
    """Errors of Python's are no harm here."""
    try:
        call(*arguments)
    except Exception:
        return


@cache
def samples() -> list[Sample]:
    """Every kind of model that is saved: scikit-learn's, ours, tables."""
    made = Path("sample.tellwhy")
    found = []
    for case in theirs.CASES:
        X = case[1][:8]
        found.append(
            (type(case[0]).__name__, read(tellwhy.save(theirs.fitted(case), made)), partial(of_sklearn, X))
        )
    for name, saved in SAVED.items():
        found.append((name, read(place(name)), partial(of_rows, saved.numbers)))
    table = orders(120)
    for settings in ({}, {"by": ["country"]}, {"detector": "OneClassSVM"}):
        kept = read(tellwhy.save(fit_model(table, **settings), made))
        found.append(("table", kept, partial(of_table, orders(12, seed=1, bad=False))))
    return [Sample(*each) for each in found]


def read(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def changed(members: dict[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """The members after one change: of an array, or of the head."""
    arrays = [name for name in members if name.endswith(".npy")]
    if arrays and rng.random() < 0.6:
        name = arrays[int(rng.integers(len(arrays)))]
        return members | {name: changed_array(members[name], rng)}
    return members | {"model.json": changed_head(members["model.json"], rng)}


def changed_array(content: bytes, rng: np.random.Generator) -> bytes:
    array = np.load(io.BytesIO(content)).copy()
    target = io.BytesIO()
    np.save(target, SHAPED[int(rng.integers(len(SHAPED)))](array, rng))
    return target.getvalue()


def _one_number(array: Any, rng: np.random.Generator) -> Any:
    """One entry becomes another: an end of the range, the size, a neighbour, the entry beside it."""
    flat = array.reshape(-1)
    if flat.size:
        at = int(rng.integers(flat.size))
        others = (0, 1, 3, array.size, 10**8, 255, flat[at - 1])
        if array.dtype.kind in "if":
            others += (-1, -2, -(10**8), flat[at] + 1, flat[at] - 1)
        flat[at] = np.array(others[int(rng.integers(len(others)))]).astype(array.dtype)
    return array


def _moved(array: Any, rng: np.random.Generator) -> Any:
    """Two entries whose sum stays: counts that still add up."""
    flat = array.reshape(-1)
    if flat.size > 1 and array.dtype.kind in "if":
        flat[0] += 10**8
        flat[int(rng.integers(1, flat.size))] -= 10**8
    return array


SHAPED: tuple[Callable[[Any, np.random.Generator], Any], ...] = (
    _one_number,
    _one_number,
    _one_number,
    _moved,
    lambda array, _: array.T.copy(),
    lambda array, _: array.reshape(-1),
    lambda array, _: array.reshape(1, *array.shape),
    lambda array, _: array.reshape(*array.shape, 1),
    lambda array, _: array[:-1] if array.ndim else array,
    lambda array, _: array[..., :-1] if array.ndim else array,
    lambda array, _: array[:1] if array.ndim else array,
    lambda array, _: array[:0] if array.ndim else array,
    lambda array, _: np.concatenate([array, np.zeros_like(array[:1])]) if array.ndim else array,
    lambda array, _: np.concatenate([array] * 3) if array.ndim else array,
    lambda array, _: array[::-1].copy() if array.ndim else array,
    lambda array, _: np.asfortranarray(array),
    lambda array, _: array.astype(np.float32),
    lambda array, _: array.astype(np.int64),
    lambda array, _: array.astype(np.int32),
    lambda array, _: array.astype(np.uint8),
)


def changed_head(content: bytes, rng: np.random.Generator) -> bytes:
    """JSON with one entry replaced, dropped, doubled, or exchanged with another."""
    head = json.loads(content)
    ways = list(places(head.get("is", head)))  # files of the first schema have no "is"
    owner, key = ways[int(rng.integers(len(ways)))]
    kind = int(rng.integers(8))
    if kind < 3:
        owner[key] = WORDS[int(rng.integers(len(WORDS)))]
    elif kind == 3:
        del owner[key]
    elif kind == 4 and isinstance(owner, list):
        owner.insert(key, owner[key])
    elif kind == 5 and isinstance(owner, list):
        owner.reverse()
    elif kind == 6 and isinstance(owner[key], (int, float)):
        owner[key] = type(owner[key])(owner[key] + (-1) ** int(rng.integers(2)))
    else:
        other, name = ways[int(rng.integers(len(ways)))]
        owner[key] = json.loads(json.dumps(other[name]))
    return json.dumps(head).encode()


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every entry of a piece of JSON: what holds it, and where."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(inside):
        yield value, key
        yield from places(item)


def attack(seed: int, count: int, report: Path) -> dict[str, int]:
    """Change models and use what can be read; say how many were refused, used, and given up."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, _end)
    told = {"refused": 0, "used": 0, "given up": 0}
    path = Path("changed.tellwhy")
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for number in range(seed, seed + count):
        rng = np.random.default_rng(number)
        sample = samples()[number % len(samples())]
        report.write_text(f"{number} {sample.name}")
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in changed(sample.members, rng).items():
                archive.writestr(name, content)
        signal.alarm(SECONDS)
        told[_outcome(sample, path)] += 1
        signal.alarm(0)
    return told


def _outcome(sample: Sample, path: Path) -> str:
    try:
        model = tellwhy.load(path)
        sample.use(model)
    except _GivenUp:
        print("given up:", sample.name, file=sys.stderr)
        return "given up"
    except TellwhyError:
        return "refused"
    return "used"


class _GivenUp(BaseException):
    """One change took too long."""


def _end(*_: Any) -> None:
    raise _GivenUp


if __name__ == "__main__":
    print(json.dumps(attack(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
