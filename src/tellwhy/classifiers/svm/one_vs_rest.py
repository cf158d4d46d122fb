"""One binary SVM per class."""

from __future__ import annotations

from tellwhy.classifiers.svm.base import MulticlassSVM
from tellwhy.classifiers.svm.engines.single_engine import SingleEngine


class OneVsRestSVM(MulticlassSVM):
    r"""One binary SVM with the hinge loss per class, all solved in one go.

    .. math:: \min_W \tfrac12 \|W\|^2 + \sum_i C_i \sum_c [1 - y_{ic}\, w_c^\top x_i]_+, \quad y_{ic} = \pm 1

    Rows may have sets of labels, as a 0/1 matrix. Parameters and attributes as in `WestonWatkinsSVM`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X)
    >>> float(OneVsRestSVM(random_state=0).fit(X, y).score(X, y)) > 0.9
    True
    """

    _loss = "ovr"
    _engine = SingleEngine
    _multilabel = True
