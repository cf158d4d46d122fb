"""Models from the files that XGBoost and LightGBM saved them to."""

import json

import numpy as np
import pytest
from oracles import tree_models as models

from tellwhy.core.errors import UnreadableFile
from tellwhy.explainers import TreeShapley
from tellwhy.explainers.trees import read_trees
from tellwhy.explainers.trees.of_xgboost import decode

BY_NAME = {case[0]: case for case in models.MODELS}
XGBOOST = [
    "XGBoost",
    "XGBoost of three classes",
    "XGBoost with dropout",
    "XGBoost of a frame",
    "XGBoost of a logarithm",
]
LIGHTGBM = ["LightGBM", "LightGBM of three classes", "LightGBM of a frame", "LightGBM's forest"]


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("name", XGBOOST)
def test_saved_xgboost_models_are_those_in_memory(name, suffix, tmp_path):
    _, model, rows, target, _ = BY_NAME[name]
    model.save_model(tmp_path / f"model.{suffix}")
    saved = TreeShapley(tmp_path / f"model.{suffix}", target=target).explain(rows)
    np.testing.assert_array_equal(saved.values, TreeShapley(model, target=target).explain(rows).values)


@pytest.mark.parametrize("name", LIGHTGBM)
def test_saved_lightgbm_models_are_those_in_memory(name, tmp_path):
    _, model, rows, target, _ = BY_NAME[name]
    model.booster_.save_model(tmp_path / "model.txt")
    saved = TreeShapley(str(tmp_path / "model.txt"), target=target).explain(rows)
    np.testing.assert_array_equal(saved.values, TreeShapley(model, target=target).explain(rows).values)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"{",
        b"{}",
        b'{"learner": {}}',
        b"tree\nversion=v4\n",
        b"{L\xff\xff\xff\xff\xff\xff\xff\xff",
        b"{U\x01a" * 200,
    ],
)
def test_other_files_are_answered(content, tmp_path):
    (tmp_path / "model.json").write_bytes(content)
    with pytest.raises(UnreadableFile):
        read_trees(tmp_path / "model.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UnreadableFile, match=r"none\.json.*No such file"):
        read_trees(tmp_path / "none.json")


def test_files_that_end_early_are_refused(tmp_path):
    BY_NAME["XGBoost"][1].save_model(tmp_path / "model.ubj")
    content = (tmp_path / "model.ubj").read_bytes()
    for n in range(1, len(content), len(content) // 50):
        (tmp_path / "cut.ubj").write_bytes(content[:n])
        with pytest.raises(UnreadableFile):
            read_trees(tmp_path / "cut.ubj")


def test_binary_json_is_json(tmp_path):
    model = BY_NAME["XGBoost"][1].get_booster()
    binary = decode(bytes(model.save_raw("ubj")))
    text = json.loads(bytes(model.save_raw("json")))

    def same(a, b):
        if isinstance(b, dict):
            assert set(a) == set(b)
            return all(same(a[key], b[key]) for key in b)
        if isinstance(b, list):
            return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
        return a == b or np.isclose(float(a), float(b), rtol=1e-6)

    assert same(binary, text)
