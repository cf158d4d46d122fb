"""Explaining rows batch by batch: each forward pass serves one explainer, or several of the same model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.errors import InvalidParameter, TellwhyWarning
from tellwhy.core.params import generator
from tellwhy.core.progress import track
from tellwhy.core.score import Floats
from tellwhy.explainers.propagation.engine.calls import Operation
from tellwhy.explainers.propagation.engine.passes import Forward, needs_capture, run_backward, run_forward
from tellwhy.explainers.propagation.programs import Programmed, Work, record_of
from tellwhy.explainers.propagation.results import Collector, DeviceCollector, Result, on_device
from tellwhy.scoring.network_inputs import Inputs
from tellwhy.scoring.network_passes import (
    CheckedTarget,
    check_target,
    choose_outputs,
    describe,
    of_rows,
    pick_scores,
    placed,
    untouched,
)

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.base import NetworkExplainer, Pass


# What hands on all relevance whatever its numbers are; products, softmax, norms and constants may not.
_FAITHFUL = frozenset(("copying", "rectifier", "elementwise", "addition", "pooling"))


def is_promised(operations: Sequence[Operation]) -> bool:
    """Whether all operations, by the rules that were chosen for them, promise to hand on all relevance."""
    return all(_promises(operation) for operation in operations if not operation.merged)


def _promises(operation: Operation) -> bool:
    if operation.kind != "layer":
        return operation.kind in _FAITHFUL
    if operation.rule is None:
        return False
    if operation.rule.conserves == "without bias":
        return operation.layer is not None and operation.layer.bias is None
    return operation.rule.conserves == "always"


TOLERANCE = 0.05  # of a score that may be missing without a word


def warn_if_lost(method: str, scores: Floats, attributed: Floats) -> None:
    """Warn where more of the scores is missing than is said to be possible."""
    known = np.abs(scores) > 0
    if not known.any():
        return
    missing = np.abs(scores - attributed)[known] / np.abs(scores)[known]
    lost = missing > TOLERANCE
    if lost.any():
        row = int(np.flatnonzero(known)[np.argmax(missing)])
        warnings.warn(
            f"{method} promises that its values add up to the output, and in {int(lost.sum())} of "
            f"{len(scores)} rows more than {TOLERANCE:.0%} of it is missing "
            f"(row {row}: {missing.max():.0%}). An operation got relevance and had nobody to give it to: "
            "`ledger(x)` says which.",
            TellwhyWarning,
            stacklevel=2,
        )


@dataclass(frozen=True)
class Explained:
    """Which number was explained: in words, and the number of each row's output where it is one."""

    explains: str
    extras: dict[str, Any]


def explain_together(
    explainers: Sequence[NetworkExplainer], X: Any, *, output: str = "numpy", compile: bool | str = "auto"
) -> list[Any]:
    """Explain X by explainers of one model, device and batch size, which share each forward pass."""
    lead = explainers[0]
    model, rows = lead.prepare(X)
    for other in explainers[1:]:
        other.check()
    targets = [check_target(e.target, len(rows)) for e in explainers]
    run = partial(_explained, output=output, compile=compile)
    devices = lead.devices
    if len(devices) < 2:
        wholes = run(explainers, model, rows, targets)
    else:
        wholes = _side_by_side(run, explainers, devices, rows, targets)
    return [
        finish(e, X, rows, whole, target, output=output)
        for e, whole, target in zip(explainers, wholes, targets, strict=True)
    ]


Run = Callable[[Sequence["NetworkExplainer"], Module, Inputs, Sequence[CheckedTarget]], list[Result]]


def _explained(
    explainers: Sequence[NetworkExplainer],
    model: Module,
    rows: Inputs,
    targets: Sequence[CheckedTarget],
    *,
    output: str,
    compile: bool | str,
) -> list[Result]:
    """Results of all rows, by each explainer."""
    collector_of = DeviceCollector if output == "torch" else Collector
    collectors = [collector_of(len(rows), partial(e.raise_not_finite, model)) for e in explainers]
    label = f"explaining with {', '.join(type(e).__name__ for e in explainers)}"
    with untouched(rows.tensors[0].device), torch.enable_grad():
        fitting = Fitting(_work(explainers, model, Down(explainers, model, len(rows), compile)))
        for batch, part in batches(rows, explainers[0].rows_at_once, label):
            results = fitting(batch, [of_rows(target, part) for target in targets])
            for result, collector in zip(results, collectors, strict=True):
                collector.put(batch, part, result)
        return [collector.all_rows() for collector in collectors]


def _side_by_side(
    run: Run,
    explainers: Sequence[NetworkExplainer],
    devices: Sequence[Any],
    rows: Inputs,
    targets: Sequence[CheckedTarget],
) -> list[Result]:
    """The same on several devices: each has a copy of the network, and as many batches as the others."""
    if not explainers[0].goes_down_only:
        raise InvalidParameter(f"{type(explainers[0]).__name__} works on one device. Got {len(devices)}.")
    size = explainers[0].rows_at_once
    each = size * -(-len(rows) // (size * len(devices)))
    parts = [slice(start, start + each) for start in range(0, len(rows), each)]

    def one(device: Any, part: slice) -> list[Result]:
        there = placed(explainers[0].model, device)
        wanted = [of_rows(target, part) for target in targets]
        # Copies of the explainers, by which programs are known: those of one device are its own.
        own = [copy.copy(explainer) for explainer in explainers]
        return run(own, there.model, rows.rows(part).to(there.device), wanted)

    with ThreadPoolExecutor(len(devices)) as pool:
        found = list(pool.map(one, devices, parts))
    place = found[0][0].scores.device
    wholes = found[0]
    for results in found[1:]:
        wholes = [whole.followed_by(part.to(place)) for whole, part in zip(wholes, results, strict=True)]
    return wholes


def _work(explainers: Sequence[NetworkExplainer], model: Module, down: Down) -> Work:
    """How each batch is explained: by the ways down, or by an explainer that makes batches of its own."""
    lead = explainers[0]
    if lead.goes_down_only:
        return down
    rng = generator(lead.random_state)

    def work(rows: Inputs, targets: Sequence[CheckedTarget]) -> list[Result]:
        return [lead.explain_batch(model, rows, targets[0], rng=rng, down=down)]

    return work


class Down:
    """The ways down of explainers, from each batch; as a program where many are alike.

    `n_rows` is how many rows are explained. Of an explainer that goes down only, the last batch, which may be
    smaller, is followed.
    """

    def __init__(
        self, explainers: Sequence[NetworkExplainer], model: Module, n_rows: int, compile: bool | str
    ):
        self._explainers = explainers
        self._model = model
        self._n_rows = n_rows
        self._compile = compile
        self._by_size: dict[int, Work] = {}

    def __call__(self, rows: Inputs, targets: Sequence[CheckedTarget]) -> list[Result]:
        """Results of a batch."""
        if len(rows) not in self._by_size:
            self._by_size[len(rows)] = self._work(rows, targets)
        return self._by_size[len(rows)](rows, targets)

    def _work(self, rows: Inputs, targets: Sequence[CheckedTarget]) -> Work:
        followed = partial(share_forward, self._explainers, self._model)
        lead = self._explainers[0]
        is_last = lead.goes_down_only and len(rows) < min(self._n_rows, lead.rows_at_once)
        if is_last or self._compile is False:
            return followed
        record = record_of(self._explainers, self._model, rows, targets, len(rows))
        if record is None:
            return followed
        exactly = partial(_exactly, self._explainers, self._model)
        # Another explainer makes batches of its own, of each row at least one of every size.
        n_batches = self._n_rows // len(rows) if lead.goes_down_only else self._n_rows
        return Programmed(followed, exactly, record, len(rows), n_batches, self._compile)


class Fitting:
    """`work` on as many rows at once as the memory of a GPU holds: on halves of a batch that is too large."""

    def __init__(self, work: Work):
        self._work = work
        self._most: int | None = None  # rows that fitted, once some did not

    def __call__(self, rows: Inputs, targets: Sequence[CheckedTarget]) -> list[Result]:
        """Results of a batch."""
        if self._most is None or len(rows) <= self._most:
            try:
                return self._work(rows, targets)
            except torch.OutOfMemoryError:
                if len(rows) == 1:
                    raise
                self._take_fewer(len(rows))
        # Here, not above: the error holds the tensors of the batch that did not fit.
        torch.cuda.empty_cache()
        middle = len(rows) // 2
        halves = [
            self(rows.rows(part), [of_rows(target, part) for target in targets])
            for part in (slice(0, middle), slice(middle, None))
        ]
        return [first.followed_by(second) for first, second in zip(*halves, strict=True)]

    def _take_fewer(self, n_rows: int) -> None:
        if self._most is None:
            warnings.warn(
                f"{n_rows} rows at once do not fit in the memory of the device, and fewer are taken. "
                "Setting batch_size saves the attempt.",
                TellwhyWarning,
                stacklevel=2,
            )
        self._most = n_rows // 2


def _exactly(
    explainers: Sequence[NetworkExplainer], model: Module, rows: Inputs, targets: Sequence[CheckedTarget]
) -> list[Result]:
    """Results in double precision, by a copy of the model."""
    wider = tuple(t.double() if t.is_floating_point() else t for t in rows.tensors)
    return share_forward(explainers, copy.deepcopy(model).double(), replace(rows, tensors=wider), targets)


def share_forward(
    explainers: Sequence[NetworkExplainer],
    model: Module,
    rows: Inputs,
    targets: Sequence[CheckedTarget],
) -> list[Result]:
    """Run the model once on some rows, then the ways down of every explainer."""
    try:
        return _down(explainers, model, rows, targets)
    except RuntimeError as error:
        if "inplace operation" not in str(error):
            raise
    needs_capture.add(model)  # it changes in place what autograd kept: capture works on copies
    return _down(explainers, model, rows, targets)


def _down(
    explainers: Sequence[NetworkExplainer],
    model: Module,
    rows: Inputs,
    targets: Sequence[CheckedTarget],
) -> list[Result]:
    ways = [(k, way) for k, explainer in enumerate(explainers) for way in explainer.passes()]
    forward = run_forward(model, rows, [way.method for _, way in ways])
    sums: dict[int, list[Tensor]] = {}
    scores: dict[int, Tensor] = {}
    promised: dict[int, bool] = {}
    for number, (k, way) in enumerate(ways, start=1):
        pick = partial(pick_scores, target=targets[k])
        handed = run_backward(forward, way.method, pick, way.seed, is_last=number == len(ways))
        scores[k] = handed.scores
        parts = handed.values if way.weight == 1 else [way.weight * v for v in handed.values]
        sums[k] = [a + b for a, b in zip(sums[k], parts, strict=True)] if k in sums else parts
        promised[k] = promised.get(k, True) and is_promised(forward.capture.operations)
    chosen = [choose_outputs(forward.outputs, target) for target in targets]
    n_outputs = forward.outputs.shape[1:].numel()
    bases = [_base(forward, target, own) for target, own in zip(targets, chosen, strict=True)]
    return [
        Result(sums[k], scores[k], chosen[k], forward.softmax, promised[k], n_outputs, bases[k])
        for k in range(len(explainers))
    ]


def _base(forward: Forward, target: CheckedTarget, chosen: Tensor) -> Tensor | None:
    """The explained number of what each row is compared with, if it is compared with anything."""
    if forward.compared is None:
        return None
    outputs = forward.compared[1]
    if callable(target):
        return pick_scores(outputs, target).expand(chosen.shape)
    return pick_scores(outputs.expand(chosen.shape[0], *outputs.shape[1:]), chosen)


def batches(rows: Inputs, size: int, label: str) -> Iterator[tuple[Inputs, slice]]:
    """Yield the rows in parts, and where each part is."""
    starts = range(0, len(rows), size)
    for start in track(starts, len(starts), label):
        part = slice(start, start + size)
        yield rows.rows(part), part


def forwards(
    explainer: NetworkExplainer, X: Any, way: Pass, label: str, *, target: Any = None, **asked: Any
) -> Iterator[tuple[Forward, Callable[[Tensor], Tensor], slice]]:
    """Forward passes of all batches, what picks the score of each row, and which rows they are.

    Scores are those of the explainer's target, or of another one.
    """
    model, rows = explainer.prepare(X)
    target = check_target(explainer.target if target is None else target, len(rows))
    with untouched(rows.tensors[0].device), torch.enable_grad():
        for batch, part in batches(rows, explainer.rows_at_once, label):
            forward = run_forward(model, batch, [way.method], **asked)
            yield forward, partial(pick_scores, target=of_rows(target, part)), part


def finish(
    explainer: NetworkExplainer,
    X: Any,
    rows: Inputs,
    whole: Result,
    target: CheckedTarget,
    *,
    output: str = "torch",
) -> Any:
    """One explanation per input, in the form of X."""
    outputs = {} if callable(target) else {"output": whole.outputs.cpu().numpy().astype(np.int64)}
    what = Explained(describe(target, whole.softmax), outputs)
    parts = [on_device(explainer, given, k, whole, what) for k, given in enumerate(rows.given(X))]
    if output == "torch":
        return rows.like_given(parts)
    explainer.warn(whole)
    return rows.like_given([part.numpy() for part in parts])
