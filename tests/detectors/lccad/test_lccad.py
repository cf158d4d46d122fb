"""LCCAD: its special cases, what it learns, corrected formulas, bad input."""

import warnings

import numpy as np
import pytest
from oracles.graph_oracles import log_partition, potts_sample
from scipy.optimize import minimize
from scipy.sparse import coo_array
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from tellwhy.bases import KernelBasis
from tellwhy.core.errors import DataNotice, InvalidInput, NotConverged, TellwhyWarning
from tellwhy.data.generated import latent_classes
from tellwhy.data.graphs import as_graph, chain, from_edges, grid
from tellwhy.detectors import LCCAD, SVDD, ClusterSVDD, suggest_lccad
from tellwhy.detectors.lccad.alternation import Alternation
from tellwhy.detectors.lccad.costs import Balls, fit_balls, hinge, smooth_ball, squared
from tellwhy.detectors.lccad.couplings import (
    Couplings,
    compute_log_likelihood,
    find_balancing_gamma,
    fit_by_marginals,
    fit_by_pseudo_likelihood,
    gather,
    log_pseudo_likelihood,
    make_no_couplings,
)


def two_classes(n=600, run=50, distance=4.0, seed=0):
    rng = np.random.default_rng(seed)
    classes = np.cumsum(rng.random(n) < 1 / run) % 2
    return rng.normal(size=(n, 2)) + distance / np.sqrt(2) * classes[:, None], classes


def three_clusters(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(300, 3)) + 3.0 * np.eye(3)[rng.integers(3, size=300)]


@pytest.mark.parametrize("seed", range(3))
def test_without_graph_it_is_k_means(seed):
    X = three_clusters(seed)
    start = X[np.random.default_rng(seed).choice(300, 3, replace=False)]
    peer = KMeans(3, init=start, n_init=1, tol=0).fit(X)
    model = LCCAD(3, theta=1.0, init=start).fit(X, chain(300))
    np.testing.assert_array_equal(model.labels_, peer.labels_)
    np.testing.assert_allclose(model.centres_, peer.cluster_centers_, atol=1e-12)
    assert model.objective_ == pytest.approx(peer.inertia_)
    np.testing.assert_allclose(
        model.outlierness(), ((X - peer.cluster_centers_[peer.labels_]) ** 2).sum(axis=1)
    )


def test_printed_objective_is_not_k_means():
    """With 1/(n_k ν), class sizes enter the assignment, and one class is better than the two that there are."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], [900, 100]).astype(np.int32)
    X = rng.normal(size=(1000, 1)) + 4.0 * truth[:, None]
    start = np.array([[0.0], [4.0]])
    peer = KMeans(2, init=start, n_init=1, tol=0).fit(X)
    printed = LCCAD(2, theta=1.0, init=start, normalised=True).fit(X)
    assert (printed.labels_ != peer.labels_).sum() > 50
    close = X - 2.5 * truth[:, None]
    for normalised, better in ((False, "two"), (True, "one")):
        objective = {}
        for name, labels, k in (("one", np.zeros(1000, np.int32), 1), ("two", truth, 2)):
            model = LCCAD(k, theta=1.0, normalised=normalised)
            fit = Alternation(close, as_graph(None, 1000), model.settings(), rng)
            balls = fit_balls(close, labels, Balls(np.zeros((k, 1)), np.zeros(k)), nu=1.0, loss="hinge")
            objective[name] = fit.objective(labels, balls, make_no_couplings(k, 1), 0.0)
        assert min(objective, key=objective.get) == better


@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_one_class_without_graph_is_svdd(nu):
    X = three_clusters()
    peer = SVDD("linear", nu=nu, tol=1e-7).fit(X)
    model = LCCAD(1, theta=1.0, nu=nu).fit(X)
    np.testing.assert_allclose(model.centres_, peer.expansion_.centres, atol=1e-4)
    assert model.squared_radii_[0] == pytest.approx(peer.threshold_, rel=1e-4)
    np.testing.assert_allclose(model.outlierness(), peer.outlierness(X), atol=1e-3)
    excess = np.maximum(peer.outlierness(X) - peer.threshold_, 0)
    assert model.objective_ == pytest.approx(
        300 * nu * (peer.threshold_ + excess.sum() / (300 * nu)), rel=1e-5
    )


def test_dropping_the_size_alone_breaks_svdd():
    """t + Σℓ without ν n_k, the other reading of the printed objective, has another ball than SVDD."""
    X, nu = three_clusters(), 0.3

    def cost(place):
        return place[3] ** 2 + hinge(((place[:3] - X) ** 2).sum(axis=1) - place[3] ** 2).sum()

    found = minimize(cost, np.append(X.mean(axis=0), 1.0), method="Nelder-Mead", options={"maxiter": 4000})
    peer = SVDD("linear", nu=nu).fit(X)
    assert found.x[3] ** 2 > 1.5 * peer.threshold_


@pytest.mark.parametrize("loss", [squared, lambda z: np.logaddexp(0, z)])
def test_balls_of_other_losses_are_optimal(loss):
    X, nu = three_clusters()[:60], 0.4
    centre, t = smooth_ball(X, nu, loss)

    def cost(place):
        return nu * len(X) * place[3] + loss(((place[:3] - X) ** 2).sum(axis=1) - place[3]).sum()

    here = np.append(centre, t)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = here + rng.normal(scale=0.05, size=4)
        other[3] = max(other[3], 0)
        assert cost(other) >= cost(here) - 1e-6 * abs(cost(here))


def test_squared_loss_fits():
    X, classes = two_classes()
    for loss in ("squared", lambda z: np.logaddexp(0.0, z)):
        model = LCCAD(2, 0.3, 0.5, loss=loss, prior="mrf", n_init=1, random_state=0).fit(X, chain(600))
        assert adjusted_rand_score(classes, model.labels_) > 0.8


def test_theta_zero_is_a_random_field():
    """Only the log-linear part acts: the labels are the field's own optimum, whatever the balls."""
    X, classes = two_classes(distance=6.0)
    start = np.array([[0.0, 0.0], [4.2, 4.2]])
    with pytest.warns(DataNotice, match="prior='crf'"):
        model = LCCAD(2, theta=0.5, init=start, prior="crf").fit(X, chain(600)).set_params(theta=0.0)
    labels = model.predict(X, chain(600))
    model.centres_ = model.centres_ + 100.0
    np.testing.assert_array_equal(model.predict(X, chain(600)), labels)
    assert adjusted_rand_score(classes, labels) > 0.9
    fitted = LCCAD(2, theta=0.0, learn="fixed", init=start)
    with pytest.warns(NotConverged, match="Only 1 of 2 classes"):
        fitted.fit(X, chain(600))
    assert np.isfinite(fitted.objective_)


def test_context_gives_anomalies_away():
    X, classes = two_classes(n=3000, distance=3.0, seed=1)
    truth = ((X - 3 / np.sqrt(2) * classes[:, None]) ** 2).sum(axis=1)
    odd = truth > np.quantile(truth, 0.95)
    model = LCCAD(2, 1 / 3, prior="mrf", gamma=1.0, random_state=0).fit(X, chain(3000))
    alone = ClusterSVDD(2).fit(X)
    assert roc_auc_score(odd, model.outlierness()) > 0.97
    assert roc_auc_score(odd, alone.outlierness(X)) < 0.93
    assert adjusted_rand_score(classes, model.labels_) > adjusted_rand_score(classes, alone.labels_) + 0.1
    assert model.gap_ == 0


@pytest.mark.parametrize("inference", ["auto", "trws", "lbp", "icm"])
@pytest.mark.filterwarnings("ignore::tellwhy.core.errors.NotConverged")
def test_inference_on_a_grid(inference):
    rng = np.random.default_rng(0)
    classes = np.zeros((24, 24), dtype=int)
    classes[6:18, 6:18] = 1
    X = rng.normal(size=(24, 24, 2)) + 3.0 * classes[..., None]
    model = LCCAD(2, 0.3, inference=inference, prior="mrf", n_init=1, random_state=0).fit(X, grid((24, 24)))
    assert adjusted_rand_score(classes.ravel(), model.labels_) > 0.9
    assert np.isfinite(model.gap_) == (inference in ("auto", "trws"))
    single = LCCAD(2, 0.3, inference=inference, prior="mrf", n_init=1, random_state=0)
    single.fit(X.astype(np.float32), grid((24, 24)))
    assert (single.labels_ == model.labels_).mean() > 0.99


def test_new_graphs_are_labelled_with_what_was_learned():
    X, _ = two_classes(seed=0)
    model = LCCAD(2, 0.3, random_state=0).fit(X, chain(600))
    np.testing.assert_array_equal(model.predict(X, chain(600)), model.labels_)
    np.testing.assert_allclose(model.outlierness(X, chain(600)), model.outlierness())
    new, classes = two_classes(n=200, seed=9)
    assert adjusted_rand_score(classes, model.predict(new, chain(200))) > 0.85
    assert model.labelling(new, chain(200)).gap == 0
    parts = model.predict(np.vstack([new, new]), chain([200, 200]))
    np.testing.assert_array_equal(parts[:200], parts[200:])
    np.testing.assert_array_equal(parts[:200], model.predict(new, chain(200)))


@pytest.mark.parametrize("coupling", [0.4, 0.7, 1.0])
def test_pseudo_likelihood_recovers_planted_couplings(coupling):
    rng = np.random.default_rng(3)
    g = grid((90, 90))
    labels = potts_sample(g.edges(), g.n_nodes, 2, coupling, rng).astype(np.int32)
    evidence = gather(np.empty((g.n_nodes, 0)), labels, g, 2, np.arange(g.n_nodes))
    found = fit_by_pseudo_likelihood(make_no_couplings(2, 0), evidence, gamma=1.0)
    pair = found.pair
    assert (pair[0, 0] + pair[1, 1]) / 2 - pair[0, 1] == pytest.approx(coupling, abs=0.1)
    np.testing.assert_array_equal(pair, pair.T)


def test_every_edge_is_in_both_conditionals():
    """With each edge in one of them only, planted couplings come out about twice too large."""
    rng = np.random.default_rng(3)
    g = grid((90, 90))
    labels = potts_sample(g.edges(), g.n_nodes, 2, 0.4, rng).astype(np.int32)
    evidence = gather(np.empty((g.n_nodes, 0)), labels, g, 2, np.arange(g.n_nodes))
    halved = type(evidence)(evidence.labels, evidence.counts / 2, evidence.features, evidence.share)
    pair = fit_by_pseudo_likelihood(make_no_couplings(2, 0), halved, gamma=1.0).pair
    assert (pair[0, 0] + pair[1, 1]) / 2 - pair[0, 1] > 0.7


def test_pseudo_likelihood_and_its_slope():
    rng = np.random.default_rng(0)
    X, labels, g = rng.normal(size=(12, 2)), rng.integers(3, size=12).astype(np.int32), grid((3, 4))
    pair = rng.normal(size=(3, 3))
    couplings = Couplings(pair + pair.T, rng.normal(size=(3, 3)))
    evidence = gather(X, labels, g, 3, np.arange(12))
    terms = []
    for i in range(12):
        near = [b if a == i else a for a, b in g.edges() if i in (a, b)]
        logits = couplings.emission[:, :2] @ X[i] + couplings.emission[:, 2]
        logits = logits + sum(couplings.pair[labels[j]] for j in near)
        terms.append(logits[labels[i]] - np.log(np.exp(logits).sum()))
    assert log_pseudo_likelihood(couplings, evidence) == pytest.approx(sum(terms))
    some = gather(X, labels, g, 3, np.arange(4))
    assert log_pseudo_likelihood(couplings, some) == pytest.approx(
        3 * sum(terms[:4])
    )  # each stands for three
    best = fit_by_pseudo_likelihood(make_no_couplings(3, 2), evidence, gamma=0.5)

    def cost(c):
        return 0.25 * c.squared_norm - log_pseudo_likelihood(c, evidence)

    for _ in range(50):
        step = rng.normal(scale=0.02, size=(3, 3))
        other = Couplings(best.pair + step + step.T, best.emission + rng.normal(scale=0.02, size=(3, 3)))
        assert cost(other) > cost(best)


def test_objective_is_what_is_written():
    X, _ = two_classes(n=120)
    g = grid((10, 12))
    model = LCCAD(2, 0.4, 0.5, gamma=3.0, n_init=1, random_state=0).fit(X, g)
    h, v = model.labels_, Couplings(model.couplings_, model.emissions_)
    t = model.squared_radii_
    distances = ((X[:, None, :] - model.centres_) ** 2).sum(axis=2)
    balls = restrained(0.4 * (0.5 * t + np.maximum(distances - t, 0)), h)
    fit = log_pseudo_likelihood(v, gather(X[:, :0], h, g, 2, np.arange(120)))
    norm = (model.couplings_**2).sum() + (model.emissions_**2).sum()
    assert model.objective_ == pytest.approx(balls + 0.6 * (3.0 / 2 * norm - fit))
    path = LCCAD(2, 0.4, gamma=3.0, n_init=1, random_state=0).fit(X, chain(120))
    v, h = Couplings(path.couplings_, path.emissions_), path.labels_
    norm = (path.couplings_**2).sum() + (path.emissions_**2).sum()
    exact = compute_log_likelihood(v, X[:, :0], h, chain(120))
    distances = ((X[:, None, :] - path.centres_) ** 2).sum(axis=2)
    assert path.objective_ == pytest.approx(restrained(0.4 * distances, h) + 0.6 * (1.5 * norm - exact))


def restrained(costs, labels):
    """Costs of the nodes' classes, none more than six variances above that of the best class."""
    least = costs.min(axis=1)
    own = costs[np.arange(len(costs)), labels]
    return np.minimum(own, least + 6 * np.median(least) / (2 * np.log(2))).sum()


def test_couplings_of_large_graphs_are_learned_from_a_sample(monkeypatch):
    X, classes = two_classes(n=1500)
    whole = LCCAD(2, 0.3, gamma=1.0, prior="mrf", n_init=1, random_state=0).fit(X, chain(1500))
    monkeypatch.setattr("tellwhy.detectors.lccad.alternation.MOST_NODES", 500)
    part = LCCAD(2, 0.3, gamma=1.0, prior="mrf", n_init=1, random_state=0).fit(X, chain(1500))
    assert adjusted_rand_score(whole.labels_, part.labels_) > 0.9
    assert part.couplings_[0, 0] != whole.couplings_[0, 0]
    np.testing.assert_allclose(part.couplings_, whole.couplings_, atol=0.8)
    assert adjusted_rand_score(classes, part.labels_) > 0.9


def test_marginals_learn_the_same_on_a_chain():
    X, classes = two_classes(n=400)
    labels, g = classes.astype(np.int32), chain(400)
    found = fit_by_marginals(make_no_couplings(2, 0), np.empty((400, 0)), labels, g, gamma=0.1)
    same = (np.diff(classes) == 0).mean()
    difference = (found.pair[0, 0] + found.pair[1, 1]) / 2 - found.pair[0, 1]
    assert difference == pytest.approx(np.log(same / (1 - same)), abs=0.4)
    small = chain(6)
    random = Couplings(np.array([[0.3, -0.2], [-0.2, 0.8]]), np.random.default_rng(0).normal(size=(2, 3)))
    unary = -(X[:6] @ random.emission[:, :2].T + random.emission[:, 2])
    own = -sum(unary[i, labels[i]] for i in range(6)) + sum(
        random.pair[labels[i], labels[i + 1]] for i in range(5)
    )
    expected = own - log_partition(unary, -random.pair, small.edges())
    assert compute_log_likelihood(random, X[:6], labels[:6], small) == pytest.approx(expected)
    model = LCCAD(2, 0.3, learn="marginals", n_init=1, random_state=0).fit(X, g)
    assert adjusted_rand_score(classes, model.labels_) > 0.85


def test_gamma_auto_gives_couplings_of_norm_one():
    X, classes = two_classes()
    evidence = gather(X, classes.astype(np.int32), chain(600), 2, np.arange(600))
    gamma = find_balancing_gamma(make_no_couplings(2, 2), evidence)
    assert fit_by_pseudo_likelihood(make_no_couplings(2, 2), evidence, gamma).squared_norm == pytest.approx(
        1, abs=0.02
    )


def test_balls_of_part_of_the_classes():
    """ν < 1: an ordinary SVDD per class."""
    X, classes = two_classes(distance=8.0)
    model = LCCAD(2, 0.3, 0.2, n_init=1, random_state=0).fit(X, chain(600))
    assert adjusted_rand_score(classes, model.labels_) > 0.95
    for k in range(2):
        peer = SVDD("linear", nu=0.2, tol=1e-7).fit(X[model.labels_ == k])
        np.testing.assert_allclose(model.centres_[k], peer.expansion_.centres[0], atol=1e-3)
        assert model.squared_radii_[k] == pytest.approx(peer.threshold_, rel=1e-3)


def test_missing_nodes_are_ignored():
    X, _ = two_classes()
    mask = np.ones(600, bool)
    mask[[10, 11, 300]] = False
    holed = X.copy()
    holed[~mask] = np.nan
    model = LCCAD(2, 0.3, random_state=0).fit(holed, chain(600, mask=mask))
    assert (model.labels_[~mask] == -1).all()
    assert (model.labels_[mask] >= 0).all()
    assert np.isnan(model.outlierness()[~mask]).all()
    assert np.isfinite(model.outlierness()[mask]).all()
    assert np.isnan(holed[10]).all()
    listed = LCCAD(2, 0.3, random_state=0).fit(holed, from_edges(chain(600).edges(), mask=mask))
    np.testing.assert_array_equal(listed.labels_, model.labels_)
    np.testing.assert_array_equal(model.predict(holed, chain(600, mask=mask)), model.labels_)


def test_features_of_a_transformer():
    """Classes that are rings apart only in a feature space; scores are kernel outlierness without the node itself."""
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1, 0, 1], 100)
    angle = rng.uniform(0, 2 * np.pi, 400)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * np.where(classes, 4.0, 1.0)[:, None]
    X += rng.normal(scale=0.2, size=X.shape)
    sampler = RBFSampler(gamma=0.5, n_components=200, random_state=0)
    model = LCCAD(2, 0.9, features=sampler, gamma=1.0, prior="mrf", random_state=0).fit(X, chain(400))
    assert adjusted_rand_score(classes, model.labels_) > 0.9
    assert not hasattr(sampler, "random_weights_")
    i = 7
    others = X[(model.labels_ == model.labels_[i]) & (np.arange(400) != i)]
    kernel = np.exp(-0.5 * ((X[i] - others) ** 2).sum(axis=1))
    assert model.outlierness()[i] == pytest.approx(-np.log(kernel.mean()))
    new = model.outlierness(X[:50], chain(50))
    assert new.shape == (50,)
    assert np.isfinite(new).all()
    nothing = LCCAD(2, 0.9, 0.3, features=sampler, gamma=1.0, random_state=0, n_init=1).fit(X, chain(400))
    assert np.isfinite(nothing.outlierness()).all()


def test_features_of_a_kernel_basis():
    """Random Fourier features: the scores use the exact kernel at the basis' own bandwidth."""
    X, classes = two_classes(n=300, distance=6.0)
    basis = KernelBasis(n_features=100, bandwidth=3.0, random_state=0)
    model = LCCAD(2, 0.9, features=basis, gamma=1.0, prior="mrf", n_init=1, random_state=0).fit(X, chain(300))
    assert adjusted_rand_score(classes, model.labels_) > 0.9
    others = X[(model.labels_ == model.labels_[5]) & (np.arange(300) != 5)]
    kernel = np.exp(-0.5 * ((X[5] - others) ** 2).sum(axis=1) / 9.0)
    assert model.outlierness()[5] == pytest.approx(-np.log(kernel.mean()))


def test_same_seed_same_bits_and_nothing_is_changed():
    X, _ = two_classes()
    kept = X.copy()
    first = LCCAD(2, 0.3, random_state=1).fit(X, chain(600))
    second = LCCAD(2, 0.3, random_state=1).fit(X, chain(600))
    np.testing.assert_array_equal(first.outlierness(), second.outlierness())
    assert first.objective_ == second.objective_
    np.testing.assert_array_equal(X, kept)


def test_offsets_do_not_matter():
    X, _ = two_classes()
    plain = LCCAD(2, 0.3, random_state=0).fit(X, chain(600))
    shifted = LCCAD(2, 0.3, random_state=0).fit(X + 1e7, chain(600))
    np.testing.assert_array_equal(shifted.labels_, plain.labels_)
    np.testing.assert_allclose(shifted.outlierness(), plain.outlierness(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(shifted.predict(X + 1e7, chain(600)), plain.labels_)


def test_few_nodes_and_no_edges():
    X, _ = two_classes(n=40, distance=9.0)
    free = LCCAD(2, 0.5, random_state=0).fit(X)
    np.testing.assert_array_equal(free.labels_, free.predict(X))
    assert LCCAD(1).fit(X[:1], chain(1)).outlierness() == [0.0]
    with pytest.warns(NotConverged, match="Only 1 of 2"):
        LCCAD(2).fit(np.ones((30, 2)), chain(30))


def test_other_forms_of_graphs_and_rows():
    X, _ = two_classes()
    reference = LCCAD(2, 0.3, random_state=0).fit(X, chain(600)).labels_
    edges = chain(600).edges()
    matrix = coo_array((np.ones(599), edges.T), shape=(600, 600))
    np.testing.assert_array_equal(LCCAD(2, 0.3, random_state=0).fit(X, matrix).labels_, reference)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    model = LCCAD(2, 0.3, random_state=0).fit(frame, chain(600))
    np.testing.assert_array_equal(model.labels_, reference)
    assert model.feature_names_ == ["a", "b"]


def test_emptied_classes_are_reseeded_or_reported():
    X, _ = two_classes(distance=6.0)
    far = np.array([[0.0, 0.0], [1e3, 1e3]])
    model = LCCAD(2, 0.5, init=far).fit(X, chain(600))
    assert (np.bincount(model.labels_) > 0).sum() == 2
    with pytest.warns(NotConverged, match=r"Only 1 of 2 classes .* Raise theta"):
        LCCAD(2, 0.01, learn="fixed", coupling=50.0, random_state=0).fit(X, chain(600))


def test_nodes_without_neighbours_are_reported():
    X, _ = two_classes(n=100)
    with pytest.warns(DataNotice, match="97 of 100 nodes have no neighbours"):
        LCCAD(2, 0.3, random_state=0).fit(X, from_edges([(0, 1), (1, 2)], 100))


def test_suggestion():
    X, _ = two_classes(n=600, distance=3.0)
    found = suggest_lccad(X, chain(600), max_classes=3, random_state=0)
    assert found.n_classes == 2
    assert found.theta == pytest.approx(1 / 3, abs=0.05)
    assert [c.n_classes for c in found.candidates] == [1, 2, 3]
    LCCAD(**found.parameters).fit(X, chain(600))
    assert suggest_lccad(X, chain(600), n_classes=2).n_classes == 2


def test_noise_is_one_class():
    noise = np.random.default_rng(0).normal(size=(400, 2))
    assert suggest_lccad(noise, chain(400), max_classes=2).n_classes == 1
    assert suggest_lccad(noise, grid((20, 20)), max_classes=2).n_classes == 1


def test_cluster_svdd():
    X = three_clusters()
    model = ClusterSVDD(3, n_init=10).fit(X)
    peer = KMeans(3, n_init=10, random_state=0).fit(X)
    assert adjusted_rand_score(peer.labels_, model.labels_) > 0.99
    np.testing.assert_array_equal(model.assign(X), model.labels_)
    np.testing.assert_allclose(model.outlierness(X), model.to_score().value(X))
    loose = ClusterSVDD(3, 0.1).fit(X)
    assert (loose.squared_radii_ > 0).all()
    assert len(ClusterSVDD(5).fit(np.repeat(X[:2], 5, axis=0)).expansion_.centres) == 2
    with pytest.raises(InvalidInput, match="needs as many rows"):
        ClusterSVDD(5).fit(X[:3])


def test_no_class_is_split_like_a_chessboard():
    rng = np.random.default_rng(0)
    field = np.zeros((40, 60))
    field[:, 30:] = 1
    field[20:, :20] = 1
    X = np.column_stack([(rng.normal(size=(40, 60)) + 4 * field).ravel(), rng.normal(size=2400)])
    found = suggest_lccad(X, grid((40, 60)), max_classes=3)
    assert found.n_classes == 2
    assert found.candidates[2].criterion == np.inf  # three classes: two of them prefer each other


def test_the_paper_s_configuration_sees_the_graph_only_as_printed():
    """crf, γ so that ‖v‖ = 1, loopy belief propagation: corrected it repeats k-means, as printed it does not."""
    graph = chain(900)
    toy = latent_classes(graph, 2.0, random_state=5)
    found = {}
    for normalised in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TellwhyWarning)
            model = LCCAD(
                2, 0.5, prior="crf", gamma="auto", inference="lbp", normalised=normalised, random_state=0
            )
            found[normalised] = model.fit(toy.X, graph)
    kmeans = KMeans(2, n_init=10, random_state=0).fit(toy.X).labels_
    ari = {name: adjusted_rand_score(toy.classes, model.labels_) for name, model in found.items()}
    assert adjusted_rand_score(kmeans, found[False].labels_) > 0.9
    assert ari[True] > ari[False] + 0.2


def test_the_objective_is_that_of_restrained_costs():
    """Where nodes are restrained, `objective_` is below the printed formula, and equal to it elsewhere."""
    X, classes = two_classes(distance=12.0)
    alone = [20, 21 + int(np.argmax(np.diff(classes[21:]) != 0)) + 10]  # deep inside of their stretches
    X[alone] += 12.0 / np.sqrt(2) * (1 - 2 * classes[alone])[:, None]
    model = LCCAD(2, 0.4, n_init=1, random_state=0).fit(X, chain(600))
    rng = np.random.default_rng(0)
    fit = Alternation(X - model.middle_, as_graph(chain(600), 600), model.settings(), rng)
    own = ((X - model.centres_[model.labels_]) ** 2).sum(axis=1)
    couplings = Couplings(model.couplings_, model.emissions_)
    likelihood = fit.log_likelihood(model.labels_, couplings)
    printed = 0.4 * own.sum() + 0.6 * (couplings.squared_norm / 2 - likelihood)
    balls = Balls(model.centres_ - model.middle_, model.squared_radii_)
    assert model.objective_ == pytest.approx(fit.objective(model.labels_, balls, couplings, 1.0), rel=1e-6)
    assert model.objective_ < printed - 40
