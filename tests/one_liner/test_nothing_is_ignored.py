"""What is asked of `tellwhy.explain` is done or refused, whatever the model and the method."""

import dataclasses

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import OneClassSVM

import tellwhy
from tellwhy.core.errors import InvalidParameter, UnsupportedModel
from tellwhy.explainers import KernelShap

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
torch.manual_seed(0)
LOGITS = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()
SOFTMAX = torch.nn.Sequential(*LOGITS, torch.nn.Softmax(dim=1)).eval()
LOG_SOFTMAX = torch.nn.Sequential(*LOGITS, torch.nn.LogSoftmax(dim=1)).eval()
SIGMOID = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Sigmoid()).eval()
SQUARE = torch.nn.Linear(3, 3).eval()
CHANCE = SOFTMAX(torch.tensor(X[:4])).detach().double().numpy()


@pytest.mark.parametrize("method", ["auto", "KernelShap", "Occlusion", "LRP", "Gradient"])
@pytest.mark.parametrize("network", [SOFTMAX, LOG_SOFTMAX], ids=["softmax", "log-softmax"])
def test_the_probability_of_a_network_is_explained_where_it_is_asked_for(network, method):
    further = {"background": X} if method in ("KernelShap", "Occlusion") else {}
    found = tellwhy.explain(network, X[:4], method, output="probability", target=1, **further)
    np.testing.assert_allclose(found.scores, CHANCE[:, 1], atol=1e-6)
    assert found.params["explains"].endswith("as a probability")
    margin = tellwhy.explain(network, X[:4], method, output="margin", target=1, **further)
    assert not np.allclose(margin.scores, found.scores)
    assert not np.allclose(margin.values, found.values)


def test_integrated_gradients_of_a_probability_add_up_to_it():
    found = tellwhy.explain(SOFTMAX, X[:4], output="probability", target=0)
    empty = SOFTMAX(torch.zeros(1, 3))[0, 0].item()
    np.testing.assert_allclose(found.base_values, empty, atol=1e-6)
    np.testing.assert_allclose(found.values.sum(axis=1), CHANCE[:, 0] - empty, atol=1e-2)


def test_a_sigmoid_is_a_probability_and_no_margin():
    given = SIGMOID(torch.tensor(X[:2])).detach().numpy()[:, 0]
    np.testing.assert_allclose(tellwhy.explain(SIGMOID, X[:2], output="probability").scores, given, atol=1e-6)
    with pytest.raises(InvalidParameter, match="a sigmoid at the end"):
        tellwhy.explain(SIGMOID, X[:2], output="margin")


@pytest.mark.parametrize("method", ["auto", "KernelShap", "LRP"])
def test_probabilities_that_a_network_does_not_give_are_refused(method):
    with pytest.raises(InvalidParameter, match="ends with no softmax or sigmoid"):
        tellwhy.explain(LOGITS, X[:2], method, output="probability")


def test_the_task_says_whether_a_network_is_asked_for_its_error():
    assert tellwhy.explain(SQUARE, X[:2]).params["task"] == "anomaly"
    found = tellwhy.explain(SQUARE, X[:2], task="prediction")
    np.testing.assert_allclose(
        found.scores, SQUARE(torch.tensor(X[:2])).detach().numpy().max(axis=1), atol=1e-6
    )
    assert found.params["task"] == "prediction"
    assert tellwhy.explain(LOGITS, X[:2], task="anomaly").params["task"] == "anomaly"
    with pytest.raises(InvalidParameter, match="output='probability' would change nothing"):
        tellwhy.explain(SQUARE, X[:2], output="probability")


TEXTS = ["good film great", "bad film awful", "great fun good", "awful boring bad"] * 5
WORDS = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, [1, 0, 1, 0] * 5)
SVM = OneClassSVM().fit(X)
CLASSES = LogisticRegression().fit(X, X[:, 0] > 0)


@pytest.mark.parametrize("asked", [{"output": "probability"}, {"output": "margin"}, {"task": "anomaly"}])
def test_methods_that_read_the_model_itself_refuse_what_they_would_ignore(asked):
    with pytest.raises(InvalidParameter, match="would change nothing"):
        tellwhy.explain(CLASSES, X[:2], "LinearRelevance", **asked)


@pytest.mark.parametrize("asked", [{"output": "margin"}, {"task": "anomaly"}, {"target": 1}])
def test_an_explainer_that_is_made_refuses_what_comes_too_late(asked):
    with pytest.raises(InvalidParameter, match="is already made"):
        tellwhy.explain(SVM, X[:2], KernelShap(SVM), background=X, **asked)


@dataclasses.dataclass
class Output:
    """What models of Hugging Face return: an object with fields, of which one is called logits."""

    logits: torch.Tensor
    hidden: torch.Tensor


class Wrapped(torch.nn.Module):
    def __init__(self, form):
        super().__init__()
        self.inner, self.form = LOGITS, form

    def forward(self, x):
        return self.form(self.inner(x), x)


FORMS = {
    "fields": Wrapped(Output).eval(),
    "dict": Wrapped(lambda y, x: {"logits": y, "hidden": x}).eval(),
    "tuple of one": Wrapped(lambda y, _: (y,)).eval(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", [0, "max", [0, 1]])
@pytest.mark.parametrize("method", ["auto", "KernelShap", "LRP"])
def test_a_number_chooses_among_the_logits_of_what_is_returned(form, target, method):
    further = {"background": X} if method == "KernelShap" else {}
    plain = tellwhy.explain(LOGITS, X[:2], method, target=target, **further)
    found = tellwhy.explain(FORMS[form], X[:2], method, target=target, **further)
    np.testing.assert_allclose(found.values, plain.values, atol=1e-6)


def test_two_tensors_without_a_name_are_asked_about():
    with pytest.raises(UnsupportedModel, match="say which is explained"):
        tellwhy.explain(Wrapped(lambda y, x: (y, x)).eval(), X[:2], target=0)
