"""Names that people know methods by lead to a method, or to what to type."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import OneClassSVM

import tellwhy
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import simplify_name
from tellwhy.core.registry import list_explainers
from tellwhy.one_liner.known_names import ANSWERS, KNOWN, known_name

X = np.random.default_rng(0).normal(size=(90, 3))


def network():
    torch = pytest.importorskip("torch")
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()


def test_every_known_name_leads_to_a_method_and_to_parameters_it_has():
    cards = {card.name: card for card in list_explainers()}
    own = {simplify_name(name) for name in cards}
    for name, known in KNOWN.items():
        assert name not in own, f"{name} is the name of a method of ours"
        for method in filter(None, (known.name, known.of_scores)):
            assert method in cards
        assert set(known.params) <= set(cards[known.name].cls._parameters)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (RandomForestRegressor(3, random_state=0).fit(X, X[:, 0]), "TreeShapley"),
        (LinearRegression().fit(X, X[:, 0]), "LinearShapley"),
        (KNeighborsRegressor().fit(X, X[:, 0]), "KernelShap"),
    ],
)
def test_shap_means_the_method_that_gives_exact_shapley_values(model, method):
    background = {} if method == "TreeShapley" else {"background": X}
    found = tellwhy.explain(model, X[:2], "SHAP", **background)
    assert found.method == method
    np.testing.assert_array_equal(found.values, tellwhy.explain(model, X[:2], method, **background).values)


def test_names_of_networks_and_of_scores():
    rows = X[:2].astype(np.float32)
    assert tellwhy.explain(network(), rows, "saliency").method == "Gradient"
    assert tellwhy.explain(OneClassSVM().fit(X), X[:2], "saliency").method == "Sensitivity"
    assert tellwhy.explain(network(), rows, "shap", background=rows).method == "KernelShap"
    by_name = tellwhy.explain(network(), rows, "lrp-alpha2-beta1")
    assert "alpha_beta" in by_name.params["rules"]
    given = tellwhy.explain(network(), rows, "lrp-epsilon", rule_params={"epsilon": 0.5})
    assert "0.5" in given.params["rules"]  # what is given wins


def test_settings_of_a_rule_are_told_where_they_go():
    from tellwhy.explainers import LRP

    words = r"rule='epsilon', rule_params=\{'epsilon': …\}"
    with pytest.raises(InvalidParameter, match=words):
        LRP(network(), rule="epsilon", epsilon=0.1)
    with pytest.raises(InvalidParameter, match=words):
        tellwhy.explain(network(), X[:2].astype(np.float32), "LRP", rule="epsilon", epsilon=0.1)


def test_what_is_no_explanation_of_rows_is_answered():
    for name in ANSWERS:
        with pytest.raises(InvalidParameter, match=r"tellwhy\.|explanation|LocalInsight"):
            known_name(name, is_network=False)


def test_a_name_that_nobody_knows_is_not_answered_with_forty():
    with pytest.raises(InvalidParameter) as raised:
        tellwhy.explain(OneClassSVM().fit(X), X[:2], "zzzz")
    assert len(str(raised.value)) < 100
