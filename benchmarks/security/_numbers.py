"""Attacks on numbers: certificates, functions that write into their rows, units, made-up models."""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy import classifiers, detectors
from tellwhy.classifiers.svm.problem import Labels, make_problem
from tellwhy.classifiers.svm.solver import Settings, solve
from tellwhy.classifiers.svm.training.job import Job
from tellwhy.classifiers.svm.training.run import train
from tellwhy.core.errors import TellwhyError
from tellwhy.core.registry import cards
from tellwhy.explainers import AnomalyShapley, Compensation, IntegratedGradients, KernelShap, Occlusion
from tellwhy.scoring import FunctionScore

Row = tuple[str, int, int]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = np.argmax(X[:, :3] + RNG.normal(size=(60, 3)), axis=1)
SVMS = {
    "ww": classifiers.WestonWatkinsSVM,
    "cs": classifiers.CrammerSingerSVM,
    "llw": classifiers.LeeLinWahbaSVM,
    "ovr": classifiers.OneVsRestSVM,
}
SCALES = [10.0**k for k in (-300, -160, -38, -20, -3, 0, 3, 15, 19, 30, 38, 100, 150, 160, 300)]


def _exact_gap(loss: str, duals: Any) -> float:
    """The gap of dual variables, computed in double precision from the data."""
    rows = sparse.csr_array(X)
    problem = make_problem(rows, Labels.of_classes(Y), np.ones(60), n_classes=3, loss=loss, dtype="float64")
    exact = SVMS[loss]._engine(problem, n_blocks=None, n_jobs=1, seed=np.random.default_rng(0))
    exact.set_duals(duals.astype(np.float64))
    return float(exact.certify(np.inf).gap)


def _is_false(loss: str, scale: float, dtype: str, *, one_cell: bool) -> bool:
    rows = X.copy()
    if one_cell:
        rows[5, 2] *= scale
    else:
        rows *= scale
    try:
        model = SVMS[loss](dtype=dtype, max_epochs=30, random_state=0).fit(rows, Y)
    except TellwhyError:
        return False
    sound = math.isfinite(model.objective_) and 0 <= model.dual_gap_ <= 1 + 1e-9
    return not (sound and np.isfinite(model.coef_).all())


def certificates() -> Row:
    """Scales from 1e-300 to 1e300, of all cells or of one, and claims compared with the exact gap."""
    attempts = failures = 0
    for loss, scale, dtype, one in itertools.product(SVMS, SCALES, ("float32", "float64"), (True, False)):
        attempts += 1
        failures += _is_false(loss, scale, dtype, one_cell=one)
    for loss, dtype, tol, seed in itertools.product(
        SVMS, ("float32", "float64"), (1e-2, 1e-3, 1e-4), range(3)
    ):
        problem = make_problem(
            sparse.csr_array(X), Labels.of_classes(Y), np.ones(60), n_classes=3, loss=loss, dtype=dtype
        )
        engine = SVMS[loss]._engine(problem, n_blocks=None, n_jobs=1, seed=np.random.default_rng(seed))
        claimed = solve(engine, Settings(tol=tol, max_epochs=2000)).last["gap"]
        attempts += 1
        failures += claimed < _exact_gap(loss, engine.duals()) - 1e-5
    return "3 certificates of numbers at the edge, compared with the exact gap", attempts, failures


def _stopped_job(place: Path) -> Job:
    lines = [
        f"{y + 1} " + " ".join(f"{j + 1}:{v:.6f}" for j, v in enumerate(x)) for x, y in zip(X, Y, strict=True)
    ]
    (place / "d.svm").write_text("\n".join(lines) + "\n")
    job = Job(str(place / "d.svm"), str(place / "m"), tol=1e-9, max_epochs=10**6, checkpoint_every=1)

    def stop(line: str) -> None:
        if int(line.split()[1]) >= 10:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        train(job, stop)
    return job


def checkpoints(n: int = 300) -> Row:
    """Dual variables of a checkpoint changed at random: refused, or certified as what they are."""
    failures = 0
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as made:
        job = _stopped_job(Path(made))
        path = job.checkpoint / "rank-0.npz"
        head = job.checkpoint / "checkpoint.json"
        kept = head.read_text()
        with np.load(path) as stored:
            arrays = dict(stored)
        best = train(
            Job(**{**vars(job), "tol": 1e-6, "max_epochs": 20_000, "out": made + "/best"})
        ).objective_
        for _ in range(n):
            changed = {name: array.copy() for name, array in arrays.items()}
            at = rng.integers(len(changed["val"]), size=3)
            change = rng.integers(5)
            if change == 0:
                changed["val"][at] = rng.choice([-1.0, 5.0, 1e9, -1e-3, 1e300], 3)
            if change == 1:
                changed["row"][at] = rng.integers(60, size=3)
            if change == 2:
                changed["cls"][at] = rng.integers(3, size=3)
            if change == 3:
                changed["val"] *= rng.choice([0.0, 0.5, 2.0, -1.0])
            if change == 4:
                lines = {
                    **json.loads(kept)["history"][-1],
                    "gap": 0.0,
                    "objective": float(rng.choice([0.0, 1e9])),
                }
                head.write_text(json.dumps({**json.loads(kept), "history": [lines]}))
            np.savez(path, **changed)
            try:
                model = train(Job(**{**vars(job), "tol": 1e-3, "resume": True, "out": job.out}))
                failures += not (0 <= model.dual_gap_ <= 1e-3 and abs(model.objective_ - best) <= 2e-3 * best)
            except TellwhyError:
                pass
            if not job.checkpoint.exists():  # a training that ends removes its checkpoint
                job = _stopped_job(Path(made))
            head.write_text(kept)
    return "3 checkpoints whose variables or claims were changed", n, failures


def _writers() -> list[Any]:
    def honest(rows: Any) -> Any:
        return (rows**2).sum(axis=1)

    def assigns(rows: Any) -> Any:
        rows **= 2
        return rows.sum(axis=1)

    def sorts(rows: Any) -> Any:
        scores = honest(rows)
        rows.sort(axis=1)
        return scores

    def one_cell(rows: Any) -> Any:
        scores = honest(rows)
        rows[0, 0] = 1e6
        return scores

    def in_c(rows: Any) -> Any:
        scores = honest(rows)
        ctypes.memset(rows.ctypes.data, 0, rows.nbytes)
        return scores

    def sets_flags(rows: Any) -> Any:
        scores = honest(rows)
        rows.flags.writeable = True
        rows[:] = -1
        return scores

    return [honest, assigns, sorts, one_cell, in_c, sets_flags]


class _Own:
    feature_shape = None
    feature_names = None
    describes = "a score of my own"
    threshold = None

    def __init__(self, function: Any, gradient: Any):
        self.value = function
        self.gradient = gradient


def writing_functions() -> Row:
    """Functions that write into their rows: the user's arrays and the values stay as they were."""
    attempts = failures = 0
    honest, *others = _writers()
    methods = (KernelShap, AnomalyShapley, Compensation, Occlusion, IntegratedGradients)

    def slopes(rows: Any) -> Any:
        rows *= 2
        return rows

    for method, other, is_own, order in itertools.product(methods, others, (True, False), "CF"):
        found = []
        for function, gradient in ((honest, lambda rows: 2 * rows), (other, slopes)):
            score = _Own(function, gradient) if is_own else FunctionScore(function, gradient=gradient)
            background = np.array(X, order=order)
            rows = np.array(X[:3] + 3.0, order=order)
            found.append(method(score).fit(background).explain(rows).values)
            failures += not (np.array_equal(background, X) and np.array_equal(rows, X[:3] + 3.0))
        attempts += 1
        failures += not np.array_equal(*found)
    return "4 score functions that write into their rows", attempts, failures


def extreme_rows() -> Row:
    """Cells of 1e±160 in one column, all columns or the explained rows only: finite results or an error."""
    attempts = failures = 0
    methods = [card.cls for card in cards("explainer") if card.name != "DMMMEN"]
    for name in (
        "KernelDensity",
        "NearestNeighbours",
        "GaussianMixture",
        "OneClassSVM",
        "PCADetector",
        "SVDD",
    ):
        for scale, which in itertools.product((1e-160, 1e160), ("all", "column", "rows")):
            factor = np.array([1.0, scale, 1.0, 1.0]) if which == "column" else scale
            background = X * (1.0 if which == "rows" else factor)
            rows = X[:2] * factor
            try:
                model = getattr(detectors, name)().fit(background)
            except TellwhyError:
                continue
            for method in methods:
                attempts += 1
                try:
                    explainer = method(model)
                    if hasattr(explainer, "fit"):
                        explainer.fit(background)
                    found = explainer.explain(rows)
                except TellwhyError:
                    continue
                failures += not all(
                    np.isfinite(a).all() for a in (found.values, found.scores, found.base_values)
                )
    return "10 explanations of cells of 1e±160", attempts, failures


def units() -> Row:
    """Shares of AnomalyShapley and Compensation in other units of the columns."""
    attempts = failures = 0
    for name in ("NearestNeighbours", "KernelDensity", "SVDD", "GaussianMixture", "PCADetector"):
        for method, factor in itertools.product((AnomalyShapley, Compensation), (1e-6, 1e-3, 1e3, 1e6)):
            found = []
            for unit in (1.0, factor):
                model = getattr(detectors, name)().fit(X * unit)
                values = method(model).fit(X * unit).explain((X[:3] + 2.0) * unit).values
                found.append(values / np.abs(values).sum(axis=1, keepdims=True))
            attempts += 1
            failures += bool(np.abs(found[0] - found[1]).max() > 5e-3)
    return "10 shares in other units of the columns", attempts, failures


def rows() -> list[Row]:
    """All attacks of this file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [certificates(), checkpoints(), writing_functions(), extreme_rows(), units()]
