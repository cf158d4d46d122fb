"""The multi-class SVM of Weston and Watkins."""

from __future__ import annotations

from tellwhy.classifiers.svm.base import MulticlassSVM
from tellwhy.classifiers.svm.engines.pair_engine import PairEngine


class WestonWatkinsSVM(MulticlassSVM):
    r"""All-in-one SVM: the label's score should exceed every other class's by one.

    .. math:: \min_W \tfrac12 \|W\|^2 + \sum_i C_i \sum_{c \ne y_i} [1 - (w_{y_i} - w_c)^\top x_i]_+

    With a 0/1 matrix as y, rows have sets of labels: each label is compared with each class that is none of
    the row's, at the cap C_i / (|Y| |Ȳ|), and a threshold that is learned along tells the labels from the
    others.

    Parameters
    ----------
    C
        Weight of the losses against ½‖W‖².
    tol
        Relative duality gap (P − D) / P at which to stop; with `stopping="violation"` the largest violation
        of an optimality condition (0.1 in the thesis).
    stopping
        'gap' or 'violation'.
    max_epochs
        Most passes over the variables. With few features, a fit that would not end within them takes other
        steps: those of an interior-point method.
    fit_intercept
        Whether to append a constant feature; its weight is regularised as all others are.
    intercept_scaling
        Value of that feature; larger means less regularised.
    class_weight
        None, 'balanced' or a dict: factor of C per class.
    n_jobs
        Threads. The result does not depend on it.
    n_bundles
        Number of blocks (bundles) that the classes are cut into. 'auto' is one: a row is solved for all
        classes at once, and threads share rows or their features. With more, threads work on pairs of blocks,
        at most one for every two blocks, but a row whose classes are cut up takes more epochs. The result
        depends on it within `tol`.
    shrinking
        Whether to leave out variables that are unlikely to move between two certificates.
    dtype
        'float64' or 'float32' (half the memory; gaps below about 1e-5 are out of reach).
    warm_start
        Whether to start the next fit from this one's dual variables (kept in `dual_coef_`).
    random_state
        Seed of the order of visits.

    Attributes
    ----------
    coef_ : (n_classes, n_features), sparse where that pays
    intercept_, classes_
    dual_gap_ : relative duality gap reached, a certificate that the objective is that close to the optimum
    objective_ : primal objective
    n_iter_ : epochs
    history_ : one dict per certificate: epoch, seconds, objective, dual, gap, violation, listed

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X)
    >>> model = WestonWatkinsSVM(C=1.0, random_state=0).fit(X, y)
    >>> model.dual_gap_ <= 1e-3
    True
    >>> float(model.score(X, y)) > 0.95
    True

    References
    ----------
    Weston, Watkins, *Support vector machines for multi-class pattern recognition*, ESANN (1999). Alber,
    Zimmert, Dogan, Kloft, *Distributed optimization of multi-class SVMs*, PLOS ONE 12 (2017).
    """

    _loss = "ww"
    _engine = PairEngine
    _multilabel = True
