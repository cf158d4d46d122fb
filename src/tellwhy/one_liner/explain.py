"""The one-liner: explain what any model says of each row, right by default or with the sentence to type."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.arrays import Frame, draw_sample, take_rows
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explainer import Explainer, Explains, LearnsFromRows, RemembersRows
from tellwhy.core.explanation import Explanation
from tellwhy.core.old_names import takes_old_names
from tellwhy.core.optional import require
from tellwhy.core.params import generator, one_of, simplify_name, validate_value
from tellwhy.core.progress import shown
from tellwhy.core.registry import Card, cards, find_explainer, list_explainers
from tellwhy.core.score import IsPrediction
from tellwhy.explainers.base import BackgroundExplainer
from tellwhy.one_liner import question as networks
from tellwhy.one_liner.background import LEAST_ROWS, check_background, choose_ordinary_rows, convert_rows
from tellwhy.one_liner.known_names import known_name
from tellwhy.one_liner.method import (
    AUTO,
    BLAME,
    FIRST,
    N_MOVED,
    OF_WIDE,
    TRIED,
    add_background,
    check_instance,
    choose_card,
    find_card,
    is_mixture,
    make_explainer,
    try_methods,
)
from tellwhy.one_liner.question import (
    Asked,
    find_task,
    is_network,
    read_score,
    refuse_asked,
    refuse_background,
)
from tellwhy.one_liner.texts import asks_for_pieces, explain_texts

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["choose_card", "explain", "methods"]


@takes_old_names
def explain(
    model: object,
    X: ArrayLike,
    method: str | type | Explains = "auto",
    *,
    background: ArrayLike | None = None,
    task: str = "auto",
    target: Any = None,
    output: str = "auto",
    ask: str = "auto",
    progress: bool | None = None,
    **params: Any,
) -> Explanation:
    """Explain the score, or the prediction, of each row of X.

    Parameters
    ----------
    model
        A fitted detector (of this library, scikit-learn or PyOD), a classifier or a regressor (scikit-learn,
        XGBoost, LightGBM, and what is written like them), a pipeline, a function giving one number per row,
        or a PyTorch module.
    X
        Rows to explain: an array or a frame, in the columns the model was fitted on. A function gets frames
        as frames, with their names, types and categories. Or a list of texts, explained by their words
        (`pieces="sentences"`, "lines" or a function cuts them otherwise; `baseline` replaces what is left
        out).
    method
        Name of an explainer (see `tellwhy.methods()`; names that other libraries use are understood), its
        class, or an explainer that is already made. 'auto': the cheapest exact method that applies, named in
        the result's `method`. 'shap': Shapley values, by the method that gives them exactly where one does.
        'tried': of three methods for any anomaly score, the one that best names cells that are moved in
        ordinary rows; `params["chosen"]` says what was found.
    background
        Ordinary rows that those of X are compared with. Methods that need them take them from the model where
        it keeps some; X serves itself only where it has at least 50 different rows, of which the model calls
        at most a quarter anomalous; else this says what to pass. `params["ordinary_rows"]` tells.
    task
        "anomaly" (a high number is anomalous), "prediction", or "auto": a prediction for classifiers and
        regressors and their methods, an anomaly score for everything else, functions among it.
    target
        The class to explain, by its name, or "predicted" (of each row the class that the model predicts); by
        default the second of two classes, the predicted one of more. Of a network or a function of several
        outputs, which one.
    output
        Of a classifier "margin", "probability", or "auto": the margin where the model has one.
    ask
        Of an anomaly score, what the automatic method answers. "shares" (and "auto"): what each cell
        contributes to the score. "blame": which cell is to blame; for Gaussian mixtures the probability that
        it is wrong (`CorruptionPosterior`), for other scores by the method that best names cells that are
        moved in your ordinary rows. `params["asks"]` says which question was answered.
    progress
        Whether to show progress; None: on a terminal and in notebooks, after two seconds.
    params
        Parameters of the explainer, and further ones of its `explain`, such as `against` of
        `LinearRelevance`.

    Returns
    -------
    Explanation
        Values for each row, with what they add up to and how they were found; of several inputs one each.

    Examples
    --------
    >>> import numpy as np, tellwhy
    >>> from sklearn.svm import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> explanation = tellwhy.explain(OneClassSVM(nu=0.1).fit(X), np.array([[0.0, 9.0, 0.0]]))
    >>> explanation.method, int(explanation.values.argmax())
    ('OneClassDTD', 1)

    A classifier: the second of its two classes, against the mean of the background.

    >>> from sklearn.linear_model import LogisticRegression
    >>> classifier = LogisticRegression().fit(X, np.where(X[:, 2] > 0, "yes", "no"))
    >>> explanation = tellwhy.explain(classifier, [[0.0, 0.0, 2.0]], background=X)
    >>> explanation.method, str(explanation.extras["explained"][0]), int(explanation.values.argmax())
    ('LinearShapley', 'yes', 2)
    """
    X, background = convert_rows(X), convert_rows(background)
    rule = AUTO
    if isinstance(method, str):
        method, settings = known_name(method, is_network=is_network(model))
        params = {**settings, **params}
        rule = simplify_name(method)
    validate_value("explain", "ask", ask, one_of("auto", "shares", "blame"))
    asked = Asked(task=task, target=target, output=output)
    if ask != "auto":
        rule = _find_rule(ask, rule, model, X)
    question = _Question(model, X, background, asked, params, rule)
    with shown(progress):
        chosen = find_card(method)
        if chosen is None and not isinstance(method, str):
            return _explain_by_instance(method, question)
        if _is_text(X) and not is_network(model):
            is_open = chosen is None and rule == AUTO and not asks_for_pieces(params)
            by_weights = _label_card(question) if is_open else None
            if by_weights is None and (chosen is None or chosen.role == "explainer"):
                return _by_pieces(chosen, question)
            chosen = chosen or by_weights
        if chosen is None and isinstance(method, str) and _has_neighbours(model):
            chosen = find_explainer("LatentClassDTD")
        if is_network(model) and (chosen is None or _take_networks(chosen)):
            card = chosen or _find_network_card(rule)
            if networks.takes_flat_rows(card, question.X):
                return _explain_joined(card, question)
            return _explain_network(card, question, is_auto=chosen is None)
        if chosen is not None and (chosen.role != "explainer" or chosen.family == "surrogate"):
            return _explain_model(chosen, question)
        return _explain_score(chosen, question)


def _find_rule(ask: str, rule: str, model: object, X: Any) -> str:
    """Return the rule by which the method that answers a question is chosen."""
    if rule != AUTO:
        raise InvalidParameter(
            f"ask={ask!r} chooses the method, and method={rule!r} names one. Leave either out."
        )
    if is_network(model) or _is_text(X):
        what = "a network" if is_network(model) else "texts"
        raise InvalidParameter(
            f"ask={ask!r} is a question about cells of tables, and this is {what}. Leave it out."
        )
    return BLAME if ask == "blame" else AUTO


def _has_neighbours(model: object) -> bool:
    """Whether a model judges nodes by what their neighbours send to them, as `LCCAD` does."""
    return callable(getattr(model, "received", None)) and hasattr(model, "training_X_")


def _find_network_card(rule: str) -> Card:
    """Return the method of networks that a rule stands for."""
    if rule == TRIED:
        raise InvalidParameter(
            "method='tried' compares methods for tables, and the model is a network. Leave the method out, "
            "or name one."
        )
    return find_explainer("IntegratedGradients" if rule == AUTO else "KernelShap")


def _take_networks(chosen: Card) -> bool:
    """Whether a method explains one output of a network; surrogates read its classes themselves."""
    return chosen.role == "network explainer" or (chosen.role == "explainer" and chosen.family != "surrogate")


@dataclass(frozen=True, eq=False)
class _Question:
    """What the user asked, but for the method."""

    model: object
    X: Any
    background: Any
    asked: Asked
    params: dict[str, Any]
    rule: str  # how the method is chosen where none is named


def _explain_score(chosen: Card | None, question: _Question) -> Explanation:
    """Explain the score of a model: it is read only once."""
    as_trees = chosen is None or chosen.name == "TreeShapley"
    score = read_score(question.model, question.X, question.background, question.asked, as_trees=as_trees)
    if chosen is None and question.rule == BLAME and is_mixture(score):
        chosen = find_explainer("CorruptionPosterior")
    if chosen is None and question.rule in (TRIED, BLAME):
        return _explain_by_trial(score, question)
    card = chosen or choose_card(score, question.rule, n_columns=_count_columns(question.X))
    # what a method leaves to a rule of its own, where nobody asked for it by name
    preset = {} if chosen else {**getattr(card.cls, "when_automatic", {}), **OF_WIDE.get(card.name, {})}
    params = add_background(card, {**preset, **question.params}, question.background)
    # a method of trees gets the model itself where that has none, to say so
    is_other = card.name == "TreeShapley" and not (card.applies or bool)(getattr(score, "inner", score))
    if is_other:
        why = "TreeShapley explains the scale on which trees add up, and this is another one."
        refuse_asked(question.asked, ("output", "task"), why)
    explainer, further = make_explainer(card, question.model if is_other else score, params)
    said = _show_ordinary_rows(explainer, score, question)
    if chosen is None or question.rule == BLAME:
        said["chosen"] = _tell_rule(question.rule)
    return _explain_rows(explainer, further, question, said)


def _count_columns(X: Any) -> int:
    """How many columns a table has; 0 for inputs of more axes, of which cells are many in any case."""
    return int(np.shape(X)[1]) if np.ndim(X) == 2 else 0


def _tell_rule(rule: str) -> str:
    """Say how a method was chosen."""
    told = {AUTO: "automatically: the cheapest that applies", BLAME: "as what names the wrong cells of it"}
    return told.get(rule, "as what gives Shapley values of it")


def _explain_by_trial(score: Any, question: _Question) -> Explanation:
    """Explain a score that no method decomposes, by the one that does best on altered ordinary rows."""
    make_explainer(
        find_explainer(FIRST), score, question.params
    )  # what is no parameter is told before anything else
    if question.background is not None and not isinstance(question.X, (tuple, dict)):
        check_background(question.X, question.background)
    ordinary = choose_ordinary_rows(score, question.X, question.background, FIRST)
    if question.rule == BLAME and np.shape(ordinary.rows)[0] < N_MOVED + LEAST_ROWS:
        said = f"as {FIRST}: {np.shape(ordinary.rows)[0]} ordinary rows are too few to try others on"
        explainer, further = make_explainer(find_explainer(FIRST), score, question.params)
        explainer.fit(ordinary.rows)
        return _explain_rows(explainer, further, question, {"ordinary_rows": ordinary.words, "chosen": said})
    trial = try_methods(score, ordinary, question.params)
    explainer, further = make_explainer(trial.card, score, trial.params)
    rows = ordinary.rows
    if trial.most_rows is not None and np.shape(rows)[0] > trial.most_rows:
        rows = take_rows(rows, np.sort(draw_sample(np.shape(rows)[0], trial.most_rows, generator(0))))
    explainer.fit(rows)
    return _explain_rows(
        explainer, further, question, {"ordinary_rows": ordinary.words, "chosen": trial.words}
    )


_BLAME_WORDS = "which cell is to blame"
ASKS = {
    "sensitivity": "how fast the score changes with each cell",
    "signal": "where the score gets its support",
    "ranking": "which cells come first",
    "relative": "how many times what is usual each cell has",
    "probability": _BLAME_WORDS,
}
"""The questions that kinds of explanations answer."""


def _explain_rows(
    explainer: Any, further: dict[str, Any], question: _Question, said: dict[str, str]
) -> Explanation:
    """Explain the rows, and record what is to be said of that."""
    said["task"] = find_task(question.model, question.asked)  # views call high numbers odd, or do not
    explanation: Explanation = explainer.explain(question.X, **further)
    if "background" in explanation.params:
        said["ordinary_rows"] = explanation.params["background"]
    is_share = explanation.kind == "attribution" and question.rule not in (TRIED, BLAME)
    said["asks"] = "shares of the score" if is_share else ASKS.get(explanation.kind, _BLAME_WORDS)
    return replace(explanation, params={**explanation.params, **said})


def _explain_network(card: Card, question: _Question, *, is_auto: bool) -> Explanation:
    """Explain one output of a network: a method of networks gets the network, one of scores its output."""
    network, params = networks.read(question.model, question.X, question.asked, card, question.params)
    if network.target is not None:
        params["target"] = network.target
    explainer, further = make_explainer(card, network.model, params)
    said: dict[str, Any] = {}
    if card.role == "explainer":
        said = _show_ordinary_rows(explainer, explainer.score, question)
    else:
        _show_network_rows(card, explainer, question)
    explanation = explainer.explain(question.X, **further)
    said["task"] = question.asked.task
    if question.asked.task == "auto":
        said["task"] = "anomaly" if network.is_anomaly else "prediction"
    if is_auto:
        said["chosen"] = _tell_rule(question.rule)
    return networks.add_words(explanation, said, network.words)


def _explain_joined(card: Card, question: _Question) -> Any:
    """Explain a network of several inputs by a method of tables: all inputs stand side by side."""
    require("torch", "explaining a network")
    from tellwhy.scoring.joined_inputs import Joined

    network: Any = question.model
    joined = Joined.of(network, question.X)
    params = dict(question.params)
    if "groups" in params:
        params["groups"] = joined.join_groups(params["groups"])
    background = question.background
    if background is not None:
        background = joined.flatten_like(background, "background")
    flat = replace(question, model=joined.network, X=joined.flat, background=background, params=params)
    return joined.split(_explain_network(card, flat, is_auto=False))


def _show_network_rows(card: Card, explainer: Any, question: _Question) -> None:
    """Let a method of networks that learns (patterns) do so; others compare with no rows."""
    if isinstance(explainer, LearnsFromRows):
        if question.background is None:
            raise InvalidParameter(
                f"{card.name} learns from rows like those of the training: "
                f"tellwhy.explain(model, X, {card.name!r}, background=rows)."
            )
        explainer.fit(question.background)
    elif question.background is not None:
        refuse_background(card.name)


def _show_ordinary_rows(explainer: Any, score: Any, question: _Question) -> dict[str, str]:
    """Let an explainer learn from ordinary rows, or remember them; return what is to be said of them."""
    background = question.background
    if background is not None and not isinstance(question.X, (tuple, dict)):
        check_background(question.X, background)
    if isinstance(explainer, LearnsFromRows) and not _start_from_zero(explainer, background):
        ordinary = choose_ordinary_rows(score, question.X, background, type(explainer).__name__)
        explainer.fit(ordinary.rows)
        return {"ordinary_rows": ordinary.words}
    if background is not None:
        if not _uses_ordinary_rows(explainer, score):
            refuse_background(type(explainer).__name__)
        explainer.remember(background)
    return {}


def takes_background(method: type) -> bool:
    """Whether a method of anomaly scores has a use for ordinary rows: it learns from or remembers them."""
    return issubclass(method, LearnsFromRows) or _has_normal_versions(method)


def _has_normal_versions(method: type) -> bool:
    return issubclass(method, RemembersRows) and getattr(method, "kind", "") in ("attribution", "relative")


def _uses_ordinary_rows(explainer: Any, score: Any) -> bool:
    """Whether an explainer that learns from no rows has a use for them: it says what would be normal."""
    return _has_normal_versions(type(explainer)) and not isinstance(score, IsPrediction)


def _start_from_zero(explainer: Any, background: Any) -> bool:
    """Whether an explainer needs no rows, or has a baseline of its own, and no rows to take another from."""
    if isinstance(explainer, BackgroundExplainer):
        return not explainer.learns_from(background)
    return background is None and not getattr(explainer, "needs_rows", True)


def _explain_model(chosen: Card, question: _Question) -> Explanation:
    """Explain by a method that takes the model itself: networks, graphs, labels, patches, ensembles."""
    params = question.params
    why = f"{chosen.name} reads the model itself, and explains what is said of it in tellwhy.methods()."
    refuse_asked(question.asked, ("task", "output"), why)
    if question.asked.target is not None:
        params = {**params, "target": question.asked.target}
    explainer, further = make_explainer(chosen, question.model, params)
    background = question.background
    if isinstance(explainer, LearnsFromRows):
        explainer.fit(question.X if background is None else background)
    elif background is not None:
        refuse_background(chosen.name)
    explanation: Explanation = explainer.explain(question.X, **further)
    return explanation


def _explain_by_instance(method: Any, question: _Question) -> Explanation:
    """Explain by an explainer that the user has made; it is not changed."""
    check_instance(method, question.model, question.params)
    why = f"the {type(method).__name__} is already made, for one number of its model."
    refuse_asked(question.asked, ("task", "target", "output"), why)
    explainer: Explainer = copy.copy(method)
    if isinstance(explainer, LearnsFromRows) and question.background is not None:
        explainer.fit(question.background)
    elif isinstance(explainer, RemembersRows) and question.background is not None:
        explainer.remember(question.background)
    return explainer.explain(question.X)


def _is_text(X: Any) -> bool:
    """Whether rows are texts."""
    if isinstance(X, str):
        is_file = X.rpartition(".")[2].lower() in ("csv", "tsv", "xlsx", "parquet", "json")
        advice = "Read the file first, e.g. with pandas.read_csv." if is_file else "Pass [text]."
        raise InvalidInput(f"X is one text, {X[:40]!r}; expected rows, or a list of texts. {advice}")
    if isinstance(X, (Frame, tuple, dict)) or np.ndim(X) != 1 or len(X) == 0:
        return False
    return all(isinstance(item, str) for item in X)


def _label_card(question: _Question) -> Card | None:
    """Return the explainer of labels that reads the weights of a model of texts; None where none does."""
    if (
        question.asked.output != "auto"
        or question.asked.task == "anomaly"
        or not _names_words(question.model)
    ):
        return None
    labels = cards("classifier explainer")
    return next((c for c in labels if c.applies is not None and c.applies(question.model)), None)


def _names_words(model: Any) -> bool:
    """Whether what comes before the last step of a pipeline knows its words; hashes do not."""
    if not hasattr(model, "named_steps"):
        return True
    try:
        return len(model[:-1].get_feature_names_out()) > 0
    except AttributeError:
        return False


def _by_pieces(chosen: Card | None, question: _Question) -> Explanation:
    """Explain texts by their words, sentences or pieces of the user's."""
    if question.background is not None:
        raise InvalidParameter(
            "Texts are compared with themselves without some of their words, so that a background would be "
            "ignored. Leave it out; baseline='…' says what replaces a word."
        )
    if question.rule == TRIED:
        raise InvalidParameter("method='tried' compares methods for tables, and X holds texts. Leave it out.")
    found = explain_texts(question.model, question.X, chosen, question.asked, question.params)
    said = {} if chosen is not None else {"chosen": _tell_rule(question.rule)}
    return replace(found, params={**found.params, **said})


def methods() -> pd.DataFrame:
    """Return the table of explainers: name, family, needs, cost, exactness, citation.

    Returns
    -------
    pandas.DataFrame
        One line for each method.

    Examples
    --------
    >>> import tellwhy
    >>> "OneClassDTD" in set(tellwhy.methods()["name"])
    True
    """
    import pandas as pd

    fields = ("name", "family", "needs", "cost", "exactness", "citation")
    return pd.DataFrame([{field: getattr(c, field) for field in fields} for c in list_explainers()])
