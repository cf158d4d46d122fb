"""w·(x − m): why a linear classifier gave its label (`LinearRelevance`), and a linear score's Shapley values.

Fitted linear classifiers are read as weights and intercepts of every class, with what comes before them, so
that a text is explained by its words. `LinearShapley` is the closed form w_i (x_i − m_i).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.arrays import Capability, as_floats, check_columns, list_columns
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Extras
from tellwhy.core.old_names import TakesOldNames, takes_moved
from tellwhy.core.params import Rule, Rules, none, one_of, validate_parameters
from tellwhy.core.progress import shown
from tellwhy.core.score import Floats, HasLinear, Integers
from tellwhy.explainers.base import BackgroundExplainer, lacks
from tellwhy.explainers.rows import Attribution, Rows
from tellwhy.scoring.adapters.pipelines import trace_owners_of_chain
from tellwhy.scoring.model_rows import find_estimator_kind, read_fitted_names


@runtime_checkable
class IsLinear(Protocol, metaclass=Capability):
    """A fitted linear classifier: the scores of its classes are weights times the row, plus intercepts."""

    @property
    def coef_(self) -> Any:
        """Weights, classes × features, dense or sparse; of two classes perhaps those of the second only."""
        ...

    @property
    def intercept_(self) -> Any:
        """One number per row of the weights, or one for all."""
        ...

    @property
    def classes_(self) -> Any:
        """Names of the classes."""
        ...


@runtime_checkable
class LearnsWords(Protocol, metaclass=Capability):
    """A classifier of texts that turns them into features itself: `tellwhy.classifiers.TextClassifier`."""

    def learn_words(self, X: Any) -> Any:
        """Learn the words of texts, and return their features."""
        ...

    def transform(self, X: Any) -> Any:
        """Return the features of texts, one column per word."""
        ...

    def get_feature_names_out(self) -> Any:
        """Return the words."""
        ...


@runtime_checkable
class HasCentre(Protocol, metaclass=Capability):
    """A linear classifier that measures rows from a centre instead of from zero."""

    @property
    def centre_(self) -> Floats:
        """One number per feature."""
        ...


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A linear classifier as numbers.

    Attributes
    ----------
    name
        Its class, for the reader.
    weights, intercept
        Weights (classes × features, dense or sparse), and one intercept per class.
    classes
        Names of the classes.
    centre
        The row that features are measured from; None: zero.
    steps
        What turns rows into features; None where rows are the features.
    feature_names
        What the classifier was fitted on, where it saw names.
    """

    name: str
    weights: Any
    intercept: Floats
    classes: NDArray[Any]
    centre: Floats | None
    steps: Any
    feature_names: list[str] | None

    @classmethod
    def of(cls, model: object) -> LinearModel:
        """Read a fitted model, or say why it cannot be read."""
        steps, last = read_linear_parts(model)
        if not isinstance(last, IsLinear):
            raise UnsupportedModel(
                f"LinearRelevance needs a fitted linear classifier with coef_, intercept_ and classes_; got "
                f"{type(last).__name__}."
            )
        check_is_fitted(last)
        weights, intercept = read_weights_of_all(last)
        centre = last.centre_ if isinstance(last, HasCentre) else None
        names = read_fitted_names(last)
        return cls(type(last).__name__, weights, intercept, np.asarray(last.classes_), centre, steps, names)

    def features(self, X: ArrayLike) -> sparse.csr_array:
        """Rows as the weights are multiplied with them."""
        # a table is checked cell by cell, and errors name the cell; what a pipeline made has no cells to name
        if self.steps is None and not sparse.issparse(X):
            check_columns(X, self.feature_names)
            return sparse.csr_array(as_floats(X, n_columns=self.weights.shape[1]))
        if isinstance(X, str):  # numpy and scikit-learn would take it for a list of letters
            raise InvalidInput("X is one text; expected a list of texts. Pass [text].")
        made = X if self.steps is None else self.steps.transform(X)
        rows = sparse.csr_array(made if sparse.issparse(made) else np.asarray(made, dtype=np.float64))
        self._check(rows)
        return rows

    def _check(self, rows: sparse.csr_array) -> None:
        n_features = self.weights.shape[1]
        if rows.shape[1] != n_features:
            raise InvalidInput(f"X has {rows.shape[1]} columns, but the model was fitted on {n_features}.")
        if not np.isfinite(rows.data).all():
            raise InvalidInput(
                "X contains NaN or infinity; expected finite numbers. Impute or drop those cells first."
            )

    def scores(self, rows: sparse.csr_array) -> Floats:
        """Score of each class for each row of features."""
        product = rows @ self.weights.T
        return np.asarray(product.toarray() if sparse.issparse(product) else product) + self.intercept


def is_linear(model: object) -> bool:
    """Whether a model is a fitted linear classifier, or a pipeline that ends in one."""
    if isinstance(model, LearnsWords):
        return "classifier_" in vars(model)
    last = read_linear_parts(model)[1] if isinstance(model, Pipeline) else model
    return isinstance(last, IsLinear) and find_estimator_kind(last) == "classifier"


def read_linear_parts(model: Any) -> tuple[Any, Any]:
    """Return what turns rows into features (None: nothing does) and the classifier at the end of a model."""
    if isinstance(model, LearnsWords):
        check_is_fitted(model)
        return model, vars(model)["classifier_"]
    if isinstance(model, Pipeline):
        return (model[:-1] if len(model) > 1 else None), model[-1]
    return None, model


def read_weights_of_all(model: IsLinear) -> tuple[Any, Floats]:
    """Weights and intercepts of every class; scikit-learn's models of two classes hold the second's only."""
    coef = model.coef_
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), coef.shape[0])
    if coef.shape[0] == 1 and len(model.classes_) == 2:
        dense = coef.toarray() if sparse.issparse(coef) else np.asarray(coef)
        # the first class has score 0, so that the lead of the second is what the model calls its decision
        return np.vstack((np.zeros_like(dense), dense)), np.array([0.0, intercept[0]])
    return coef, intercept


_NAMES = Rule(
    "a list of names, one per feature", lambda value: np.ndim(value) == 1 and not isinstance(value, str)
)


_CLASS = Rule("a class", lambda value: np.ndim(value) == 0)


class LinearRelevance(TakesOldNames):
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
    target
        Class to explain; by default the predicted one.
    against
        'runner_up' (the lead over the class that comes second), None (the class's own score) or a class.
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
    _parameters: ClassVar[dict[str, Rules]] = {
        "target": (none, _CLASS),
        "against": (none, one_of("runner_up"), _CLASS),
        "feature_names": (none, _NAMES),
    }

    def __init__(
        self,
        model: object,
        *,
        target: object = None,
        against: object = "runner_up",
        feature_names: Sequence[str] | None = None,
    ):
        self.model = model
        self.target = target
        self.against = against
        self.feature_names = feature_names

    @takes_moved
    def explain(self, X: ArrayLike, *, progress: bool | None = None) -> Explanation:
        """Explain the label of each row, as the model takes them.

        `progress` shows how far it is, or does not; None: on a terminal and in notebooks, after two seconds.
        """
        with shown(progress):
            return self._explained(X)

    def _explained(self, X: ArrayLike) -> Explanation:
        validate_parameters(self)
        model = LinearModel.of(self.model)
        rows = model.features(X)
        chosen, rivals = _classes(model, model.scores(rows), self.target, self.against)
        direction, base = _direction(model, chosen, rivals)
        told = _Told.of(self, model, X, _compute_products(rows, direction, model.centre), rows)
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
                "against": None if self.against is None else str(self.against),
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
        return model.feature_names or list_columns(X)


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
            return cls(
                values, explainer.names(X, model), _keep_plain_data(X) if is_told_alike else rows.toarray()
            )
        owner = trace_owners_of_chain(
            [step for _, step in model.steps.steps], np.shape(X)[1], values.shape[1]
        )
        if (
            owner is None
        ):  # columns were mixed: values belong to the mixtures, and so do the numbers beside them
            return cls(values, explainer.names(X, model), rows.toarray())
        belongs = sparse.csr_array(
            (np.ones(len(owner)), (np.arange(len(owner)), owner)), shape=(len(owner), np.shape(X)[1])
        )
        return cls(
            np.asarray(values @ belongs),
            list_columns(X) or read_fitted_names(model.steps),
            _keep_plain_data(X),
        )


def _classes(
    model: LinearModel, scores: Floats, target: object, against: object
) -> tuple[Integers, Integers | None]:
    """Class that is explained, and its rival, of each row, by number; None where no rival is asked for."""
    n = len(scores)
    chosen = scores.argmax(axis=1) if target is None else np.full(n, _number(target, model.classes, "target"))
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


def _compute_products(rows: sparse.csr_array, direction: Floats, centre: Floats | None) -> Floats:
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


def _keep_plain_data(data: Any) -> Any:
    """Rows that can be sliced and saved: an explanation is dense, and texts are text."""
    if sparse.issparse(data):
        return data.toarray()
    if list_columns(data) is not None or np.ndim(data) != 1:
        return data
    return np.asarray(data, dtype=str) if all(isinstance(item, str) for item in data) else data


class LinearShapley(BackgroundExplainer):
    """R_i = w_i (x_i − m_i), with the weights w of a linear score and the mean m of the background rows.

    These are the Shapley values that `KernelShap` would find with all background rows as references, whatever
    their number. The base value is the mean score of the background.

    Parameters
    ----------
    model
        A model that `tellwhy.scoring` reads as a linear score: of a classifier its margin, of a regressor its
        prediction (`tellwhy.scoring.as_prediction`), of a linear one-class SVM its score.

    Attributes
    ----------
    mean_
        Mean of the background rows, in the columns that the score sees.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from tellwhy.scoring import as_prediction
    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0]])
    >>> model = LinearRegression().fit(X, [0.0, 2.0, 8.0])
    >>> LinearShapley(as_prediction(model)).fit([[1.0, 1.0]]).explain([[3.0, 0.0]]).values.round(9)
    array([[ 2., -2.]])
    """

    _parameters: ClassVar[dict[str, Rules]] = {}

    def _fit(self, X: ArrayLike) -> None:
        """Learn the mean of the background rows."""
        self.mean_ = self.rows(X).X.mean(axis=0)

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasLinear):
            raise lacks(rows.score, "LinearShapley", "weights (KernelShap explains any score)")
        self._check_fitted("mean_")
        number = np.zeros(len(rows.X), dtype=np.int64) if rows.output is None else rows.output
        weights: Floats = rows.score.linear.weights[number]
        base = (weights * self.mean_).sum(axis=1) + rows.score.linear.intercept[number]
        return Attribution(weights * (rows.X - self.mean_), rows.scores(), base)
