"""The few functions that numpy and PyTorch spell differently: the same results, placed alike."""

import numpy as np
import pytest

from tellwhy.optimise import arrays
from tellwhy.optimise.arrays import HOST, Space, on_host

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))


def test_functions(space):
    a, b = space.array(A), space.array(B)
    expected = {
        "row_dot": (A * B).sum(axis=1),
        "row_largest": np.abs(A).max(axis=1),
        "at_least": np.maximum(A, 0.1),
        "joined": np.concatenate([A, B]),
        "true_rows": np.flatnonzero(A[:, 0] > 0),
        "counted": np.arange(7),
        "placed": np.array([1.0, 2.0]),
        "copied": A,
    }
    found = {
        "row_dot": arrays.row_dot(a, b),
        "row_largest": arrays.find_row_largest(a),
        "at_least": arrays.at_least(a, 0.1),
        "joined": arrays.joined(a, b),
        "true_rows": arrays.find_true_rows(a[:, 0] > 0),
        "counted": arrays.counted(a, 7),
        "placed": arrays.placed(a, [1.0, 2.0]),
        "copied": arrays.copy_array(a),
    }
    for name, array in found.items():
        assert type(array) is type(a), name
        np.testing.assert_allclose(on_host(array), expected[name], rtol=1e-14, err_msg=name)
        assert on_host(array).dtype == expected[name].dtype, name
    found["copied"][0, 0] = 99.0
    assert a[0, 0] == A[0, 0]


@pytest.mark.parametrize(
    ("value", "dtype"), [(0.0, "float64"), (2.5, "float64"), (0, "int64"), (True, "bool")]
)
def test_filled_takes_the_type_of_the_value(space, value, dtype):
    found = on_host(arrays.filled(space.array(A), (2, 2), value))
    assert found.dtype == dtype
    assert (found == value).all()


def test_a_tensor_does_not_share_the_users_memory():
    pytest.importorskip("torch")
    rows = A.copy()
    Space("cpu").array(rows)[0, 0] = 99.0
    assert rows[0, 0] == A[0, 0]


def test_room_follows_the_free_memory_of_a_graphics_card(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 5000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 700)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 300)
    assert Space("cuda").room(10) == (1000 + 700 - 300) // 4
    assert Space("cuda").room(9_000) == 9_000
    assert HOST.room(10) == Space("cpu").room(10) == 10
