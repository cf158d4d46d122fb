import numpy as np
import pytest

from tellwhy import Explanation
from tellwhy.core.arrays import as_floats
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.explanation_parts import measure_unattributed_share
from tellwhy.detectors import KernelDensity
from tellwhy.evaluation import compare
from tellwhy.evaluation.compare import COLUMNS, RESAMPLES, _resample_interval
from tellwhy.explainers import OneClassDTD
from tellwhy.scoring import as_score

NUMBERS = [name for name in COLUMNS if name not in ("method", "note")]


class Chance:
    """Random values, for any model."""

    def __init__(self, model, *, random_state=0):
        self.model, self.random_state = model, random_state

    def explain(self, X):
        values = np.random.default_rng(self.random_state).random(np.shape(X))
        return Explanation(
            values=values, scores=as_score(self.model).value(X), data=X, method="Chance", kind="ranking"
        )


class Deviation:
    """Squared distance to the mean of the background."""

    def __init__(self, model):
        self.model = model

    def fit(self, X):
        self.mean_, self.fitted_on_ = as_floats(X).mean(axis=0), len(X)
        return self

    def explain(self, X):
        values = (as_floats(X) - self.mean_) ** 2
        extras = {"nearest_normal": np.full(values.shape, 1e6)}  # must not be used: other methods have none
        return Explanation(
            values=values, scores=values.sum(axis=1), data=X, method="Deviation", extras=extras
        )


class Broken:
    def __init__(self, model):
        pass

    def explain(self, X):
        raise UnsupportedModel("Broken explains nothing.")


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(160, 6))


@pytest.fixture(scope="module")
def model(rows):
    return KernelDensity().fit(rows[:100])


def squares(X):
    return (np.asarray(X) ** 2).sum(axis=1)


def test_one_line_per_method_best_first(rows, model):
    table = compare(
        [Chance, "one_class_dtd", Broken, Deviation(model)], model, rows[100:], background=rows[:100]
    )
    assert tuple(table.columns) == COLUMNS
    assert set(table["method"].head(2)) == {"OneClassDTD", "Deviation"}
    assert table["method"].tolist()[2:] == ["Chance", "Broken"]
    assert (np.diff(table["mrr"][:3]) <= 0).all()
    lines = table.set_index("method")
    assert lines.loc["Broken", "note"] == "UnsupportedModel: Broken explains nothing."
    assert lines.loc["Broken", NUMBERS].isna().all()
    assert (lines["note"].drop("Broken") == "").all()
    dtd, chance = lines.loc["OneClassDTD"], lines.loc["Chance"]
    assert dtd["mrr_low"] > chance["mrr_high"]
    assert dtd["flipping_high"] < chance["flipping_low"]
    assert chance["mrr_low"] < sum(1 / r for r in range(1, 7)) / 6 < chance["mrr_high"]
    assert np.isnan(chance["unattributed"])
    assert 0 < dtd["unattributed"] < 1
    assert lines.loc["Deviation", "unattributed"] == pytest.approx(0, abs=1e-12)
    for name in ("mrr", "flipping"):
        assert (table[f"{name}_low"][:3] < table[name][:3]).all()
        assert (table[name][:3] < table[f"{name}_high"][:3]).all()
    assert (table["seconds_per_row"][:3] > 0).all()
    assert (table["hits@3"][:3] >= 0).all()
    assert (table["auroc"][:3] <= 1).all()


def test_same_seed_same_table(rows, model):
    first, again = (compare([Chance, OneClassDTD], model, rows[100:], random_state=5) for _ in range(2))
    numbers = [name for name in NUMBERS if name != "seconds_per_row"]
    np.testing.assert_array_equal(first[numbers], again[numbers])
    other = compare([Chance, OneClassDTD], model, rows[100:], random_state=6)
    assert first.loc[0, "mrr"] != other.loc[0, "mrr"]


def test_any_score_is_flipped_with_the_same_background_for_all(rows):
    table = compare([Chance, Deviation], squares, rows[:40], background=rows).set_index("method")
    # replaced by nearest normals of 1e6 the score would rise, and no row would have an area
    assert table.loc["Deviation", "flipping_high"] < table.loc["Chance", "flipping_low"]


def test_explainers_are_fitted_on_the_background_and_the_users_are_left_alone(rows):
    mine = Deviation(squares)
    seen = []

    class Spy(Deviation):
        def fit(self, X):
            seen.append(len(X))
            return super().fit(X)

    compare([mine, Spy], squares, rows[:10], background=rows[:33])
    compare([Spy], squares, rows[:10])
    assert seen == [33, 10]
    assert not hasattr(mine, "mean_")


def test_labels_and_single_explainers(rows, model):
    table = compare({"a": Chance(model), "b": OneClassDTD(model)}, model, rows[100:110])
    assert set(table["method"]) == {"a", "b"}
    assert compare("OneClassDTD", model, rows[100:110])["method"].tolist() == ["OneClassDTD"]
    assert compare(OneClassDTD(model), model, rows[100:110])["method"].tolist() == ["OneClassDTD"]


def test_more_rows_and_confidence_move_the_interval_as_they_should(rows, model):
    def width(X, **options):
        table = compare([Chance], model, X, **options)
        return table.loc[0, "mrr_high"] - table.loc[0, "mrr_low"]

    assert width(rows[100:160]) < width(rows[100:110])
    assert width(rows[100:160], confidence=0.5) < width(rows[100:160], confidence=0.99)
    assert width(rows[100:160], n_repeats=16) < 0.5 * width(rows[100:160], n_repeats=1)


def test_repeats_of_a_row_are_not_independent_rows(rows, model):
    table = compare([OneClassDTD], model, rows[100:101], n_repeats=10, background=rows[:100])
    assert np.isnan(table.loc[0, "mrr_low"])
    assert np.isfinite(table.loc[0, "mrr"])


def test_interval_resamples_normal_rows_with_all_their_repeats():
    """Three repeats of two rows, which are all 0 or all 1: only resamples of whole rows give 0, ½ or 1."""
    measured = np.tile([0.0, 1.0], (3, 1))
    means = np.random.default_rng(4).integers(2, size=(RESAMPLES, 2)).mean(axis=1)
    assert _resample_interval(measured, 4, 0.4) == tuple(np.quantile(means, [0.3, 0.7]))
    assert _resample_interval(measured, 4, 0.9) == (0.0, 1.0)
    unknown = np.tile([0.2, np.nan], (3, 1))
    assert np.isnan(_resample_interval(unknown, 4, 0.9)).all(), (
        "one row that is known leaves nothing to resample"
    )


def test_coverage_of_the_interval():
    # Mean reciprocal rank of random values is known: (1 + 1/2 + 1/3)/3.
    truth = (1 + 1 / 2 + 1 / 3) / 3
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(60):
        X = rng.normal(size=(40, 3))
        line = compare([Chance], squares, X, n_repeats=1, random_state=trial, confidence=0.9).loc[0]
        covered += line["mrr_low"] <= truth <= line["mrr_high"]
    assert 45 <= covered <= 60


def test_frames_with_columns_that_are_not_numbers(rows):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": rows[:, 0], "b": ["x", "y"] * 80, "c": rows[:, 1]})

    def score(table):
        return (np.asarray(table[["a", "c"]], dtype=float) ** 2).sum(axis=1) + np.asarray(table["b"] == "y")

    table = compare([Chance(score)], score, frame[:20], background=frame)
    assert table.loc[0, "note"] == ""
    assert np.isfinite(table.loc[0, "flipping"])


def test_nothing_attributed_where_scores_equal_their_base():
    e = Explanation(values=np.zeros((2, 2)), scores=[1.0, 1.0], base_values=[1.0, 1.0], method="M")
    assert np.isnan(measure_unattributed_share(e))


def test_unattributed_share_is_a_median_of_shares():
    values = np.array([[1.0], [3.0], [8.0]])
    scores = np.array([2.0, 4.0, 108.0])  # left over: 1/2, 1/4 and 100/108 of the scores
    e = Explanation(values=values, scores=scores, method="M", data=values)
    assert measure_unattributed_share(e) == pytest.approx(0.5)
    from_base = Explanation(
        values=values, scores=scores + 7.0, base_values=np.full(3, 7.0), method="M", data=values
    )
    assert measure_unattributed_share(from_base) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("explainers", "options", "error", "message"),
    [
        (["NoSuchMethod"], {}, InvalidParameter, "There is no explainer named 'NoSuchMethod'"),
        ([5], {}, InvalidParameter, "Got 5, which has no `explain`"),
        ([Chance], {"n_features": 7}, InvalidParameter, "'n_features'"),
        ([Chance], {"n_repeats": 0}, InvalidParameter, "'n_repeats' parameter of compare"),
        ([Chance], {"confidence": 1.0}, InvalidParameter, "'confidence' parameter of compare"),
        ([Chance], {"X": np.ones((4, 2))}, InvalidInput, "columns"),
        ([Chance], {"X": np.full((4, 6), np.nan)}, InvalidInput, "NaN"),
    ],
)
def test_bad_input_is_named(rows, model, explainers, options, error, message):
    options = {"X": rows[100:110], **options}
    with pytest.raises(error, match=message):
        compare(explainers, model, **options)
