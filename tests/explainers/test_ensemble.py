"""Rank averages against scipy's ranks and correlations."""

import numpy as np
import pytest
from oracles import baseline_oracles as oracle
from sklearn.mixture import GaussianMixture

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.detectors import KernelDensity, NearestNeighbours, OneClassSVM
from tellwhy.explainers import Ensemble, IntegratedGradients, Marginal, Occlusion, OneClassDTD, Sensitivity
from tellwhy.explainers.ensemble import average_correlation, normalise_ranks
from tellwhy.testing import check_explainer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5))
NEW = RNG.normal(size=(9, 5)) * 3
SVM = OneClassSVM().fit(X)


class Fixed:
    """An explainer that gives the values it was made with."""

    def __init__(self, values, names=None):
        self.values, self.names = np.asarray(values, dtype=float), names

    def explain(self, rows):
        params = {"explains": "a constant"}
        scores = np.zeros(len(self.values))
        return Explanation(
            values=self.values, scores=scores, method="Fixed", params=params, feature_names=self.names
        )


CONTRACTS = {
    "closed forms": lambda model: Ensemble([OneClassDTD(model), Sensitivity(model)]),
    "with background": lambda model: Ensemble(
        [Occlusion(model), OneClassDTD(model), IntegratedGradients(model)]
    ),
}


@pytest.mark.parametrize(
    "check",
    [
        (f"{name}-{check[0]}", check[1])
        for name, made in CONTRACTS.items()
        for check in check_explainer(made, generate_only=True)
    ],
    ids=lambda check: check[0],
)
def test_contract(check):
    check[1]()


def test_values_are_mean_ranks_and_disagreement_is_shown():
    members = [OneClassDTD(SVM), Sensitivity(SVM), Marginal(SVM)]
    found = Ensemble(members).explain(NEW)
    each = [member.explain(NEW).values for member in members]
    for r in range(len(NEW)):
        mean, spread, disagreement = oracle.rank_average([values[r] for values in each])
        np.testing.assert_allclose(found.values[r], mean, rtol=1e-10)
        np.testing.assert_allclose(found.extras["rank_spread"][r], spread, rtol=1e-10)
        np.testing.assert_allclose(found.extras["disagreement"][r], disagreement, rtol=1e-10, atol=1e-12)
    assert (found.kind, found.stderr, found.residual) == ("ranking", None, None)
    assert [text.split()[0] for text in found.params["members"]] == ["OneClassDTD", "Sensitivity", "Marginal"]


def test_ties_share_their_rank():
    rows = np.array([[1.0, 1.0, 3.0, -2.0], [0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(normalise_ranks(rows), [[0.5, 0.5, 1.0, 0.0], [0.5] * 4])
    rounding = rows + np.array([[1e-15, -1e-15, 0.0, 0.0], [0.0] * 4])
    np.testing.assert_array_equal(normalise_ranks(rounding), normalise_ranks(rows))
    np.testing.assert_array_equal(normalise_ranks(np.array([[4.0], [0.0]])), [[1.0], [1.0]])


def test_signs_count():
    assert normalise_ranks(np.array([[-9.0, 0.0, 1.0]])).tolist() == [[0.0, 0.5, 1.0]]


def test_the_scale_of_a_member_does_not_matter():
    one, other = RNG.normal(size=(4, 5)), RNG.normal(size=(4, 5))
    plain = Ensemble([Fixed(one), Fixed(other)]).explain(X[:4])
    scaled = Ensemble([Fixed(one * 1e6), Fixed(np.exp(other))]).explain(X[:4])
    np.testing.assert_allclose(scaled.values, plain.values)
    swapped = Ensemble([Fixed(other), Fixed(one)]).explain(X[:4])
    np.testing.assert_allclose(swapped.values, plain.values)
    np.testing.assert_allclose(swapped.extras["disagreement"], plain.extras["disagreement"])


def test_disagreement_runs_from_agreement_to_contradiction():
    up, down, flat = np.arange(5.0), -np.arange(5.0), np.ones(5)
    pairs = {
        "same": (up, up),
        "opposite": (up, down),
        "one says nothing": (up, flat),
        "none does": (flat, flat),
    }
    expected = {"same": 0.0, "opposite": 2.0, "one says nothing": 1.0, "none does": 0.0}
    for name, (a, b) in pairs.items():
        found = Ensemble([Fixed([a]), Fixed([b])]).explain(X[:1])
        np.testing.assert_allclose(found.extras["disagreement"], expected[name], atol=1e-12, err_msg=name)


def test_mean_correlation_is_over_all_pairs():
    ranks = np.stack([normalise_ranks(RNG.normal(size=(3, 6))) for _ in range(5)])
    pairs = [
        [np.corrcoef(ranks[a, r], ranks[b, r])[0, 1] for a in range(5) for b in range(a)] for r in range(3)
    ]
    np.testing.assert_allclose(average_correlation(ranks), np.mean(pairs, axis=1), rtol=1e-10, atol=1e-12)


def test_several_detectors_and_their_scores():
    models = [
        SVM,
        KernelDensity().fit(X),
        NearestNeighbours().fit(X),
        GaussianMixture(2, random_state=0).fit(X),
    ]
    members = [OneClassDTD(model) for model in models[:3]] + [Marginal(models[3])]
    found = Ensemble(members).explain(NEW)
    for i, member in enumerate(members):
        np.testing.assert_array_equal(found.extras["member_scores"][:, i], member.explain(NEW).scores)
    np.testing.assert_array_equal(found.scores, found.extras["member_scores"][:, 0])


def test_background_goes_to_copies_of_the_members_that_take_it():
    occlusion, dtd = Occlusion(SVM), OneClassDTD(SVM)
    fitted = Ensemble([occlusion, dtd]).fit(X)
    assert not hasattr(occlusion, "background_")
    expected = Occlusion(SVM).fit(X).explain(NEW).values
    np.testing.assert_allclose(
        fitted.explain(NEW).values,
        (normalise_ranks(expected) + normalise_ranks(dtd.explain(NEW).values)) / 2,
    )
    with pytest.raises(InvalidInput, match=r"Member 0 of Ensemble \(Occlusion\).*call fit"):
        Ensemble([occlusion, dtd]).explain(NEW)


def test_pictures_keep_their_shape():
    pictures = RNG.normal(size=(3, 4, 2))
    found = Ensemble([Fixed(pictures), Fixed(-pictures)]).explain(np.zeros((3, 4, 2)))
    assert found.values.shape == found.extras["rank_spread"].shape == (3, 4, 2)
    np.testing.assert_allclose(found.values, 0.5)


def test_explanations_of_an_ensemble_can_be_cut():
    found = Ensemble([OneClassDTD(SVM), Sensitivity(SVM)]).explain(NEW)
    np.testing.assert_array_equal(found[2:4].extras["rank_spread"], found.extras["rank_spread"][2:4])
    np.testing.assert_array_equal(found[2:4].extras["disagreement"], found.extras["disagreement"][2:4])
