"""Fitted linear classifiers, read as weights and intercepts of every class, with what comes before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.capabilities import Capability
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import as_floats
from tellwhy.scoring.adapters.estimator_kinds import estimator_kind
from tellwhy.scoring.model_rows import check_columns, fitted_names


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
        steps, last = linear_parts(model)
        if not isinstance(last, IsLinear):
            raise UnsupportedModel(
                f"LinearRelevance needs a fitted linear classifier with coef_, intercept_ and classes_; got "
                f"{type(last).__name__}."
            )
        check_is_fitted(last)
        weights, intercept = weights_of_all(last)
        centre = last.centre_ if isinstance(last, HasCentre) else None
        names = fitted_names(last)
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
    last = linear_parts(model)[1] if isinstance(model, Pipeline) else model
    return isinstance(last, IsLinear) and estimator_kind(last) == "classifier"


def linear_parts(model: Any) -> tuple[Any, Any]:
    """Return what turns rows into features (None: nothing does) and the classifier at the end of a model."""
    if isinstance(model, LearnsWords):
        check_is_fitted(model)
        return model, vars(model)["classifier_"]
    if isinstance(model, Pipeline):
        return (model[:-1] if len(model) > 1 else None), model[-1]
    return None, model


def weights_of_all(model: IsLinear) -> tuple[Any, Floats]:
    """Weights and intercepts of every class; scikit-learn's models of two classes hold the second's only."""
    coef = model.coef_
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), coef.shape[0])
    if coef.shape[0] == 1 and len(model.classes_) == 2:
        dense = coef.toarray() if sparse.issparse(coef) else np.asarray(coef)
        # the first class has score 0, so that the lead of the second is what the model calls its decision
        return np.vstack((np.zeros_like(dense), dense)), np.array([0.0, intercept[0]])
    return coef, intercept
