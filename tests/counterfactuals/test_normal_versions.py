"""Nearest normal versions of explained rows, in the user's columns, computed when asked for."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture as OtherMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tellwhy
from tellwhy import Explanation
from tellwhy.core.errors import InvalidInput
from tellwhy.counterfactuals.normal_versions import NAME, attach_nearest_normal
from tellwhy.counterfactuals.user_rows import RowSpace, drop_noise
from tellwhy.detectors import GaussianMixture, KernelDensity, OneClassSVM, PCADetector, load
from tellwhy.explainers import Occlusion, OneClassDTD
from tellwhy.explainers.base import normal_versions
from tellwhy.scoring import FunctionScore, as_score
from tellwhy.scoring.reference_rows import ReferenceRows, find_rows_of_reference, some_rows

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(50.0, 10.0, 300), RNG.poisson(5.0, 300), RNG.normal(0.0, 1.0, 300)])
ODD = X[:4].copy()
ODD[:, 0] = 145.0
ODD[2:, 1] = 40.0


def versions(score, rows=ODD, values=ODD, **settings):
    return normal_versions(score, rows, values, **settings)[NAME]()


def within(points, noise=0.0):
    """Whether every row was changed, and only to values within the range of their column."""
    changed = points != ODD
    seen = (points >= X.min(axis=0) - noise) & (points <= X.max(axis=0) + noise)
    return seen[changed].all() and changed.any(axis=1).all()


@pytest.mark.parametrize("detector", [GaussianMixture(), OneClassSVM(), KernelDensity()])
def test_detectors_remember_what_they_saw(detector):
    points = versions(as_score(detector.fit(X)))
    assert (detector.outlierness(points) <= detector.threshold_).all()
    assert within(points)
    assert (points[:, 1] == np.round(points[:, 1])).all()  # counts stay counts


def test_saved_detectors_remember_it_too(tmp_path):
    detector = PCADetector(1).fit(X)
    again = load(detector.save(tmp_path / "pca"))
    np.testing.assert_array_equal(versions(as_score(again)), versions(as_score(detector)))
    assert again.observed_.whole.tolist() == [False, True, False]


def test_ranges_are_those_of_all_rows_though_few_are_kept():
    many = np.random.default_rng(1).normal(size=(5000, 2))
    many[1234], many[4321] = [9.0, 0.0], [0.0, -9.0]
    seen = ReferenceRows.of(many)
    assert len(seen.rows) == 1000
    assert (seen.high[0], seen.low[1]) == (9.0, -9.0)
    assert some_rows(np.zeros((2000, 5000))).shape == (200, 5000)
    assert len(some_rows(pd.DataFrame(many))) == 1000


def test_rows_below_the_threshold_are_their_own_version():
    detector = GaussianMixture().fit(X)
    calm = X[detector.outlierness(X) <= detector.threshold_][:5]
    np.testing.assert_array_equal(versions(as_score(detector), calm, calm), calm)


def test_no_value_beyond_the_observed_range_is_used():
    """The first column lowers the score the more the larger it is; it was seen up to `top`."""
    top = X[:, 0].max()
    rows = X[:1].copy()
    for level, expected in ((-top, top), (-top - 1e-6, np.nan)):
        score = FunctionScore(lambda Z: -Z[:, 0], threshold=level)
        np.testing.assert_array_equal(versions(score, rows, rows, background=X)[:, 0], expected)


def test_rows_without_a_solution_are_nan():
    detector = GaussianMixture().fit(X).set_threshold(value=-100.0)
    assert np.isnan(versions(as_score(detector))).all()


@pytest.mark.parametrize(
    ("score", "background"),
    [
        (FunctionScore(lambda Z: Z.sum(axis=1)), X),  # no threshold
        (as_score(OtherMixture(random_state=0).fit(X)), X),  # a density: no threshold
        (FunctionScore(lambda Z: Z.sum(axis=1), threshold=3.0), None),  # nothing known of the rows
    ],
)
def test_no_entry_where_it_is_not_known_what_is_normal(score, background):
    assert normal_versions(score, ODD, ODD, background=background) == {}


@pytest.mark.parametrize(
    "model", [IsolationForest(n_estimators=10, random_state=0), LocalOutlierFactor(novelty=True)]
)
def test_third_party_detectors_with_background_rows(model):
    score = as_score(model.fit(X))
    points = versions(score, background=X)
    assert (score.value(points) <= score.threshold).all()
    assert within(points)


def test_pyod_detectors():
    pyod = pytest.importorskip("pyod.models.knn")
    score = as_score(pyod.KNN(method="largest").fit(X))
    points = versions(score, background=X)
    assert (score.value(points) <= score.threshold).all()
    assert within(points)


def test_training_rows_are_judged_as_they_were_explained():
    rows = np.vstack([X, [[145.0, 5.0, 0.0]]])
    detector = KernelDensity().fit(rows).set_threshold(value=6.0)  # above −log(1/301), a row at its own point
    explainers = [
        OneClassDTD(detector),
        OneClassDTD(detector, training_rows=None),
        Occlusion(detector).fit(X),
    ]
    above = []
    for explainer in explainers:
        e = explainer.explain(rows[-1:])
        above.append(bool(e.scores[0] > detector.threshold_))
        assert (e.extras[NAME] != rows[-1:]).any() == above[-1]
    assert above == [True, False, False]  # a row that was learned from finds itself ordinary


class TestPipelines:
    FRAME = pd.DataFrame(
        {
            "amount": X[:, 0],
            "n": X[:, 1].astype(int),
            "kind": RNG.choice(["a", "b", "c"], 300, p=[0.6, 0.39, 0.01]),
        }
    )

    def odd(self):
        rows = self.FRAME.iloc[:2].copy()
        rows.loc[:, "amount"] = 145.0
        rows.loc[rows.index[0], "kind"] = "never seen"
        rows.loc[rows.index[1], "n"] = 40
        return rows.set_axis(list("yz"), axis=0)

    def model(self):
        kinds = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        columns = make_column_transformer((StandardScaler(), ["amount", "n"]), (kinds, ["kind"]))
        return make_pipeline(columns, OneClassSVM(nu=0.1)).fit(self.FRAME)

    def test_text_and_counts_stay_valid(self):
        score, odd = as_score(self.model()), self.odd()
        points = versions(score, odd, np.ones((2, 3)), background=self.FRAME)
        assert isinstance(points, pd.DataFrame)
        assert list(points.index) == list("yz")
        assert list(points.dtypes) == list(odd.dtypes)
        assert (score.value(points) <= score.threshold).all()
        new = points["kind"] != odd["kind"]
        assert set(points["kind"][new]) <= {"a", "b", "c"}
        assert points["amount"].between(self.FRAME["amount"].min(), self.FRAME["amount"].max()).all()

    def test_rows_that_cannot_become_normal_are_empty(self):
        score, odd = as_score(self.model()), self.odd()
        level = float(np.sort(score.value(self.FRAME))[0]) - 10.0
        e = Explanation(values=np.ones((2, 3)), scores=score.value(odd), data=odd, method="M")
        assert attach_nearest_normal(e, score, self.FRAME, threshold=level).extras[NAME].isna().all(axis=None)

    def test_no_entry_without_rows_or_an_inverse(self):
        assert normal_versions(as_score(self.model()), self.odd(), np.ones((2, 3))) == {}
        explainer = OneClassDTD(self.model())
        assert NAME not in explainer.explain(self.odd()).extras
        assert NAME in explainer.remember(self.FRAME).explain(self.odd()).extras
        assert NAME in tellwhy.explain(self.model(), self.odd(), background=self.FRAME).extras

    @pytest.mark.parametrize("as_frame", [True, False])
    def test_what_the_detector_saw_is_decoded(self, as_frame):
        rows = pd.DataFrame(X, columns=["a", "b", "c"]) if as_frame else X
        model = make_pipeline(StandardScaler(), OneClassSVM(nu=0.1)).fit(rows)
        odd = pd.DataFrame(ODD, columns=["a", "b", "c"]) if as_frame else ODD
        e = OneClassDTD(model).explain(odd)
        points = e.extras[NAME]
        score = as_score(model)
        assert (score.value(points) <= score.threshold + 1e-12).all()
        assert within(points, noise=1e-9)
        assert (points[:, 1] == np.round(points[:, 1])).all()

    def test_whole_numbers_are_found_again_after_decoding(self):
        """Numbers that are small throughout are not whole numbers with an error."""
        counts = np.random.default_rng(0).poisson(5.0, size=(50, 1))
        rows = np.hstack([counts + 1e-13, counts + 0.25, 1e-11 * (counts + 1.5)])
        found = drop_noise(rows)
        np.testing.assert_array_equal(found[:, :1], counts)
        np.testing.assert_array_equal(found[:, 1:], rows[:, 1:])

    def test_rows_with_missing_numbers_are_left_aside(self):
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        model = make_pipeline(StandardScaler(), OneClassSVM(nu=0.1)).fit(frame)
        odd = pd.DataFrame(ODD, columns=frame.columns)
        odd.iloc[1, 2] = np.nan
        background = frame.copy()
        background.iloc[::3, 0] = np.nan
        points = versions(as_score(model), odd, ODD, background=background)
        assert np.isnan(points).all(axis=1).tolist() == [False, True, False, False]


class TestAttach:
    def test_any_score_with_background_rows(self):
        bowl = FunctionScore(lambda Z: ((Z / X.std(axis=0)) ** 2).sum(axis=1))
        e = Explanation(values=ODD, scores=bowl.value(ODD), data=ODD, method="M", extras={"note": "kept"})
        attached = attach_nearest_normal(e, bowl, X)
        assert NAME not in e.extras
        assert attached.extras["note"] == "kept"
        assert (bowl.value(attached.extras[NAME]) <= np.quantile(bowl.value(X), 0.95)).all()
        np.testing.assert_array_equal(attached[2:].extras[NAME], attached.extras[NAME][2:])
        stricter = attach_nearest_normal(e, bowl, X, threshold=20.0)
        assert (bowl.value(stricter.extras[NAME]) <= 20.0).all()

    def test_wrong_columns(self):
        e = Explanation(values=ODD, scores=ODD[:, 0], data=ODD, method="M")
        with pytest.raises(InvalidInput, match=r"background has shape \(300, 2\)"):
            attach_nearest_normal(e, FunctionScore(lambda Z: Z[:, 0]), X[:, :2])


def test_points_of_an_expansion_are_what_was_observed():
    assert len(find_rows_of_reference(KernelDensity().fit(X).to_score()).rows) == 300
    assert find_rows_of_reference(FunctionScore(lambda Z: Z[:, 0])) is None


def test_a_space_of_mixed_columns_goes_there_and_back():
    frame = pd.DataFrame(
        {"a": [1, 2, 3], "b": ["x", None, "y"], "c": [True, False, True], "d": [0.5, 1.5, 2.5]}
    )
    space = RowSpace.of([frame])
    assert space.owner.tolist() == [0, 1, 1, 1, 2, 3]
    assert not space.is_numeric
    back = space.rows(space.numbers(frame))
    pd.testing.assert_frame_equal(back, frame)
    array = frame.to_numpy()
    as_array = RowSpace.of([array])
    assert as_array.rows(as_array.numbers(array)).tolist() == array.tolist()


def test_polars_frames_are_read():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    space = RowSpace.of([frame, frame])
    assert space.numbers(frame).tolist() == [[1.0, 1.0, 0.0], [2.0, 0.0, 1.0]]
