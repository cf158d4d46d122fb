"""Small models of every kind that is read, each with the rows it was fitted on and the output to explain."""

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from pyod.models.iforest import IForest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor
from xgboost import XGBClassifier, XGBRegressor

D = 5
RNG = np.random.default_rng(3)
X = RNG.normal(size=(160, D))
X[:, 4] = RNG.integers(0, 4, size=160)  # whole numbers, and categories where a model takes them
Y = X[:, 0] * X[:, 1] + X[:, 2] + np.where(X[:, 4] == 2, 2.0, 0.0) + 0.1 * RNG.normal(size=160)
TWO = np.where(Y > 0, "yes", "no")
THREE = np.digitize(Y, [-0.7, 0.7])
GAPS = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
FRAME = pd.DataFrame(X, columns=list("abcde")).assign(
    e=pd.Categorical(np.array(["red", "blue", "green", "grey"])[X[:, 4].astype(int)])
)


def two_of_three(fitted):
    return lambda rows: fitted(rows)[:, 1]


def sklearn_models():
    dt = DecisionTreeRegressor(max_depth=4, random_state=0).fit(GAPS, Y)
    yield "tree", dt, GAPS, None, dt.predict
    dtc = DecisionTreeClassifier(random_state=0).fit(X, THREE)
    yield "tree of three classes", dtc, X, 1, two_of_three(dtc.predict_proba)
    extra = ExtraTreeRegressor(random_state=0).fit(X, Y)
    yield "extra tree", extra, X, None, extra.predict
    rf = RandomForestRegressor(5, random_state=0).fit(X, np.column_stack([Y, -Y]))
    yield "forest of two outputs", rf, X, 1, two_of_three(rf.predict)
    rfc = RandomForestClassifier(5, random_state=0).fit(X, TWO)
    yield "forest of two classes", rfc, X, None, two_of_three(rfc.predict_proba)
    et = ExtraTreesClassifier(4, max_depth=5, random_state=0).fit(X, THREE)
    yield "extra trees", et, X, 1, two_of_three(et.predict_proba)
    gb = GradientBoostingRegressor(n_estimators=8, loss="huber", random_state=0).fit(X, Y)
    yield "boosting", gb, X, None, gb.predict
    gbc = GradientBoostingClassifier(n_estimators=6, random_state=0).fit(X, TWO)
    yield "boosting of two classes", gbc, X, "yes", gbc.decision_function
    gb3 = GradientBoostingClassifier(n_estimators=4, random_state=0).fit(X, THREE)
    yield "boosting of three classes", gb3, X, 1, two_of_three(gb3.decision_function)
    hist = HistGradientBoostingRegressor(max_iter=6, min_samples_leaf=5, loss="poisson").fit(GAPS, np.exp(Y))
    yield "histogram boosting", hist, GAPS, None, lambda rows: np.log(hist.predict(rows))
    cats = HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=5).fit(FRAME, THREE)
    yield "histogram boosting of a frame", cats, FRAME, 1, two_of_three(cats.decision_function)


def detectors():
    forest = IsolationForest(n_estimators=20, max_samples=64, random_state=0).fit(X)
    yield "isolation forest", forest, X, None, lambda rows: np.log2(-forest.score_samples(rows))
    narrow = IsolationForest(n_estimators=10, max_features=3, random_state=0).fit(GAPS)
    yield (
        "isolation forest on some columns",
        narrow,
        GAPS,
        None,
        lambda rows: np.log2(-narrow.score_samples(rows)),
    )
    pyod = IForest(n_estimators=10, random_state=0).fit(X)
    yield "PyOD", pyod, X, None, lambda rows: np.log2(-pyod.detector_.score_samples(rows))


def xgboost_models():
    common = {"n_estimators": 6, "max_depth": 4, "n_jobs": 1}

    def margin(model):
        return lambda rows: model.predict(rows, output_margin=True)

    xr = XGBRegressor(**common).fit(GAPS, Y)
    yield "XGBoost", xr, GAPS, None, margin(xr)
    xb = XGBClassifier(**common).fit(GAPS, THREE > 0)
    yield "XGBoost of two classes", xb, GAPS, None, margin(xb)
    x3 = XGBClassifier(**common).fit(GAPS, THREE)
    yield "XGBoost of three classes", x3, GAPS, 1, two_of_three(margin(x3))
    dart = XGBRegressor(booster="dart", rate_drop=0.5, random_state=0, **common).fit(X, Y)
    yield "XGBoost with dropout", dart, X, None, margin(dart)
    gamma = XGBRegressor(objective="reg:gamma", **common).fit(X, np.exp(Y))
    yield "XGBoost of a logarithm", gamma, X, None, margin(gamma)
    coded = np.where(np.isnan(GAPS), -999.0, GAPS)
    holes = XGBRegressor(missing=-999.0, **common).fit(coded, Y)
    yield "XGBoost with a number for empty cells", holes, coded, None, margin(holes)
    two = XGBRegressor(**common).fit(X, np.column_stack([Y, -Y]))
    yield "XGBoost of two targets", two, X, 1, two_of_three(margin(two))
    cats = XGBRegressor(enable_categorical=True, max_cat_to_onehot=1, **common).fit(FRAME, Y)
    yield "XGBoost of a frame", cats, FRAME, None, margin(cats)
    gaps = FRAME.assign(e=FRAME.e.where(RNG.random(160) > 0.3))
    holes = XGBRegressor(enable_categorical=True, max_cat_to_onehot=1, **common).fit(gaps, Y)
    yield "XGBoost of a frame with empty cells", holes, gaps, None, margin(holes)
    early = XGBRegressor(n_estimators=60, early_stopping_rounds=2, n_jobs=1).fit(
        X[:100], Y[:100], eval_set=[(X[100:], Y[100:])], verbose=False
    )
    yield "XGBoost stopped early", early, X, None, margin(early)


def lightgbm_models():
    common = {"n_estimators": 6, "min_child_samples": 5, "verbose": -1, "n_jobs": 1, "random_state": 0}

    def raw(model):
        return lambda rows: model.predict(rows, raw_score=True)

    lr = LGBMRegressor(**common).fit(GAPS, Y)
    yield "LightGBM", lr, GAPS, None, lr.predict
    full = LGBMRegressor(**common).fit(X, Y)
    yield "LightGBM that met no empty cells", full, GAPS, None, full.predict
    lb = LGBMClassifier(**common).fit(X, TWO)
    yield "LightGBM of two classes", lb, X, None, raw(lb)
    l3 = LGBMClassifier(**common).fit(GAPS, THREE)
    yield "LightGBM of three classes", l3, GAPS, 1, two_of_three(raw(l3))
    ova = LGBMClassifier(objective="multiclassova", **common).fit(X, THREE)
    yield "LightGBM of each class against the rest", ova, X, 1, two_of_three(raw(ova))
    zeros = np.where(np.isnan(GAPS), 0.0, GAPS)
    zero = LGBMRegressor(zero_as_missing=True, **common).fit(zeros, Y)
    yield "LightGBM where zero is missing", zero, zeros, None, zero.predict
    forest = LGBMRegressor(boosting_type="rf", subsample=0.5, subsample_freq=1, **common).fit(X, Y)
    yield "LightGBM's forest", forest, X, None, forest.predict
    cats = LGBMRegressor(min_data_per_group=1, cat_smooth=1.0, **common).fit(FRAME, Y)
    yield "LightGBM of a frame", cats, FRAME, None, cats.predict


MODELS = [*sklearn_models(), *detectors(), *xgboost_models(), *lightgbm_models()]
