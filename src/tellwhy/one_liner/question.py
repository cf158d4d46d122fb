"""What is asked of the model: a score or a prediction, which output of a network, and for which inputs.

Arguments that would change nothing are refused, with what to do instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, softmax

from tellwhy.core.arrays import Frame, as_floats, refuse_sparse, take_rows
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.optional import require
from tellwhy.core.params import one_of, validate_value
from tellwhy.core.registry import Card
from tellwhy.core.score import Floats, GivesScore, IsPrediction, ScoreFunction
from tellwhy.explainers.trees.trees import Trees, read_trees
from tellwhy.scoring import (
    EncodedScore,
    FunctionScore,
    NetworkOutput,
    PredictionScore,
    as_prediction,
    as_score,
)
from tellwhy.scoring.adapters.pipelines import flatten_steps
from tellwhy.scoring.as_score import refuse_classes
from tellwhy.scoring.model_rows import find_estimator_kind, look_up, predicts_only
from tellwhy.scoring.network_output import has_parts
from tellwhy.scoring.predictions import OUTPUTS, refuse_output
from tellwhy.scoring.table_codes import TableCodes, encode_score, needs_codes

# What the sum of the trees is, by the function that makes a probability of it.
_OUTPUT_OF_LINK = {"identity": "probability", "logistic": "margin", "softmax": "margin"}


def score_trees(model: Any, task: str, target: Any, output: str) -> ScoreFunction | None:
    """Return the score of a model of trees on the scale on which trees add up; None for other models.

    None too where another scale is asked for, and for pipelines that mix columns.
    """
    model = getattr(model, "best_estimator_", model)
    trees = _find_trees(model)
    if trees is None or (trees.task == "anomaly") != (task == "anomaly"):
        return None
    if trees.task == "anomaly":
        _refuse_choice(model, Asked(target=target, output=output))
    elif trees.task == "regression":
        refuse_output(output, f"{type(model).__name__} predicts a number.")
    elif output not in ("auto", _OUTPUT_OF_LINK.get(trees.link)):
        return None
    from tellwhy.explainers.trees.tree_shapley import TreeScore, tree_score

    score = tree_score(model, target)
    if isinstance(score, EncodedScore):
        return score if score.owner is not None else None
    return score if isinstance(score, TreeScore) else None


def _find_trees(model: Any) -> Trees | None:
    """Return the trees of a model, or of the last step of a pipeline; None where there are none."""
    is_pipeline = hasattr(model, "steps") and hasattr(model, "named_steps")
    try:
        return read_trees(flatten_steps(model)[-1][1] if is_pipeline else model)
    except UnsupportedModel:  # trees that do more than add up: explained like any other model
        return None


TASKS = ("auto", "anomaly", "prediction")
_BOOSTERS = {"xgboost.core.Booster": True, "lightgbm.basic.Booster": True}
_SPARSE_GAPS = {"xgboost.core.Booster": True, "xgboost.sklearn.XGBModel": True}
_OUTPUT_OF_METHOD = {"predict_proba": "probability", "decision_function": "margin"}
_TRIED = 20  # rows on which weights are compared with what the model gives


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the user says of the number to explain: the arguments of `tellwhy.explain` of the same names."""

    task: str = "auto"
    target: Any = None
    output: str = "auto"


def find_task(model: Any, asked: Asked) -> str:
    """Whether an anomaly score or a prediction is explained."""
    validate_value("explain", "task", asked.task, one_of(*TASKS))
    refuse_classes(model)
    return _decide_task(*owner_of_method(model, asked))


def read_score(model: Any, X: Any, background: Any, asked: Asked, *, as_trees: bool = False) -> ScoreFunction:
    """Return what is explained, as a score of rows like X; of trees as such where that is asked for."""
    validate_value("explain", "task", asked.task, one_of(*TASKS))
    _refuse_sparse_gaps(model, X)
    refuse_sparse(X)
    refuse_classes(model)
    refuse_one_row(X)
    model, asked = owner_of_method(model, asked)
    task = _decide_task(model, asked)
    trees = score_trees(model, task, asked.target, asked.output) if as_trees else None
    if trees is not None:
        return trees
    if task == "anomaly":
        score: Any = as_score(model)
        if not isinstance(score, NetworkOutput):
            _refuse_choice(model, asked)
    elif isinstance(model, ScoreFunction):
        score = model
    elif look_up(_BOOSTERS, model) is not None and (found := _find_trees(model)) is not None:
        score = _of_booster(found, type(model).__name__, asked)
    else:
        score = as_prediction(model, target=asked.target, output=asked.output)
    return _score_rows(score, X, background)


def _of_booster(trees: Trees, name: str, asked: Asked) -> PredictionScore:
    """Return the prediction of a library's own model of trees, which takes no arrays as they are."""
    validate_value("explain", "output", asked.output, one_of(*OUTPUTS))
    if trees.task != "classification":
        refuse_output(asked.output, f"this {name} predicts a number.")
        target = "predicted" if asked.target is None else asked.target
        function = partial(_booster_numbers, trees)
        words = f"prediction of {name}"
        return PredictionScore(function, target=target, describes=words, feature_names=trees.names)
    is_margin = asked.output == "margin" or (asked.output == "auto" and trees.link != "identity")
    words = f"margin of {{which}} by {name}" if is_margin else f"probability of {{which}} by {name}"
    names = list(range(max(trees.n_outputs, 2)) if trees.classes is None else trees.classes)
    second = names[1] if len(names) == 2 else "predicted"
    return PredictionScore(
        partial(_booster_classes, trees, is_margin=is_margin),
        names,
        target=second if asked.target is None else asked.target,
        describes=words,
        feature_names=trees.names,
    )


def _booster_numbers(trees: Trees, X: Any) -> Floats:
    """Return what a regressor predicts: its sum of trees, behind its link function."""
    assert trees.own is not None
    found = np.asarray(trees.own(X), dtype=np.float64)
    return np.asarray(np.exp(found)) if trees.link == "exp" else found


def _booster_classes(trees: Trees, X: Any, *, is_margin: bool) -> Floats:
    """Return the margin or the probability of each class."""
    assert trees.own is not None
    sums = np.asarray(trees.own(X), dtype=np.float64).reshape(np.shape(X)[0], -1)
    if sums.shape[1] == 1:
        if is_margin:
            return np.column_stack([-sums, sums])
        chance = sums[:, 0] if trees.link == "identity" else expit(sums[:, 0])
        return np.column_stack([1.0 - chance, chance])
    return sums if is_margin or trees.link == "identity" else np.asarray(softmax(sums, axis=1))


def _refuse_sparse_gaps(model: Any, X: Any) -> None:
    """Refuse sparse rows of XGBoost, to which the zeros that they leave out are empty cells."""
    if issparse(X) and look_up(_SPARSE_GAPS, model) is not None:
        raise InvalidInput(
            f"X is a sparse {type(X).__name__} of shape {X.shape}, and XGBoost takes zeros that it leaves "
            "out for empty cells. Pass an array that says so: dense = X.toarray(); "
            "dense[dense == 0] = numpy.nan."
        )


def refuse_one_row(X: Any) -> None:
    """Raise for a single row, or a single number, in the place of rows."""
    if np.ndim(X) < 2 and not isinstance(X, (tuple, dict)):
        hint = "row.to_frame().T" if hasattr(X, "to_frame") else "X.reshape(1, -1)"
        raise InvalidInput(
            f"Expected a 2D array for X, one row per observation. Got {np.ndim(X)}D, shape {np.shape(X)}. "
            f"Make a table of a single row with {hint}."
        )


def _decide_task(model: Any, asked: Asked) -> str:
    if asked.task != "auto":
        return asked.task
    if isinstance(model, GivesScore) or (
        isinstance(model, ScoreFunction) and not isinstance(model, IsPrediction)
    ):
        return "anomaly"
    is_predictor = find_estimator_kind(model) in ("classifier", "regressor") or isinstance(
        model, IsPrediction
    )
    is_other = look_up(_BOOSTERS, model) is not None or predicts_only(model)
    return "prediction" if is_predictor or is_other else "anomaly"


def owner_of_method(model: Any, asked: Asked) -> tuple[Any, Asked]:
    """Return the estimator whose method was passed, such as `model.predict`, and what that says."""
    owner = getattr(model, "__self__", None)
    name = getattr(model, "__name__", "")
    kind = None if owner is None or isinstance(owner, type) else find_estimator_kind(owner)
    if kind == "regressor" and name == "predict" and asked.task != "anomaly":
        return owner, replace(asked, task="prediction")
    if kind == "classifier" and asked.task != "anomaly":
        if name in _OUTPUT_OF_METHOD:
            return owner, replace(asked, task="prediction", output=_find_output(owner, name, asked))
        if name == "predict":  # labels, explained as the numbers that they are
            return model, replace(asked, task="prediction")
    if kind == "outlier_detector" and name in ("score_samples", "decision_function", "predict"):
        if asked.task == "prediction" or type(owner).__module__.startswith("pyod."):
            return model, asked
        raise UnsupportedModel(
            f"{type(owner).__name__}.{name} is low for anomalies, and scores are to be high for them. Pass "
            "the detector itself, whose sign tellwhy knows; or task='prediction' to explain the number as it "
            "is."
        )
    return model, asked


def _find_output(owner: Any, method: str, asked: Asked) -> str:
    """Return the output that a classifier's method gives, or say that another one was asked for."""
    found = _OUTPUT_OF_METHOD[method]
    if asked.output in ("auto", found):
        return found
    raise InvalidParameter(
        f"output={asked.output!r} does not go with {type(owner).__name__}.{method}, which gives the {found}. "
        "Leave it out, or pass the classifier itself."
    )


def _refuse_choice(model: Any, asked: Asked) -> None:
    """Refuse a choice of output for an anomaly score, which is one number."""
    if asked.target is None and asked.output == "auto":
        return
    name, value = ("target", asked.target) if asked.target is not None else ("output", asked.output)
    raise InvalidParameter(
        f"{name}={value!r} chooses an output of a classifier, a network or a prediction, and "
        f"{type(model).__name__} is explained by its one anomaly score. Leave it out, or pass "
        "task='prediction'."
    )


def _score_rows(score: Any, X: Any, background: Any) -> ScoreFunction:
    """Return the score for rows as they are given: tables reach a user's function as tables."""
    _check_linear(score, X)
    is_plain = type(score) is FunctionScore and score.model is None
    if not is_plain and (type(score) is not PredictionScore or score.linear is not None):
        return score
    if isinstance(X, Frame) or np.ndim(X) == 2:
        tables = [X] if background is None else [X, background]
        return encode_score(score, TableCodes.of(*tables)) if any(map(needs_codes, tables)) else score
    if score.feature_shape is None and np.ndim(X) > 2:
        score.any_shape = True  # images, sequences: each cell gets a value
    return score


def _check_linear(score: Any, X: Any) -> None:
    """Forget weights that do not give the outputs: a link function, or whatever else, comes behind them."""
    inner = score.inner if isinstance(score, EncodedScore) else score
    if not isinstance(inner, PredictionScore) or inner.linear is None:
        return
    rows = take_rows(X, np.arange(min(_TRIED, len(X))))
    try:
        numbers = score.encode(rows) if isinstance(score, EncodedScore) else as_floats(rows)
    except InvalidInput:  # cells that are no numbers are told where the rows are read
        return
    if numbers.shape[1] != inner.linear.weights.shape[1]:
        return  # the wrong number of columns is told by the check of the rows
    given = inner.outputs(numbers)
    if given.shape[1] != len(inner.linear.weights) or not np.allclose(
        given, inner.linear.value(numbers), rtol=1e-6, atol=1e-6 * (1.0 + np.abs(given).max())
    ):
        inner.linear = None


_MODULE = {"torch.nn.modules.module.Module": True}
_OF_PARTS = "IntegratedGradients"  # the method of scores that takes tokens and several inputs as they are


def is_network(model: object) -> bool:
    """Whether a model is a PyTorch module, told without loading PyTorch."""
    return look_up(_MODULE, model) is not None


@dataclass(frozen=True, eq=False)
class Network:
    """A network as a method takes it, the target among its outputs, and words on where that output is."""

    model: Any
    target: Any
    words: str
    is_anomaly: bool = False  # whether it is the error of an autoencoder


def read(
    model: Any, X: Any, asked: Asked, chosen: Card, params: Mapping[str, Any]
) -> tuple[Network, dict[str, Any]]:
    """Return a network with one tensor of outputs, for a method that takes networks or scores.

    With it come the parameters that are left for the method: `batch_size` and `device` are the network's own
    where the method has no such parameters.
    """
    require("torch", "explaining a network")

    check_inputs(X)
    validate_value("explain", "task", asked.task, one_of(*TASKS))
    validate_value("explain", "output", asked.output, one_of("auto", "margin", "probability"))
    found = _ask_network(model, _convert_to_floats(model, X), asked)
    if chosen.role != "explainer" or chosen.name == _OF_PARTS:
        return Network(found.model, found.target, found.words, found.is_error), dict(params)
    own = {name: params[name] for name in ("batch_size", "device") if name in params}
    score = NetworkOutput(found.model, found.target, **own)
    score.has_levels = has_parts(model, X)
    left = {name: value for name, value in params.items() if name not in own}
    return Network(score, None, found.words, found.is_error), left


def takes_flat_rows(card: Card, X: Any) -> bool:
    """Whether several inputs are put side by side for a method that explains one array of rows."""
    return isinstance(X, (tuple, dict)) and card.role == "explainer" and card.name != _OF_PARTS


def _ask_network(model: Any, X: Any, asked: Asked) -> Any:
    """Return the network with the output that is asked for."""
    from tellwhy.scoring.network_outputs import add_probabilities, find_ending, read_network

    found = read_network(model, X, asked.target)
    if found.is_error and asked.target is None and asked.task == "prediction":
        found = read_network(model, X, "max")
    if asked.output == "auto":
        return found
    if found.is_error or callable(found.target):
        refuse_asked(
            asked, ("output",), "the number that is explained is given by a function of the outputs."
        )
    if asked.output == "probability":
        words = f"{found.words}, as a probability"
        return replace(found, model=add_probabilities(found.model, X), words=words)
    if find_ending(found.model, X) == "sigmoid":
        raise InvalidParameter(
            f"output='margin' asks for what comes before a probability, and a sigmoid at the end of "
            f"{type(model).__name__} is not taken off. Wrap the network without it, or pass "
            "target=lambda outputs: outputs[:, 0].logit()."
        )
    return found


def check_inputs(X: Any) -> None:
    """Raise for rows that no network takes: frames of texts, lists of arrays."""
    if isinstance(X, list) and X and not isinstance(X[0], (int, float, list)):
        raise InvalidInput(
            "X is a list: give several inputs of a network as a tuple or a dict, and rows as one array "
            "(numpy.stack, torch.stack)."
        )


def _convert_to_floats(model: Any, X: Any) -> Any:
    """Return rows of whole numbers as floats where the network has no embedding that would take them."""
    if isinstance(X, (tuple, dict)):
        return X
    if hasattr(X, "detach"):
        return X if X.is_floating_point() or has_parts(model, X) else X.double()
    array = np.asarray(X)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"X holds values of dtype {array.dtype}; a network takes numbers. Encode texts and categories as "
            "numbers first."
        )
    return array if has_parts(model, X) else array.astype(np.float64)


def add_words(explanation: Any, said: dict[str, Any], words: str) -> Any:
    """Return explanations, one or one per input, with further things said in their parameters."""
    if isinstance(explanation, tuple):
        return tuple(add_words(each, said, words) for each in explanation)
    if isinstance(explanation, dict):
        return {name: add_words(each, said, words) for name, each in explanation.items()}
    explains = f"{explanation.params['explains']}{words}"
    return replace(explanation, params={**explanation.params, **said, "explains": explains})


_USUAL = {"task": "auto", "target": None, "output": "auto"}


def refuse_asked(asked: Asked, names: Iterable[str], why: str) -> None:
    """Raise for the first of some arguments that was given: `why` says why it would change nothing."""
    for name in names:
        given: Any = getattr(asked, name)
        if given is not _USUAL[name] and not (isinstance(given, str) and given == _USUAL[name]):
            raise InvalidParameter(f"{name}={given!r} would change nothing: {why} Leave it out.")


def refuse_background(method: str) -> None:
    """Raise for a background given to a method that compares with nothing."""
    raise InvalidParameter(
        f"{method} compares with no other rows, so that a background would be ignored. Leave it out, or "
        "use a method that has one, such as IntegratedGradients, Occlusion or KernelShap."
    )
