"""What a mask hides is missing, in every door that takes arrays."""

import numpy as np
import pytest

from tellwhy.core.arrays import as_floats, take_rows, unpack_mask
from tellwhy.core.errors import InvalidInput
from tellwhy.core.estimator_rows import find_classes
from tellwhy.data.table import as_table
from tellwhy.detectors import KernelDensity


@pytest.fixture
def rows():
    X = np.ma.masked_array(np.random.default_rng(0).normal(size=(30, 3)), mask=np.zeros((30, 3), bool))
    X[4, 1] = 1e9
    X[4, 1] = np.ma.masked
    return X


def test_hidden_cells_are_missing(rows):
    plain = unpack_mask(rows)
    assert type(plain) is np.ndarray
    assert np.argwhere(np.isnan(plain)).tolist() == [[4, 1]]
    assert np.isnan(take_rows(rows, [4])[0, 1])
    assert as_table(rows).frame.isna().sum().sum() == 1
    words = unpack_mask(np.ma.masked_array(["a", "b"], mask=[False, True]))
    assert words.tolist() == ["a", None]


def test_models_name_the_hidden_cell(rows):
    with pytest.raises(InvalidInput, match="NaN in row 4, column 1"):
        KernelDensity().fit(rows)
    with pytest.raises(InvalidInput, match="NaN in row 4, column 1"):
        as_floats(rows)


def test_a_mask_that_hides_nothing_changes_nothing(rows):
    plain = np.ma.masked_array(rows.data.copy(), mask=False)
    np.testing.assert_array_equal(unpack_mask(plain), rows.data)


def test_hidden_classes_are_refused():
    with pytest.raises(InvalidInput, match="y is masked in row 2"):
        find_classes(np.ma.masked_array([0, 1, 1, 0], mask=[False, False, True, False]), "a classifier")
