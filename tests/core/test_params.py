"""Declared parameter validation: one sentence that names parameter, owner, expectation and value."""

import numpy as np
import pytest

from tellwhy.core import params
from tellwhy.core.errors import InvalidParameter


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (params.real(0, 1, closed="right"), [1, 0.5, np.float32(0.2)], [0, 1.1, "a", None, True, np.nan, 1j]),
        (params.real(0, 1, closed="left"), [0, 0.5], [1, -0.1]),
        (params.real(0, 1, closed="both"), [0, 1], [-1e-9, 1 + 1e-9]),
        (params.real(0, np.inf, closed="both"), [0, 1e300], [np.inf, np.nan, -np.inf]),
        (params.integer(1, 5), [1, 5, np.int64(3)], [0, 6, 2.0, True, "3"]),
        (params.one_of("auto", 3), ["auto", 3], ["Auto", 3.0, None]),
        (params.boolean, [True, np.bool_(False)], [0, 1, "yes"]),
        (params.none, [None], [0, ""]),
        (params.function, [len, lambda: 0], ["len", 3]),
        (params.instance_of(list), [[], [1]], [(1,), "a"]),
        (params.seed, [None, 0, np.random.default_rng(0), np.random.RandomState(0)], [-1, 1.5, "x", True]),
    ],
)
def test_rules(rule, good, bad):
    for value in good:
        params.validate_value("Owner", "p", value, rule)
    for value in bad:
        with pytest.raises(InvalidParameter, match="The 'p' parameter of Owner must be"):
            params.validate_value("Owner", "p", value, rule)


def test_alternatives_are_all_named():
    with pytest.raises(InvalidParameter) as raised:
        params.validate_value("SVM", "bandwidth", -1, (params.one_of("auto"), params.real(0)))
    assert str(raised.value) == (
        "The 'bandwidth' parameter of SVM must be 'auto' or a float in (0, inf). Got -1 instead."
    )


def test_generator_accepts_every_kind_of_seed():
    assert params.generator(7).random() == params.generator(7).random()
    shared = np.random.default_rng(1)
    assert params.generator(shared) is shared
    a, b = (params.generator(np.random.RandomState(3)).random() for _ in range(2))
    assert a == b
