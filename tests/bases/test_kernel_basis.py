"""Random bases: unbiased, close to the exact kernels, the same whatever their structure is computed with."""

import numpy as np
import pytest
from oracles.basis_oracles import (
    arc_cosine_kernel,
    gaussian_features,
    gaussian_kernel,
    hadamard_matrix,
    nth_neighbour_distance,
    rectified_features,
)
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from storage.changed_files import edited
from tellwhy.bases import KernelBasis
from tellwhy.bases._compiled import CONSTANTS_32, CONSTANTS_64, waves
from tellwhy.bases.projections import HadamardProjection
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnreadableFile

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5)) + 2.0
PAIRS = 0.8 * RNG.normal(size=(6, 2, 5))
DIGITS = load_digits().data
BASES = [
    KernelBasis(n_features=16, random_state=0),
    KernelBasis(n_features=16, structure="dense", random_state=0),
    KernelBasis(n_features=16, structure="hadamard", random_state=0),
    KernelBasis("arccos3", n_features=8, structure="hadamard", n_blocks=2, random_state=0),
]


@parametrize_with_checks(BASES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def estimates(pairs, n_draws, **params):
    """Inner products of features, shape (draws, pairs), with independent draws."""
    rows = pairs.reshape(-1, pairs.shape[-1])
    found = []
    for draw in range(n_draws):
        features = (
            KernelBasis(random_state=draw, **params).fit(rows).transform(rows).reshape(*pairs.shape[:2], -1)
        )
        found.append((features[:, 0] * features[:, 1]).sum(axis=-1))
    return np.array(found)


@pytest.mark.parametrize("structure", ["dense", "orthogonal"])
@pytest.mark.parametrize("kernel", ["gaussian", "arccos"])
def test_features_are_unbiased(kernel, structure):
    found = estimates(PAIRS, 800, kernel=kernel, n_features=20, bandwidth=2.0, structure=structure)
    exact = [
        gaussian_kernel(a, b, 2.0) if kernel == "gaussian" else arc_cosine_kernel(a, b) for a, b in PAIRS
    ]
    error = found.std(axis=0) / np.sqrt(len(found))
    np.testing.assert_allclose((found.mean(axis=0) - exact) / error, 0.0, atol=4.0)
    assert (error < 0.1 * np.abs(exact)).all()  # half the kernel, as printed, is out of reach


@pytest.mark.parametrize(("kernel", "depth"), [("arccos", 1), ("arccos2", 2), ("arccos3", 3)])
@pytest.mark.parametrize("structure", ["dense", "orthogonal", "hadamard"])
def test_wide_features_agree_with_the_exact_arc_cosine_kernel(kernel, depth, structure):
    rows = 3.0 * RNG.normal(size=(4, 40))  # ‖x‖ far from 1: the printed power −½ is off by ‖x‖⁴
    features = (
        KernelBasis(kernel, n_features=1_000, structure=structure, random_state=0).fit(rows).transform(rows)
    )
    exact = np.array([[arc_cosine_kernel(a, b, depth) for a in rows] for b in rows])
    np.testing.assert_allclose(features @ features.T, exact, rtol=0.3)


@pytest.mark.parametrize("structure", ["dense", "orthogonal", "hadamard"])
def test_wide_features_agree_with_the_exact_gaussian_kernel(structure):
    basis = KernelBasis(n_features=8_192, bandwidth=3.0, structure=structure, random_state=0).fit(X)
    features = basis.transform(X)
    exact = np.array([[gaussian_kernel(a, b, 3.0) for a in X] for b in X])
    np.testing.assert_allclose(features @ features.T, exact, atol=0.06)
    np.testing.assert_allclose((features**2).sum(axis=1), 1.0, rtol=1e-12)
    below = np.triu_indices(len(X), k=1)
    error = 0.5 * ((exact - features @ features.T)[below] ** 2).mean()
    assert basis.kernel_error(X) == pytest.approx(error, rel=1e-9)


def test_orthogonal_directions_cut_the_error_of_independent_ones():
    width = np.median(pdist(DIGITS))

    def error(structure, seed):
        basis = KernelBasis(n_features=256, bandwidth=width, structure=structure, random_state=seed)
        return basis.fit(DIGITS).kernel_error(DIGITS)

    independent, orthogonal, hadamard = (
        np.mean([error(structure, seed) for seed in range(4)])
        for structure in ("dense", "orthogonal", "hadamard")
    )
    assert independent >= 5 * orthogonal
    assert independent >= 5 * hadamard


@pytest.mark.parametrize("n_blocks", [1, 2, 3])
@pytest.mark.parametrize("d", [1, 2, 64, 65, 130])
def test_the_fast_transform_is_the_dense_one(d, n_blocks):
    rows = RNG.normal(size=(37, d))
    basis = KernelBasis(
        n_features=300, bandwidth=1.7, structure="hadamard", n_blocks=n_blocks, random_state=1
    )
    fitted = basis.fit(rows).map_
    layer = fitted.layers[0]
    assert isinstance(layer, HadamardProjection)
    G = hadamard_matrix(layer.diagonals, d, 150)
    np.testing.assert_allclose(
        basis.transform(rows), gaussian_features(rows, rows.mean(axis=0), 1.7, G), atol=1e-12
    )


def test_deep_fast_transforms_are_the_dense_ones():
    basis = KernelBasis("arccos3", n_features=70, structure="hadamard", random_state=1).fit(X)
    matrices = [hadamard_matrix(layer.diagonals, layer.n_inputs, 70) for layer in basis.map_.layers]
    np.testing.assert_allclose(basis.transform(X), rectified_features(X, matrices), rtol=1e-10, atol=1e-12)


def test_one_block_converges_to_a_product_of_cosines():
    rows = RNG.normal(size=(8, 3))
    basis = KernelBasis(n_features=2**15, bandwidth=1.5, structure="hadamard", n_blocks=1, random_state=0)
    features = basis.fit(rows).transform(rows)
    limit = np.cos((rows[:, None] - rows[None]) / 1.5).prod(axis=2)
    np.testing.assert_allclose(features @ features.T, limit, atol=0.03)
    assert np.abs(limit - np.exp(-((rows[:, None] - rows[None]) ** 2).sum(axis=2) / 4.5)).max() > 0.2


def test_structured_bases_hold_few_numbers():
    basis = KernelBasis(n_features=4_096, structure="hadamard", random_state=0).fit(DIGITS)
    assert basis.map_.layers[0].n_parameters == 3 * 2_048
    assert KernelBasis(n_features=4_096, random_state=0).fit(DIGITS).map_.layers[0].n_parameters == 64 * 2_048


@pytest.mark.parametrize("far", [3.0, 500.0, 1e5, 1e9, 1e11])
@pytest.mark.parametrize("constants", [CONSTANTS_32, CONSTANTS_64], ids=["single", "double"])
def test_sines_and_cosines(constants, far):
    dtype = np.asarray(constants.one).dtype
    z = np.concatenate([RNG.uniform(-far, far, 1_000), np.arange(-20, 21) * np.pi / 4, [0.0]]).astype(dtype)
    sines, cosines = np.empty_like(z), np.empty_like(z)
    waves(z, constants, dtype.type(1.0), sines, cosines)
    eps = 2 * np.finfo(dtype).eps
    np.testing.assert_allclose(sines, np.sin(z.astype(np.float64)), atol=eps)
    np.testing.assert_allclose(cosines, np.cos(z.astype(np.float64)), atol=eps)


@pytest.mark.parametrize("structure", ["orthogonal", "hadamard"])
@pytest.mark.parametrize("kernel", ["gaussian", "arccos2"])
def test_rows_are_mapped_one_by_one_in_their_own_precision(kernel, structure):
    basis = KernelBasis(kernel, n_features=100, structure=structure, random_state=0).fit(DIGITS)
    together = basis.transform(DIGITS[:300])
    np.testing.assert_allclose(
        np.vstack([basis.transform(row[None]) for row in DIGITS[:20]]), together[:20], rtol=1e-9
    )
    single = basis.transform(DIGITS[:300].astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, together, rtol=1e-3, atol=1e-4 * np.abs(together).max())


def test_many_rows_are_mapped_in_batches_like_few(monkeypatch):
    basis = KernelBasis(n_features=50, random_state=0).fit(DIGITS)
    whole = basis.transform(DIGITS)
    monkeypatch.setattr("tellwhy.bases.map_rows._BATCH_BYTES", 40_000)
    np.testing.assert_allclose(basis.transform(DIGITS), whole, rtol=1e-12, atol=1e-15)


def test_the_automatic_bandwidth_is_the_distance_to_the_fiftieth_neighbour():
    rows = DIGITS[:120]
    assert KernelBasis(random_state=0).fit(rows).bandwidth_ == pytest.approx(nth_neighbour_distance(rows, 50))
    assert KernelBasis(random_state=0).fit(X).bandwidth_ == pytest.approx(nth_neighbour_distance(X, 39))
    copies = np.repeat([[0.0, 0.0], [3.0, 4.0]], 60, axis=0)
    assert KernelBasis(random_state=0).fit(copies).bandwidth_ == pytest.approx(5.0)
    assert KernelBasis("arccos", random_state=0).fit(X).bandwidth_ == 1.0


def test_offsets_do_not_cost_digits():
    near, far = (
        KernelBasis(n_features=64, random_state=0).fit(X + shift).transform(X + shift) for shift in (0.0, 1e8)
    )
    np.testing.assert_allclose(far, near, atol=1e-5)


def test_the_seed_decides():
    def features(seed):
        return KernelBasis(n_features=20, structure="hadamard", random_state=seed).fit(X).transform(X)

    np.testing.assert_array_equal(features(3), features(3))
    assert np.abs(features(3) - features(4)).max() > 0.1


@pytest.mark.parametrize("structure", ["dense", "orthogonal", "hadamard"])
def test_one_column_and_constant_columns(structure):
    one = RNG.normal(size=(30, 1))
    basis = KernelBasis(n_features=2_000, bandwidth=1.0, structure=structure, random_state=0).fit(one)
    assert basis.kernel_error(one) < 2e-3
    constant = np.hstack([one, np.full((30, 1), 7.0)])
    basis = KernelBasis(n_features=2_000, bandwidth=1.0, structure=structure, random_state=0).fit(constant)
    assert basis.kernel_error(constant) < 2e-3


def test_bad_rows_and_parameters_are_refused(monkeypatch):
    fitted = KernelBasis(n_features=4, random_state=0).fit(X)
    hole = X.copy()
    hole[3, 1] = np.nan
    for act in (KernelBasis().fit, fitted.transform, fitted.kernel_error):
        with pytest.raises(InvalidInput, match="NaN in row 3, column 1"):
            act(hole)
    with pytest.raises(InvalidInput, match="All rows are equal"):
        KernelBasis().fit(np.ones((9, 2)))
    with pytest.raises(InvalidInput, match="expecting 5"):
        fitted.transform(X[:, :4])
    far = X.copy()
    far[33, 2] = 1e200
    monkeypatch.setattr("tellwhy.bases.map_rows._BATCH_BYTES", 1)  # rows come one by one
    with pytest.raises(InvalidInput, match="Row 33 is too far away in column 2"):
        fitted.transform(far)
    with pytest.raises(InvalidParameter, match="must be even"):
        KernelBasis(n_features=5).fit(X)
    for wrong in (
        {"n_blocks": 4},
        {"kernel": "rbf"},
        {"bandwidth": 0.0},
        {"n_features": 0},
        {"structure": "fast"},
    ):
        with pytest.raises(InvalidParameter, match=f"'{next(iter(wrong))}' parameter of KernelBasis"):
            KernelBasis(**wrong).fit(X)


@pytest.mark.parametrize("basis", BASES, ids=["orthogonal", "dense", "hadamard", "deep"])
def test_saved_bases_give_the_same_bits(basis, tmp_path):
    fitted = basis.fit(X)
    again = KernelBasis.load(fitted.save(tmp_path / "basis"))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    assert again.get_params() == fitted.get_params()
    assert again.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("learned", "map_", "is", "bandwidth"), -1.0),
        (("learned", "map_", "is", "kernel"), "arccos"),
        (("learned", "map_", "is", "layers", "is"), []),
        (("learned", "n_features_in_"), 4),
        (("params", "n_features"), 18),
        (("learned", "map_", "type"), "Popen"),
    ],
    ids=str,
)
def test_bases_that_do_not_fit_together_are_refused(tmp_path, place, value):
    path = KernelBasis(n_features=16, random_state=0).fit(X).save(tmp_path / "basis")
    edited(path, place, value)
    with pytest.raises(UnreadableFile, match="does not hold a working KernelBasis"):
        KernelBasis.load(path)
