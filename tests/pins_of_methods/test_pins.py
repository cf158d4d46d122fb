"""What every method finds stays what it was, saved models are read, and names and parameters stay.

`pins.py` says how the file is written anew.
"""

from importlib.util import find_spec

import numpy as np
import pytest
from pins_of_methods.pins import GROUPS, pins
from pins_of_methods.saved_models import SAVED, place
from pins_of_methods.signatures import of_the_package
from threadpoolctl import threadpool_limits

from tellwhy.storage.model_file import read_model_file

HELD = pins()
MEASURES = {group: of() for group, of in GROUPS.items()}
NUMBERS = ("sum", "size", "some")
DIGITS = 1e-9
# What is trained by many small steps: another processor rounds each of them otherwise.
TRAINED = ("DAGMM", "VAE", "KernelBasis", "Pattern")
TRAINED_DIGITS = 1e-6


def digits_of(name):
    return TRAINED_DIGITS if any(word in name for word in TRAINED) else DIGITS


def assert_same(held, found, digits=DIGITS):
    """Assert that arrays are the same to so many digits; another processor may round the last ones otherwise."""
    assert found["shape"] == held["shape"]
    scale = max(float(held["size"]) / max(int(np.prod(held["shape"])), 1), 1e-300)
    for name in NUMBERS:
        wanted = np.asarray(held[name], dtype=np.float64)
        got = np.asarray(found[name], dtype=np.float64)
        atol = digits * (float(held["size"]) if name == "sum" else scale)
        np.testing.assert_allclose(got, wanted, rtol=digits, atol=atol, err_msg=name)


def is_of_another_scikit_learn(name):
    head, _ = read_model_file(place(name))
    import sklearn

    saved_with = head.get("scikit-learn", sklearn.__version__)
    return SAVED[name].of_scikit_learn and saved_with.split(".")[:2] != sklearn.__version__.split(".")[:2]


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, runs in MEASURES.items() for name in runs]
)
def test_values_stay(group, name):
    if group == "saved models" and is_of_another_scikit_learn(name):
        pytest.skip("saved with another version of scikit-learn")
    with threadpool_limits(1):
        found = MEASURES[group][name]()
    held = HELD[group].get(name)
    if held is None:
        pytest.skip("new: it is pinned when the pins are next written")
    assert set(found) == set(held)
    for what, array in held.items():
        assert_same(array, found[what], digits_of(name))


@pytest.mark.skipif(not find_spec("torch"), reason="methods of networks have no signature without PyTorch")
@pytest.mark.parametrize("group", [*GROUPS, "signatures"])
def test_nothing_is_missing(group):
    found = of_the_package() if group == "signatures" else MEASURES[group]
    assert set(HELD[group]) <= set(found)


@pytest.mark.skipif(not find_spec("torch"), reason="methods of networks have no signature without PyTorch")
def test_names_and_parameters_stay():
    found = of_the_package()
    assert {name: found[name] for name in HELD["signatures"]} == HELD["signatures"]


def test_another_value_is_noticed():
    name = next(iter(MEASURES["explainers"]))
    held = HELD["explainers"][name]["values"]
    for change in ({"some": [0.0] * len(held["some"])}, {"sum": held["sum"] + 1e-3}, {"shape": [1]}):
        with pytest.raises(AssertionError):
            assert_same(held, {**held, **change})
