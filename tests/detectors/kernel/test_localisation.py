"""bandwidth='localisation': chosen on training rows, reproducible, bounded, and better at naming columns."""

import numpy as np
import pytest

from tellwhy.bases import KernelBasis
from tellwhy.core.errors import InvalidParameter
from tellwhy.detectors import SVDD, KernelDensity, OneClassSVM, load
from tellwhy.detectors.kernel import kernel_detector as localisation
from tellwhy.explainers import OneClassDTD


def clustered(n, d=40, seed=0):
    """Rows in thirty groups, whose columns have little noise of their own: a narrow kernel sees it."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(100).normal(size=(30, d))
    return centres[rng.integers(0, 30, n)] + 0.15 * rng.normal(size=(n, d))


def share_named(model, seed=5):
    rows = clustered(80, seed=seed)
    moved = np.arange(80) % rows.shape[1]
    rows[np.arange(80), moved] += 1.0
    return (OneClassDTD(model).explain(rows).values.argmax(axis=1) == moved).mean()


@pytest.mark.parametrize("detector", [OneClassSVM, KernelDensity, SVDD])
def test_it_names_moved_columns_better_where_columns_are_many(detector):
    X = clustered(400)
    chosen = detector(bandwidth="localisation").fit(X)
    assert share_named(chosen) > share_named(detector().fit(X)) + 0.2 or share_named(chosen) > 0.95
    assert chosen.bandwidth_ in chosen.tried_bandwidths_
    assert chosen.tried_names_.shape == (6, 2)
    best = chosen.tried_names_.max(axis=1).argmax()
    assert chosen.bandwidth_ == chosen.tried_bandwidths_[best]


def test_it_is_the_same_in_every_fit_and_for_every_order_of_columns():
    X = clustered(150)
    order = np.random.default_rng(1).permutation(X.shape[1])
    widths = {OneClassSVM(bandwidth="localisation").fit(Z).bandwidth_ for Z in (X, X)}
    assert len(widths) == 1
    shuffled = OneClassSVM(bandwidth="localisation").fit(X[:, order]).bandwidth_
    assert shuffled == pytest.approx(widths.pop(), rel=1e-9)


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e150])
def test_extreme_units_choose_the_same_share(unit):
    X = clustered(150)
    one = KernelDensity(bandwidth="localisation").fit(X)
    other = KernelDensity(bandwidth="localisation").fit(unit * X)
    assert other.bandwidth_ / unit == pytest.approx(one.bandwidth_, rel=1e-6)


def test_units_only_scale_it():
    X = clustered(150)
    one = KernelDensity(bandwidth="localisation").fit(X).bandwidth_
    assert KernelDensity(bandwidth="localisation").fit(1000.0 * X + 7.0).bandwidth_ == pytest.approx(
        1000 * one, rel=1e-6
    )


def test_the_cost_is_bounded(monkeypatch):
    sizes = []
    fit = KernelDensity._fit

    def counted(self, X):
        sizes.append(len(X))
        fit(self, X)

    monkeypatch.setattr(KernelDensity, "_fit", counted)
    KernelDensity(bandwidth="localisation").fit(clustered(2_500, d=3))
    assert sizes == [2_500] + [localisation.LEARNED_ROWS] * 6


def test_few_rows_and_constant_columns_fall_back_to_auto():
    few = clustered(12, d=3)
    assert OneClassSVM(bandwidth="localisation").fit(few).bandwidth_ == OneClassSVM().fit(few).bandwidth_
    model = OneClassSVM(bandwidth="localisation").fit(clustered(60))
    assert hasattr(model, "tried_names_")
    model.set_params(bandwidth="auto").fit(few)
    assert not hasattr(model, "tried_names_")  # it belongs to another fit


def test_held_out_rows_are_not_learned(monkeypatch):
    seen = {}
    drawn = localisation.MovedColumns.drawn

    def spy(X, owner, n, rng, *, known):
        seen["held"] = X
        return drawn(X, owner, n, rng, known=known)

    def named(detector, learned, moved):
        seen["learned"] = learned
        return 0.0, 1.0

    monkeypatch.setattr(localisation.MovedColumns, "drawn", spy)
    monkeypatch.setattr(localisation, "_named", named)
    X = clustered(300)
    localisation.try_bandwidths(OneClassSVM(), X)
    held, learned = ({row.tobytes() for row in seen[k]} for k in ("held", "learned"))
    assert len(held) == 60
    assert len(learned) == 240
    assert not held & learned


def test_it_is_saved_with_what_was_tried(tmp_path):
    model = OneClassSVM(bandwidth="localisation").fit(clustered(60))
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.tried_names_, model.tried_names_)
    assert again.bandwidth_ == model.bandwidth_


def test_with_features_the_exact_kernel_chooses():
    X = clustered(150, d=6)
    exact = OneClassSVM(bandwidth="localisation").fit(X).bandwidth_
    basis = KernelBasis("gaussian", "random", 2048, random_state=0)
    assert OneClassSVM(bandwidth="localisation", features=basis).fit(X).bandwidth_ == exact
    with pytest.raises(InvalidParameter, match="Give one of them"):
        fixed = KernelBasis("gaussian", "random", 64, bandwidth=1.0, random_state=0)
        OneClassSVM(bandwidth="localisation", features=fixed).fit(X)
