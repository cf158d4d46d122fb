"""The multi-class SVM of Crammer and Singer."""

from __future__ import annotations

from tellwhy.classifiers.svm.base import MulticlassSVM
from tellwhy.classifiers.svm.engines.pair_engine import PairEngine


class CrammerSingerSVM(MulticlassSVM):
    r"""All-in-one SVM: the label's score should exceed the best other class's by one.

    .. math:: \min_W \tfrac12 \|W\|^2 + \sum_i C_i \max_{c \ne y_i} [1 - (w_{y_i} - w_c)^\top x_i]_+

    C means what it means in scikit-learn's `LinearSVC(multi_class="crammer_singer")`. A row's variables share
    one cap, so that all classes are needed at once and `n_bundles` has no effect. Parameters and attributes
    as in `WestonWatkinsSVM`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X)
    >>> float(CrammerSingerSVM(random_state=0).fit(X, y).score(X, y)) > 0.95
    True

    References
    ----------
    Crammer, Singer, *On the algorithmic implementation of multiclass kernel-based vector machines*, JMLR 2
    (2001).
    """

    _loss = "cs"
    _engine = PairEngine
