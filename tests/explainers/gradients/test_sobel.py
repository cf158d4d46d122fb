"""Edges as a baseline."""

import numpy as np
import pytest

import tellwhy
from tellwhy.core.errors import UnsupportedModel
from tellwhy.detectors import KernelDensity, PatchModel
from tellwhy.explainers import Sobel

RNG = np.random.default_rng(0)


def test_edges_are_those_of_the_filter_written_out():
    images = RNG.normal(size=(2, 6, 7, 3))
    model = PatchModel(KernelDensity(), 3, n_train_patches=30).fit(images)
    found = Sobel(model).explain(images)
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    for k, i, j, c in np.ndindex(2, 6, 7, 3):
        block = padded[k, i : i + 3, j : j + 3, c]
        expected = (block * across).sum() ** 2 + (block * across.T).sum() ** 2
        assert found.values[k, i, j, c] == pytest.approx(expected)
    assert found.kind == "ranking"
    np.testing.assert_allclose(found.scores, model.outlierness(images))


def test_of_series_the_slope_along_time_is_taken():
    series = RNG.normal(size=(2, 20, 2))
    model = PatchModel(KernelDensity(), (4,), n_train_patches=30).fit(series)
    found = tellwhy.explain(model, series, "Sobel").values
    np.testing.assert_allclose(found[:, 1:-1], (series[:, 2:] - series[:, :-2]) ** 2)


def test_rows_of_a_table_have_no_edges():
    with pytest.raises(UnsupportedModel, match="Sobel needs pictures"):
        Sobel(KernelDensity().fit(RNG.normal(size=(20, 4)))).explain(np.zeros((1, 4)))
