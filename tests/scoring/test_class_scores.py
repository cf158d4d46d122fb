"""Class scores of every sort of model: what they are, which rows they take, what is refused, what is left alone."""

import copy
import warnings
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.scoring import FunctionScore, as_class_scores, as_score
from tellwhy.scoring.class_scores import (
    ClassScores,
    SingleScore,
    as_outputs,
    learn_outputs,
    log_odds,
    log_odds_of_logits,
)

needs_torch = pytest.mark.skipif(not find_spec("torch"), reason="needs PyTorch")
X = np.random.default_rng(0).normal(size=(60, 3))
LABELS = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")


def odds(probability):
    return np.log(probability / (1 - probability))


def test_classifier_gives_the_log_odds_of_its_probabilities():
    model = LogisticRegression().fit(X, LABELS)
    scores = as_class_scores(model)
    assert scores.names == ["down", "up"]
    assert scores.feature_shape == (3,)
    np.testing.assert_allclose(scores.outputs(X), odds(model.predict_proba(X)), rtol=1e-9)
    np.testing.assert_allclose(scores.value(X), np.abs(model.decision_function(X)), rtol=1e-9)


def test_certain_probabilities_are_clipped():
    forest = RandomForestClassifier(3, random_state=0).fit(X, LABELS)
    found = as_class_scores(forest).outputs(X)
    assert np.abs(found).max() == pytest.approx(np.log((1 - 1e-6) / 1e-6))


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {}, cv=2),
    ],
    ids=["pipeline", "search"],
)
def test_what_is_inside_tells_what_a_model_is(model):
    """No warning about names: rows of a model that was fitted on a frame go in under their names."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model.fit(frame, LABELS)
    scores = as_class_scores(model)
    expected = odds(model.predict_proba(frame))
    np.testing.assert_allclose(scores.outputs(X), expected, rtol=1e-9)
    np.testing.assert_allclose(scores.outputs(frame), expected, rtol=1e-9)


def test_frames_with_words_and_texts():
    frame = pd.DataFrame({"size": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")})
    encode = make_column_transformer((StandardScaler(), ["size"]), (OneHotEncoder(), ["colour"]))
    model = make_pipeline(encode, LogisticRegression()).fit(frame, LABELS)
    np.testing.assert_allclose(as_class_scores(model).outputs(frame), odds(model.predict_proba(frame)))
    with pytest.raises(InvalidInput, match="Column 0 of X is 'colour'"):
        as_class_scores(model).outputs(frame[["colour", "size"]])
    texts = ["a good day", "a bad day", "good", "bad"]
    reader = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, ["+", "-", "+", "-"])
    np.testing.assert_allclose(as_class_scores(reader).outputs(texts), odds(reader.predict_proba(texts)))


def test_regressor_gives_its_prediction():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = LinearRegression().fit(frame, X @ [1.0, 2.0, 3.0])
    score = as_class_scores(model)
    np.testing.assert_allclose(score.value(X), X @ [1.0, 2.0, 3.0])
    assert score.feature_names == ["a", "b", "c"]
    assert as_outputs(score).names == ["score"]


def test_detectors_and_scores_are_read_as_scores():
    forest = IsolationForest(n_estimators=5, random_state=0).fit(X)
    np.testing.assert_array_equal(as_class_scores(forest).value(X), as_score(forest).value(X))
    inside = make_pipeline(StandardScaler(), IsolationForest(n_estimators=5, random_state=0)).fit(X)
    np.testing.assert_array_equal(as_class_scores(inside).value(X), as_score(inside).value(X))
    score = FunctionScore(lambda rows: rows[:, 0])
    assert as_class_scores(score) is score
    assert learn_outputs(score, X) is score
    np.testing.assert_array_equal(SingleScore(score).outputs(X), X[:, :1])


class Foreign:
    """A classifier of a library that does not build on scikit-learn's."""

    classes_ = ("no", "yes")

    def predict_proba(self, rows):
        return np.tile([0.25, 0.75], (len(rows), 1))


def test_classifier_of_another_library():
    scores = as_class_scores(Foreign())
    assert scores.names == ["no", "yes"]
    np.testing.assert_allclose(scores.outputs(X[:1]), [[-np.log(3), np.log(3)]])


def test_function_with_one_number_or_probabilities():
    one = learn_outputs(as_class_scores(lambda rows: rows[:, 0]), X)
    np.testing.assert_array_equal(one.value(X), X[:, 0])

    def three(rows):
        return np.tile([0.2, 0.3, 0.5], (len(rows), 1))

    several = learn_outputs(as_class_scores(three), X)
    assert several.names == ["0", "1", "2"]
    np.testing.assert_allclose(several.outputs(X[:1]), odds(np.array([[0.2, 0.3, 0.5]])))


def test_function_is_asked_with_two_rows():
    asked = []

    def model(rows):
        asked.append(len(rows))
        return np.full((len(rows), 2), 0.5)

    learn_outputs(as_class_scores(model), X)
    assert asked == [2]


@pytest.mark.parametrize("wrong", [[0.5, 0.6], [-0.1, 1.1], [0.0, 0.0]])
def test_columns_that_are_not_probabilities_are_refused(wrong):
    score = as_class_scores(lambda rows: np.tile(wrong, (len(rows), 1)))
    with pytest.raises(InvalidInput, match="not probabilities"):
        learn_outputs(score, X)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_without_finite_probabilities_are_named(bad):
    def model(rows):
        p = np.where(rows[:, 0] == X[7, 0], bad, 0.5)
        return np.column_stack([p, 1 - p])

    scores = learn_outputs(as_class_scores(model), X)
    with pytest.raises(InvalidInput, match=r"for row 7 \(1 such rows"):
        scores.outputs(X)


def test_other_columns_than_before_are_refused():
    scores = ClassScores(lambda rows: rows, ["a", "b"])
    with pytest.raises(InvalidInput, match=r"shape \(60, 3\).*2 classes"):
        scores.outputs(X)
    several = MultiOutputClassifier(LogisticRegression()).fit(X, np.column_stack([X[:, 0] > 0, X[:, 1] > 0]))
    with pytest.raises(InvalidInput, match="expected one row per input"):
        as_class_scores(several).outputs(X)


def test_what_cannot_be_read_is_said():
    with pytest.raises(UnsupportedModel, match="CalibratedClassifierCV"):
        as_class_scores(LinearSVC().fit(X, LABELS))
    with pytest.raises(UnsupportedModel, match="is a class"):
        as_class_scores(LogisticRegression)
    with pytest.raises(UnsupportedModel, match="neither a model"):
        as_class_scores("a name")
    with pytest.raises(NotFittedError):
        as_class_scores(LogisticRegression())


def test_log_odds_of_logits_are_those_of_the_softmax():
    logits = np.random.default_rng(0).normal(size=(9, 4)) * 5
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(log_odds_of_logits(logits), odds(softmax), rtol=1e-9)
    far = np.array([[800.0, 0.0, -800.0]])
    np.testing.assert_allclose(log_odds_of_logits(far), [[800.0, -800.0, -1600.0]])
    assert np.isnan(log_odds(np.array([[np.inf, 0.5]]))[0, 0]), "infinity must not be clipped to certainty"


def network():
    """Dropout and batch norm, some gradients, a hook, one part in evaluation mode, all else in training mode."""
    import torch
    from torch.nn import BatchNorm1d, Dropout, Linear, ReLU, Sequential

    torch.manual_seed(0)
    model = Sequential(
        Linear(3, 8), BatchNorm1d(8), ReLU(inplace=True), Dropout(0.5), Linear(8, 3), Dropout(0.9)
    )
    model(torch.tensor(X[:20], dtype=torch.float32)).sum().backward()
    model[5].eval()
    return model


@needs_torch
@pytest.mark.parametrize("n_classes", [1, 3])
def test_network_in_training_mode_is_evaluated_and_left_alone(n_classes):
    import torch
    from oracles.network_state import network_state, same_state

    model = network()
    if n_classes == 1:
        model.append(torch.nn.Linear(3, 1))
    seen = []
    # The copy that is evaluated calls the hook too: it must find the user's own network in training mode.
    model[0].register_forward_hook(lambda *_: seen.append([m.training for m in model.modules()]))
    before = network_state(model)
    modes = [m.training for m in model.modules()]
    found = as_outputs(learn_outputs(as_class_scores(model), X)).outputs(X)
    assert same_state(network_state(model), before)
    assert seen
    assert all(during == modes for during in seen)
    twin = copy.deepcopy(model).eval()
    with torch.no_grad():
        logits = twin(torch.tensor(X, dtype=torch.float32)).double().numpy()
    expected = logits if n_classes == 1 else log_odds_of_logits(logits)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@needs_torch
def test_random_numbers_of_a_network_are_put_back():
    import torch

    class Noisy(torch.nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    state = torch.get_rng_state()
    learn_outputs(as_class_scores(Noisy().train()), X).outputs(X)
    assert torch.equal(torch.get_rng_state(), state)


@needs_torch
def test_rows_are_not_changed_by_a_network_that_works_in_place():
    import torch

    model = torch.nn.Sequential(torch.nn.ReLU(inplace=True), torch.nn.Linear(3, 2)).double()
    rows = X.copy()
    learn_outputs(as_class_scores(model), rows).outputs(rows)
    np.testing.assert_array_equal(rows, X)


@needs_torch
def test_weights_are_shared_and_buffers_follow_the_training():
    """A score that was made before more training gives what the network gives now."""
    import torch

    model = network()
    scores = learn_outputs(as_class_scores(model), X)
    first = scores.outputs(X)
    with torch.no_grad():
        model[4].weight.mul_(2.0)
        model[1].running_mean.add_(1.0)
    second = scores.outputs(X)
    fresh = learn_outputs(as_class_scores(copy.deepcopy(model)), X).outputs(X)
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(second, fresh)


@needs_torch
def test_network_that_gives_probabilities():
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Softmax(dim=1))
    found = learn_outputs(as_class_scores(model), X).outputs(X)
    with torch.no_grad():
        expected = odds(model(torch.tensor(X, dtype=torch.float32)).double().numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@needs_torch
def test_weight_norm_in_training_mode():
    """Its weight is a result of a computation, which PyTorch refuses to copy."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        layer = torch.nn.utils.weight_norm(torch.nn.Linear(3, 2))
    learn_outputs(as_class_scores(layer), X).outputs(X)
    assert layer.training


@needs_torch
def test_network_that_cannot_be_copied_says_what_to_do():
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 2))
    model.generator = (i for i in range(3))
    with pytest.raises(UnsupportedModel, match=r"no copy in evaluation mode.*Call model\.eval\(\)"):
        learn_outputs(as_class_scores(model), X)
    assert model.training
    learn_outputs(as_class_scores(model.eval()), X).outputs(X)


@needs_torch
def test_rows_that_do_not_fit_a_network_are_told():
    import torch

    with pytest.raises(InvalidInput, match=r"cannot be applied to rows of shape \(2, 3\)"):
        learn_outputs(as_class_scores(torch.nn.Linear(5, 2)), X)
