"""Gaussian mixture: its energy, the choice of K, training rows left out, and what it refuses."""

import numpy as np
import pytest
from oracles import deep_oracles as oracle
from oracles.score_oracles import central_differences
from scipy.stats import multivariate_normal

from tellwhy.core.errors import InvalidInput, NotConverged
from tellwhy.detectors import GaussianMixture
from tellwhy.detectors.gaussian_mixture import compute_conditional_surprises, compute_left_out_energies

RNG = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0, 0.0], [60.0, 0.0, 5.0], [0.0, 900.0, -5.0]])
X = np.vstack([c + RNG.normal(size=(80, 3)) @ np.diag([5.0, 100.0, 1.0]) for c in CENTRES])
NEW = np.vstack([X[::17] + 0.5, 3 * X[::40]])


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_energy_in_the_units_of_the_data(covariance):
    score = GaussianMixture(3, covariance=covariance).fit(X).to_score()
    mixture = score.mixture
    expected = [oracle.mixture_energy(x, mixture.weights, mixture.means, mixture.covariances) for x in NEW]
    np.testing.assert_allclose(score.value(NEW), expected, rtol=1e-10)
    steps = 1e-5 * X.std(axis=0)
    unit = central_differences(lambda Z: score.value(Z * steps), NEW / steps, step=1.0) / steps
    np.testing.assert_allclose(score.gradient(NEW), unit, rtol=1e-5, atol=1e-7)
    assert (mixture.covariances[:, 0, 1] == 0).all() == (covariance == "diag")


def test_mixture_is_the_one_the_rows_were_drawn_from():
    mixture = GaussianMixture(3).fit(X).to_score().mixture
    order = np.argsort(mixture.means[:, 0] + mixture.means[:, 1] / 10)
    np.testing.assert_allclose(mixture.weights, 1 / 3, atol=0.02)
    np.testing.assert_allclose(mixture.means[order], CENTRES, atol=35)
    np.testing.assert_allclose(mixture.covariances[:, 0, 0], 25.0, rtol=0.4)


def test_number_of_components_is_the_likeliest_of_rows_held_out():
    detector = GaussianMixture(candidates=(1, 2, 3, 20)).fit(X)
    energies = dict(detector.validation_energies_)
    assert list(energies) == [1, 2, 3, 20]
    assert min(energies, key=energies.get) == detector.n_components_ == 3
    assert len(detector.parts_.means) == 3
    assert GaussianMixture(2).fit(X).validation_energies_ == ()


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_no_component_is_narrower_than_a_share_of_the_column(covariance):
    """Two fifths of a column are the same value, and two columns are nearly equal."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 4)) * [1.0, 1000.0, 1e-3, 1.0]
    rows[rng.random(500) < 0.4, 1] = 5000.0
    rows[:, 3] = rows[:, 0] + 1e-5 * rng.normal(size=500)
    units = rows.std(axis=0)

    def narrowest(detector):
        mixture = detector.fit(rows).to_score().mixture
        return min(np.linalg.eigvalsh(c / np.outer(units, units))[0] for c in mixture.covariances)

    assert narrowest(GaussianMixture(covariance=covariance)) >= 1e-3 * (1 - 1e-9)
    assert narrowest(GaussianMixture(covariance=covariance, regularisation=1e-6)) < 1e-4
    odd = rows[:1] + np.array(
        [0.0, 0.01 * units[1], 0.0, 0.0]
    )  # a hundredth of a standard deviation is no anomaly
    detector = GaussianMixture(2, covariance=covariance).fit(rows)
    assert abs(detector.outlierness(odd) - detector.outlierness(rows[:1])) < 1.0


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_conditional_surprises_are_what_the_likeliest_value_of_a_cell_would_save(covariance):
    score = GaussianMixture(1, covariance=covariance).fit(X).to_score()
    mixture = score.mixture
    found = compute_conditional_surprises(score, NEW)
    for x, row in zip(NEW, found, strict=True):
        for i in range(3):
            rest = [j for j in range(3) if j != i]
            block = mixture.covariances[0][np.ix_(rest, rest)]
            gain = np.linalg.solve(block, mixture.covariances[0][rest, i])
            mended = x.copy()
            mended[i] = mixture.means[0, i] + gain @ (x - mixture.means[0])[rest]
            assert row[i] == pytest.approx(
                (score.value(x[None]) - score.value(mended[None]))[0], rel=1e-6, abs=1e-9
            )


def test_conditional_surprises_average_over_components_by_their_shares():
    score = GaussianMixture(2).fit(X).to_score()
    mixture = score.mixture
    expected = np.zeros_like(NEW)
    for n, x in enumerate(NEW):
        parts = oracle.shares(x, mixture.weights, mixture.means, mixture.covariances)
        for share, mean, covariance in zip(parts, mixture.means, mixture.covariances, strict=True):
            P = np.linalg.inv(covariance)
            expected[n] += share * 0.5 * (P @ (x - mean)) ** 2 / np.diag(P)
    np.testing.assert_allclose(compute_conditional_surprises(score, NEW), expected, rtol=1e-6)


def test_regularisation_is_strong_where_values_repeat_and_weaker_where_columns_follow_from_many_others():
    rng = np.random.default_rng(0)
    spikes = np.round(np.abs(rng.standard_cauchy(size=(900, 6))).clip(max=30))
    free = rng.normal(size=(1500, 24))
    sums = free @ rng.normal(size=(24, 6)) / np.sqrt(24) + 0.05 * rng.normal(size=(1500, 6))
    strong = GaussianMixture(regularisation="auto").fit(spikes)
    weak = GaussianMixture(1, regularisation="auto").fit(np.hstack([free, sums]))
    assert (strong.regularisation_, weak.regularisation_) == (0.1, 0.001)
    assert strong.n_components_ == min(strong.validation_energies_, key=lambda pair: pair[1])[0]
    assert [strength for strength, _ in strong.validation_ranks_] == [0.001, 0.01, 0.1]
    assert weak.n_components_ == 1
    assert GaussianMixture(2, regularisation=0.02).fit(X).regularisation_ == 0.02
    assert GaussianMixture(regularisation="auto").fit(X[:3]).n_components_ == 1
    assert GaussianMixture(regularisation="auto").fit(X[:2]).regularisation_ == 0.001
    assert GaussianMixture(regularisation="auto", validation_share=0.99).fit(X[:9]).regularisation_ == 0.001


def test_regularisation_is_least_where_no_strength_is_reliably_better():
    rng = np.random.default_rng(1)
    assert GaussianMixture(1, regularisation="auto").fit(rng.normal(size=(300, 5))).regularisation_ == 0.001


def test_energies_of_rows_held_out_tell_of_components_alone():
    assert [k for k, _ in GaussianMixture(regularisation="auto").fit(X).validation_energies_] == [1, 2, 3, 4]
    assert GaussianMixture(2, regularisation="auto").fit(X).validation_energies_ == ()


def test_few_rows_get_few_components():
    assert GaussianMixture().fit(X[:2]).n_components_ == 1
    assert GaussianMixture(candidates=(2, 3, 4)).fit(X[:6]).n_components_ == 2
    with pytest.raises(InvalidInput, match="n_components=4 needs as many rows; X has 3"):
        GaussianMixture(4).fit(X[:3])


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_left_out_energies_are_those_of_the_mixture_reestimated_without_the_row(covariance):
    """One more M-step without row i, the others' shares kept."""
    rows = X[::4]
    score = GaussianMixture(2, covariance=covariance, regularisation=1e-12).fit(rows).to_score()
    before = score.mixture
    R = np.array([oracle.shares(x, before.weights, before.means, before.covariances) for x in rows])
    diagonal = covariance == "diag"
    before = oracle.reestimated(rows, R, diagonal=diagonal)
    np.testing.assert_allclose(before[1], score.mixture.means, rtol=0.02, atol=1.0)  # settled
    fresh = GaussianMixture(2)
    fresh.parts_ = _parts(*before, diagonal=diagonal)
    R = np.array([oracle.shares(x, *before) for x in rows])
    before = oracle.reestimated(rows, R, diagonal=diagonal)
    fresh.parts_ = _parts(*before, diagonal=diagonal)
    expected = []
    shares = np.array([oracle.shares(x, *before) for x in rows])
    for i, x in enumerate(rows):
        rest = np.delete(np.arange(len(rows)), i)
        without = oracle.reestimated(rows[rest], shares[rest], diagonal=diagonal)
        expected.append(oracle.mixture_energy(x, *without))
    found = compute_left_out_energies(fresh.to_score(), rows, len(rows))
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert (found >= fresh.to_score().value(rows) - 1e-6).all()


def _parts(weights, means, covariances, *, diagonal):
    from tellwhy.scoring import Mixture, MixtureScore, ScaledMixture

    parts = MixtureScore.of(Mixture(weights, means, covariances)).parts
    factors = np.diagonal(parts.factors, axis1=1, axis2=2) if diagonal else parts.factors
    return ScaledMixture(parts.log_weights, parts.means, factors, parts.centre, parts.scale)


def test_thresholds_hold_for_new_rows_even_where_the_mixture_overfits():
    """40 columns and 200 rows: the rows learned from have far lower energies than new ones."""
    rng = np.random.default_rng(1)
    mix = rng.normal(size=(40, 40))
    rows, new = rng.normal(size=(200, 40)) @ mix, rng.normal(size=(2000, 40)) @ mix
    detector = GaussianMixture(2, contamination=0.1).fit(rows)
    assert 0.03 < (detector.predict(new) == -1).mean() < 0.25
    assert (detector.outlierness(new) > np.quantile(detector.outlierness(rows), 0.9)).mean() > 0.6


def test_a_row_with_a_component_of_its_own_is_odd_without_it():
    rows = np.vstack([X[:80], [[1e4, 1e5, 1e3]]])
    detector = GaussianMixture(2).fit(rows)
    assert np.isfinite(detector.training_scores_).all()
    assert detector.training_scores_.argmax() == 80


def test_same_seed_same_bits_and_generators_are_taken():
    seeds = [np.random.default_rng(3), np.random.default_rng(3), np.random.RandomState(3), 3]
    first, second, *others = (GaussianMixture(random_state=s).fit(X).outlierness(NEW) for s in seeds)
    np.testing.assert_array_equal(first, second)
    assert all(np.isfinite(o).all() for o in others)


def test_stopping_too_early_is_said(monkeypatch):
    start = GaussianMixture._start
    monkeypatch.setattr(
        GaussianMixture, "_start", lambda *args: start(*args).set_params(max_iter=1, tol=1e-12)
    )
    with pytest.warns(NotConverged, match="did not settle in 1 rounds"):
        GaussianMixture(3).fit(X)


def test_singular_covariances_say_what_to_do():
    rows = np.repeat(X[:6], 20, axis=0)
    with pytest.raises(InvalidInput, match=r"singular at regularisation=1e-300 .* Raise the regularisation"):
        GaussianMixture(5, regularisation=1e-300).fit(rows)
    assert np.isfinite(GaussianMixture(5).fit(rows).outlierness(NEW)).all()


def test_a_row_with_a_component_of_its_own_is_judged_by_the_others():
    """Without the row, its component is gone: only the density of the others is left."""
    rows = np.random.default_rng(0).normal(size=(60, 2))
    rows[7] = [40.0, 40.0]
    detector = GaussianMixture(2).fit(rows)
    mixture = detector.to_score().mixture
    sizes = mixture.weights * 60
    assert sizes.min() == pytest.approx(1.0, abs=1e-6)
    other = int(np.argmax(sizes))
    expected = -multivariate_normal(mixture.means[other], mixture.covariances[other]).logpdf(rows[7])
    assert detector.training_scores_[7] == pytest.approx(expected, rel=1e-6)
    assert detector.outlierness(rows[[7]])[0] < 10  # with the row, it is at home


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_only_row_that_varies_has_a_large_score_but_not_a_rounding_error(covariance, seed):
    """Left out, the row lies at infinity in units of a spread of 0; the score is held at n/2 over 1e-9."""
    rows = np.random.default_rng(seed).normal(size=(50, 3))
    rows[:, 2] = 0.0
    rows[7, 2] = 5.0
    detector = GaussianMixture(1, covariance=covariance, regularisation=1e-15).fit(rows)
    assert detector.training_scores_[7] == pytest.approx(25 / 1e-9, rel=0.02)
    assert np.delete(detector.training_scores_, 7).max() < 20
