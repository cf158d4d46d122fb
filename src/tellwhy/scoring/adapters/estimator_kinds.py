"""What a fitted estimator is: a classifier, a regressor, a detector, told without importing scikit-learn."""

from __future__ import annotations


def estimator_kind(model: object) -> str | None:
    """'classifier', 'regressor', 'outlier_detector', …, or None for what is no estimator.

    scikit-learn's own tags are asked, because those of a pipeline or a search are the tags of what is inside.
    A classifier of another library is known by its probabilities and its classes.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> estimator_kind(make_pipeline(LogisticRegression()).fit([[0.0], [1.0]], [0, 1]))
    'classifier'
    >>> estimator_kind(len) is None
    True
    """
    if not is_scikit_learn(model):
        return "classifier" if gives_probabilities(model) and hasattr(model, "classes_") else None
    from sklearn.utils import get_tags

    return get_tags(model).estimator_type


def predicts_only(model: object) -> bool:
    """Whether a model of another library has a prediction, and nothing that would make it anything else.

    Examples
    --------
    >>> class Mean:
    ...     def predict(self, X):
    ...         return [0.0] * len(X)
    >>> predicts_only(Mean()), predicts_only(len)
    (True, False)
    """
    others = ("predict_proba", "decision_function", "score_samples", "to_score", "value")
    is_model = callable(getattr(model, "predict", None)) and not callable(model)
    return is_model and not is_scikit_learn(model) and not any(hasattr(model, name) for name in others)


def is_scikit_learn(model: object) -> bool:
    """Whether a model follows scikit-learn's conventions."""
    return hasattr(model, "__sklearn_tags__")


def gives_probabilities(model: object) -> bool:
    """Whether a classifier has probabilities of its classes; scikit-learn hides the method of others."""
    return hasattr(model, "predict_proba")
