"""VAE: scores against a slow network, networks trained side by side, early stopping, the race between sizes."""

import threading
from copy import copy

import numpy as np
import pytest
from oracles import deep_oracles as oracle
from oracles.score_oracles import central_differences
from scipy.optimize import minimize_scalar
from sklearn.metrics import roc_auc_score

from tellwhy.core.errors import InvalidInput, InvalidParameter, MissingExtra, UnsupportedModel
from tellwhy.core.progress import show_with
from tellwhy.detectors import VAE
from tellwhy.detectors.networks.training import FIRST_RUNG, SuccessiveHalving

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
CODES = RNG.normal(size=(300, 2))
MIX = RNG.normal(size=(2, 5))
X = np.tanh(CODES @ MIX) * [1.0, 20.0, 0.1, 3.0, 5.0] + 100.0 + 0.01 * RNG.normal(size=(300, 5))
NEW = np.vstack([X[::30], X[::50] + 2 * X.std(axis=0)])
BITS = (CODES @ MIX + RNG.normal(size=(300, 5)) > 0).astype(float)
QUICK = {"latent": 2, "hidden": 6, "max_epochs": 15}


@pytest.fixture(scope="module", params=["gaussian", "gaussian, plain", "bernoulli"])
def fitted(request):
    likelihood, _, plain = request.param.partition(", ")
    detector = VAE(likelihood=likelihood, n_samples=6, bypass=not plain, **QUICK)
    return detector.fit(X if likelihood == "gaussian" else BITS)


def scaled(detector, rows):
    return (rows - detector.scaling_.centre) / detector.scaling_.scale


def rows_for(detector):
    return NEW if detector.likelihood == "gaussian" else np.vstack([BITS[:12], [[0.3, 0.9, 0.5, 0.0, 1.0]]])


def test_reconstruction_error_of_the_slow_network(fitted):
    rows = rows_for(fitted)
    score = fitted.set_params(score="reconstruction").to_score()
    errors = np.array(
        [oracle.vae_errors(fitted.network_, z, fitted.likelihood) for z in scaled(fitted, rows)]
    )
    np.testing.assert_allclose(score.feature_errors(rows), errors, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(score.value(rows), errors.sum(axis=1), rtol=1e-10)


def test_negative_bound_of_the_slow_network(fitted):
    """The noise is multiplied by the square root of the variance, and is the same for every row."""
    rows = rows_for(fitted)
    score = fitted.set_params(score="elbo").to_score()
    constant = np.log(fitted.scaling_.scale).sum()
    settings = fitted.noise_, fitted.likelihood, fitted.output_variance_
    bound = [oracle.vae_bound(fitted.network_, z, *settings) for z in scaled(fitted, rows)]
    np.testing.assert_allclose(score.value(rows), np.array(bound) + constant, rtol=1e-10)
    np.testing.assert_array_equal(fitted.noise_[:3], -fitted.noise_[3:])
    assert not hasattr(score, "feature_errors")


@pytest.mark.parametrize("kind", ["reconstruction", "elbo"])
def test_gradient_agrees_with_differences(fitted, kind):
    rows = rows_for(fitted)
    score = fitted.set_params(score=kind).to_score()
    steps = 1e-5 * fitted.scaling_.scale
    slopes = central_differences(lambda Z: score.value(Z * steps), rows / steps, step=1.0) / steps
    np.testing.assert_allclose(score.gradient(rows), slopes, rtol=1e-5, atol=1e-6 * np.abs(slopes).max())
    value, gradient = score.value_and_gradient(rows)
    np.testing.assert_allclose(value, score.value(rows), rtol=1e-13)
    np.testing.assert_array_equal(gradient, score.gradient(rows))


def test_single_precision_scores_are_near(fitted):
    rows = rows_for(fitted)
    exact = fitted.set_params(score="elbo", dtype="float64").outlierness(rows)
    single = fitted.set_params(dtype="float32").outlierness(rows)
    fitted.set_params(dtype="float64")
    np.testing.assert_allclose(single, exact, rtol=1e-4)
    assert (single != exact).any()


def test_rows_that_leave_the_learned_surface_are_found():
    """One cell moved by two standard deviations: better seen by the network than by the cell's own distribution."""
    detector = VAE(latent=2, hidden=16, batch_size=32).fit(X)
    rng = np.random.default_rng(3)
    moved, column = X.copy(), rng.integers(0, 5, len(X))
    moved[np.arange(len(X)), column] += 2 * X.std(axis=0)[column] * rng.choice([-1, 1], len(X))
    both, truth = np.vstack([X, moved]), np.repeat([0, 1], len(X))
    assert roc_auc_score(truth, detector.outlierness(both)) > 0.94
    assert roc_auc_score(truth, np.abs((both - X.mean(axis=0)) / X.std(axis=0)).max(axis=1)) < 0.86
    assert (detector.to_score().feature_errors(moved).argmax(axis=1) == column).mean() > 0.85


def test_the_loss_to_descend_on_is_the_bound_of_the_slow_network(fitted):
    from tellwhy.detectors.networks.training import take_one_network
    from tellwhy.detectors.networks.vae import EvidenceBound

    Z, noise = scaled(fitted, rows_for(fitted)), RNG.normal(size=(len(rows_for(fitted)), 2))
    stack = take_one_network(fitted._layout, fitted.network_, "cpu", torch.float64)
    found = EvidenceBound(fitted.likelihood, noise).held_loss(stack, None, torch.tensor(Z))

    def bound(variance):
        rows = zip(Z, noise, strict=True)
        settings = fitted.likelihood, variance
        return np.mean([oracle.vae_bound(fitted.network_, z, draw[None], *settings) for z, draw in rows])

    if fitted.likelihood == "bernoulli":
        assert found[0].item() == pytest.approx(bound(1.0), rel=1e-10)
    else:  # the variance at which the bound is tightest
        assert found[0].item() == pytest.approx(minimize_scalar(lambda s: bound(np.exp(s))).fun, rel=1e-8)


def test_localisation_is_the_share_of_moved_cells_in_the_error_of_the_slow_network(fitted, monkeypatch):
    from tellwhy.detectors.networks import vae as vae_training
    from tellwhy.detectors.networks.training import take_one_network
    from tellwhy.scoring.moved_columns import MovedCells

    monkeypatch.setattr(vae_training, "cut_batches", lambda n, *_: [slice(0, 7), slice(7, n)])
    Z = scaled(fitted, rows_for(fitted))
    cells = MovedCells.drawn(len(Z), Z.shape[1], np.random.default_rng(1))
    stack = take_one_network(fitted._layout, fitted.network_, "cpu", torch.float64)
    rows = torch.tensor(Z)
    found = vae_training.LocatingBound(fitted.likelihood, RNG.normal(size=(1, 2)), cells).held_loss(
        stack, None, rows
    )
    surprises = []
    for row, column, shift in zip(cells.rows, cells.columns, cells.shifts, strict=True):
        moved = Z[row].copy()
        moved[column] = 1 - moved[column] if fitted.likelihood == "bernoulli" else moved[column] + shift
        errors = oracle.vae_errors(fitted.network_, moved, fitted.likelihood)
        surprises.append(-np.log(errors[column] / errors.sum()))
    assert found[0].item() == pytest.approx(np.mean(surprises), rel=1e-8)
    np.testing.assert_array_equal(rows.numpy(), Z)


def test_localisation_keeps_more_of_the_error_on_moved_cells_than_the_bound_does():
    """Five columns of rank two and a code of five: trained for long, the network learns to copy cells."""
    rng = np.random.default_rng(4)
    plane = rng.normal(size=(700, 2)) @ rng.normal(size=(2, 5)) + 0.02 * rng.normal(size=(700, 5))
    moved, rows, columns = plane[400:].copy(), np.arange(300), rng.integers(5, size=300)
    moved[rows, columns] += 1.5 * plane.std(axis=0)[columns] * rng.choice([-1, 1], 300)
    surprise = {}
    for criterion in ("localisation", "bound"):
        detector = VAE(latent=5, hidden=8, batch_size=32, max_epochs=60, criterion=criterion).fit(plane[:400])
        errors = detector.to_score().feature_errors(moved)
        surprise[criterion] = -np.log(errors[rows, columns] / errors.sum(axis=1)).mean()
    assert surprise["localisation"] < 0.92 * surprise["bound"]


def test_a_single_column_is_judged_by_the_bound():
    """The share of its only cell in a row's error is always 1."""
    column = {**QUICK, "latent": 1}
    losses = [VAE(criterion=c, **column).fit(X[:, :1]).validation_losses_ for c in ("localisation", "bound")]
    assert losses[0] == losses[1]
    assert losses[0][0][1] != 0.0


def test_linear_maps_beside_the_layers_rebuild_rows_that_are_few_for_their_columns():
    rng = np.random.default_rng(5)
    wide = rng.normal(size=(160, 6)) @ rng.normal(size=(6, 30)) + 0.2 * rng.normal(size=(160, 30))
    with_maps, plain = (
        VAE(latent=6, hidden=15, bypass=b).fit(wide[:80]).outlierness(wide[80:]) for b in (True, False)
    )
    assert with_maps.mean() < 0.8 * plain.mean()


def test_the_output_variance_is_the_mean_squared_error_of_drawn_codes():
    detector = VAE(n_samples=40, latent=2, hidden=16, batch_size=32, validation_share=0.01).fit(X)
    errors = []
    for z in scaled(detector, X):
        mean, variance = oracle.vae_code(detector.network_, z)
        drawn = [oracle.decode(detector.network_, mean + np.sqrt(variance) * e) for e in detector.noise_]
        errors.append(np.mean([(z - output) ** 2 for output in drawn]))
    assert detector.output_variance_ == pytest.approx(np.mean(errors), rel=0.05)  # all but the rows held out
    assert detector.output_variance_ < 0.3  # of the variance of each column
    assert VAE(likelihood="bernoulli", **QUICK).fit(BITS).output_variance_ == 1.0


def test_networks_trained_side_by_side_learn_what_each_learns_alone(monkeypatch):
    """Candidates of other sizes, padding and those that leave half-way do not touch the winner."""
    monkeypatch.setattr("tellwhy.detectors.networks.training.FIRST_RUNG", 6)
    short = {"max_epochs": 6, "batch_size": 64}
    together = VAE(hidden=6, latent="auto", **short).fit(X)
    sizes = [s["latent"] for s, _ in together.validation_losses_]
    assert sizes == [1, 2, 3, 4]
    losses = {s["latent"]: loss for s, loss in together.validation_losses_}
    assert together.latent_ == min(losses, key=losses.get)
    alone = _alone(VAE(hidden=6, latent=together.latent_, **short), X, place=sizes.index(together.latent_))
    np.testing.assert_allclose(alone.outlierness(NEW), together.outlierness(NEW), rtol=1e-3)
    assert alone.validation_losses_[0][1] == pytest.approx(losses[together.latent_], rel=1e-5)


class Streams:
    """A generator whose next `spawn` gives the stream that a candidate has among four, and draws noise as wide."""

    def __init__(self, rng, place):
        self.rng, self.place = rng, place

    def spawn(self, n):
        return [self.rng.spawn(4)[self.place]]

    def permutation(self, n):
        return self.rng.permutation(n)

    def __getattr__(self, name):
        return getattr(self.rng, name)

    def standard_normal(self, shape):
        return self.rng.standard_normal((shape[0], 4))[:, : shape[1]]


def _alone(detector, rows, place):
    import tellwhy.detectors.networks.network_detector as module

    generator = module.generator
    module.generator = lambda seed: Streams(generator(seed), place)
    try:
        return detector.fit(rows)
    finally:
        module.generator = generator


def test_the_worse_half_of_the_candidates_leaves_the_race():
    short = VAE(max_epochs=30, batch_size=8, patience=1000).fit(X)
    losses = [loss for _, loss in short.validation_losses_]
    assert len(losses) == 12
    assert (short.latent_, short.hidden_) == tuple(
        short.validation_losses_[int(np.argmin(losses))][0][k] for k in ("latent", "hidden")
    )


class Stub:
    """Stands for a stack of three candidates."""

    sizes = ({"latent": 1}, {"latent": 2}, {"latent": 3})

    def __len__(self):
        return 3

    def member(self, place):
        return {"place": place}


def test_race_keeps_the_leader_and_drops_the_stale_and_the_broken():
    race = SuccessiveHalving(Stub(), patience=2)
    race.record(Stub(), np.array([3.0, np.nan, 2.0]), 0)
    assert (race.leader, race.arrays, race.lead) == (2, {"place": 2}, 2.0)
    assert race.places_to_keep(0, n_steps=1) == [0, 2]  # a loss that was never finite cannot win
    race.record(Stub(), np.array([1.0, 2.0]), 1)
    assert (race.leader, race.arrays) == (0, {"place": 0})
    race.record(Stub(), np.array([0.99999, 5.0]), 2)  # too small a gain to count
    assert race.lead == 1.0
    assert race.places_to_keep(2, n_steps=FIRST_RUNG) == [0]
    assert race.places_to_keep(3, n_steps=FIRST_RUNG) == []


def test_training_stops_when_rows_held_out_gain_nothing():
    noise = np.random.default_rng(1).normal(size=(200, 4))
    detector = VAE(latent=3, hidden=64, patience=5, max_epochs=2000, learning_rate=0.01).fit(noise)
    assert detector.n_epochs_ < 500


def test_loss_that_is_never_finite_is_an_error(monkeypatch):
    from tellwhy.detectors.networks.vae import LocatingBound

    monkeypatch.setattr(
        LocatingBound, "held_loss", lambda self, stack, kept, held: torch.full((len(stack),), torch.nan)
    )
    with pytest.raises(InvalidInput, match="training VAE: the loss is not finite for any candidate"):
        VAE(**QUICK).fit(X)


def test_same_seed_same_bits_and_nothing_global_moves():
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    numbers = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (VAE(random_state=5, **QUICK).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.outlierness(NEW), second.outlierness(NEW))
    assert (VAE(random_state=6, **QUICK).fit(X).outlierness(NEW) != first.outlierness(NEW)).all()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    np.testing.assert_array_equal(np.random.get_state()[1], numbers)  # noqa: NPY002
    assert torch.is_grad_enabled()


def test_other_threads_keep_their_threads():
    from tellwhy.core.running import one_thread

    before, seen = torch.get_num_threads(), []
    with one_thread():
        seen.append(torch.get_num_threads())
        other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        other.start()
        other.join()
    assert seen == [1, before]
    assert torch.get_num_threads() == before


def test_the_order_of_columns_does_not_matter():
    order = [3, 0, 4, 2, 1]
    plain = VAE(**QUICK).fit(X).outlierness(NEW)
    np.testing.assert_allclose(VAE(**QUICK).fit(X[:, order]).outlierness(NEW[:, order]), plain, rtol=1e-10)


def test_many_rows_are_scored_in_batches_and_threads(fitted):
    rows = rows_for(fitted)
    score = fitted.set_params(score="elbo").to_score()
    many = np.tile(rows, (3000, 1))
    value, gradient = score.value_and_gradient(many)
    np.testing.assert_allclose(value.reshape(3000, -1), np.tile(score.value(rows), (3000, 1)), rtol=1e-12)
    np.testing.assert_allclose(gradient[-len(rows) :], score.gradient(rows), rtol=1e-9, atol=1e-12)


def test_thresholds_come_from_rows_held_out():
    """The first fifth of the shuffled rows is held out; the others take the scores of those at the same rank."""
    detector = VAE(**QUICK).fit(X)
    held = np.random.default_rng(0).permutation(len(X))[:60]
    scores = detector.outlierness(X[held])
    np.testing.assert_array_equal(detector.training_scores_[:60], scores)
    levels = (np.arange(240) + 0.5) / 240
    np.testing.assert_allclose(
        np.sort(detector.training_scores_[60:]), np.quantile(scores, levels), rtol=1e-12
    )
    others = detector.outlierness(np.delete(X, held, axis=0))
    assert detector.training_scores_[60:].max() <= scores.max() != others.max()


def test_the_threshold_follows_the_score(tmp_path):
    """One network, two scores: the other one has the threshold that a detector fitted with it would have."""
    kinds = ("reconstruction", "elbo")
    alone = {kind: VAE(kind, **QUICK).fit(X) for kind in kinds}
    both = VAE(**QUICK).fit(X)
    for kind in (*kinds, *kinds):
        both.set_params(score=kind)
        assert both.threshold_ == both.to_score().threshold == alone[kind].threshold_
        np.testing.assert_array_equal(both.training_scores_, alone[kind].training_scores_)
        np.testing.assert_array_equal(both.predict(NEW), alone[kind].predict(NEW))
    assert alone["elbo"].threshold_ != alone["reconstruction"].threshold_
    part = copy(both).set_threshold(value=7.0)  # of 'elbo', and of the copy only
    assert part.threshold_ == 7.0 == VAE.load(part.save(tmp_path / "vae")).threshold_
    assert part.set_params(score="reconstruction").threshold_ == alone["reconstruction"].threshold_
    assert both.threshold_ == alone["elbo"].threshold_
    with pytest.raises(InvalidParameter, match="'score' parameter of VAE"):
        both.set_params(score="likelihood").predict(NEW)


@pytest.mark.parametrize(
    ("n", "asked", "passes"),
    [
        (50, {}, (2000, 200)),  # one step a pass
        (1000, {}, (334, 34)),  # six
        (100_000, {}, (300, 20)),
        (50, {"max_epochs": 7, "patience": 3}, (7, 3)),
    ],
)
def test_small_tables_are_gone_through_more_often(n, asked, passes):
    detector = VAE(**asked)
    plan = detector._plan(round(0.8 * n))
    assert (plan.max_epochs, plan.patience) == passes


def test_a_small_table_is_learned():
    few = VAE(latent=2, hidden=8).fit(X[:80])
    assert few.n_epochs_ > 300
    hurried = VAE(latent=2, hidden=8, max_epochs=300, patience=20).fit(X[:80])
    assert few.outlierness(X[80:]).mean() < 0.5 * hurried.outlierness(X[80:]).mean()


def test_bernoulli_takes_values_between_0_and_1_only():
    with pytest.raises(InvalidInput, match=r"between 0 and 1; X holds .* in row 0, column 0"):
        VAE(likelihood="bernoulli", **QUICK).fit(X)
    detector = VAE(likelihood="bernoulli", **QUICK).fit(BITS)
    with pytest.raises(InvalidInput, match="X holds 2 in row 1, column 3"):
        detector.outlierness([[0, 1, 0, 1, 0], [0, 1, 0, 2, 0]])


def test_progress_is_reported():
    seen = []
    with (
        show_with(lambda label, done, total: seen.append((label, done, total))),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("tellwhy.core.progress.QUIET_SECONDS", -1.0)
        VAE(**QUICK).fit(X)
    assert ("training VAE", 1, 15) in seen


def test_without_torch_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"VAE.fit needs 'torch'.*pip install 'tellwhy\[torch\]'"):
        VAE(**QUICK).fit(X)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none():
    with pytest.raises(InvalidParameter, match="PyTorch sees no CUDA device"):
        VAE(device="cuda", **QUICK).fit(X)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_cuda_gives_the_scores_of_the_processor(fitted):
    rows = rows_for(fitted)
    for kind in ("reconstruction", "elbo"):
        on_cpu = fitted.set_params(score=kind, device="cpu").to_score().value_and_gradient(rows)
        on_gpu = fitted.set_params(device="cuda").to_score().value_and_gradient(rows)
        for a, b in zip(on_cpu, on_gpu, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    fitted.set_params(device="auto")
    again = VAE(device="cuda", **QUICK).fit(X)
    np.testing.assert_allclose(
        again.outlierness(NEW), VAE(device="cpu", **QUICK).fit(X).outlierness(NEW), rtol=0.05
    )


def test_rows_beyond_floating_point_are_refused_by_name():
    detector = VAE(**QUICK).fit(X)
    far = NEW.copy()
    far[3, 1] = 1e200
    with pytest.raises(InvalidInput, match="Row 3 of X is too far"):
        detector.outlierness(far)


def test_explainers_take_the_score():
    from tellwhy.explainers import Sensitivity

    explanation = Sensitivity(VAE(**QUICK).fit(X)).explain(NEW)
    assert explanation.params["explains"] == "squared reconstruction error of VAE"
    with pytest.raises(UnsupportedModel):
        from tellwhy.explainers import OneClassDTD

        OneClassDTD(VAE(**QUICK).fit(X)).explain(NEW)
