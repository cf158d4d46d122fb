import itertools
from importlib import import_module

import numpy as np
import pytest
from oracles.evaluation_oracles import flip, kernel_outlierness, normalised_area, replace_in_turn

from tellwhy import Explanation
from tellwhy.core.errors import DataNotice, InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.score import CentreDistance, KernelExpansion, NeighbourDistance
from tellwhy.detectors import SVDD, KernelDensity, NearestNeighbours, OneClassSVM
from tellwhy.evaluation import flipping, inject_anomalies
from tellwhy.evaluation.flipping import choose_reference_rows
from tellwhy.explainers import OneClassDTD
from tellwhy.kernels import Exponential, StudentT
from tellwhy.scoring import CentreScore, EncodedScore, FunctionScore, KernelScore, NeighbourScore

KERNELS = [
    *((kind, q, "count") for kind in ("exponential", "student_t") for q in (1.0, 2.0, 4.0)),
    ("student_t", 2.0, "one"),
]


def kernel_score(kind, q, *, m=9, d=5, scale="count", offset=0.0, sigma=1.3, a=0.7):
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.2, 1.0, m)
    kernel = Exponential(sigma, q) if kind == "exponential" else StudentT(sigma, q, a)
    rows = rng.permutation(4 * m)[:m]
    expansion = KernelExpansion(
        rng.normal(size=(m, d)) + 3.0, weights / weights.sum(), kernel, rows, 4 * m, scale
    )
    return KernelScore(expansion, offset=offset)


def pool_of(score, *, a=0.7):
    """The oracle's pooling of a kernel score."""
    kernel, weights = score.expansion.kernel, score.expansion.weights
    kind = "exponential" if isinstance(kernel, Exponential) else "student_t"

    def pool(distances, kept):
        rest = weights[kept] / weights[kept].sum()
        scale = score.expansion.scale
        return kernel_outlierness(
            distances, rest, kind=kind, q=kernel.q, sigma=kernel.bandwidth, a=a, scale=scale
        )

    return pool


def explanation_of(X, values, scores=None, **fields):
    return Explanation(
        values=values, scores=np.ones(len(values)) if scores is None else scores, data=X, **fields
    )


def random_explanation(X, seed=0, **fields):
    return explanation_of(X, np.random.default_rng(seed).random(np.shape(X)), method="Random", **fields)


@pytest.mark.parametrize(("kind", "q", "scale"), KERNELS)
def test_kernel_curves_equal_the_loop(kind, q, scale):
    score = kernel_score(kind, q, scale=scale)
    X = np.random.default_rng(2).normal(size=(6, 5)) * 3
    explanation = random_explanation(X)
    result = flipping(explanation, score)
    expected = [
        flip(x, score.expansion.points, r, pool=pool_of(score))
        for x, r in zip(X, explanation.values, strict=True)
    ]
    np.testing.assert_allclose(result.curves, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.areas, [normalised_area(c) for c in expected], rtol=1e-10)
    np.testing.assert_allclose(result.curves[:, 0], score.value(X), rtol=1e-10)
    assert result.area == pytest.approx(result.areas.mean())
    assert result.method == "Random"


@pytest.mark.parametrize(("kind", "q", "scale"), KERNELS)
def test_a_row_explained_without_itself_is_flipped_without_itself(kind, q, scale):
    score = kernel_score(kind, q, scale=scale)
    points, rows = score.expansion.points, score.expansion.training_rows
    X = np.vstack([points[3], points[5], points[3]])
    left_out = np.array([rows[3], -1, -1])
    explanation = random_explanation(X, extras={"left_out": left_out})
    curves = flipping(explanation, score).curves
    expected = [
        flip(x, points, r, pool=pool_of(score), left_out=j)
        for x, r, j in zip(X, explanation.values, [3, -1, -1], strict=True)
    ]
    np.testing.assert_allclose(curves, expected, rtol=1e-10, atol=1e-12)
    assert curves[0, 0] > curves[2, 0]


def test_without_a_record_training_rows_are_left_out_as_explainers_do():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = OneClassSVM(nu=0.3).fit(X)
    explained = OneClassDTD(model).explain(X)
    assert (explained.extras["left_out"] >= 0).any()
    silent = explanation_of(X, explained.values, method="Silent")
    np.testing.assert_array_equal(flipping(silent, model).curves, flipping(explained, model).curves)
    np.testing.assert_allclose(flipping(explained, model).curves[:, 0], explained.scores, rtol=1e-10)


def test_a_training_row_that_is_no_support_point_leaves_nothing_out():
    score = kernel_score("exponential", 2.0)
    free = int(np.setdiff1d(np.arange(36), score.expansion.training_rows)[0])
    X = np.zeros((1, 5))
    values = np.arange(5.0)[None]
    with_free = flipping(explanation_of(X, values, method="M", extras={"left_out": np.array([free])}), score)
    np.testing.assert_array_equal(
        with_free.curves, flipping(explanation_of(X, values, method="M"), score).curves
    )


def test_steps_are_split_where_memory_is_short(monkeypatch):
    score = kernel_score("exponential", 2.0, m=50, d=7)
    X = np.random.default_rng(3).normal(size=(11, 7))
    whole = flipping(random_explanation(X), score).curves
    monkeypatch.setattr(import_module("tellwhy.evaluation.flipping"), "BATCH_BYTES", 8 * 50 * 3)
    monkeypatch.setattr("tellwhy.core.running.cut_batches.__defaults__", (8 * 50,))
    np.testing.assert_array_equal(flipping(random_explanation(X), score).curves, whole)


def test_the_sum_never_turns_negative():
    # Subtracting 1e8² from 1e16 + tiny loses the tiny part; adding up from what remains keeps it.
    score = KernelScore(KernelExpansion(np.zeros((1, 3)), np.ones(1), Exponential(1.0, 2.0)))
    X = np.array([[1e8, 1e-3, 1e-4]])
    curve = flipping(explanation_of(X, np.array([[3.0, 2.0, 1.0]]), method="M"), score).curves[0]
    np.testing.assert_allclose(curve, [0.5e16, 0.5 * (1e-6 + 1e-8), 0.5e-8, 0.0], rtol=1e-12, atol=0)


def test_centre_curves_equal_the_loop():
    rng = np.random.default_rng(0)
    centres, X = rng.normal(size=(3, 4)), rng.normal(size=(5, 4)) * 2
    explanation = random_explanation(X)
    curves = flipping(explanation, CentreScore(CentreDistance(centres))).curves
    expected = [
        flip(x, centres, r, pool=lambda distances, _: min(distances) ** 2)
        for x, r in zip(X, explanation.values, strict=True)
    ]
    np.testing.assert_allclose(curves, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("left", [-1, 2])
def test_neighbour_curves_equal_the_loop(left):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(8, 4))
    X = points[2] + rng.normal(size=(5, 4)) * [[0.1], [0.1], [0.1], [2.0], [2.0]]
    score = NeighbourScore(NeighbourDistance(points, 3, np.arange(8), 8))
    explanation = random_explanation(X, extras={"left_out": np.full(5, left)})
    expected = [
        flip(x, points, r, pool=lambda distances, _: float(np.mean(sorted(distances)[:3])), left_out=left)
        for x, r in zip(X, explanation.values, strict=True)
    ]
    np.testing.assert_allclose(flipping(explanation, score).curves, expected, rtol=1e-10, atol=1e-12)


def test_a_row_is_not_left_out_of_what_would_be_too_little():
    """Two neighbours of two points: without its own point, a row would have one neighbour only."""
    points = np.array([[0.0, 0.0], [3.0, 4.0]])
    score = NeighbourScore(NeighbourDistance(points, 2))
    values = np.array([[2.0, 1.0]])
    recorded = explanation_of(points[:1], values, method="M", extras={"left_out": np.array([0])})
    nothing = explanation_of(points[:1], values, method="M", extras={"left_out": np.array([-1])})
    curves = flipping(recorded, score).curves
    np.testing.assert_array_equal(curves, flipping(nothing, score).curves)
    np.testing.assert_allclose(curves, [[2.5, 2.0, 0.0]])


def test_an_encoded_column_goes_with_all_its_model_columns():
    score = kernel_score("exponential", 2.0)  # five model columns
    owner = np.array([1, 0, 1, 2, 1])
    raw = np.random.default_rng(4).normal(size=(4, 4))  # column 3 is not used by the model

    def encode(rows):
        rows = np.asarray(rows)
        return np.column_stack([rows[:, 1], rows[:, 0], rows[:, 1] ** 2, rows[:, 2], -rows[:, 1]])

    encoded = EncodedScore(
        inner=score, encode=encode, owner=owner, n_columns=4, feature_names=None, describes="o"
    )
    explanation = random_explanation(raw)
    expected = [
        flip(x, score.expansion.points, r, pool=pool_of(score), owner=owner)
        for x, r in zip(encode(raw), explanation.values, strict=True)
    ]
    np.testing.assert_allclose(flipping(explanation, encoded).curves, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["exponential", "student_t"])
def test_an_offset_moves_the_curve_and_not_the_area(kind):
    X = np.random.default_rng(2).normal(size=(6, 5)) * 3
    plain = flipping(random_explanation(X), kernel_score(kind, 2.0))
    moved = flipping(random_explanation(X), kernel_score(kind, 2.0, offset=-40.0))
    np.testing.assert_allclose(moved.curves, plain.curves - 40.0, rtol=1e-12)
    np.testing.assert_allclose(moved.areas, plain.areas, rtol=1e-9)


def test_the_floor_is_the_base_value_of_one_class_dtd():
    X = np.random.default_rng(0).normal(size=(80, 3))
    model = OneClassSVM(kernel="student_t", a=0.5).fit(X)
    explanation = OneClassDTD(model).explain(X[:20] * 2)
    np.testing.assert_allclose(
        flipping(explanation, model).curves[:, -1], explanation.base_values, rtol=1e-10
    )


def test_curves_in_difference_space_fall_from_one_to_zero():
    X = np.random.default_rng(2).normal(size=(6, 5)) * 3
    result = flipping(random_explanation(X), kernel_score("student_t", 2.0))
    shape = result.normalised()
    assert (np.diff(shape, axis=1) <= 0).all()
    np.testing.assert_array_equal(shape[:, [0, -1]], np.tile([1.0, 0.0], (6, 1)))
    np.testing.assert_allclose(result.mean_curve(), shape.mean(axis=0))


def test_a_row_that_is_not_odd_has_no_area():
    score = KernelScore(KernelExpansion(np.zeros((1, 2)), np.ones(1), Exponential(1.0, 2.0)))
    X = np.array([[0.0, 0.0], [3.0, 1.0]])
    result = flipping(explanation_of(X, [[1.0, 0.0], [1.0, 0.0]], method="M"), score)
    np.testing.assert_allclose(result.areas, [np.nan, (1 + 0.1) / 2 / 2 + 0.1 / 2 / 2], rtol=1e-12)
    assert result.area == pytest.approx(result.areas[1])
    np.testing.assert_allclose(result.mean_curve(), [1.0, 0.1, 0.0])
    alone = flipping(explanation_of(X[:1], [[1.0, 0.0]], method="M"), score)
    assert np.isnan(alone.area)
    assert np.isnan(alone.mean_curve()).all()


def test_the_order_of_exact_distances_is_the_best_there_is():
    score = CentreScore(CentreDistance(np.zeros((1, 4))))
    X = np.array([[1.0, -4.0, 2.0, 0.5]])
    orders = np.array(list(itertools.permutations(range(4))), dtype=float)
    areas = flipping(explanation_of(np.repeat(X, len(orders), axis=0), orders, method="All"), score).areas
    best = flipping(explanation_of(X, X**2, method="Exact"), score).area
    worst = flipping(explanation_of(X, X**2, method="Exact"), score, order="least_relevant_first").area
    assert best == pytest.approx(areas.min())
    assert worst == pytest.approx(areas.max())
    assert areas.min() < areas.max()


@pytest.mark.parametrize("detector", [OneClassSVM(), KernelDensity(kernel="student_t"), NearestNeighbours()])
def test_one_class_dtd_beats_chance_on_injected_anomalies(detector):
    X = np.random.default_rng(0).normal(size=(200, 6))
    model = detector.fit(X)
    odd, _ = inject_anomalies(X[:60], 2, 0, low=4.0, high=5.0)
    dtd = flipping(OneClassDTD(model).explain(odd), model)
    chance = flipping(random_explanation(odd), model)
    assert dtd.area < chance.area - 0.1
    assert (dtd.areas < chance.areas + 1e-12).mean() > 0.85
    np.testing.assert_allclose(dtd.curves[:, [0, -1]], chance.curves[:, [0, -1]], rtol=1e-12)


def test_permuting_columns_leaves_areas_unchanged():
    X = np.random.default_rng(0).normal(size=(100, 5)) * [1, 2, 3, 4, 5]
    columns = np.array([3, 0, 4, 2, 1])
    for detector in (OneClassSVM(bandwidth=5.0), SVDD(kernel="linear")):
        model = detector.fit(X)
        areas = flipping(OneClassDTD(model).explain(X[:10] * 3), model).areas
        permuted = type(detector)(**detector.get_params()).fit(X[:, columns])
        other = flipping(OneClassDTD(permuted).explain(X[:10, columns] * 3), permuted).areas
        np.testing.assert_allclose(other, areas, rtol=1e-5)
    score = kernel_score("exponential", 2.0)
    explanation = random_explanation(X[:10])
    turned = KernelScore(
        KernelExpansion(score.expansion.points[:, columns], score.expansion.weights, score.expansion.kernel)
    )
    exact = flipping(
        explanation_of(X[:10, columns], explanation.values[:, columns], method="M"), turned
    ).areas
    np.testing.assert_allclose(exact, flipping(explanation, score).areas, rtol=1e-10)


def test_ties_go_by_column():
    score = CentreScore(CentreDistance(np.zeros((1, 3))))
    X = np.array([[1.0, 2.0, 3.0]])
    for order in ("most_relevant_first", "least_relevant_first"):
        curve = flipping(explanation_of(X, np.zeros((1, 3)), method="M"), score, order=order).curves[0]
        np.testing.assert_allclose(curve, [14.0, 13.0, 9.0, 0.0])


@pytest.mark.parametrize("kind", ["sensitivity", "ranking"])
def test_signed_values_of_any_kind_give_the_order(kind):
    score = CentreScore(CentreDistance(np.zeros((1, 3))))
    X = np.array([[1.0, 2.0, 3.0]])
    curve = flipping(explanation_of(X, [[-9.0, 0.0, 1.0]], method="M", kind=kind), score).curves[0]
    np.testing.assert_allclose(curve, [14.0, 5.0, 1.0, 0.0])


def squares(X):
    return (np.asarray(X) ** 2).sum(axis=1) + np.asarray(X)[:, 0] * np.asarray(X)[:, 1]


def test_any_score_takes_nearest_normal_values():
    rng = np.random.default_rng(0)
    X, normal = rng.normal(size=(5, 4)) * 4, rng.normal(size=(5, 4))
    explanation = random_explanation(X, extras={"nearest_normal": normal})
    expected = [
        replace_in_turn(x, [y], r, squares) for x, y, r in zip(X, normal, explanation.values, strict=True)
    ]
    np.testing.assert_allclose(flipping(explanation, squares).curves, expected, rtol=1e-12)
    background = rng.normal(
        size=(3, 4)
    )  # which all methods share, comes before what an explanation has of its own
    with_background = flipping(explanation, squares, background=background).curves
    np.testing.assert_array_equal(
        with_background, flipping(random_explanation(X), squares, background=background).curves
    )


def test_rows_without_a_normal_version_are_left_out_and_that_is_said():
    rng = np.random.default_rng(0)
    X, normal = rng.normal(size=(5, 4)) * 4, rng.normal(size=(5, 4))
    whole = random_explanation(X, extras={"nearest_normal": normal})
    gappy = normal.copy()
    gappy[[1, 3]] = np.nan
    explanation = random_explanation(X, extras={"nearest_normal": gappy})
    with pytest.warns(DataNotice, match=r"2 of 5 rows .* left out of flipping \(the first is row 1\)"):
        result = flipping(explanation, squares)
    everything = flipping(whole, squares)
    kept = [0, 2, 4]
    np.testing.assert_array_equal(result.curves[kept], everything.curves[kept])
    np.testing.assert_array_equal(result.areas[kept], everything.areas[kept])
    assert np.isnan(result.curves[[1, 3]]).all()
    assert np.isnan(result.areas[[1, 3]]).all()
    assert np.isfinite(result.mean_curve()).all()
    lost = random_explanation(X, extras={"nearest_normal": np.full(X.shape, np.nan)})
    with pytest.raises(InvalidInput, match="None of the rows has a normal version"):
        flipping(lost, squares)


def test_any_score_takes_values_of_typical_background_rows():
    rng = np.random.default_rng(0)
    X, background = rng.normal(size=(5, 4)) * 4, rng.normal(size=(100, 4))
    background[::7] *= 50
    explanation = random_explanation(X)
    score = FunctionScore(squares)
    normal = choose_reference_rows(background, score)
    assert normal.shape == (16, 4)
    assert squares(normal).max() <= np.median(squares(background))
    expected = [replace_in_turn(x, normal, r, squares) for x, r in zip(X, explanation.values, strict=True)]
    result = flipping(explanation, squares, background=background)
    np.testing.assert_allclose(result.curves, expected, rtol=1e-12)
    odd = squares(X) > squares(normal).max()
    np.testing.assert_array_equal(np.isfinite(result.areas), odd)
    np.testing.assert_allclose(
        result.areas[odd], [normalised_area(c) for c in np.array(expected)[odd]], rtol=1e-10
    )


def test_a_row_within_the_normal_ones_has_no_area():
    background = np.array([[0.0, 1.0], [2.0, 0.0], [9.0, 9.0], [9.0, 8.0]])
    X = np.array(
        [[0.0, 1.8], [5.0, 0.1]]
    )  # scores 3.24 and 25.51; the calm half scores 1 and 4, 2.5 on average
    result = flipping(random_explanation(X), squares, background=background)
    assert np.isfinite(result.areas).tolist() == [False, True]


def test_replacement_is_batched_and_the_batches_do_not_matter(monkeypatch):
    calls = []

    def counted(X):
        calls.append(len(X))
        return squares(X)

    X = np.random.default_rng(0).normal(size=(8, 4))
    whole = flipping(random_explanation(X), counted, background=X).curves
    assert len(calls) == 4  # background, untouched, all replaced, everything between
    monkeypatch.setattr(import_module("tellwhy.evaluation.flipping"), "_CALL_BYTES", 1)
    np.testing.assert_allclose(
        flipping(random_explanation(X), squares, background=X).curves, whole, rtol=1e-13
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_stay_frames(library):
    frames = pytest.importorskip(library)
    columns = {"a": [1, 2, 30, 4], "b": ["x", "y", "x", "z"], "c": [0.5, 0.1, 9.0, 0.3]}
    frame = frames.DataFrame(columns)

    def function(rows):
        assert type(rows) is type(frame)
        assert list(rows.columns) == ["a", "b", "c"]
        letters = {"x": 1.0, "y": 2.0, "z": 3.0}
        return np.asarray(rows["a"]) * np.asarray(rows["c"]) + np.array([letters[b] for b in rows["b"]])

    values = np.array([[3.0, 2.0, 1.0]] * 4)
    encoded = EncodedScore(
        inner=FunctionScore(lambda Z: Z[:, 0]),
        encode=lambda rows: function(rows)[:, None],
        owner=None,
        n_columns=3,
        feature_names=None,
        describes="a product",
    )
    result = flipping(explanation_of(frame, values, method="M"), encoded, background=frame[1:2])
    np.testing.assert_allclose(result.curves[2], [271.0, 2 * 9 + 1, 2 * 9 + 2, 2 * 0.1 + 2])
    assert frame.equals(frames.DataFrame(columns))


def test_a_frame_explained_with_nearest_normals_as_an_array():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"a": [5.0, 6.0], "b": [1.0, 2.0]}, index=[10, 10])
    explanation = random_explanation(X, extras={"nearest_normal": np.zeros((2, 2))})
    result = flipping(explanation, lambda rows: squares(rows[["a", "b"]]))
    np.testing.assert_allclose(result.curves[:, [0, 2]], [[31.0, 0.0], [52.0, 0.0]])


def test_images_are_flattened():
    X = np.random.default_rng(0).normal(size=(3, 2, 2)) + 5
    seen = set()

    def function(rows):
        seen.add(rows.shape[1:])
        return rows.reshape(len(rows), -1).sum(axis=1)

    result = flipping(random_explanation(X), function, background=np.zeros((1, 2, 2)))
    assert seen == {(2, 2)}
    assert result.curves.shape == (3, 5)
    np.testing.assert_allclose(result.curves[:, -1], 0.0)


def test_one_feature():
    X = np.array([[3.0]])
    explanation = explanation_of(X, [[1.0]], method="M")
    assert flipping(explanation, CentreScore(CentreDistance(np.zeros((1, 1))))).area == 0.5
    assert flipping(explanation, lambda Z: np.abs(Z[:, 0]), background=np.zeros((2, 1))).area == 0.5


def test_nothing_of_the_users_changes():
    score = kernel_score("exponential", 2.0)
    X = np.random.default_rng(0).normal(size=(4, 5))
    X.setflags(write=False)
    explanation = random_explanation(X)
    values = explanation.values.copy()
    flipping(explanation, score)
    np.testing.assert_array_equal(explanation.values, values)


def wrong_columns():
    return random_explanation(np.ones((2, 3))), kernel_score("exponential", 2.0), {}


def no_normal_values():
    return random_explanation(np.ones((2, 3))), squares, {}


def no_data():
    return explanation_of(None, np.ones((2, 5)), method="M"), kernel_score("exponential", 2.0), {}


def other_rows():
    return explanation_of(np.ones((3, 5)), np.ones((2, 5)), method="M"), kernel_score("exponential", 2.0), {}


def not_finite():
    return (
        explanation_of(np.ones((1, 5)), [[0, 1, np.nan, 2, 3]], method="M"),
        kernel_score("exponential", 2.0),
        {},
    )


def nan_in_data():
    X = np.array([[0.0, np.nan, 0, 0, 0]])
    return random_explanation(X), kernel_score("exponential", 2.0), {}


def odd_nearest_normal():
    return random_explanation(np.ones((2, 3)), extras={"nearest_normal": np.ones((2, 2))}), squares, {}


def empty_background():
    return random_explanation(np.ones((2, 3))), squares, {"background": np.ones((0, 3))}


def narrow_background():
    return random_explanation(np.ones((2, 3))), squares, {"background": np.ones((6, 2))}


def far_away():
    return random_explanation(np.full((1, 5), 1e300)), kernel_score("exponential", 2.0), {}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (wrong_columns, "values for 3 features, but .* takes 5. Pass the model that was explained"),
        (no_normal_values, "Pass background="),
        (no_data, "its data is None"),
        (other_rows, "The explanation has 2 rows, and its data 3"),
        (not_finite, "no finite value in row 0, feature 2"),
        (nan_in_data, "NaN in row 0, column 1"),
        (odd_nearest_normal, r"nearest_normal'\] has shape \(2, 2\)"),
        (empty_background, "background is empty"),
        (narrow_background, r"background has shape \(6, 2\); .* \(2, 3\)"),
        (far_away, "The score of row 0 is not finite"),
    ],
)
def test_bad_input_is_named(case, message):
    explanation, model, options = case()
    with pytest.raises(InvalidInput, match=message):
        flipping(explanation, model, **options)


def test_unknown_orders_and_kernels_are_named():
    X = np.ones((1, 3))
    with pytest.raises(InvalidParameter, match="'order' parameter of flipping"):
        flipping(random_explanation(X), squares, order="backwards", background=X)

    class Triangle:
        q, bandwidth, at_zero = 1.0, 1.0, 1.0

        def of_squared(self, s):
            return 1 - np.sqrt(s)

    score = kernel_score("exponential", 2.0)
    score.expansion = KernelExpansion(np.zeros((1, 5)), np.ones(1), Triangle())
    with pytest.raises(UnsupportedModel, match="Triangle"):
        flipping(random_explanation(np.ones((1, 5))), score)
