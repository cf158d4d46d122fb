import numpy as np
import pandas as pd
import polars as pl
import pytest
from oracles.score_oracles import dense, sum_by_owner
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import OneClassSVM
from zoo.tables import GAPS, LABELS, NUMBERS, TABLE, WORDS, Undeclared

from tellwhy import detectors
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.explainers import OneClassDTD
from tellwhy.scoring import EncodedScore, FunctionScore, KernelScore, as_score

PIPELINES = {
    "scaled svm": (make_pipeline(StandardScaler(), OneClassSVM(nu=0.2)), NUMBERS),
    "scaled forest": (
        make_pipeline(StandardScaler(), IsolationForest(n_estimators=9, random_state=0)),
        NUMBERS,
    ),
    "mixed mixture": (make_pipeline(StandardScaler(), PCA(2), GaussianMixture(2, random_state=0)), NUMBERS),
    "imputed density": (make_pipeline(SimpleImputer(), StandardScaler(), KernelDensity()), GAPS),
    "own detector": (make_pipeline(RobustScaler(), detectors.OneClassSVM()), NUMBERS),
    "raw table": (
        make_pipeline(
            make_column_transformer(
                (StandardScaler(), ["age", "pay"]),
                (OneHotEncoder(handle_unknown="ignore"), ["city", "size"]),
                sparse_threshold=1.0,
            ),
            OneClassSVM(nu=0.2),
        ),
        TABLE,
    ),
    "frames inside": (
        make_pipeline(StandardScaler(), IsolationForest(n_estimators=9, random_state=0)).set_output(
            transform="pandas"
        ),
        NUMBERS,
    ),
}


def own_score(model, rows):
    """The last step's own score of what the pipeline's transforms make of the rows."""
    return as_score(model[-1]).value(dense(model[:-1].transform(rows)))


@pytest.mark.parametrize(("model", "table"), PIPELINES.values(), ids=PIPELINES.keys())
def test_value_is_the_last_steps_score_of_transformed_rows(model, table):
    model = clone(model).fit(table)
    score = as_score(model)
    assert isinstance(score, EncodedScore)
    assert score.feature_names == list(table.columns)
    assert score.feature_shape == (table.shape[1],)
    assert score.threshold == as_score(model[-1]).threshold
    np.testing.assert_allclose(score.value(table), own_score(model, table), rtol=1e-12)
    encoded = score.encode(table)
    assert type(encoded) is np.ndarray
    assert encoded.dtype == np.float64


@pytest.mark.parametrize(("model", "table"), PIPELINES.values(), ids=PIPELINES.keys())
def test_arrays_and_lists_are_given_the_names_the_pipeline_was_fitted_with(model, table):
    score = as_score(clone(model).fit(table))
    np.testing.assert_array_equal(score.value(table.to_numpy()), score.value(table))
    np.testing.assert_array_equal(score.value(table.to_numpy().tolist()), score.value(table))


@pytest.mark.parametrize(("model", "table"), PIPELINES.values(), ids=PIPELINES.keys())
def test_unfitted_pipelines_say_so(model, table):
    with pytest.raises(NotFittedError):
        as_score(clone(model))


def test_polars_frames_go_through_the_pipelines_own_transforms():
    model, table = PIPELINES["raw table"]
    expected = as_score(clone(model).fit(table)).value(table)
    frame = pl.from_pandas(table)
    score = as_score(clone(model).fit(frame))
    assert score.feature_names == list(table.columns)
    np.testing.assert_allclose(score.value(frame), expected, rtol=1e-12)
    np.testing.assert_allclose(score.value(table), expected, rtol=1e-12)


def test_pipeline_fitted_on_arrays_has_no_names():
    score = as_score(make_pipeline(StandardScaler(), OneClassSVM()).fit(NUMBERS.to_numpy()))
    assert score.feature_names is None
    np.testing.assert_array_equal(score.owner, np.arange(4))


def test_describes_names_the_model_and_the_transforms():
    score = as_score(make_pipeline(StandardScaler(), "passthrough", OneClassSVM()).fit(NUMBERS))
    assert score.describes == "outlierness o(x) = −log g(x) of OneClassSVM, after Pipeline(StandardScaler)"


def test_pipeline_without_transforms_is_its_model():
    assert (
        type(as_score(Pipeline([("no", "passthrough"), ("svm", OneClassSVM())]).fit(NUMBERS))) is KernelScore
    )
    assert type(as_score(make_pipeline(OneClassSVM()).fit(NUMBERS))) is KernelScore


def test_pipelines_inside_pipelines_become_one_encoding():
    inner = make_pipeline(SplineTransformer(n_knots=3), KMeans(2, random_state=0))
    columns = make_column_transformer((StandardScaler(), ["d", "a"]))
    model = make_pipeline(columns, inner).fit(NUMBERS)
    score = as_score(model)
    assert not isinstance(score.inner, EncodedScore)
    np.testing.assert_array_equal(score.owner, [3] * 5 + [0] * 5)
    flat = make_pipeline(columns, *(step for _, step in inner.steps)).fit(NUMBERS)
    np.testing.assert_allclose(score.value(NUMBERS), as_score(flat).value(NUMBERS), rtol=1e-12)


def test_mixing_anywhere_leaves_no_owner():
    inner = make_pipeline(PCA(2), KMeans(2, random_state=0))
    assert as_score(make_pipeline(StandardScaler(), inner).fit(NUMBERS)).owner is None
    outer = make_pipeline(StandardScaler(), KMeans(2, random_state=0))
    assert as_score(make_pipeline(PCA(2), outer).fit(NUMBERS)).owner is None


def test_transforms_that_record_no_columns_give_a_plain_function():
    model = make_pipeline(Undeclared(), OneClassSVM()).fit(NUMBERS)
    score = as_score(model)
    assert type(score) is FunctionScore
    assert score.feature_shape is None
    assert score.threshold == as_score(model[-1]).threshold
    np.testing.assert_allclose(
        score.value(NUMBERS), as_score(model[-1]).value(NUMBERS.to_numpy()[:, ::-1]), rtol=1e-12
    )


def test_texts_are_scored_by_a_function():
    texts = TABLE["note"].tolist()
    model = make_pipeline(CountVectorizer(), OneClassSVM()).fit(texts)
    np.testing.assert_allclose(as_score(model).value(texts), own_score(model, texts), rtol=1e-12)


def test_transforms_without_fitted_state_of_their_own():
    model = make_pipeline(StandardScaler(), Undeclared(), OneClassSVM()).fit(NUMBERS)
    score = as_score(model)
    assert score.owner is None
    np.testing.assert_allclose(
        score.value(NUMBERS), as_score(model[-1]).value(dense(model[0].transform(NUMBERS))[:, ::-1])
    )


class Resampler(BaseEstimator):
    """Acts on training rows only, in pipelines of resamplers."""

    def fit_resample(self, X, y):
        return X, y


def test_resamplers_are_passed_over():
    scaler = StandardScaler().fit(NUMBERS)
    svm = OneClassSVM().fit(scaler.transform(NUMBERS))
    model = Pipeline([("scale", scaler), ("sample", Resampler()), ("svm", svm)])
    expected = as_score(svm).value(scaler.transform(NUMBERS))
    np.testing.assert_array_equal(as_score(model).value(NUMBERS), expected)


def test_frozen_estimators_are_looked_into():
    svm = OneClassSVM().fit(NUMBERS)
    np.testing.assert_array_equal(as_score(FrozenEstimator(svm)).value(NUMBERS), as_score(svm).value(NUMBERS))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (NUMBERS[["b", "a", "c", "d"]], "Column 0 of X is 'b', but the model was fitted with 'a'"),
        (NUMBERS[["a", "b", "c"]], r"X has 3 columns, but the model was fitted on 4: missing \['d'\]"),
        (NUMBERS.to_numpy()[:, :3], r"Expected a 2D table of 4 columns .* Got shape \(90, 3\)"),
        (NUMBERS.to_numpy()[0], r"Got shape \(4,\)"),
        ([[1.0, 2.0], [3.0]], "cannot be read as a table"),
        (NUMBERS.assign(c="x"), r"Pipeline\(StandardScaler\) could not transform X: .*could not convert"),
        (GAPS, r"X after Pipeline\(StandardScaler\) contains NaN in row \d+, column \d"),
        (NUMBERS.iloc[:0], r"could not transform X"),
    ],
    ids=["order", "missing", "narrow", "1D", "ragged", "text", "NaN", "empty"],
)
def test_rows_that_do_not_fit_are_refused(rows, message):
    score = as_score(make_pipeline(StandardScaler(), OneClassSVM()).fit(NUMBERS))
    with pytest.raises(InvalidInput, match=message):
        score.value(rows)


def test_category_never_seen_is_named():
    model = make_pipeline(OneHotEncoder(), OneClassSVM()).fit(WORDS)
    with pytest.raises(InvalidInput, match=r"Pipeline\(OneHotEncoder\) could not transform X: .*Paris"):
        as_score(model).value(pd.DataFrame({"city": ["Paris"], "size": ["S"]}))


def test_pipeline_that_ends_in_a_classifier_is_refused():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(NUMBERS, LABELS)
    with pytest.raises(UnsupportedModel, match="explains what it predicts"):
        as_score(model)


def test_inputs_are_left_as_they_were():
    model, table = PIPELINES["raw table"]
    copy = table.copy()
    as_score(clone(model).fit(table)).value(table)
    pd.testing.assert_frame_equal(table, copy)


@pytest.mark.parametrize(
    "detector", [OneClassSVM(nu=0.3), KernelDensity(bandwidth=0.5), detectors.OneClassSVM(nu=0.3)]
)
def test_training_rows_are_recognised_through_the_pipeline(detector):
    model = make_pipeline(StandardScaler(), clone(detector)).fit(NUMBERS)
    through = OneClassDTD(model).explain(NUMBERS)
    direct = OneClassDTD(model[-1]).explain(model[0].transform(NUMBERS))
    assert through.params["rows_left_out"] == len(as_score(model[-1]).expansion.weights) > 0
    assert through.values.shape == NUMBERS.shape
    np.testing.assert_array_equal(through.values, direct.values)
    np.testing.assert_array_equal(through.extras["left_out"], direct.extras["left_out"])
    assert through.feature_names == list("abcd")


def test_attributions_of_raw_columns_are_sums_over_their_encoded_columns():
    model = clone(PIPELINES["raw table"][0]).fit(TABLE)
    through = OneClassDTD(model).explain(TABLE)
    direct = OneClassDTD(model[-1]).explain(dense(model[:-1].transform(TABLE)))
    owner = [0, 3, *[1] * 4, *[2] * 3]
    assert through.feature_names == list(TABLE.columns)
    np.testing.assert_allclose(through.values, sum_by_owner(direct.values, owner, 5), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(through.values[:, 4], 0.0)
    np.testing.assert_allclose(through.residual, direct.residual, atol=1e-10)
    assert through.params["rows_left_out"] > 0
