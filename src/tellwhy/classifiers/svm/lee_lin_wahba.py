"""The multi-class SVM of Lee, Lin and Wahba."""

from __future__ import annotations

from tellwhy.classifiers.svm.base import MulticlassSVM
from tellwhy.classifiers.svm.engines.single_engine import SingleEngine


class LeeLinWahbaSVM(MulticlassSVM):
    r"""All-in-one SVM: scores sum to zero over classes, and those of all wrong classes should be below −1.

    .. math:: \min_W \tfrac12 \|W\|^2 + \sum_i C_i \sum_{c \ne y_i} [1 + w_c^\top x_i]_+, \quad \sum_c w_c = 0

    Consistent for classification, but it needs a large C (10 to 10,000) and its weights are never sparse.
    Parameters and attributes as in `WestonWatkinsSVM`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X)
    >>> model = LeeLinWahbaSVM(C=10.0, random_state=0).fit(X, y)
    >>> bool(abs(model.coef_.sum(axis=0)).max() < 1e-9)
    True

    References
    ----------
    Lee, Lin, Wahba, *Multicategory support vector machines*, Journal of the American Statistical Association
    99 (2004).
    """

    _loss = "llw"
    _engine = SingleEngine
