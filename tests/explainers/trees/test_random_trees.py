"""Trees as no library grows them: edges without training rows, splits that contradict each other, all kinds."""

import numpy as np
import pytest
from oracles.shapley_oracles import shapley_by_definition
from oracles.tree_oracles import background_worth, interactions_by_definition, path_worth, remembered

from tellwhy.explainers import TreeShapley
from tellwhy.explainers.trees.trees import RawTree, TableRows, Trees, join_trees

D = 4
CODES = 2  # the column of categories


def random_tree(rng):
    nodes = {name: [] for name in ("feature", "threshold", "left", "right", "cover", "value", "missing")}
    sets = {}

    def grow(depth, cover):
        place = len(nodes["feature"])
        new = {
            "feature": int(rng.integers(0, D)),
            "threshold": round(float(rng.normal()), 1),
            "left": -1,
            "right": -1,
        }
        new |= {"cover": cover, "value": float(rng.normal()), "missing": int(rng.integers(0, 5))}
        for name, held in new.items():
            nodes[name].append(held)
        if depth < 6 and rng.random() < 0.8:
            if new["feature"] == CODES and rng.random() < 0.5:
                sets[place] = rng.choice(40, 6, replace=False)
            part = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])
            nodes["left"][place] = grow(depth + 1, cover * part)
            nodes["right"][place] = grow(depth + 1, cover * (1.0 - part))
        return place

    grow(0, 100.0)
    return RawTree(**{name: np.array(held) for name, held in nodes.items()}, sets=sets)


def random_rows(rng):
    rows = np.round(rng.normal(size=(2, D)), 1)
    rows[:, CODES] = rng.integers(0, 50, 2)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    return rows


@pytest.mark.parametrize("seed", range(12))
def test_values_and_interactions_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    nodes, value = join_trees([random_tree(rng), random_tree(rng)])
    trees = Trees(
        nodes=nodes,
        value=value,
        output_of=np.zeros(2, dtype=np.int64),
        base=np.array([0.5]),
        explains="a made-up number",
        task="regression",
        n_columns=D,
        read=TableRows(D),
    )
    rows, background = random_rows(rng), random_rows(rng)
    off = ~np.eye(D, dtype=bool)
    by_path = TreeShapley(trees, interactions=True).explain(rows)
    by_rows = TreeShapley(trees, interactions=True).fit(background).explain(rows)
    for i, row in enumerate(rows):
        worths = (path_worth(trees, 0, row), background_worth(trees, 0, row, background))
        for explanation, worth in zip((by_path, by_rows), map(remembered, worths), strict=True):
            np.testing.assert_allclose(explanation.values[i], shapley_by_definition(worth, D), atol=1e-10)
            pairs = interactions_by_definition(worth, D)
            np.testing.assert_allclose(explanation.extras["interactions"][i][off], pairs[off], atol=1e-10)
            np.testing.assert_allclose(explanation.base_values[i], worth(frozenset()), atol=1e-10)
