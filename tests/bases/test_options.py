"""The start as a candidate, amplitudes, landmarks, biases, dropout and fitting once more on all rows."""

import numpy as np
import pytest
from oracles.basis_oracles import arc_cosine_kernel, gaussian_kernel
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from storage.changed_files import changed, inside, with_arrays
from tellwhy.bases import KernelBasis
from tellwhy.bases.projections import Shape
from tellwhy.core.errors import InvalidParameter, UnreadableFile

torch = pytest.importorskip("torch")

from tellwhy.bases.adaptation import Task, adapt, make_objective  # noqa: E402
from tellwhy.bases.objectives import KernelValues, SoftmaxLoss  # noqa: E402
from tellwhy.bases.torch_features import BasisStack  # noqa: E402
from tellwhy.bases.training import Plan, TrainingRows, Watch, train  # noqa: E402

X, Y = load_digits(return_X_y=True)
X = X / 16 - X.mean(axis=0) / 16
KINDS = ("unsupervised", "supervised", "discriminative")
OPTIONS = {
    "gaussian": {},
    "amplitudes": {"amplitudes": True},
    "hadamard": {"structure": "hadamard"},
    "landmarks": {"structure": "landmarks"},
    "arccos": {"kernel": "arccos"},
    "arccos2 with biases": {"kernel": "arccos2", "bias": True},
    "arccos, drawn biases": {"kernel": "arccos", "bias": "drawn"},
    "arccos3, landmarks": {"kernel": "arccos3", "structure": "landmarks"},
}


def drawn(d=64, width=6, kernel="gaussian", structure="orthogonal", **other):
    shape = Shape(kernel, structure, width, **other)
    return shape.drawn(X[:, :d] / 1.5, 1.5, np.zeros(d), np.random.default_rng(0))


@parametrize_with_checks(
    [
        KernelBasis(structure="landmarks", n_features=2, random_state=0),
        KernelBasis(
            "arccos", "discriminative", 4, bias=True, dropout=0.5, refit=True, max_epochs=1, n_batches=1
        ),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("option", "rate"), [*((option, 0.9) for option in OPTIONS), ("gaussian", 0.003), ("landmarks", 0.003)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_training_never_ends_worse_than_it_began(kind, option, rate):
    """By the loss of what the basis is trained for, on the rows held out."""
    start = drawn(width=8, **OPTIONS[option])
    rows = TrainingRows.of(X[:300] / 1.5, Y[:300], np.arange(100), "cpu")
    plan = Plan(learning_rate=rate, batch_size=32, n_batches=4, max_epochs=3)
    stack = BasisStack.of([start], "cpu")
    objective = make_objective(kind, stack, 10, "cpu")
    done = train(stack, objective, rows, plan, np.random.default_rng(1))
    after = BasisStack.of([stack.member(0)], "cpu")
    parts = objective.held_parts(np.random.default_rng(1), 100, 32)
    with torch.no_grad():
        held = [objective.held_losses(after, rows.held_Z, rows.held_labels, torch.tensor(p)) for p in parts]
    reached = float(torch.stack(held).mean())
    assert reached <= done.start[0] * (1 + 1e-4) if done.start[0] > 0 else reached <= done.start[0] + 1e-4
    assert reached == pytest.approx(min(done.start[0], np.nanmin(done.losses)), rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_where_training_only_harms_the_drawn_basis_is_kept(kind):
    """Columns of noise, few rows and steps far too long: nothing can be learned here."""
    rng = np.random.default_rng(0)
    noise, labels = rng.normal(size=(120, 40)), rng.integers(0, 2, size=120)
    params = {"n_features": 200, "random_state": 0}
    start = KernelBasis(**params).fit(noise, labels)
    fitted = KernelBasis(
        basis=kind, max_epochs=2, n_batches=30, learning_rate=0.9, decay=False, refit=True, **params
    ).fit(noise, labels)
    assert fitted.start_loss_ < fitted.losses_.min()
    np.testing.assert_allclose(fitted.transform(noise), start.transform(noise), atol=1e-6)


def test_what_is_kept_has_no_history_of_gradients():
    weights = torch.ones((1, 2), requires_grad=True)
    watch = Watch([weights], 1, patience=3)
    watch.record(torch.tensor([1.0]), -1)
    assert not watch.kept[0].requires_grad


@pytest.mark.parametrize("scale", [0.1, 1.0, 1e3])
def test_steps_of_landmarks_follow_the_units_of_the_rows(scale):
    """The arc-cosine kernel has no bandwidth to take the units out."""
    few = {"n_features": 6, "structure": "landmarks", "max_epochs": 3, "n_batches": 30, "random_state": 0}
    plain, trained = (
        KernelBasis("arccos", kind, **few).fit(scale * X) for kind in ("random", "unsupervised")
    )
    assert trained.kernel_error(scale * X) < 0.6 * plain.kernel_error(scale * X)


def test_a_classifier_on_the_drawn_basis_is_the_start_of_a_discriminative_one():
    rng = np.random.default_rng(0)
    plan = Plan(learning_rate=0.02, n_batches=40, max_epochs=4)
    task = Task("discriminative", drawn(width=60), 10, "cpu")
    found = adapt(task, X[:500] * 1.5, Y[:500], plan=plan, validation_share=0.2, rng=rng)
    assert found.losses.min() < found.start_loss < np.log(10) - 0.3  # better than no classifier at all


def test_a_classifier_on_the_drawn_basis_is_kept_where_moving_the_basis_does_harm():
    plan = Plan(learning_rate=0.5, n_batches=40, max_epochs=3)
    task = Task("discriminative", drawn(width=200), 10, "cpu")
    rng = np.random.default_rng(0)
    found = adapt(task, X[:500] * 1.5, Y[:500], plan=plan, validation_share=0.2, rng=rng)
    assert found.start_loss < found.losses.min()
    np.testing.assert_allclose(
        found.feature_map.layers[0].matrix, drawn(width=200).layers[0].matrix, atol=1e-6
    )
    scores = found.feature_map.apply(X[:500] * 1.5) @ found.softmax.weights + found.softmax.bias
    assert (scores.argmax(axis=1) == Y[:500]).mean() > 0.8  # not the zeros that training starts from


GRADIENTS = {
    "amplitudes": {"width": 6, "amplitudes": True},
    "amplitudes of hadamard waves": {"width": 6, "structure": "hadamard", "amplitudes": True},
    "landmarks": {"width": 5, "structure": "landmarks"},
    "arccos landmarks": {"width": 5, "kernel": "arccos2", "structure": "landmarks"},
    "biases": {"width": 5, "kernel": "arccos2", "bias": True},
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients_are_those_of_finite_differences(case):
    """Of the loss of pairs, in double precision, with respect to everything that is trained."""
    one = drawn(d=8, **GRADIENTS[case])
    stack = BasisStack.of([one], "cpu")
    rng = np.random.default_rng(0)
    moved = [t.detach().double() + 0.1 * torch.tensor(rng.normal(size=t.shape)) for t in stack.trained]
    rows, index = torch.tensor(X[100:130, :8] / 1.5), torch.tensor(rng.integers(0, 30, size=(2, 12)))
    objective = KernelValues(one.kernel, 2)

    def loss(*tensors):
        stack.layers = list(tensors[: len(stack.layers)])
        stack.biases = list(tensors[len(stack.layers) :][: len(stack.biases)])
        stack.amplitudes = tensors[-1] if stack.amplitudes is not None else None
        stack.gains = [gain.double() for gain in stack.gains]
        return objective.losses(stack, rows, None, index).sum()

    tensors = [t.clone().requires_grad_() for t in moved]
    found = torch.autograd.grad(loss(*tensors), tensors)
    for place, slope in enumerate(found):
        for _ in range(4):
            at = tuple(int(rng.integers(size)) for size in slope.shape)
            values = []
            for step in (1e-6, -1e-6):
                shifted = [t.clone() for t in moved]
                shifted[place][at] += step
                values.append(float(loss(*shifted)))
            assert float(slope[at]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4, abs=1e-9)


def test_a_landmark_that_is_a_row_has_a_finite_slope():
    """The angle between a row and itself has none; the kernel has."""
    stack = BasisStack.of([drawn(width=5, kernel="arccos", structure="landmarks")], "cpu")
    rows = torch.tensor(np.vstack([stack.maps[0].layers[0].points, np.zeros((1, 64))]), dtype=torch.float32)
    stack.features(rows).sum().backward()
    assert stack.layers[0].grad.isfinite().all()


@pytest.mark.parametrize("kernel", ["gaussian", "arccos", "arccos3"])
def test_features_of_landmarks_project_the_kernel_on_them(kernel):
    basis = KernelBasis(kernel, n_features=7, structure="landmarks", bandwidth=1.5, random_state=0).fit(
        X[:50]
    )
    assert basis.transform(X[:20]).shape == (20, 7)
    layer = basis.map_.layers[0]
    rows = (X[60:66] - basis.map_.centre) / basis.bandwidth_

    def k(a, b):
        depth = int(kernel[6:] or 1) if kernel != "gaussian" else 0
        return gaussian_kernel(a, b, 1.0) if kernel == "gaussian" else arc_cosine_kernel(a, b, depth)

    within = np.array([[k(a, b) for b in layer.points] for a in layer.points])
    across = np.array([[k(a, b) for b in layer.points] for a in rows])
    expected = across @ np.linalg.solve(within, across.T)
    features = basis.transform(X[60:66])
    np.testing.assert_allclose(features @ features.T, expected, rtol=1e-3, atol=1e-4)
    # Between landmarks themselves, nothing is lost.
    points = layer.points * basis.bandwidth_ + basis.map_.centre
    np.testing.assert_allclose(
        basis.transform(points) @ basis.transform(points).T, within, rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("option", OPTIONS)
def test_a_stack_computes_the_features_of_its_members(option):
    params = OPTIONS[option]
    maps = [drawn(width=width, **params) for width in (6, 20)]
    stack = BasisStack.of(maps, "cpu")
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for tensor in stack.trained:
            tensor.add_(0.1 * torch.tensor(rng.normal(size=tensor.shape), dtype=torch.float32))
    rows = X[:9].astype(np.float32) / 1.5
    features = stack.features(torch.tensor(rows)).detach().numpy()
    for index, (found, one) in enumerate(zip(features, maps, strict=True)):
        own = stack.member(index)
        live = found[:, np.abs(found).max(axis=0) > 0]
        expected = own.apply(rows * 1.5 if own.kernel == "gaussian" else rows)
        expected = expected[:, np.abs(expected).max(axis=0) > 0]
        assert own.n_features == one.n_features
        np.testing.assert_allclose(live, expected, atol=2e-3 if "landmarks" in option else 2e-5)


def test_amplitudes_multiply_sine_and_cosine_and_biases_shift_projections():
    basis = KernelBasis(n_features=6, amplitudes=True, random_state=0).fit(X)
    plain = KernelBasis(n_features=6, random_state=0).fit(X)
    np.testing.assert_array_equal(basis.transform(X[:5]), plain.transform(X[:5]))
    object.__setattr__(basis.map_, "amplitudes", np.array([1.0, 2.0, -3.0]))
    np.testing.assert_allclose(basis.transform(X[:5]), plain.transform(X[:5]) * [1, 2, -3, 1, 2, -3])
    for structure in ("dense", "hadamard"):
        one = drawn(width=4, kernel="arccos", structure=structure, bias=True)
        object.__setattr__(one, "biases", (np.array([0.3, -0.2, 5.0, -50.0]),))
        still = drawn(width=4, kernel="arccos", structure=structure)
        both = [m.apply(s * X[:9]) for m, s in ((still, 1), (still, -1))]
        projections = both[0] - both[1]  # max(0, z) − max(0, −z) = z
        expected = np.maximum(projections + np.sqrt(0.5) * one.biases[0], 0)
        np.testing.assert_allclose(one.apply(X[:9]), expected, atol=1e-12)


@pytest.mark.parametrize("better", [{"amplitudes": True}, {"structure": "landmarks"}])
def test_options_lower_the_error_of_few_trained_features(better):
    few = {"basis": "unsupervised", "n_features": 10, "max_epochs": 4, "n_batches": 50, "random_state": 0}
    plain = KernelBasis(**few).fit(X[:1200]).kernel_error(X[1200:])
    assert KernelBasis(**few, **better).fit(X[:1200]).kernel_error(X[1200:]) < 0.6 * plain


def test_a_bias_learns_what_no_direction_through_the_origin_can():
    rows = np.linspace(-1, 1, 400)[:, None]
    labels = (rows[:, 0] > 0.5).astype(int) + (rows[:, 0] < -0.5)
    params = {"n_features": 8, "max_epochs": 15, "n_batches": 30, "random_state": 0, "structure": "dense"}

    def wrong(**other):
        basis = KernelBasis("arccos", "discriminative", **params, **other).fit(
            rows, labels * np.sign(rows[:, 0])
        )
        return min(basis.start_loss_, basis.losses_.min())

    assert wrong(bias=True) < 0.5 * wrong()


def test_drawn_biases_spread_as_far_as_rows_are_long_in_every_layer_and_unit():
    params = {"kernel": "arccos2", "n_features": 4000, "structure": "hadamard", "random_state": 0}
    length = np.sqrt((X**2).sum(axis=1).mean())
    found = KernelBasis(bias="drawn", **params).fit(X)
    for bias in found.map_.biases:
        np.testing.assert_allclose([bias.mean() / length, bias.std() / length], [0, 1], atol=0.05)
    assert np.abs(np.corrcoef(*found.map_.biases)[0, 1]) < 0.1
    large = KernelBasis(bias="drawn", **params).fit(1e6 * X)
    np.testing.assert_allclose(large.transform(1e6 * X[:9]), 1e6 * found.transform(X[:9]), rtol=1e-6)
    still = KernelBasis(bias=True, **params).fit(X)
    np.testing.assert_array_equal(found.map_.layers[1].diagonals, still.map_.layers[1].diagonals)


def test_drawn_biases_start_ahead_where_classes_are_shells_around_the_origin():
    """Rectified features through the origin only scale with the length of a row."""
    rows = np.random.default_rng(0).normal(size=(1200, 2))
    labels = np.digitize(np.linalg.norm(rows, axis=1), [0.6, 1.1, 1.7])
    params = {"n_features": 60, "max_epochs": 4, "n_batches": 50, "random_state": 0}

    def loss(bias):
        basis = KernelBasis("arccos", "discriminative", bias=bias, **params).fit(rows, labels)
        return min(basis.start_loss_, basis.losses_.min())

    assert loss("drawn") < 0.8 * loss(True)


def test_dropout_leaves_out_its_share_and_keeps_sums():
    stack = BasisStack.of([drawn(width=200)], "cpu")
    objective = SoftmaxLoss(1, 200, 2, "cpu", dropout=0.25, seed=1)
    with torch.no_grad():
        objective.weights[:, :, 1] = 1.0
    seen = []
    objective.bias.baddbmm, features = None, stack.features(torch.tensor(X[:50], dtype=torch.float32))
    stack.features = lambda Z: torch.ones_like(features)
    objective.bias = type("Bias", (), {"baddbmm": lambda self, f, w: seen.append(f) or f @ w})()
    objective.losses(stack, torch.tensor(X), torch.tensor(Y % 2), torch.arange(50))
    dropped = seen[0] == 0
    assert dropped.float().mean() == pytest.approx(0.25, abs=0.02)
    assert seen[0][~dropped].unique().tolist() == pytest.approx([4 / 3])


def test_dropout_repeats_by_the_seed_and_leaves_the_users_source_alone():
    def features(seed):
        basis = KernelBasis("arccos", "discriminative", 6, dropout=0.5, max_epochs=2, n_batches=5)
        return basis.set_params(random_state=seed).fit(X[:200], Y[:200]).transform(X[:5])

    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    np.testing.assert_array_equal(features(1), features(1))
    assert torch.equal(torch.rand(3), expected)


def test_the_classifier_may_take_longer_steps_than_the_basis():
    rate, params = 0.01, {"n_features": 8, "max_epochs": 1, "n_batches": 1, "random_state": 0, "decay": False}

    def moved(steps):
        basis = KernelBasis("arccos", "discriminative", learning_rate=rate, classifier_steps=steps, **params)
        basis.fit(X[:300], Y[:300])
        assert basis.start_loss_ > basis.losses_[0], "otherwise the drawn basis is what is seen"
        return np.abs(basis.softmax_.weights).max(), np.abs(basis.softmax_.bias).max()

    # Adam's first step is as long as its rate.
    np.testing.assert_allclose(moved(1.0), [rate, rate], rtol=1e-3)
    np.testing.assert_allclose(moved(5.0), [5 * rate, rate], rtol=1e-3)


def test_training_goes_on_from_weights_that_took_longer_steps():
    objective = SoftmaxLoss(1, 4, 2, "cpu", steps=5.0)
    stack, Z = BasisStack.of([drawn(width=4)], "cpu"), torch.tensor(X[:20], dtype=torch.float32)
    weights, bias = np.arange(8.0).reshape(4, 2), np.array([1.0, -1.0])
    objective.set(weights, bias)
    expected = stack.features(Z)[0] @ torch.tensor(weights, dtype=torch.float32) + torch.tensor([1.0, -1.0])
    torch.testing.assert_close(objective.logits(stack, Z)[0], expected)


def test_refitting_learns_from_the_rows_held_out_too(monkeypatch):
    calls = []

    def noted(stack, objective, rows, plan, rng, *, n_epochs):
        calls.append((len(rows.Z), n_epochs))

    monkeypatch.setattr("tellwhy.bases.adaptation.train_for", noted)
    params = {"n_features": 6, "max_epochs": 3, "n_batches": 5, "random_state": 0, "validation_share": 0.4}
    basis = KernelBasis(basis="unsupervised", refit=True, **params).fit(X[:300])
    assert calls == [(300, int(basis.losses_.argmin()) + 1)]


def test_refitting_takes_the_steps_of_the_best_epochs_on_all_rows():
    params = {"n_features": 6, "max_epochs": 3, "n_batches": 20, "random_state": 0}
    plain, refitted = (KernelBasis(basis="unsupervised", refit=r, **params).fit(X) for r in (False, True))
    np.testing.assert_array_equal(plain.losses_, refitted.losses_)
    assert np.abs(plain.transform(X[:9]) - refitted.transform(X[:9])).max() > 1e-3
    assert refitted.kernel_error(X) < 1.3 * plain.kernel_error(X)


@pytest.mark.parametrize("option", OPTIONS)
def test_saved_options_give_the_same_bits(option, tmp_path):
    params = {"n_features": 6, "max_epochs": 1, "n_batches": 3, "random_state": 0, **OPTIONS[option]}
    fitted = KernelBasis(basis="discriminative", **params).fit(X[:100], Y[:100])
    again = KernelBasis.load(fitted.save(tmp_path / "basis"))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    assert again.start_loss_ == fitted.start_loss_


def test_a_basis_that_was_saved_before_there_were_options_is_read(tmp_path):
    fitted = KernelBasis(n_features=6, random_state=0).fit(X)
    path = fitted.save(tmp_path / "basis")

    def change(head):
        for name in ("amplitudes", "bias", "classifier_steps", "dropout", "refit"):
            del inside(head, ("params",))[name]
        for name in ("amplitudes", "biases"):
            del inside(head, ("learned", "map_", "is"))[name]

    changed(path, change)
    np.testing.assert_array_equal(KernelBasis.load(path).transform(X), fitted.transform(X))


def test_saved_options_that_do_not_fit_are_refused(tmp_path):
    for name, option, length in (
        ("amplitudes", {"amplitudes": True}, 2),
        ("whitening", {"structure": "landmarks"}, 9),
    ):
        path = KernelBasis(n_features=6, random_state=0, **option).fit(X).save(tmp_path / name)
        with_arrays(path, {name: np.ones(length)})
        with pytest.raises(UnreadableFile, match=name):
            KernelBasis.load(path)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"kernel": "arccos", "amplitudes": True}, "'amplitudes' .* must be False but for the sines"),
        ({"structure": "landmarks", "amplitudes": True}, "'amplitudes'"),
        ({"bias": True}, "'bias' parameter .* must be False but for the directions of arc-cosine"),
        ({"kernel": "arccos", "structure": "landmarks", "bias": True}, "'bias'"),
        ({"bias": "drawn"}, "'bias' parameter .* must be False but for the directions of arc-cosine"),
        ({"kernel": "arccos", "bias": "zero"}, "'bias' parameter .* must be True or False or 'drawn'"),
        ({"dropout": 0.5}, "'dropout' parameter .* must be 0 but for basis='discriminative'"),
        (
            {"classifier_steps": 5.0},
            "'classifier_steps' parameter .* must be 1 but for basis='discriminative'",
        ),
        ({"structure": "landmarks", "n_features": 3000}, "at most the number of rows .* Got 3000 for 1797"),
        ({"n_features": 5}, "must be even"),
    ],
)
def test_options_that_do_nothing_are_refused(params, match):
    with pytest.raises(InvalidParameter, match=match):
        KernelBasis(**params).fit(X)
