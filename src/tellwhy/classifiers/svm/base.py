"""What the multi-class SVMs share: scikit-learn's interface over one solver."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from tellwhy.classifiers.svm import weights
from tellwhy.classifiers.svm.fit_input import (
    ReadLabels,
    checked_rows_and_labels,
    read_labels,
    row_caps,
)
from tellwhy.classifiers.svm.linear_scores import LinearScores
from tellwhy.classifiers.svm.problem import (
    Problem,
    feasible,
    make_multilabel_problem,
    make_problem,
    memory_for,
    rescaled,
    why_infeasible,
    with_intercept,
)
from tellwhy.classifiers.svm.solver import Engine, Progress, Settings, is_done, solve
from tellwhy.core.errors import NotConverged
from tellwhy.core.params import (
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
from tellwhy.storage.saved_models import SavedModel


class MulticlassSVM(SavedModel, LinearScores):
    """Base of the multi-class SVMs; subclasses name their loss, its solver, and what labels rows may have."""

    _loss: ClassVar[str]
    _engine: ClassVar[type[Any]]
    _multilabel: ClassVar[bool] = False
    _model_io = "tellwhy.classifiers.model_io"
    _parameters: ClassVar[dict[str, Rules]] = {
        "C": real(0),
        "tol": real(0),
        "stopping": one_of("gap", "violation"),
        "max_epochs": integer(1),
        "fit_intercept": boolean,
        "intercept_scaling": real(0),
        "class_weight": (none, one_of("balanced"), instance_of(dict, words="a dict")),
        "n_jobs": (none, one_of(-1), integer(1)),
        "n_bundles": (one_of("auto"), integer(1)),
        "shrinking": boolean,
        "dtype": one_of("float64", "float32"),
        "warm_start": boolean,
        "random_state": seed,
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: float = 1e-3,
        stopping: str = "gap",
        max_epochs: int = 1000,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: str | dict[Any, float] | None = None,
        n_jobs: int | None = None,
        n_bundles: str | int = "auto",
        shrinking: bool = True,
        dtype: str = "float64",
        warm_start: bool = False,
        random_state: Seed = None,
    ):
        self.C = C
        self.tol = tol
        self.stopping = stopping
        self.max_epochs = max_epochs
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.n_bundles = n_bundles
        self.shrinking = shrinking
        self.dtype = dtype
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the weights of all classes together.

        Parameters
        ----------
        X
            Rows, sparse or dense.
        y
            One class per row; for estimators that take label sets also a 0/1 matrix, rows × labels.
        sample_weight
            Factor of C per row.
        """
        validate_parameters(self)
        problem = self._problem(X, y, sample_weight)
        with memory_for(problem):
            engine = self._engine(
                problem,
                n_blocks=None if self.n_bundles == "auto" else int(self.n_bundles),
                n_jobs=joblib.effective_n_jobs(self.n_jobs),
                seed=generator(self.random_state),
            )
        try:
            progress = self._ascend(engine, problem)
            self._keep(engine.weights(), progress)
            if self.warm_start:
                self.dual_coef_ = engine.duals()
                self.dual_caps_ = problem.caps
        finally:
            engine.close()
        return self

    def path(
        self, X: Any, y: ArrayLike, Cs: Iterable[float], sample_weight: ArrayLike | None = None
    ) -> list[Self]:
        """Fit one model per C, each started from the one before; best in increasing order."""
        models: list[Self] = []
        for C in Cs:
            model = clone(self).set_params(C=C, warm_start=True)
            if models:
                for name in ("dual_coef_", "dual_caps_", "classes_"):
                    setattr(model, name, getattr(models[-1], name))
            models.append(model.fit(X, y, sample_weight))
        return models

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self._multilabel
        return tags

    def _problem(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Problem:
        """Check what is given, set `classes_` and return the problem to solve."""
        owner = type(self).__name__
        rows, y = checked_rows_and_labels(self, X, y, takes_sets=self._multilabel)
        found = read_labels(y, takes_sets=self._multilabel, owner=owner)
        self._take_classes(found)
        caps = row_caps(
            rows, found, C=self.C, sample_weight=sample_weight, class_weight=self.class_weight, owner=owner
        )
        if self.fit_intercept:
            rows = with_intercept(rows, self.intercept_scaling)
        n_classes = len(found.classes)
        if found.are_sets and self._loss == "ww":
            # One class more, the threshold that tells a row's labels from the others.
            return make_multilabel_problem(
                rows, found.labels, caps, n_classes=n_classes + 1, dtype=self.dtype
            )
        return make_problem(rows, found.labels, caps, n_classes=n_classes, loss=self._loss, dtype=self.dtype)

    def _take_classes(self, found: ReadLabels) -> None:
        """Set `classes_`; dual variables of other classes are no start for these."""
        before = getattr(self, "classes_", None)
        self.multilabel_ = found.are_sets
        self.classes_ = found.classes
        if not found.are_sets and before is not None and not np.array_equal(before, self.classes_):
            self.__dict__.pop("dual_coef_", None)

    def _ascend(self, engine: Engine, problem: Problem) -> Progress:
        settings = Settings(self.tol, self.stopping, self.max_epochs, self.shrinking)
        before = getattr(self, "dual_coef_", None) if self.warm_start else None
        warm = before is not None and before.shape == (problem.n_examples, problem.n_classes)
        if before is not None and warm:
            start = feasible(rescaled(before, self.dual_caps_, problem.caps), problem)
            # Variables that were changed, or read from a file, may be no start: then there is none.
            warm = why_infeasible(start, problem) is None
            if warm:
                engine.set_duals(start)
        progress = solve(engine, settings, warm=warm)
        if not is_done(progress, settings):
            passes = "1 epoch" if progress.epochs == 1 else f"{progress.epochs} epochs"
            warnings.warn(
                f"{type(self).__name__} stopped after {passes} at a relative duality gap of "
                f"{progress.last['gap']:.2g}; asked for {self.tol:g}. Raise max_epochs or tol, lower C, or "
                "scale rows to unit length or columns to unit variance.",
                NotConverged,
                stacklevel=3,
            )
        return progress

    def adopt(
        self, coef: Any, classes: Any, progress: Progress, *, feature_names: list[str] | None = None
    ) -> None:
        """Take weights that were trained elsewhere: CSR, classes × features, the intercept's feature last."""
        self.classes_ = classes
        self.multilabel_ = False
        self.n_features_in_ = coef.shape[1] - int(self.fit_intercept)
        if feature_names is not None:
            self.feature_names_in_ = np.array(feature_names, dtype=object)
        self._keep_history(progress)
        self._set_weights(coef)

    def _keep(self, learned: Any, progress: Progress) -> None:
        """Set what was learned, weights of features × classes; the last class may be the threshold."""
        if self.multilabel_ and self._loss == "ww":
            # Scores count from the threshold's, so that a label is one whose score is positive.
            learned = learned[:, :-1] - learned[:, -1:]
        self._set_weights(np.ascontiguousarray(learned.T))
        self._keep_history(progress)

    def _set_weights(self, coef: Any) -> None:
        """Set `coef_` and `intercept_` from weights, classes × features, the intercept's feature last."""
        self.intercept_ = np.zeros(coef.shape[0], dtype=coef.dtype)
        if self.fit_intercept:
            self.intercept_ = weights.dense(coef[:, [-1]]).ravel() * self.intercept_scaling
            coef = coef[:, :-1]
        self.coef_ = weights.stored(coef)

    def _keep_history(self, progress: Progress) -> None:
        self.history_ = progress.history
        self.n_iter_ = progress.epochs
        self.objective_ = progress.last["objective"]
        self.dual_gap_ = progress.last["gap"]
        # What belonged to the weights before.
        for name in ("temperature_", "centre_"):
            self.__dict__.pop(name, None)
