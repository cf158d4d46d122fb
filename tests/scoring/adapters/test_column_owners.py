import numpy as np
import pytest
from oracles.score_oracles import dense, touched_columns
from sklearn import feature_selection as select
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer, KNNImputer, MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from zoo.tables import GAPS, LABELS, NUMBERS, RNG, TABLE, WORDS, N, Undeclared

from tellwhy.scoring.adapters.pipelines import trace_owners

EMPTY = GAPS.assign(b=np.nan)
EMPTY_COLUMNS = pytest.mark.filterwarnings("ignore:Skipping features without any observed values")


def ratio(X):
    return np.asarray(X)[:, :1] / (1.0 + np.abs(np.asarray(X)[:, 1:2]))


class Doubled(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """A user's transformer that declares one column out for each column in."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return 2 * np.asarray(X)


# Every output column is made from one input column: the oracle shuffles each input column and looks what changes.
OWNED = {
    "standard": (StandardScaler(), NUMBERS),
    "min-max": (MinMaxScaler(), NUMBERS),
    "max-abs": (MaxAbsScaler(), NUMBERS),
    "robust": (RobustScaler(), NUMBERS),
    "power": (PowerTransformer(), NUMBERS),
    "quantile": (QuantileTransformer(n_quantiles=20), NUMBERS),
    "binarizer": (Binarizer(), NUMBERS - NUMBERS.mean()),
    "ordinal": (OrdinalEncoder(), WORDS),
    "identity": (FunctionTransformer(), NUMBERS),
    "function": (FunctionTransformer(np.abs, feature_names_out="one-to-one"), NUMBERS),
    "target": (TargetEncoder(target_type="multiclass", cv=2, shuffle=False), WORDS),
    "own one-to-one": (Doubled(), NUMBERS),
    "frozen": (FrozenEstimator(StandardScaler().fit(NUMBERS)), NUMBERS),
    "k best": (select.SelectKBest(k=2), NUMBERS),
    "variance": (select.VarianceThreshold(0.5), NUMBERS),
    "imputer": (SimpleImputer(), GAPS),
    "imputer indicator": (SimpleImputer(add_indicator=True), GAPS),
    "imputer empty": (SimpleImputer(add_indicator=True), EMPTY),
    "imputer keeps empty": (SimpleImputer(keep_empty_features=True), EMPTY),
    "imputer words": (SimpleImputer(strategy="most_frequent"), WORDS.mask(RNG.random((N, 2)) < 0.2)),
    "missing indicator": (MissingIndicator(), GAPS.assign(c=1.0)),
    "missing indicator all": (MissingIndicator(features="all"), GAPS.assign(c=1.0)),
    "one-hot": (OneHotEncoder(), WORDS),
    "one-hot dense": (OneHotEncoder(sparse_output=False), WORDS),
    "one-hot drop first": (OneHotEncoder(drop="first"), WORDS),
    "one-hot drop binary": (
        OneHotEncoder(drop="if_binary"),
        WORDS.assign(size=np.where(TABLE["age"] > 40, "S", "L")),
    ),
    "one-hot infrequent": (OneHotEncoder(min_frequency=20, handle_unknown="infrequent_if_exist"), WORDS),
    "one-hot max categories": (OneHotEncoder(max_categories=2, drop="first"), WORDS),
    "bins": (KBinsDiscretizer(n_bins=[2, 3, 4, 5], quantile_method="averaged_inverted_cdf"), NUMBERS),
    "bins dense": (KBinsDiscretizer(encode="onehot-dense", strategy="uniform"), NUMBERS),
    "bins ordinal": (KBinsDiscretizer(encode="ordinal", strategy="uniform"), NUMBERS),
    "bins of a constant": (KBinsDiscretizer(strategy="uniform"), NUMBERS.assign(b=7.0)),
    "splines": (SplineTransformer(), NUMBERS),
    "splines without bias": (SplineTransformer(include_bias=False, n_knots=7), NUMBERS),
    "pipeline": (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), GAPS),
    "pipeline passthrough": (Pipeline([("no", "passthrough"), ("scale", StandardScaler())]), NUMBERS),
    "pipeline select": (
        make_pipeline(StandardScaler(), SplineTransformer(), select.SelectKBest(k=7)),
        NUMBERS,
    ),
    "union": (make_union(StandardScaler(), SplineTransformer()), NUMBERS),
    "union passthrough": (
        FeatureUnion([("a", "passthrough"), ("b", "drop"), ("c", MinMaxScaler())]),
        NUMBERS,
    ),
    "one column mixed": (PolynomialFeatures(3, include_bias=False), NUMBERS[["b"]]),
    "one column through two": (make_pipeline(SplineTransformer(), PCA(2)), NUMBERS[["b"]]),
    "by name": (
        make_column_transformer((OneHotEncoder(), ["size", "city"]), (StandardScaler(), ["pay", "age"])),
        TABLE,
    ),
    "by index": (make_column_transformer((StandardScaler(), [3, 0]), (OneHotEncoder(), [-3])), TABLE),
    "by slice": (make_column_transformer((OneHotEncoder(), slice(1, 3)), (MinMaxScaler(), [0])), TABLE),
    "by named slice": (make_column_transformer((OneHotEncoder(), slice("city", "size"))), TABLE),
    "by mask": (make_column_transformer((OneHotEncoder(), [False, True, True, False, False])), TABLE),
    "by type": (
        make_column_transformer(
            (StandardScaler(), make_column_selector(dtype_include="number")),
            (OneHotEncoder(), make_column_selector(dtype_exclude="number")),
        ),
        TABLE,
    ),
    "remainder passthrough": (
        make_column_transformer((OneHotEncoder(), ["size"]), remainder="passthrough"),
        TABLE[["age", "size", "pay"]],
    ),
    "remainder estimator": (
        make_column_transformer((OneHotEncoder(), ["size"]), remainder=StandardScaler()),
        TABLE[["age", "size", "pay"]],
    ),
    "parts dropped": (
        ColumnTransformer(
            [("x", "drop", ["city"]), ("y", "passthrough", ["pay"]), ("z", StandardScaler(), [])]
        ),
        TABLE,
    ),
    "column used twice": (
        make_column_transformer((StandardScaler(), ["age"]), (SplineTransformer(), ["age"])),
        TABLE,
    ),
    "text column": (make_column_transformer((TfidfVectorizer(), "note"), (StandardScaler(), ["age"])), TABLE),
    "nested": (
        make_column_transformer(
            (make_pipeline(SimpleImputer(), SplineTransformer()), ["pay", "age"]),
            (make_pipeline(OneHotEncoder(), TruncatedSVD(2, random_state=0)), ["city"]),
            (make_column_transformer((OrdinalEncoder(), ["size"])), ["note", "size"]),
        ),
        TABLE,
    ),
}


@EMPTY_COLUMNS
@pytest.mark.filterwarnings("ignore:Feature 1 is constant")
@pytest.mark.parametrize(("transformer", "table"), OWNED.values(), ids=OWNED.keys())
def test_owner_of_each_column_by_shuffling_its_inputs(transformer, table):
    step = clone(transformer).fit(table, LABELS)
    owner = trace_owners(step, table.shape[1])
    touched = touched_columns(step.transform, table)
    assert owner is not None
    assert len(owner) == dense(step.transform(table)).shape[1]
    assert all(columns <= {made_from} for columns, made_from in zip(touched, owner, strict=True))
    assert sum(bool(columns) for columns in touched) >= 0.6 * len(touched)


@EMPTY_COLUMNS
@pytest.mark.parametrize(
    "imputer",
    [
        KNNImputer(add_indicator=True),
        KNNImputer(keep_empty_features=True),
        IterativeImputer(add_indicator=True, random_state=0, tol=0.1),
        IterativeImputer(keep_empty_features=True, random_state=0, tol=0.1),
    ],
)
def test_imputers_that_look_at_other_columns_still_keep_each_cell_in_its_column(imputer):
    step = clone(imputer).fit(EMPTY)
    made = step.transform(EMPTY)
    owner = trace_owners(step, 4)
    assert len(owner) == made.shape[1]
    for output, raw in zip(made.T, owner, strict=True):
        known = EMPTY.iloc[:, raw].notna().to_numpy()
        is_column = np.array_equal(output[known], EMPTY.iloc[:, raw][known])
        is_indicator = np.array_equal(output, ~known)
        assert is_column or is_indicator


@pytest.mark.parametrize(
    "transformer",
    [
        PCA(2),
        PolynomialFeatures(),
        Normalizer(),
        FunctionTransformer(ratio),
        Undeclared(),
        make_pipeline(StandardScaler(), PCA(2), StandardScaler()),
        make_union(StandardScaler(), PCA(1)),
        make_column_transformer((StandardScaler(), ["a"]), (PCA(1), ["b", "c"])),
    ],
    ids=lambda transformer: type(transformer).__name__,
)
def test_columns_that_are_mixed_have_no_owner(transformer):
    assert trace_owners(clone(transformer).fit(NUMBERS), 4) is None


def test_a_rule_that_miscounts_is_not_trusted():
    assert trace_owners(StandardScaler().fit(NUMBERS), 4, n_out=5) is None
