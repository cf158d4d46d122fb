"""Linear relevance: the label of a row explained by its features, a text's by its words."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from tellwhy.classifiers.text_classifier import TextClassifier
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.registry import register
from tellwhy.core.tables import column_names
from tellwhy.explainers.decomposition.linear_shares import linear_relevance

_LEARNED = ("coef_", "intercept_", "classes_")


def linear_parts(model: Any) -> tuple[Any, Any]:
    """Return what turns rows into features (None: nothing does) and the linear classifier of a fitted model."""
    if isinstance(model, TextClassifier):
        check_is_fitted(model)
        return model, model.classifier_
    steps, last = (model[:-1], model[-1]) if isinstance(model, Pipeline) else (None, model)
    return steps if steps is not None and len(steps) else None, last


def _applies(model: Any) -> bool:
    """Whether a model is a linear classifier, or a pipeline that ends in one."""
    if isinstance(model, (TextClassifier, Pipeline)) or hasattr(model, "coef_"):
        last = (
            getattr(model, "classifier_", model)
            if isinstance(model, TextClassifier)
            else linear_parts(model)[1]
        )
        return is_classifier(last) and all(hasattr(last, name) for name in _LEARNED)
    return False


@register(
    "classifier explainer",
    family="decomposition",
    needs="a linear classifier, or a pipeline that ends in one",
    cost="one product with the weights",
    exactness="exact: features and intercepts add up to the score, or to the lead over the rival",
    citation="Arras, Horn, Montavon, Müller, Samek, PLOS ONE 12 (2017)",
    applies=_applies,
)
class LinearRelevance:
    """R_j = w_cj x_j for the predicted class c, or (w_cj − w_rj) x_j against its runner-up r; exact.

    Parameters
    ----------
    model
        A fitted linear classifier (`coef_`, `intercept_`, `classes_`): one of `tellwhy.classifiers`,
        scikit-learn's `LinearSVC`, `LogisticRegression` and so on, a pipeline that ends in one, or a
        `TextClassifier`. Rows then enter as the pipeline takes them, and features are those that its last
        step sees: the words, for texts.
    feature_names
        What to call the features; by default what the model or X calls them.

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

    def __init__(self, model: Any, *, feature_names: Any = None):
        self.model = model
        self.feature_names = feature_names

    def explain(self, X: Any, *, against: Any = "runner_up", of: Any = None) -> Explanation:
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
        steps, last = self._parts()
        check_is_fitted(last)
        rows = X if steps is None else _features(steps, X)
        rows = sparse.csr_array(rows if sparse.issparse(rows) else np.asarray(rows, dtype=np.float64))
        coef, intercept = weights_of_all(last)
        if rows.shape[1] != coef.shape[1]:
            raise InvalidInput(f"X has {rows.shape[1]} columns, but the model was fitted on {coef.shape[1]}.")
        if not np.isfinite(rows.data).all():
            raise InvalidInput(
                "X contains NaN or infinity; expected finite numbers. Impute or drop those cells first."
            )
        return linear_relevance(
            coef, intercept, rows, last.classes_,
            against=against, of=of, feature_names=self._names(X, steps, last), data=X, model=type(last).__name__,
            centre=getattr(last, "centre_", None),
        )  # fmt: skip

    def _parts(self) -> tuple[Any, Any]:
        steps, last = linear_parts(self.model)
        if not all(hasattr(last, name) for name in _LEARNED):
            raise UnsupportedModel(
                f"LinearRelevance needs a fitted linear classifier with coef_, intercept_ and classes_; got "
                f"{type(last).__name__}."
            )
        return steps, last

    def _names(self, X: Any, steps: Any, last: Any) -> Any:
        if self.feature_names is not None:
            return self.feature_names
        if steps is not None:
            return steps.get_feature_names_out()
        return getattr(last, "feature_names_in_", column_names(X))


def _features(steps: Any, X: Any) -> Any:
    """Rows as the last step sees them; a single text is not a list of texts."""
    if isinstance(X, str):
        raise InvalidInput("X is one text; expected a list of texts. Pass [text].")
    return steps.transform(X)


def weights_of_all(model: Any) -> tuple[Any, Any]:
    """Weights and intercepts of every class; scikit-learn's binary models hold those of the second class only."""
    coef, intercept = (
        model.coef_,
        np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), model.coef_.shape[0]),
    )
    if coef.shape[0] == 1 and len(model.classes_) == 2:
        dense = coef.toarray() if sparse.issparse(coef) else np.asarray(coef)
        return np.vstack((np.zeros_like(dense), dense)), np.array([0.0, intercept[0]])
    return coef, intercept
