"""DAGMM: the energy against a slow network, networks side by side, the anchor, detection."""

import numpy as np
import pytest
from oracles import deep_oracles as oracle
from oracles.score_oracles import central_differences
from sklearn.metrics import roc_auc_score

from tellwhy.detectors import DAGMM

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
CODES = np.vstack([RNG.normal(size=(150, 2)) * 0.4 - 1, RNG.normal(size=(150, 2)) * 0.4 + 1])
X = (
    np.tanh(CODES @ RNG.normal(size=(2, 5))) * [1.0, 20.0, 0.1, 3.0, 5.0]
    + 100.0
    + 0.05 * RNG.normal(size=(300, 5))
)
NEW = np.vstack([X[::30], X[::50] + 2 * X.std(axis=0)])
QUICK = {"latent": 2, "hidden": 6, "max_epochs": 10}


@pytest.fixture(scope="module", params=[0.0, "auto"])
def fitted(request):
    return DAGMM(anchor=request.param, n_components=3, **QUICK).fit(X)


def scaled(detector, rows):
    return (rows - detector.scaling_.centre) / detector.scaling_.scale


def test_energy_of_the_slow_network(fitted):
    """The mixture is the one of the rows learned from: the first fifth of the shuffled rows is held out."""
    anchor = np.sqrt(5) if fitted.anchor == "auto" else fitted.anchor
    learned = np.random.default_rng(0).permutation(len(X))[60:]
    expected = oracle.dagmm_energy(
        fitted.network_, scaled(fitted, NEW), scaled(fitted, X[learned]), anchor, fitted.regularisation
    )
    np.testing.assert_allclose(fitted.outlierness(NEW), expected, rtol=1e-7)


def test_gradient_agrees_with_differences(fitted):
    score = fitted.to_score()
    steps = 1e-5 * fitted.scaling_.scale
    slopes = central_differences(lambda Z: score.value(Z * steps), NEW / steps, step=1.0) / steps
    np.testing.assert_allclose(score.gradient(NEW), slopes, rtol=1e-5, atol=1e-6 * np.abs(slopes).max())
    assert not hasattr(score, "feature_errors")


def test_padding_changes_neither_loss_nor_gradient():
    """A small network in a stack with a large one has the loss and the gradient that it has alone."""
    from tellwhy.detectors.networks.dagmm import LAYERS, JointLoss, Settings
    from tellwhy.detectors.networks.training import make_stack, take_one_network

    settings = Settings(anchor=1.0, regularisation=1e-3)
    loss = JointLoss(0.1, 0.005, settings)
    sizes = [
        {"column": 5, "latent": a, "hidden": b, "summary": a + 2, "estimator": c, "component": k}
        for a, b, c, k in ((1, 3, 4, 2), (4, 9, 10, 4), (2, 6, 3, 3))
    ]
    stack = make_stack(LAYERS, sizes, np.random.default_rng(0), "cpu", torch.float64)
    rows = torch.tensor(RNG.normal(size=(40, 5)))
    for weights in stack.weights.values():
        weights.requires_grad_()
    together = loss.batch_loss(stack, rows, RNG)
    names = list(stack.weights)
    slopes = dict(zip(names, torch.autograd.grad(together.sum(), list(stack.weights.values())), strict=True))
    for place in range(3):
        alone = take_one_network(LAYERS, stack.member(place), "cpu", torch.float64)
        for weights in alone.weights.values():
            weights.requires_grad_()
        single = loss.batch_loss(alone, rows, RNG)
        assert single[0].item() == pytest.approx(together[place].item(), rel=1e-12)
        own = torch.autograd.grad(single.sum(), list(alone.weights.values()))
        for name, slope in zip(alone.weights, own, strict=True):
            whole = slopes[name][place]
            inside = whole[tuple(slice(n) for n in slope[0].shape)]
            np.testing.assert_allclose(inside.numpy(), slope[0].numpy(), rtol=1e-9, atol=1e-12)
            assert whole.abs().sum().item() == pytest.approx(inside.abs().sum().item(), rel=1e-12)


def test_the_loss_is_error_plus_energy_plus_penalty():
    from tellwhy.detectors.networks.dagmm import JointLoss, Settings
    from tellwhy.detectors.networks.training import take_one_network

    detector = DAGMM(**QUICK).fit(X)
    rows = scaled(detector, X[:50])
    network, settings = detector.network_, Settings(1.0, 1e-3)
    summaries = np.array([oracle.dagmm_summary(network, z, 1.0) for z in rows])
    shares = np.array([oracle.dagmm_shares(network, s) for s in summaries])
    weights, means, covariances = oracle.reestimated(summaries, shares)
    covariances = covariances + 1e-3 * np.eye(summaries.shape[1])
    energy = np.mean([oracle.mixture_energy(s, weights, means, covariances) for s in summaries])
    errors = np.mean(
        [((z - oracle.decode(network, s[2:])) ** 2).sum() for z, s in zip(rows, summaries, strict=True)]
    )
    penalty = sum(1 / covariances[k, j, j] for k in range(2) for j in range(summaries.shape[1]))
    stack = take_one_network(detector._layout, network, "cpu", torch.float64)
    found = JointLoss(0.1, 0.005, settings).batch_loss(stack, torch.tensor(rows), RNG)
    assert found[0].item() == pytest.approx(errors + 0.1 * energy + 0.005 * penalty, rel=1e-8)


def test_rows_that_leave_the_learned_surface_are_found():
    detector = DAGMM(latent=2, hidden=10, max_epochs=200, batch_size=64, learning_rate=1e-3).fit(X)
    moved = X + 3 * X.std(axis=0) * RNG.choice([-1, 1], X.shape)
    scores = np.concatenate([detector.outlierness(X), detector.outlierness(moved)])
    assert roc_auc_score(np.repeat([0, 1], len(X)), scores) > 0.9


def test_without_an_anchor_the_mean_row_is_odd():
    """At x = 0 the relative distance is not defined: near it, it is as large as one likes."""
    rows = np.random.default_rng(1).normal(size=(400, 3))
    centre = rows.mean(axis=0) + 1e-6
    published, anchored = (DAGMM(1, 4, anchor=a, max_epochs=5).fit(rows) for a in (0.0, "auto"))
    assert published.outlierness([centre])[0] > published.training_scores_.max()
    assert anchored.outlierness([centre])[0] < anchored.training_scores_.max()


def test_number_of_components_is_chosen_too():
    detector = DAGMM(latent=1, hidden=3, n_components="auto", max_epochs=3).fit(X)
    assert [s["component"] for s, _ in detector.validation_losses_] == [2, 3, 4]
    losses = {s["component"]: loss for s, loss in detector.validation_losses_}
    assert detector.n_components_ == min(losses, key=losses.get) == len(detector.mixture_["log_weights"])


def test_same_seed_same_bits():
    first, second = (DAGMM(random_state=4, **QUICK).fit(X).outlierness(NEW) for _ in range(2))
    np.testing.assert_array_equal(first, second)
