"""Adapted bases: what they are trained for improves, on rows held out, and nothing but the basis changes."""

import sys

import numpy as np
import pytest
from oracles.basis_oracles import arc_cosine_kernel, gaussian_kernel
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from tellwhy.bases import KernelBasis
from tellwhy.bases.projections import FeatureMap, draw_projection
from tellwhy.core.errors import InvalidInput, MissingExtra

torch = pytest.importorskip("torch")

from tellwhy.bases.adaptation import Adapted, choose_held_rows, make_objective  # noqa: E402
from tellwhy.bases.objectives import Alignment, KernelValues, SoftmaxLoss  # noqa: E402
from tellwhy.bases.torch_features import BasisStack  # noqa: E402
from tellwhy.bases.training import Plan, TrainingRows, Watch, train  # noqa: E402

X, Y = load_digits(return_X_y=True)
X = X / 16 - X.mean(axis=0) / 16
BRIEF = {"max_epochs": 2, "n_batches": 4, "learning_rate": 1e-3, "random_state": 0}
KINDS = ("unsupervised", "supervised", "discriminative")


@parametrize_with_checks(
    [KernelBasis(basis=kind, n_features=4, max_epochs=1, n_batches=1, random_state=0) for kind in KINDS]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def drawn(kernel="gaussian", structure="orthogonal", width=12, d=64, seed=0):
    rng, depth = np.random.default_rng(seed), int(kernel[6:] or 1) if kernel.startswith("arccos") else 1
    layers = tuple(draw_projection(structure, n, width, rng, n_blocks=2) for n in [d, *[width] * (depth - 1)])
    return FeatureMap(kernel, 1.0, np.zeros(d), layers)


@pytest.mark.parametrize("structure", ["dense", "hadamard"])
@pytest.mark.parametrize("kernel", ["gaussian", "arccos", "arccos3"])
def test_a_stack_computes_the_features_of_its_members(kernel, structure):
    maps = [drawn(kernel, structure, width, seed=width) for width in (12, 60)]
    features = BasisStack.of(maps, "cpu").features(torch.tensor(X[:9], dtype=torch.float32)).detach().numpy()
    for found, one in zip(features, maps, strict=True):
        if kernel == "gaussian":
            width = one.layers[0].n_directions
            live = np.hstack([found[:, :width], found[:, 60 : 60 + width]])
            assert not np.delete(found, [*range(width), *range(60, 60 + width)], axis=1).any()
            np.testing.assert_allclose(live, one.apply(X[:9]), atol=2e-5)
        else:
            np.testing.assert_allclose(found[:, : one.n_features], one.apply(X[:9]), atol=2e-5)
            assert not found[:, one.n_features :].any()


@pytest.mark.parametrize("kernel", ["gaussian", "arccos2"])
@pytest.mark.parametrize("structure", ["orthogonal", "hadamard"])
def test_training_on_the_kernel_lowers_its_error_on_other_rows(kernel, structure):
    params = {"kernel": kernel, "n_features": 16, "structure": structure, "random_state": 0}
    plain = KernelBasis(**params).fit(X[:1200])
    adapted = KernelBasis(basis="unsupervised", max_epochs=2, n_batches=60, learning_rate=0.03, **params).fit(
        X[:1200]
    )
    assert adapted.kernel_error(X[1200:]) < 0.6 * plain.kernel_error(X[1200:])
    assert adapted.bandwidth_ == plain.bandwidth_
    assert adapted.losses_[-1] < adapted.losses_[0]


@pytest.mark.parametrize(("kernel", "depth"), [("gaussian", 1), ("arccos", 1), ("arccos3", 3)])
def test_the_loss_of_pairs_is_half_the_mean_squared_error(kernel, depth):
    one = drawn(kernel)
    index = np.array([[0, 3, 7, 9], [5, 1, 7, 2]])
    features = one.apply(X[:10])
    exact = [
        gaussian_kernel(a, b, 1.0) if kernel == "gaussian" else arc_cosine_kernel(a, b, depth)
        for a, b in zip(X[index[0]], X[index[1]], strict=True)
    ]
    errors = exact - (features[index[0]] * features[index[1]]).sum(axis=1)
    rows = torch.tensor(X[:10], dtype=torch.float32)
    found = KernelValues(kernel, depth).losses(BasisStack.of([one], "cpu"), rows, None, torch.tensor(index))
    assert found.tolist() == pytest.approx([0.5 * (errors**2).mean()], rel=1e-3)


def test_the_loss_held_out_is_the_kernel_error_of_other_rows():
    basis = KernelBasis(basis="unsupervised", n_features=16, max_epochs=2, n_batches=60, random_state=0).fit(
        X[:1200]
    )
    assert basis.losses_.min() == pytest.approx(basis.kernel_error(X[1200:]), rel=0.3)


def alignment(features, labels):
    K, same = features @ features.T, labels[:, None] == labels[None, :]
    return (K * same).sum() / np.sqrt((K**2).sum() * same.sum())


def test_training_on_labels_aligns_the_kernel_with_them():
    params = {"n_features": 20, "random_state": 0, "max_epochs": 4, "learning_rate": 0.01}
    plain = KernelBasis(**params).fit(X[:1200])
    adapted = KernelBasis(basis="supervised", **params).fit(X[:1200], Y[:1200])
    before, after = (alignment(basis.transform(X[1200:]), Y[1200:]) for basis in (plain, adapted))
    assert after > before + 0.15
    assert adapted.losses_[-1] == pytest.approx(-alignment(adapted.transform(X[:64]), Y[:64]), abs=0.1)


def test_end_to_end_training_brings_a_classifier():
    basis = KernelBasis(
        basis="discriminative", n_features=20, max_epochs=8, learning_rate=0.01, random_state=0
    )
    basis.fit(X[:1200], Y[:1200])
    scores = basis.transform(X[1200:]) @ basis.softmax_.weights + basis.softmax_.bias
    assert (basis.classes_[scores.argmax(axis=1)] == Y[1200:]).mean() > 0.8


def test_an_offset_of_the_rows_changes_nothing():
    params = {
        "basis": "discriminative",
        "n_features": 20,
        "max_epochs": 2,
        "learning_rate": 0.01,
        "random_state": 0,
    }
    near, far = (KernelBasis(**params).fit(rows, Y) for rows in (X, X + 50.0))
    np.testing.assert_allclose(far.softmax_.weights, near.softmax_.weights, atol=1e-2)
    np.testing.assert_allclose(far.transform(X + 50.0), near.transform(X), atol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_diagonals_of_a_structured_basis_are_trained(kind):
    params = {"n_features": 30, "structure": "hadamard", **BRIEF}
    plain, adapted = KernelBasis(**params).fit(X, Y), KernelBasis(basis=kind, **params).fit(X, Y)
    was, now = plain.map_.layers[0], adapted.map_.layers[0]
    assert now.diagonals.shape == was.diagonals.shape
    assert 0 < np.abs(now.diagonals - was.diagonals).max() < 0.05
    assert now.n_parameters == 3 * 64


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bits(kind):
    def features(seed):
        basis = KernelBasis(basis=kind, n_features=6, max_epochs=2, n_batches=5, random_state=seed)
        return basis.fit(X[:200], Y[:200]).transform(X[:5])

    np.testing.assert_array_equal(features(1), features(1))
    assert np.abs(features(1) - features(2)).max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_fitting_again_starts_afresh_and_batches_repeat_to_the_bit(kind):
    def grown():
        basis = KernelBasis(basis=kind, n_features=6, **BRIEF).partial_fit(
            X[:200], Y[:200], classes=np.arange(10)
        )
        return basis.partial_fit(X[200:400], Y[200:400])

    one, other = grown(), grown()
    np.testing.assert_array_equal(one.transform(X[:5]), other.transform(X[:5]))
    fresh = KernelBasis(basis=kind, n_features=6, **BRIEF).fit(X[:200], Y[:200])
    np.testing.assert_array_equal(one.fit(X[:200], Y[:200]).transform(X[:5]), fresh.transform(X[:5]))
    np.testing.assert_array_equal(one.losses_, fresh.losses_)


def test_rows_held_out_are_not_learned_from():
    rows = TrainingRows.of(X[:6], Y[:6], np.array([1, 4]), "cpu")
    np.testing.assert_allclose(rows.Z, X[[0, 2, 3, 5]], atol=1e-6)
    np.testing.assert_allclose(rows.held_Z, X[[1, 4]], atol=1e-6)
    assert rows.labels.tolist() == Y[[0, 2, 3, 5]].tolist()
    assert rows.held_labels.tolist() == Y[[1, 4]].tolist()
    places = choose_held_rows(5, 0.99, np.random.default_rng(0))
    assert len(places) == len(set(places.tolist())) == 4
    assert len(choose_held_rows(2, 0.01, np.random.default_rng(0))) == 1
    assert len(choose_held_rows(200_000, 0.2, np.random.default_rng(0))) == 10_000


def test_every_pass_of_a_softmax_sees_each_row_once_in_another_order():
    objective, rng = SoftmaxLoss(1, 4, 2, "cpu"), np.random.default_rng(0)
    order = objective.draw(rng, 12, 6, 4).ravel()
    for part in (order[:12], order[12:]):
        assert sorted(part) == list(range(12))
        assert list(part) != sorted(part)
    assert list(order[:12]) != list(order[12:])
    parts = objective.held_parts(rng, 5_000, 64)
    assert sorted(np.concatenate(parts).tolist()) == list(range(5_000))


def stack_rows(n=400):
    return TrainingRows.of(X[:n], Y[:n], np.arange(0, n, 5), "cpu")


@pytest.mark.parametrize("kind", KINDS)
def test_bases_trained_side_by_side_are_those_trained_alone(kind):
    plan = Plan(learning_rate=0.01, batch_size=16, n_batches=10, max_epochs=5, patience=2)
    maps = [drawn(width=width, seed=width) for width in (5, 11)]

    def trained(some):
        stack = BasisStack.of(some, "cpu")
        done = train(
            stack, make_objective(kind, stack, 10, "cpu"), stack_rows(), plan, np.random.default_rng(3)
        )
        return [stack.member(i) for i in range(len(some))], done.losses

    (together, both), alone = trained(maps), [trained([one]) for one in maps]
    for i, (members, losses) in enumerate(alone):
        np.testing.assert_allclose(both[: len(losses), i], losses[:, 0], rtol=1e-4)
        np.testing.assert_allclose(together[i].layers[0].matrix, members[0].layers[0].matrix, atol=2e-3)


def test_training_ends_with_the_best_weights_and_stops_early():
    stack = BasisStack.of([drawn(width=8)], "cpu")
    objective = make_objective("discriminative", stack, 10, "cpu")
    rows = stack_rows(80)
    plan = Plan(learning_rate=0.3, batch_size=16, n_batches=10, max_epochs=60, patience=3)
    done = train(stack, objective, rows, plan, np.random.default_rng(0))
    losses = done.losses
    best = int(losses[:, 0].argmin())
    assert done.best_epochs() == best + 1
    assert len(losses) == done.ends[0] == best + 4 < 60
    with torch.no_grad():
        now = objective.losses(stack, rows.held_Z, rows.held_labels, torch.arange(len(rows.held_Z)))
    assert float(now[0]) == pytest.approx(losses[best, 0], rel=1e-5)


def test_a_fixed_basis_stays_as_it_is():
    stack = BasisStack.of([drawn()], "cpu")
    before = stack.layers[0].detach().clone()
    plan = Plan(n_batches=5, max_epochs=2, train_basis=False)
    train(
        stack,
        make_objective("discriminative", stack, 10, "cpu"),
        stack_rows(),
        plan,
        np.random.default_rng(0),
    )
    assert torch.equal(stack.layers[0], before)


@pytest.mark.parametrize("kind", KINDS)
def test_few_rows_one_column_and_constant_columns(kind):
    few = np.array([[0.0], [1.0], [2.0], [3.5]])
    labels = np.array(["a", "b", "a", "b"])
    for rows in (few, np.hstack([few, np.ones((4, 1))])):
        basis = KernelBasis(basis=kind, n_features=4, **BRIEF).fit(rows, labels)
        assert np.isfinite(basis.transform(rows)).all()


def test_bad_labels_and_losses_are_refused():
    for kind in ("supervised", "discriminative"):
        with pytest.raises(InvalidInput, match="only one class"):
            KernelBasis(basis=kind, **BRIEF).fit(X, np.zeros(len(X), dtype=int))
        with pytest.raises(InvalidInput, match="requires y to be passed"):
            KernelBasis(basis=kind, **BRIEF).fit(X)
        with pytest.raises(InvalidInput, match="needs classes in y"):
            KernelBasis(basis=kind, **BRIEF).fit(X, Y + 0.5)
    with pytest.raises(InvalidInput, match="not finite"):
        KernelBasis("arccos", "unsupervised", 8, **BRIEF).fit(X * 1e15)


@pytest.mark.parametrize("kind", KINDS)
def test_holes_are_named(kind):
    hole = X[:50].copy()
    hole[3, 1] = np.nan
    with pytest.raises(InvalidInput, match="NaN in row 3, column 1"):
        KernelBasis(basis=kind, n_features=4, **BRIEF).fit(hole, Y[:50])
    basis = KernelBasis(basis=kind, n_features=4, **BRIEF).fit(X[:50], Y[:50])
    before = basis.map_
    with pytest.raises(InvalidInput, match="NaN in row 3, column 1"):
        basis.partial_fit(hole, Y[:50])
    assert basis.map_ is before


def test_adapting_without_pytorch_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"KernelBasis\(basis='unsupervised'\) needs 'torch'"):
        KernelBasis(basis="unsupervised", n_features=4).fit(X)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_adapted_bases_give_the_same_bits(kind, tmp_path):
    fitted = KernelBasis(basis=kind, n_features=6, **BRIEF).fit(X[:100], Y[:100].astype(str))
    again = KernelBasis.load(fitted.save(tmp_path / "basis"))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(again.losses_, fitted.losses_)


@pytest.mark.parametrize("kind", KINDS)
def test_training_goes_on_with_further_batches(kind):
    basis = KernelBasis(basis=kind, n_features=12, max_epochs=2, learning_rate=0.01, random_state=0)
    first = basis.partial_fit(X[:600], Y[:600], classes=np.arange(10)).map_
    losses = basis.losses_.copy()
    for _ in range(3):
        basis.partial_fit(X[600:], Y[600:])
    assert len(basis.losses_) == 5
    assert basis.losses_[-1] < losses[-1]
    assert basis.map_.bandwidth == first.bandwidth
    assert np.abs(basis.map_.layers[0].matrix - first.layers[0].matrix).max() > 0.01


def test_further_batches_leave_a_random_basis_alone_but_are_checked():
    basis = KernelBasis(n_features=12, random_state=0).partial_fit(X[:600])
    before = basis.map_
    assert basis.partial_fit(X[600:]).map_ is before
    with pytest.raises(InvalidInput, match="expecting 64"):
        basis.partial_fit(X[:, :3])
    labelled = KernelBasis(basis="supervised", n_features=4, **BRIEF).partial_fit(X[Y < 5], Y[Y < 5])
    with pytest.raises(InvalidInput, match="not among the classes"):
        labelled.partial_fit(X, Y)


def test_a_basis_that_has_stopped_stays_as_it_was():
    weights = torch.zeros((2, 1))
    watch = Watch([weights], 2, patience=1)
    for epoch, losses in enumerate(([1.0, 1.0], [2.0, 0.5], [0.1, 0.4])):
        weights[:] = epoch
        watch.record(torch.tensor(losses), epoch)
    assert not watch.is_over(2)
    watch.restore()
    assert weights[:, 0].tolist() == [0.0, 2.0]
    assert watch.ends.tolist() == [2, 3]


def test_a_learning_rate_that_falls_takes_shorter_and_shorter_steps():
    class Slope(Alignment):
        def losses(self, stack, Z, labels, index):
            return stack.layers[0].sum((1, 2))  # Adam moves every weight by the learning rate

    stack = BasisStack.of([drawn()], "cpu")
    before = stack.layers[0].detach().clone()
    plan = Plan(learning_rate=0.1, n_batches=3, max_epochs=4, decay=True)
    train(stack, Slope(), stack_rows(), plan, np.random.default_rng(0))
    moved = (before - stack.layers[0].detach()).numpy()
    np.testing.assert_allclose(moved, 3 * 0.1 * (1 + 0.75 + 0.5 + 0.25), rtol=1e-4)


def test_steps_of_a_basis_shorten_unless_told_otherwise():
    def moved(**params):
        basis = KernelBasis(
            basis="unsupervised", n_features=6, n_batches=1, max_epochs=2, random_state=0, **params
        )
        start = KernelBasis(n_features=6, random_state=0).fit(X).map_.layers[0].matrix
        return np.abs(basis.fit(X).map_.layers[0].matrix - start).max()

    assert moved(decay=False) == pytest.approx(0.04, abs=0.005)  # two steps of at most 0.02
    assert moved() == pytest.approx(0.03, abs=0.005)  # 0.02 and 0.01


def test_an_objective_may_stop_by_something_else_than_its_loss():
    class Judged(Alignment):
        def held_losses(self, stack, Z, labels, index):
            return stack.layers[0].sum((1, 2)) * 0 + float(stack.layers[0].detach().abs().sum())

    stack, plan = BasisStack.of([drawn()], "cpu"), Plan(n_batches=1, max_epochs=5)
    done = train(stack, Judged(), stack_rows(), plan, np.random.default_rng(0))
    assert done.best[0] == pytest.approx(float(stack.layers[0].detach().abs().sum()), rel=1e-6)


def test_the_alignment_of_several_batches_is_their_mean():
    stack, rows, objective = BasisStack.of([drawn(width=w) for w in (3, 8)], "cpu"), stack_rows(), Alignment()
    index = torch.arange(60).reshape(3, 20)
    with torch.no_grad():
        together = objective.losses(stack, rows.Z, rows.labels, index)
        alone = [objective.losses(stack, rows.Z, rows.labels, one) for one in index]
    np.testing.assert_allclose(together, torch.stack(alone).mean(0), rtol=1e-6)


@pytest.fixture
def adapted_with(monkeypatch):
    """What each training of a basis is called with, without the training."""
    calls = []

    def adapt(task, X, labels, *, plan, rng, **_):
        calls.append((plan, rng.integers(10**9)))
        return Adapted(task.feature_map, np.zeros(1), None)

    monkeypatch.setattr("tellwhy.bases.kernel_basis.adapt", adapt)
    return calls


def test_an_epoch_sees_every_row_about_once_and_has_a_hundred_steps_at_least(adapted_with):
    for rows in (X[:1200], X[:100]):
        KernelBasis(basis="unsupervised", n_features=4, batch_size=8, random_state=0).fit(rows)
    assert [plan.n_batches for plan, _ in adapted_with] == [150, 100]


def test_further_batches_are_drawn_anew_each_time_and_by_the_seed(adapted_with):
    for seed in (1, 1, 2):
        basis = KernelBasis(basis="unsupervised", n_features=4, random_state=seed)
        for _ in range(3):
            basis.partial_fit(X[:50])
    drawn_by = np.array([number for _, number in adapted_with]).reshape(3, 3)
    np.testing.assert_array_equal(drawn_by[0], drawn_by[1])
    assert len(set(drawn_by[[0, 2], 1:].ravel())) == 4
