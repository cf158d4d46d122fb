"""A classifier on a kernel basis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tellwhy.bases.adaptation import choose_held_rows
from tellwhy.bases.kernel_basis import KernelBasis
from tellwhy.classifiers.softmax import (
    RIDGES,
    Features,
    SoftmaxPlan,
    SoftmaxProblem,
    SoftmaxState,
    class_scores,
    log_probabilities,
    run_pass,
    solved,
    train_softmax,
)
from tellwhy.core.errors import InvalidInput
from tellwhy.core.estimator_rows import find_classes, place_classes, validate_rows
from tellwhy.core.params import (
    Fit,
    Rule,
    Rules,
    Seed,
    boolean,
    generator,
    instance_of,
    integer,
    none,
    one_of,
    real,
    seed,
    validate_parameters,
)
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.storage.model_file import SavedModel

_a_classifier = Rule(
    "a scikit-learn classifier", lambda v: hasattr(v, "fit") and hasattr(v, "decision_function")
)


class KernelBasisClassifier(SavedModel, ClassifierMixin, BaseEstimator):
    """Softmax (or any linear classifier) on the features of a kernel basis: a kernel machine for many rows.

    Parameters
    ----------
    basis
        A `KernelBasis`, fitted to the same rows; None takes one of 1,000 random features. The softmax of a
        discriminative one is the classifier, unless another `head` or solver='convex' asks for a new one.
    head
        'softmax', or a scikit-learn classifier with a decision function, such as `WestonWatkinsSVM`, which is
        given all features at once.
    solver
        Of the softmax: 'batches', steps of Adam in memory O(batch), stopped by rows held out; or 'convex',
        which solves the problem with a ridge to a stated tolerance.
    ridge
        With solver='convex': of ½ ridge ‖W‖² as a share of the mean squared norm of features; 'auto' tries
        1e-3 to 1e-8 and keeps what does best on rows held out.
    tol
        With solver='convex': duality gap at most, as a share of the objective.
    learning_rate, batch_size
        Steps of Adam, and the rows of each.
    max_epochs, patience
        Passes over the rows at most, and without a gain on rows held out.
    validation_share
        Share of the rows held out, at most 10,000 of them.
    refit
        Whether to train the softmax once more on all rows, for the epochs or with the ridge that did best on
        rows held out. A discriminative basis, which has its softmax, is then trained once more with it.
    random_state
        Seed of what is drawn here; the basis has its own.

    Attributes
    ----------
    basis_
        The fitted basis.
    classes_
        Classes in order.
    softmax_
        Weights of the softmax, the intercepts last, and the state of their training.
    head_
        The fitted classifier, where `head` is one.
    losses_
        Cross-entropy of the rows held out after each epoch, or for each ridge.
    ridge_, gap_
        With solver='convex': the share in use, and the duality gap.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelBasisClassifier(KernelBasis(n_features=200, random_state=0), random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "basis": (none, instance_of(KernelBasis, words="a KernelBasis")),
        "head": (one_of("softmax"), _a_classifier),
        "solver": one_of("batches", "convex"),
        "ridge": (one_of("auto"), real(0)),
        "tol": real(0, 1),
        "learning_rate": real(0, 1),
        "batch_size": integer(1),
        "max_epochs": integer(1),
        "patience": integer(1),
        "validation_share": real(0, 1),
        "refit": boolean,
        "random_state": seed,
    }
    basis_: KernelBasis
    softmax_: SoftmaxState

    def __init__(
        self,
        basis: KernelBasis | None = None,
        head: str | BaseEstimator = "softmax",
        *,
        solver: str = "batches",
        ridge: str | float = "auto",
        tol: float = 1e-3,
        learning_rate: float = 0.01,
        batch_size: int = 64,
        max_epochs: int = 100,
        patience: int = 10,
        validation_share: float = 0.1,
        refit: bool = False,
        random_state: Seed = 0,
    ):
        self.basis = basis
        self.head = head
        self.solver = solver
        self.ridge = ridge
        self.tol = tol
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_share = validation_share
        self.refit = refit
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the basis, then the classifier on its features."""
        rows, labels = self._checked(X, y)
        self._forget()
        self.basis_ = self._make_basis().fit(X, y)
        self._fit_head(rows, labels)
        return self

    def transfer(self, X: ArrayLike, y_new: ArrayLike) -> KernelBasisClassifier:
        """Return a classifier of new classes on the basis that this one has: only the head is trained.

        The columns of X are those that this classifier was fitted on; y_new may hold other classes.
        """
        check_is_fitted(self)
        # The columns are those of this classifier; the clone would accept any.
        validate_rows(self, X, reset=False, dtype=_PRECISIONS)
        new = clone(self)
        rows, labels = new._checked(X, y_new)
        new.basis_ = self.basis_
        new._fit_head(rows, labels, keep_trained=False)
        return new

    @available_if(lambda self: isinstance(self.head, str) and self.solver == "batches")
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Take one pass over a batch of rows (softmax by batches only); the first one also fits the basis.

        Parameters
        ----------
        X, y
            Rows and their classes.
        classes
            All classes there will be, at the first call. The first batch of an adapted basis must hold two.
        """
        validate_parameters(self)
        is_new = not hasattr(self, "softmax_")
        rows, own = validate_rows(self, X, y=y, reset=is_new, dtype=_PRECISIONS)
        if is_new:
            self._start(X, y, classes)
        labels = place_classes(own, self.classes_)
        # Each batch is shuffled anew, and the same calls give the same order.
        rng = generator(self.random_state if is_new else self.softmax_.n_steps)
        order = rng.permutation(len(rows))
        self.softmax_ = run_pass(
            lambda part: self.basis_.map_.apply(rows[part]), labels, order, self.softmax_, self._plan()
        )
        return self

    def _start(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None) -> None:
        if classes is None:
            raise InvalidInput("The first call of partial_fit needs classes=…, all classes there will be.")
        self.classes_, _ = find_classes(classes, type(self).__name__)
        place_classes(np.asarray(y), self.classes_)
        self.basis_ = self._make_basis().fit(X, y)
        self.softmax_ = SoftmaxState.zero(self.basis_.map_.n_features, len(self.classes_))
        self.losses_ = np.empty(0)

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Any, Integers]:
        validate_parameters(self)
        rows, own = validate_rows(self, X, y=y, reset=True, dtype=_PRECISIONS, min_rows=2)
        self.classes_, labels = find_classes(own, type(self).__name__)
        return rows, labels

    def _forget(self) -> None:
        for name in ("softmax_", "head_", "ridge_", "gap_"):
            self.__dict__.pop(name, None)

    def _make_basis(self) -> KernelBasis:
        basis = KernelBasis(random_state=self.random_state) if self.basis is None else clone(self.basis)
        if self.refit and self._takes_trained_softmax and basis.basis == "discriminative":
            basis.set_params(refit=True)
        return basis

    @property
    def _takes_trained_softmax(self) -> bool:
        return isinstance(self.head, str) and self.solver == "batches"

    def _plan(self) -> SoftmaxPlan:
        return SoftmaxPlan(self.learning_rate, self.batch_size, self.max_epochs, self.patience)

    def _fit_head(self, rows: Any, labels: Integers, *, keep_trained: bool = True) -> None:
        """Train the classifier, unless it was trained with the basis."""
        fitted = self.basis_.map_
        trained = getattr(self.basis_, "softmax_", None)  # a discriminative basis has one
        if not isinstance(self.head, str):
            self.head_ = clone(self.head).fit(fitted.apply(rows), self.classes_[labels])
            self.losses_ = np.empty(0)
            return
        state = SoftmaxState.zero(fitted.n_features, len(self.classes_))
        if trained is not None and keep_trained and self._takes_trained_softmax:
            weights = np.vstack([trained.weights, trained.bias])
            self.softmax_ = SoftmaxState(weights, state.first, state.second)
            self.losses_ = self.basis_.losses_
            return
        self._train_softmax(lambda part: fitted.apply(rows[part]), labels, state)

    def _train_softmax(self, features: Features, labels: Integers, state: SoftmaxState) -> None:
        rng = generator(self.random_state)
        held = choose_held_rows(len(labels), self.validation_share, rng)
        if self.solver == "convex":
            ridges = RIDGES if isinstance(self.ridge, str) else (float(self.ridge),)
            problem = SoftmaxProblem(features, labels, np.arange(len(labels)), len(self.classes_))
            found, self.losses_ = solved(problem, held, ridges, tolerance=self.tol, refit=self.refit)
            self.softmax_ = replace(state, weights=found.weights)
            self.ridge_, self.gap_ = found.ridge, found.gap
            return
        self.softmax_, self.losses_ = train_softmax(
            features, labels, held, start=state, plan=self._plan(), rng=rng, refit=self.refit
        )

    def _join_by_features(self, X: ArrayLike, compute: Callable[[Any], Any]) -> Any:
        """Join what is computed from the features of each batch of rows; only one batch is held at a time."""
        check_is_fitted(self)
        rows = validate_rows(self, X, reset=False, dtype=_PRECISIONS)
        fitted = self.basis_.map_
        batches = track_batches(len(rows), rows.itemsize * fitted.n_features, "classifying rows")
        return np.concatenate([compute(fitted.apply(rows[batch])) for batch in batches])

    def _scores(self, X: ArrayLike) -> Floats:
        return np.asarray(self._join_by_features(X, lambda part: class_scores(part, self.softmax_.weights)))

    def decision_function(self, X: ArrayLike) -> Floats:
        """Score of each class; with two classes, how far the second is ahead of the first."""
        if hasattr(self, "head_"):
            return np.asarray(self._join_by_features(X, self.head_.decision_function))
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: ArrayLike) -> Any:
        """Return the most likely class of each row."""
        check_is_fitted(self)
        if hasattr(self, "head_"):
            return self._join_by_features(X, self.head_.predict)
        return self.classes_[self._scores(X).argmax(axis=1)]

    @available_if(lambda self: isinstance(self.head, str))
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probability of each class."""
        return np.exp(self.predict_log_proba(X))

    @available_if(lambda self: isinstance(self.head, str))
    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithm of the probability of each class."""
        return log_probabilities(self._scores(X))

    def _require(self) -> Iterator[Fit]:
        """Check that the basis and what sits on it fit together."""
        width = self.basis_.map_.n_features
        yield "basis_", self.basis_.n_features_in_, self.n_features_in_
        if isinstance(self.head, str):
            yield "head_", hasattr(self, "head_"), False
            yield "softmax_", self.softmax_.weights.shape, (width + 1, len(self.classes_))
        else:
            yield "head_", self.head_.n_features_in_, width
            yield "head_", np.array_equal(self.head_.classes_, self.classes_), True
        if hasattr(self, "feature_names_in_"):
            yield "feature_names_in_", len(self.feature_names_in_), self.n_features_in_


_PRECISIONS = [np.float64, np.float32]
