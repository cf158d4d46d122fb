"""Linear relevance: the label of a row explained by its features, a text's by its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.core.extras import Extras
from tellwhy.core.params import Rule, Rules, none, validate_parameters
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import column_names
from tellwhy.explainers.decomposition.linear_model import LinearModel, is_linear
from tellwhy.scoring.adapters.column_owners import owners_of_chain
from tellwhy.scoring.model_rows import fitted_names

_NAMES = Rule(
    "a list of names, one per feature", lambda value: np.ndim(value) == 1 and not isinstance(value, str)
)


@register(
    "classifier explainer",
    family="decomposition",
    needs="a linear classifier, or a pipeline that ends in one",
    cost="one product with the weights",
    exactness="exact: features and intercepts add up to the score, or to the lead over the rival",
    citation="Arras, Horn, Montavon, Müller, Samek, PLOS ONE 12 (2017)",
    applies=is_linear,
)
class LinearRelevance:
    """R_j = w_cj x_j for the predicted class c, or (w_cj − w_rj) x_j against its runner-up r; exact.

    The intercepts are the base value, and nothing is left over. A model that measures rows from a centre m
    has R_j = w_cj (x_j − m_j), and w_c·m joins the base.

    Parameters
    ----------
    model
        A fitted linear classifier (`coef_`, `intercept_`, `classes_`): one of `tellwhy.classifiers`,
        scikit-learn's `LinearSVC`, `LogisticRegression` and so on, a pipeline that ends in one, or a
        `TextClassifier`. Rows then enter as the pipeline takes them. Values are those of the user's columns
        where each feature of the last step was made from one of them (scaling, one-hot codes); else those of
        its features: the words of texts, principal components.
    feature_names
        What to call the features of the last step, which are then told one by one; by default what the model
        or X calls them.

    Notes
    -----
    `extras` hold for each row the class that is explained, by its number ("output") and by its name
    ("explained"), and the name of its rival, if any ("rival").

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from tellwhy.classifiers import WestonWatkinsSVM
    >>> texts = ["the cat purrs", "a dog barks", "a bird sings", "the old cat", "the old dog", "the old bird"]
    >>> model = make_pipeline(TfidfVectorizer(), WestonWatkinsSVM(random_state=0))
    >>> explainer = LinearRelevance(model.fit(texts, ["cat", "dog", "bird", "cat", "dog", "bird"]))
    >>> explanation = explainer.explain(["my cat is old"])
    >>> explanation.extras["explained"]
    array(['cat'], dtype='<U4')
    >>> explanation.feature_names[explanation.values[0].argmax()]
    'cat'
    """

    kind: ClassVar[str] = "attribution"
    _parameters: ClassVar[dict[str, Rules]] = {"feature_names": (none, _NAMES)}

    def __init__(self, model: object, *, feature_names: Sequence[str] | None = None):
        self.model = model
        self.feature_names = feature_names

    def explain(self, X: ArrayLike, *, against: object = "runner_up", of: object = None) -> Explanation:
        """Explain the label of each row.

        Parameters
        ----------
        X
            Rows, as the model takes them.
        against
            'runner_up' (the lead over the class that comes second), None (the class's own score) or a class.
        of
            Class to explain; by default the predicted one.
        """
        validate_parameters(self)
        model = LinearModel.of(self.model)
        rows = model.features(X)
        chosen, rivals = _classes(model, model.scores(rows), of, against)
        direction, base = _direction(model, chosen, rivals)
        told = _Told.of(self, model, X, _products(rows, direction, model.centre), rows)
        what = "the score of the class" if rivals is None else "the lead of the class over its rival"
        return Explanation(
            values=told.values,
            scores=base + told.values.sum(axis=1),
            base_values=base,
            data=told.data,
            feature_names=told.names,
            method=type(self).__name__,
            params={
                "explains": f"{what}, by {model.name}",
                "against": None if against is None else str(against),
            },
            kind=self.kind,
            extras=_extras(model, chosen, rivals),
        )

    def names(self, X: ArrayLike, model: LinearModel) -> list[str] | None:
        """What to call the features of the last step."""
        if self.feature_names is not None:
            return [str(name) for name in self.feature_names]
        if model.steps is not None:
            return [str(name) for name in model.steps.get_feature_names_out()]
        return model.feature_names or column_names(X)


@dataclass(frozen=True, eq=False)
class _Told:
    """Values with the columns they belong to: those of the user, or the features that the last step sees."""

    values: Floats
    names: list[str] | None
    data: Any

    @classmethod
    def of(
        cls, explainer: LinearRelevance, model: LinearModel, X: Any, values: Floats, rows: sparse.csr_array
    ) -> _Told:
        """Add values up over the user's columns where each feature was made from one of them."""
        is_table = model.steps is not None and np.ndim(X) == 2 and explainer.feature_names is None
        if not is_table:
            is_told_alike = model.steps is None or np.ndim(X) != 2
            return cls(values, explainer.names(X, model), _plain_data(X) if is_told_alike else rows.toarray())
        owner = owners_of_chain([step for _, step in model.steps.steps], np.shape(X)[1], values.shape[1])
        if (
            owner is None
        ):  # columns were mixed: values belong to the mixtures, and so do the numbers beside them
            return cls(values, explainer.names(X, model), rows.toarray())
        belongs = sparse.csr_array(
            (np.ones(len(owner)), (np.arange(len(owner)), owner)), shape=(len(owner), np.shape(X)[1])
        )
        return cls(np.asarray(values @ belongs), column_names(X) or fitted_names(model.steps), _plain_data(X))


def _classes(
    model: LinearModel, scores: Floats, of: object, against: object
) -> tuple[Integers, Integers | None]:
    """Class that is explained, and its rival, of each row, by number; None where no rival is asked for."""
    n = len(scores)
    chosen = scores.argmax(axis=1) if of is None else np.full(n, _number(of, model.classes, "of"))
    if against is None:
        return chosen, None
    if isinstance(against, str) and against == "runner_up":
        others = scores.copy()
        others[np.arange(n), chosen] = -np.inf  # the class itself is no rival
        return chosen, others.argmax(axis=1)
    return chosen, np.full(n, _number(against, model.classes, "against"))


def _number(name: object, classes: NDArray[Any], parameter: str) -> int:
    found = np.flatnonzero(classes == name)
    if len(found) == 0:
        others = ", or None or 'runner_up'" if parameter == "against" else ""
        raise InvalidParameter(
            f"There is no class {name!r} for the {parameter!r} parameter; expected one of the {len(classes)} "
            f"classes, such as {classes.tolist()[0]!r}{others}."
        )
    return int(found[0])


def _direction(model: LinearModel, chosen: Integers, rivals: Integers | None) -> tuple[Floats, Floats]:
    """Weights that each row is multiplied with, and the part of its score that no feature has."""
    direction = _rows_of(model.weights, chosen)  # (rows, features): only those of the classes asked for
    base = model.intercept[chosen]
    if rivals is not None:
        direction = direction - _rows_of(model.weights, rivals)
        base = base - model.intercept[rivals]
    if model.centre is not None:
        base = base + direction @ model.centre
    return direction, base


def _rows_of(weights: Any, at: Integers) -> Floats:
    found = weights[at]
    return np.asarray(found.toarray() if sparse.issparse(found) else found)


def _products(rows: sparse.csr_array, direction: Floats, centre: Floats | None) -> Floats:
    if centre is not None:  # what is zero in the row is not zero from the centre: nothing stays sparse
        return np.asarray((rows.toarray() - centre) * direction)
    values = rows.multiply(direction)
    return np.asarray(values.toarray() if sparse.issparse(values) else values)


def _extras(model: LinearModel, chosen: Integers, rivals: Integers | None) -> Extras:
    # object arrays hold text here, and files hold text as text
    named = model.classes.astype(str) if model.classes.dtype.kind == "O" else model.classes
    extras: dict[str, Any] = {"output": chosen.astype(np.int64), "explained": named[chosen]}
    if rivals is not None:
        extras["rival"] = named[rivals]
    return Extras(extras)


def _plain_data(data: Any) -> Any:
    """Rows that can be sliced and saved: an explanation is dense, and texts are text."""
    if sparse.issparse(data):
        return data.toarray()
    if column_names(data) is not None or np.ndim(data) != 1:
        return data
    return np.asarray(data, dtype=str) if all(isinstance(item, str) for item in data) else data
