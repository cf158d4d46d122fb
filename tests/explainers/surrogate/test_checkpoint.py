"""Damaged checkpoints of chains: every one is told with its file and key, none changes a draw in silence."""

import json

import numpy as np
import pytest

from tellwhy.core.errors import UnreadableFile
from tellwhy.explainers.surrogate.chains import Priors, design
from tellwhy.explainers.surrogate.sampler import Settings, sample

DATA = design(np.random.default_rng(0).normal(size=(12, 2)), np.arange(12.0))
SETTINGS = Settings(n_components=2, n_sweeps=20, n_burn=20, n_chains=2)


def run(folder):
    return sample(DATA, Priors(), SETTINGS, rng=np.random.default_rng(1), folder=folder)


@pytest.fixture
def saved(tmp_path):
    run(tmp_path / "chains")
    return tmp_path / "chains"


@pytest.mark.parametrize("key", ["data", "chains", "origins"])
def test_a_missing_key_is_named(saved, key):
    head = json.loads((saved / "chains.json").read_text())
    del head[key]
    (saved / "chains.json").write_text(json.dumps(head))
    with pytest.raises(UnreadableFile, match=rf"chains\.json lacks '{key}'"):
        run(saved)


@pytest.mark.parametrize(
    ("key", "value"),
    [("random", "none"), ("random", {"bit_generator": "MT19937"}), ("done", None), ("kept", "many")],
    ids=str,
)
def test_a_line_that_is_damaged_is_named(saved, key, value):
    head = json.loads((saved / "chains.json").read_text())
    if value is None:
        del head["chains"][1][key]
    else:
        head["chains"][1][key] = value
    (saved / "chains.json").write_text(json.dumps(head))
    with pytest.raises(UnreadableFile, match=r"chains\.json \(with arrays.npz .*damaged: key 'chains\.1'"):
        run(saved)


@pytest.mark.parametrize(
    "change", [lambda a: a[:1], lambda a: a.astype(np.float32), lambda a: a[..., None]], ids=range(3)
)
@pytest.mark.parametrize("name", ["1:state:coef", "1:kept:coef"])
def test_arrays_that_do_not_fit_are_refused(saved, name, change):
    with np.load(saved / "arrays.npz") as stored:
        arrays = dict(stored)
    np.savez(saved / "arrays.npz", **{**arrays, name: change(arrays[name])})
    with pytest.raises(UnreadableFile, match=r"damaged: key 'chains\.1', it holds float"):
        run(saved)
    del arrays[name]
    np.savez(saved / "arrays.npz", **arrays)
    with pytest.raises(UnreadableFile, match=rf"key 'chains\.1', '{name}' is missing"):
        run(saved)
