"""Values as JSON and arrays: each comes back as it was, and nothing that would not is written."""

import json
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from tellwhy.core.errors import CannotWrite
from tellwhy.storage.codec import Decoder, Encoder, describe_part
from tellwhy.storage.documents import Misfit


@dataclass(frozen=True)
class Pair:
    left: float
    right: float

    def _require(self):
        yield "left", type(self.left), float
        yield "right", self.right > self.left, True


class Model(BaseEstimator):
    _parameters: ClassVar[dict] = {}

    def __init__(self, size=1):
        self.size = size


class Given:
    """The two classes above, and nothing else."""

    def part(self, name):
        found = {"Pair": Pair, "Model": Model}.get(name)
        return found and describe_part(found)

    def name_of(self, cls):
        return cls.__name__


PARTS = Given()


def there_and_back(value):
    encoder = Encoder(PARTS)
    text = json.dumps(encoder.encoded(value, "it"))
    return Decoder(PARTS, encoder.arrays).decoded(json.loads(text), "it")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2.5,
        "ç",
        np.inf,
        [1, [2.0, "a"]],
        (1, (2, None)),
        {},
        {"a": {"b": 1}},
        {"type": "array", "is": "a trap"},
        {1: "one", (2, "x"): "pair"},
        Pair(1.0, 2.0),
        [Pair(1.0, 2.0)],
    ],
    ids=repr,
)
def test_values_come_back(value):
    again = there_and_back(value)
    assert again == value
    assert type(again) is type(value)


def test_numbers_of_numpy_become_pythons():
    for value, expected in ((np.int32(3), 3), (np.float32(0.5), 0.5), (np.bool_(True), True)):
        again = there_and_back(value)
        assert again == expected
        assert type(again) is type(expected)
    assert np.isnan(there_and_back(float("nan")))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3, dtype=np.int16),
        np.zeros((2, 0)),
        np.array(2.5),
        np.array([True, False]),
        np.array(["a", "ç"], dtype=object),
        np.array(["a", "ç"]),
    ],
    ids=repr,
)
def test_arrays_come_back(array):
    again = there_and_back({"x": array})["x"]
    np.testing.assert_array_equal(again, array)
    assert (again.dtype.kind, again.shape) == (array.dtype.kind, array.shape)
    assert array.dtype.kind in "OU" or again.dtype == array.dtype


def test_sparse_tables_come_back():
    table = sparse.csr_array(np.array([[0.0, 1.5], [0.0, 0.0]]))
    again = there_and_back(table)
    assert (again != table).nnz == 0
    assert again.shape == (2, 2)


def test_estimators_come_back_without_sources_of_random_numbers():
    model = Model(size=np.random.default_rng(0))
    model.found_ = np.arange(3)
    again = there_and_back([model])[0]
    assert again.size is None
    np.testing.assert_array_equal(again.found_, model.found_)


class Point(NamedTuple):
    x: int


class Pairs(Pair):
    pass


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Point(1), "it holds Point"),
        (Pairs(1.0, 2.0), "it holds Pairs"),
        (type("Pair", (), {})(), "it holds Pair"),
        (print, "it holds builtin_function_or_method"),
        (np.array([{}], dtype=object), "it holds neither numbers nor text"),
        (np.array([["a"]]), "it holds neither numbers nor text"),
        (np.array([1j]), "it holds neither numbers nor text"),
    ],
    ids=["point", "pairs", "pair", "function", "objects", "texts", "complex"],
)
def test_what_would_not_come_back_is_not_written(value, told):
    with pytest.raises(CannotWrite, match=told):
        Encoder(PARTS).encoded(value, "it")
    with pytest.raises(CannotWrite, match=told.replace("it holds", r"it\.0\.deep holds")):
        Encoder(PARTS).encoded([{"deep": value}], "it")


def of(kind, **fields):
    return {"type": kind, "is": fields}


@pytest.mark.parametrize(
    ("value", "key", "told"),
    [
        ({"is": 1}, "it", "'type' is missing"),
        (of("Pair", left=2.0, right=1.0), "it.right", "right cannot be right"),
        (of("Pair", left="a", right=1.0), "it.left", "is <class 'str'>, expected <class 'float'>"),
        (of("Pair", left=1.0), "it", "missing 1 required positional argument"),
        (of("mapping", deep=of("Pair", left=2.0, right=1.0)), "it.deep.right", "do not fit together"),
        ({"type": "list", "is": [1, of("Nobody")]}, "it.1", "names 'Nobody'"),
        (of("Model", params={}, learned={}), "it.params", "'type' is missing"),
        (of("Model", params=of("mapping", nonsense=1), learned=of("mapping")), "it.params", "nonsense"),
        (
            of("Model", params=of("mapping"), learned=of("mapping", size=1)),
            "it.learned.size",
            "nothing that it",
        ),
        (of("sparse", shape=1), "it", "'data' is missing"),
    ],
    ids=str,
)
def test_misfits_name_their_key(value, key, told):
    with pytest.raises(Misfit) as found:
        Decoder(PARTS, {}).decoded(value, "it")
    assert told in str(found.value)
    assert found.value.key == key
