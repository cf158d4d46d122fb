"""What a job does beside training: choosing C, and labelling every row by a model that has not seen it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tellwhy.classifiers.chosen_c import find_best_c, score_each_c
from tellwhy.classifiers.out_of_fold import OutOfFold, label_out_of_fold
from tellwhy.classifiers.svm.multiclass_svm import MulticlassSVM
from tellwhy.classifiers.svm.training.files import LabelledRows, read_rows
from tellwhy.classifiers.svm.training.job import Job

FOLDS_OF_C = 5
GRID = (0.01, 0.1, 1.0, 10.0)  # of C, where none is named


def read_rows_of_job(job: Job) -> LabelledRows:
    """Read the rows of a job, scaled as the training has them."""
    return read_rows(Path(job.data), label=job.label, scale=job.scaling)


def choose_c_of_job(job: Job, X: Any, y: NDArray[Any], Cs: Sequence[float]) -> float:
    """Return the best of some values of C, by cross-validation on the rows that are trained on."""
    tried = score_each_c(job.make_estimator(), X, y, Cs=Cs, cv=FOLDS_OF_C, n_jobs=job.threads, seed=job.seed)
    return find_best_c(*tried)


def judge_rows(job: Job, model: MulticlassSVM, folds: int) -> OutOfFold:
    """Label every row by a model that has not seen it; calibrate and save the model of the job by that."""
    rows = read_rows_of_job(job)
    found = label_out_of_fold(
        job.make_estimator(), rows.X, rows.y, folds=folds, n_jobs=job.threads, seed=job.seed
    )
    model.temperature_ = found.temperature
    model.save(job.out)
    return found
