"""Classes as whole numbers: in order, at least two, and none that was not there before."""

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.core.estimator_rows import find_classes, place_classes


@pytest.mark.parametrize("y", [["b", "a", "b", "c"], [7, 3, 7, 9], [2.0, 1.0, 2.0, 3.0]])
def test_classes_are_numbered_in_order(y):
    classes, labels = find_classes(y, "a model")
    assert classes.tolist() == sorted(set(y))
    assert labels.tolist() == [1, 0, 1, 2]
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(place_classes(y[::-1], classes), labels[::-1])


@pytest.mark.parametrize("y", [["a"] * 3, [1, 1]])
def test_one_class_is_too_few(y):
    with pytest.raises(InvalidInput, match=f"a model needs rows of at least two classes; .*{y[0]!r}"):
        find_classes(y, "a model")


def test_numbers_that_are_no_classes_are_refused():
    with pytest.raises(InvalidInput, match="a model needs classes in y"):
        find_classes([0.5, 1.25, 2.0], "a model")


@pytest.mark.parametrize("new", ["aa", "z"])
def test_a_class_that_is_new_is_named(new):
    with pytest.raises(
        InvalidInput, match=rf"y holds '{new}' in row 1, which is not among the classes \['a', 'b'\]"
    ):
        place_classes(["b", new, "a"], np.array(["a", "b"]))
