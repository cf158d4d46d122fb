"""Saved latent-class models: the same bits again, on any graph, and nothing that compiled code would stumble over."""

import numpy as np
import pytest

from storage.changed_files import array_of, edited, with_arrays
from tellwhy import detectors
from tellwhy.bases import KernelBasis
from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.data.graphs import chain, grid, knn_graph
from tellwhy.detectors import LCCAD, PCADetector
from tellwhy.explainers import LatentClassDTD

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2)) + 3.0 * np.repeat([0, 1, 0], 40)[:, None]
THERE = RNG.random(120) > 0.1
HOLED = np.where(THERE[:, None], X, np.nan)
BASIS = KernelBasis(n_features=16, random_state=0)
KINDS = {
    "chain": (X, chain(120), {}),
    "missing nodes": (HOLED, chain(120, mask=THERE), {}),
    "grid": (X, grid((10, 12), 8), {"nu": 0.5}),
    "volume": (X, grid((2, 5, 12), 6), {"loss": "squared"}),
    "edges": (X, knn_graph(X, 4), {"features": BASIS}),
    "no edges, single": (X.astype(np.float32), None, {"prior": "mrf", "gamma": 1.0}),
}


def fitted(kind):
    rows, graph, options = KINDS[kind]
    return LCCAD(2, 0.2, n_init=1, random_state=0, **options).fit(rows, graph)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_again(kind, tmp_path):
    model = fitted(kind)
    again = detectors.load(model.save(tmp_path / "model"))
    assert set(vars(again)) == set(vars(model))
    np.testing.assert_array_equal(again.outlierness(), model.outlierness())
    new = X[:30], chain(30)
    np.testing.assert_array_equal(again.predict(*new), model.predict(*new))
    np.testing.assert_array_equal(again.outlierness(*new), model.outlierness(*new))
    np.testing.assert_array_equal(
        LatentClassDTD(again).explain().values, LatentClassDTD(model).explain().values
    )


def test_saving_does_not_touch_the_model(tmp_path):
    model = fitted("missing nodes")
    model.save(tmp_path / "model")
    assert np.isnan(model.training_X_).any()


def test_a_class_reads_its_own_kind_only(tmp_path):
    folder = fitted("chain").save(tmp_path / "model")
    assert isinstance(LCCAD.load(folder), LCCAD)
    with pytest.raises(UnreadableFile, match="holds a LCCAD, not a PCADetector"):
        PCADetector.load(folder)


def test_a_loss_of_ones_own_cannot_be_written(tmp_path):
    model = LCCAD(2, 0.2, loss=lambda z: np.maximum(z, 0.0), n_init=1, random_state=0).fit(X, chain(120))
    with pytest.raises(CannotWrite, match=r"params.loss holds function"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def swapped(array):
    return array[::-1].copy()


BREAKS = {
    "labels beyond the classes": ("labels_", lambda a: a + 5),
    "fewer labels": ("labels_", lambda a: a[:-1]),
    "no label for a node": ("labels_", lambda a: np.full_like(a, -1)),
    "other centres": ("centres_", lambda a: a[:, :1]),
    "other couplings": ("couplings_", lambda a: a[:1]),
    "other emissions": ("emissions_", lambda a: a[:, 1:]),
    "other radii": ("squared_radii_", lambda a: a[:1]),
    "fewer rows": ("training_X_", lambda a: a[:-1]),
    "neighbours beyond the nodes": ("graph_.indices", lambda a: a + 120),
    "negative neighbours": ("graph_.indices", lambda a: -1 - a),
    "edges that are not mutual": ("graph_.indices", swapped),
    "wrong twins": ("graph_.reverse", swapped),
    "twins beyond the edges": ("graph_.reverse", lambda a: a + 10_000),
    "falling starts": ("graph_.indptr", swapped),
    "starts beyond the edges": ("graph_.indptr", lambda a: a + 1),
    "small numbers": ("graph_.indptr", lambda a: a.astype(np.int16)),
}


@pytest.mark.parametrize("name", BREAKS)
def test_parts_that_do_not_fit_are_refused(name, tmp_path):
    path = fitted("edges").save(tmp_path / "model")
    part, break_it = BREAKS[name]
    with_arrays(path, {part: break_it(array_of(path, part))})
    with pytest.raises(UnreadableFile, match="does not hold a working LCCAD"):
        detectors.load(path)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("neighbours", 5),
        ("neighbours", 26),
        ("shape", {"type": "tuple", "is": [10, 13]}),
        ("shape", {"type": "tuple", "is": [-10, -12]}),
        ("shape", {"type": "tuple", "is": []}),
        ("mask", {"type": "array", "is": "model.learned.labels_"}),
    ],
    ids=str,
)
def test_grids_that_are_none_are_refused(part, value, tmp_path):
    path = fitted("grid").save(tmp_path / "model")
    edited(path, ("learned", "graph_", "is", part), value)
    with pytest.raises(UnreadableFile, match="does not hold a working LCCAD"):
        detectors.load(path)
