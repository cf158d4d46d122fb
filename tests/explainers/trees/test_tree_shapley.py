"""Values of trees against enumeration, shap and the libraries' predictions; trees as no library grows them."""

import numpy as np
import pandas as pd
import pytest

BOOSTED = {
    "histogram": lambda: HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=5),
    "xgboost": lambda: pytest.importorskip("xgboost").XGBRegressor(n_estimators=8, max_depth=3),
    "lightgbm": lambda: pytest.importorskip("lightgbm").LGBMRegressor(
        n_estimators=8, min_child_samples=5, verbose=-1
    ),
}

from dataclasses import replace  # noqa: E402

from oracles import tree_models as models  # noqa: E402
from oracles.shapley_oracles import shapley_by_definition  # noqa: E402
from oracles.tree_oracles import background_worth, interactions_by_definition, path_worth, remembered  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler  # noqa: E402
from sklearn.tree import DecisionTreeRegressor  # noqa: E402

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel  # noqa: E402
from tellwhy.explainers import TreeShapley  # noqa: E402
from tellwhy.explainers.trees import TreeScore, read_trees  # noqa: E402
from tellwhy.explainers.trees.trees import (  # noqa: E402
    RawTree,
    TableRows,
    Trees,
    join_trees,
)

MODELS = models.MODELS


IDS = [case[0] for case in MODELS]


X, Y, THREE = models.X, models.Y, models.THREE


def some(rows, *places):
    return rows.iloc[list(places)] if hasattr(rows, "iloc") else rows[list(places)]


@pytest.mark.parametrize(("name", "model", "rows", "target", "output"), MODELS, ids=IDS)
def test_scores_are_what_the_library_gives(name, model, rows, target, output):
    explanation = TreeShapley(model, target=target).explain(rows)
    single = "XGBoost" in name  # which adds in single precision
    np.testing.assert_allclose(explanation.scores, output(rows), rtol=0, atol=3e-6 if single else 1e-12)
    np.testing.assert_allclose(explanation.residual, 0.0, atol=1e-12)


@pytest.mark.parametrize(("name", "model", "rows", "target", "output"), MODELS, ids=IDS)
def test_values_are_those_of_the_definition(name, model, rows, target, output):
    score = TreeScore(read_trees(model), target)
    few, background = some(rows, 3, 40), some(rows, 7, 90, 91)
    Z, B = score.trees.read(few), score.trees.read(background)
    by_path = TreeShapley(model, target=target).explain(few)
    by_rows = TreeShapley(model, target=target).fit(background).explain(few)
    which = int(score.targets(Z).output[0])
    for i, z in enumerate(Z):
        worth = remembered(path_worth(score.trees, which, z))
        np.testing.assert_allclose(by_path.values[i], shapley_by_definition(worth, models.D), atol=1e-10)
        np.testing.assert_allclose(by_path.base_values[i], worth(frozenset()), atol=1e-10)
        worth = remembered(background_worth(score.trees, which, z, B))
        np.testing.assert_allclose(by_rows.values[i], shapley_by_definition(worth, models.D), atol=1e-10)
        np.testing.assert_allclose(by_rows.base_values[i], worth(frozenset()), atol=1e-10)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("place", [0, 5, 17, 26])
def test_interactions_are_those_of_the_definition(place, given):
    _, model, rows, target, _ = MODELS[place]
    background = some(rows, 7, 90) if given else None
    explainer = TreeShapley(model, target=target, interactions=True)
    explanation = (explainer.fit(background) if given else explainer).explain(some(rows, 3))
    score = TreeScore(read_trees(model), target)
    z = score.trees.read(some(rows, 3))[0]
    which = int(score.targets(z[None]).output[0])
    worth = path_worth(score.trees, which, z)
    if given:
        worth = background_worth(score.trees, which, z, score.trees.read(background))
    found = explanation.extras["interactions"][0]
    expected = interactions_by_definition(remembered(worth), models.D)
    off = ~np.eye(models.D, dtype=bool)
    np.testing.assert_allclose(found[off], expected[off], atol=1e-10)
    np.testing.assert_allclose(found.sum(axis=1), explanation.values[0], atol=1e-10)


def deep_forest():
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(500, 30))
    return wide, RandomForestRegressor(6, random_state=0).fit(wide, wide[:, :8].prod(axis=1) + wide[:, 9])


@pytest.mark.parametrize("given", [False, True])
def test_deep_trees_of_many_columns_agree_with_shap(given):
    shap = pytest.importorskip("shap")
    wide, model = deep_forest()
    assert max(tree.tree_.max_depth for tree in model.estimators_) > 14  # beyond what tables are made for
    background = wide[100:140] if given else None
    how = "interventional" if given else "tree_path_dependent"
    peer = shap.TreeExplainer(model, background, feature_perturbation=how)
    explainer = TreeShapley(model)
    ours = (explainer.fit(background) if given else explainer).explain(wide[:70])
    np.testing.assert_allclose(ours.values, peer.shap_values(wide[:70], check_additivity=False), atol=1e-6)


def chain(n_columns):
    """A tree whose longest path meets every column, each of which tells one row from all others."""
    return DecisionTreeRegressor(random_state=0).fit(np.eye(n_columns), 1.5 ** np.arange(n_columns))


@pytest.mark.parametrize("n_columns", [9, 40, 70])  # tables, numbers of bits, and pairs one by one
def test_paths_of_any_number_of_columns_agree_with_the_closed_form(n_columns):
    model = chain(n_columns)
    rng = np.random.default_rng(0)
    rows, background = rng.integers(0, 2, size=(2, 40, n_columns)).astype(float)
    explanation = TreeShapley(model).fit(background).explain(rows)
    np.testing.assert_allclose(explanation.residual, 0.0, atol=1e-12 * 1.5**n_columns)
    # a column that no background row has otherwise than the row gets nothing
    same = TreeShapley(model).fit(rows[:1]).explain(rows[:1])
    assert not same.values.any()
    # with one background row that differs in one column, that column gets the whole change
    other = rows[:1].copy()
    other[0, n_columns // 2] = 1.0 - other[0, n_columns // 2]
    single = TreeShapley(model).fit(other).explain(rows[:1])
    change = model.predict(rows[:1]) - model.predict(other)
    np.testing.assert_allclose(single.values[0, n_columns // 2], change[0], rtol=1e-12)
    assert np.count_nonzero(single.values) <= 1


def test_pairs_are_worth_the_same_leaf_by_leaf_and_one_by_one(monkeypatch):
    model = chain(12)
    rows, background = np.random.default_rng(1).integers(0, 2, size=(2, 30, 12)).astype(float)
    expected = TreeShapley(model).fit(background).explain(rows).values
    monkeypatch.setattr("tellwhy.explainers.trees.tree_values.BITS", 0)  # no tree is short enough for leaves
    found = TreeShapley(model).fit(background).explain(rows).values
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert np.abs(expected).max() > 1


def test_an_isolation_forest_agrees_with_shap():
    shap = pytest.importorskip("shap")
    forest = IsolationForest(random_state=0).fit(X)
    peer = shap.TreeExplainer(forest).shap_values(X)  # mean lengths of paths
    unit = 2.0 * (np.log(159) + np.euler_gamma) - 2.0 * 159 / 160
    np.testing.assert_allclose(TreeShapley(forest).explain(X).values, -peer / unit, atol=1e-6)


def test_the_anomaly_score_is_a_power_of_two():
    forest = IsolationForest(random_state=0, contamination=0.1).fit(X)
    explanation = TreeShapley(forest).explain(X)
    np.testing.assert_allclose(explanation.extras["anomaly_score"], -forest.score_samples(X), rtol=1e-12)
    assert "log₂ of the anomaly score" in explanation.params["explains"]
    flagged = explanation.scores > TreeShapley(forest).score.threshold
    np.testing.assert_array_equal(flagged, forest.predict(X) == -1)


def test_rows_do_not_depend_on_batches_and_threads():
    wide, model = deep_forest()
    together = TreeShapley(model, n_jobs=2).explain(wide)
    alone = TreeShapley(model, n_jobs=1).explain(wide)
    np.testing.assert_array_equal(together.values, alone.values)
    np.testing.assert_allclose(
        TreeShapley(model).explain(wide[300:301]).values[0], together.values[300], atol=1e-14
    )


def test_classes_are_chosen_by_name_or_as_predicted():
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, models.TWO)
    yes = TreeShapley(model, target="yes").explain(X)
    no = TreeShapley(model, target="no").explain(X)
    np.testing.assert_array_equal(yes.values, -no.values)
    predicted = TreeShapley(model, target="predicted").explain(X)
    np.testing.assert_array_equal(predicted.extras["explained"], model.predict(X))
    assert (predicted.scores >= 0).all()
    assert "class 'yes'" in TreeShapley(model).explain(X).params["explains"]
    three = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, THREE)
    explanation = TreeShapley(three).explain(X)
    np.testing.assert_array_equal(explanation.extras["explained"], three.predict(X))
    np.testing.assert_allclose(explanation.scores, three.decision_function(X).max(axis=1))
    with pytest.raises(InvalidParameter, match=r"one of the classes \['no', 'yes'\]"):
        TreeShapley(model, target="maybe").explain(X)


def coded_pipeline():
    frame = models.FRAME[["a", "e", "b"]].assign(f=np.where(models.FRAME.c > 0, "up", "down"))
    coder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["e", "f"]), (StandardScaler(), ["b"]), ("passthrough", ["a"])
    )
    forest = RandomForestRegressor(5, max_depth=6, random_state=0)
    return frame, make_pipeline(coder, forest).fit(frame, Y + 2.0 * (frame.f == "up") * (frame.e == "red"))


def test_a_column_that_was_encoded_as_several_is_one_player():
    frame, model = coded_pipeline()
    few, background = frame.iloc[[3, 40]], frame.iloc[[7, 90, 91]]
    explanation = TreeShapley(model, interactions=True).fit(background).explain(few)
    assert explanation.feature_names == ["a", "e", "b", "f"]
    np.testing.assert_allclose(explanation.scores, model.predict(few))
    for i in range(2):

        def worth(present, row=few.iloc[[i]]):
            mixed = background.copy()
            for j in present:
                mixed.iloc[:, j] = row.iloc[0, j]
            return model.predict(mixed).mean()

        worth = remembered(worth)
        np.testing.assert_allclose(explanation.values[i], shapley_by_definition(worth, 4), atol=1e-10)
        pairs = interactions_by_definition(worth, 4)
        off = ~np.eye(4, dtype=bool)
        np.testing.assert_allclose(explanation.extras["interactions"][i][off], pairs[off], atol=1e-10)


def test_columns_encoded_as_several_follow_training_rows_as_one_player():
    frame, model = coded_pipeline()
    explanation = TreeShapley(model, interactions=True).explain(frame.iloc[[3]])
    trees = read_trees(model[-1])
    z = model[:-1].transform(frame.iloc[[3]])[0]
    owner = as_score_owner(model)

    def worth(present):
        return path_worth(trees, 0, z)({j for j in range(len(z)) if owner[j] in present})

    np.testing.assert_allclose(explanation.values[0], shapley_by_definition(remembered(worth), 4), atol=1e-10)
    np.testing.assert_allclose(explanation.extras["interactions"].sum(axis=2), explanation.values, atol=1e-10)


def as_score_owner(model):
    return TreeShapley(model).score.owner


def with_gaps():
    """Rows with empty cells, texts among them, and what depends on both."""
    frame = models.FRAME[["a", "b", "c"]].astype(float)
    frame[np.random.default_rng(5).random(frame.shape) < 0.2] = np.nan
    frame["town"] = np.where(np.arange(len(frame)) % 3 == 0, "Ulm", "Bonn")
    target = frame.a.fillna(3.0) + frame.b.isna() * (frame.town == "Ulm")
    return frame, target


def as_categories(frame):
    return frame.assign(town=frame.town.astype(pd.CategoricalDtype(["Bonn", "Ulm"])))


ONE_HOT = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")


ALL_SPARSE = make_column_transformer(
    (OneHotEncoder(), ["town"]), remainder="passthrough", sparse_threshold=1.0
)


CATEGORIES = FunctionTransformer(as_categories, feature_names_out="one-to-one")


@pytest.mark.parametrize("encode", [ONE_HOT, ALL_SPARSE, CATEGORIES], ids=["dense", "sparse", "categories"])
@pytest.mark.parametrize("name", BOOSTED)
def test_empty_cells_categories_and_sparse_columns_in_pipelines(name, encode):
    if encode is CATEGORIES and name == "xgboost":
        pytest.skip("XGBoost asks for enable_categorical")
    if encode is ALL_SPARSE and name == "histogram":
        pytest.skip("histogram boosting takes dense rows only")
    frame, target = with_gaps()
    model = make_pipeline(encode, BOOSTED[name]()).fit(frame, target)
    few, background = frame.iloc[[3, 40]], frame.iloc[[7, 90, 91]]
    explanation = TreeShapley(model).fit(background).explain(few)
    np.testing.assert_allclose(explanation.scores, model.predict(few), rtol=1e-5, atol=1e-6)
    for i in range(2):

        def worth(present, row=few.iloc[[i]]):
            mixed = background.copy()
            for j in present:
                mixed.iloc[:, j] = row.iloc[0, j]
            return float(model.predict(mixed).mean())

        expected = shapley_by_definition(remembered(worth), 4)
        np.testing.assert_allclose(explanation.values[i], expected, atol=1e-6)


def test_a_pipeline_whose_trees_are_misread_is_refused(monkeypatch):
    model = make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0)).fit(X, Y)
    read = read_trees(model[-1])
    wrong = replace(read, value=read.value + 0.01)
    monkeypatch.setattr("tellwhy.explainers.trees.tree_shapley.read_trees", lambda _: wrong)
    with pytest.raises(UnsupportedModel, match="its trees sum to"):
        TreeShapley(model).explain(X[:5])


def test_pipelines_round_cells_as_their_trees_do():
    # split at 1 + 2⁻²³; a cell just above it is equal to it in single precision, and goes left
    identity = FunctionTransformer(feature_names_out="one-to-one")
    model = make_pipeline(identity, DecisionTreeRegressor()).fit([[1.0], [1.0 + 2.0**-22]], [0.0, 1.0])
    cell = np.array([[1.0 + 2.0**-23 + 1e-10]])
    assert model.predict(cell) == 0.0 < model[-1].tree_.threshold[0] < cell[0, 0]
    assert TreeShapley(model).explain(cell).scores == 0.0


def test_encodings_that_mix_columns_are_answered():
    model = make_pipeline(PCA(2), RandomForestRegressor(3)).fit(X, Y)
    with pytest.raises(UnsupportedModel, match="mixes them"):
        TreeShapley(model).explain(X)


def test_background_rows_are_drawn_and_told():
    model = RandomForestRegressor(5, random_state=0).fit(X, Y)
    explanation = TreeShapley(model, max_background=50).fit(X).explain(X[:4])
    assert explanation.params["background"] == "50 of 160 given rows"
    all_rows = TreeShapley(model).fit(X).explain(X[:4])
    np.testing.assert_allclose(all_rows.base_values, model.predict(X).mean())


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (X[:, :4], "4 columns"),
        (np.where(X > 2, np.inf, X), "infinity"),
        (np.array([["a"] * 5]), "expected a number"),
    ],
)
def test_bad_rows_are_refused(rows, words):
    with pytest.raises(InvalidInput, match=words):
        TreeShapley(MODELS[0][1]).explain(rows)


def test_sparse_rows_and_other_models_are_answered():
    from scipy.sparse import csr_matrix

    with pytest.raises(InvalidInput, match=r"X\.toarray\(\)"):
        TreeShapley(MODELS[0][1]).explain(csr_matrix(X))
    with pytest.raises(UnsupportedModel, match="no model of trees"):
        TreeShapley(LogisticRegression().fit(X, THREE)).explain(X)
    assert read_trees(LogisticRegression()) is None


FRAMES = [case for case in MODELS if case[0].endswith("of a frame")]


@pytest.mark.parametrize(("name", "model", "rows", "target", "output"), FRAMES, ids=[c[0] for c in FRAMES])
def test_splits_on_categories_are_read_and_follow_the_words_not_the_codes(name, model, rows, target, output):
    trees = read_trees(model)
    splits = trees.nodes.feature >= 0
    assert (np.diff(trees.nodes.sets[splits], axis=1) > 0).any()
    turned = rows.assign(e=rows.e.cat.reorder_categories(rows.e.cat.categories[::-1]))
    expected = TreeShapley(model, target=target).explain(rows).values
    np.testing.assert_allclose(TreeShapley(model, target=target).explain(turned).values, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["histogram boosting of a frame", "LightGBM of a frame"])
def test_unknown_categories_go_where_the_library_sends_them(name):
    _, model, rows, target, output = MODELS[IDS.index(name)]
    other = rows.assign(e=rows.e.cat.rename_categories({"green": "pink"}))
    explanation = TreeShapley(model, target=target).explain(other)
    np.testing.assert_allclose(explanation.scores, output(other), atol=1e-12)
    assert not np.allclose(explanation.scores, output(rows))


def test_categories_that_the_library_refuses_are_refused():
    _, model, rows, _, _ = MODELS[IDS.index("XGBoost of a frame")]
    other = rows.assign(e=rows.e.cat.rename_categories({"green": "pink"}))
    with pytest.raises(InvalidInput, match="Column 'e' of X holds 'pink', which XGBRegressor"):
        TreeShapley(model).explain(other)


@pytest.mark.parametrize("name", ["tree", "isolation forest", "XGBoost", "LightGBM", "histogram boosting"])
def test_a_model_that_is_misread_is_refused(name):
    _, model, rows, target, _ = MODELS[IDS.index(name)]
    trees = read_trees(model)
    TreeShapley(trees, target=target).explain(rows)
    wrong = replace(trees, base=trees.base + 0.01)
    with pytest.raises(UnsupportedModel, match=r"where its trees sum to.*KernelShap"):
        TreeShapley(wrong, target=target).explain(rows)


def test_rows_that_the_library_refuses_are_refused_in_its_words():
    def refuse(X):
        raise RuntimeError("[08:45:16] /workspace/src/data.h:29: Found a hole.\nStack trace: 1")

    trees = replace(read_trees(MODELS[0][1]), own=refuse)
    with pytest.raises(InvalidInput, match=r"does not take these rows: Found a hole\.$"):
        TreeShapley(trees).explain(X)


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
