"""Which batches run as a program: where many are alike, and a program wins back what making it costs.

Following a network's operations in Python takes time, the same for every batch. A program
(`engine.program`) does without it; compiled, it also does several operators at once. Tracing takes seconds
and compiling up to a minute, so both are done for many batches only, or where the caller asks for it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.errors import TellwhyWarning
from tellwhy.explainers.propagation.engine.program import NotTraceable, Program, first_line, traced
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs
from tellwhy.scoring.network_passes import in_range

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.base import NetworkExplainer

Work = Callable[[Inputs, Sequence[Any]], list[Result]]  # rows of a batch and their targets -> results
N_CHECKED = 2  # batches that are explained in both ways before a program goes on alone
QUICK = 0.01  # seconds: of a batch that takes less, starting kernels one by one is a good part
N_EXACT = 4  # rows that are explained in double precision, where both ways differ

# Tracing takes as long as Python needs for the operations of so many batches.
LEAST_BATCHES = 300
# Seconds that compiling takes for each operator, and the part of a batch's time that it then saves.
COMPILING = {"cuda": (0.012, 0.35), "cpu": (0.08, 0.0)}


@dataclass
class Record:
    """What is known of batches of one shape, one model and one method.

    Attributes
    ----------
    n_seen
        Batches so far.
    seconds
        What a batch takes by a program that is not compiled; 0 before it is known.
    program
        Their program, where there is one.
    like
        Results of a batch, which say how the tensors of the program are put together.
    n_checked
        Batches for which the program gave what following gives.
    is_settled
        Whether nothing more is tried: no program can be made, or it was compiled.
    """

    n_seen: int = 0
    seconds: float = 0.0
    program: Program | None = None
    like: list[Result] = field(default_factory=list)
    n_checked: int = 0
    is_settled: bool = False

    def by_program(self, rows: Inputs, targets: Sequence[Any]) -> list[Result]:
        """Results of the program."""
        assert self.program is not None
        for target, like in zip(targets, self.like, strict=True):
            if isinstance(target, np.ndarray):
                in_range(target, like.n_outputs)
        found = iter(self.program(*_given(rows, targets)))
        return [like.holding([next(found) for _ in like.tensors]) for like in self.like]

    def refuse(self) -> None:
        """Follow all batches from now on."""
        self.program = None
        self.is_settled = True


@dataclass
class Programmed:
    """`work`, which becomes a program where that pays.

    A program has to give for two batches what following their operations gives; a model that looks at values,
    or that changes from call to call, is followed as ever.

    Attributes
    ----------
    work
        Explains a batch.
    exactly
        Explains some rows in double precision.
    record
        What is known of such batches.
    size
        Rows of a full batch.
    n_left
        Full batches to come.
    compile
        "auto": where it pays; True: at once; False: never.
    """

    work: Work
    exactly: Work
    record: Record
    size: int
    n_left: int
    compile: bool | str

    def __post_init__(self) -> None:
        if self.record.program is not None:
            self.record.program.refresh()

    def __call__(self, rows: Inputs, targets: Sequence[Any]) -> list[Result]:
        """Results of a batch."""
        if len(rows) != self.size or self.compile is False:
            return self.work(rows, targets)
        record = self.record
        record.n_seen += 1
        self.n_left -= 1
        if record.program is None or record.n_checked < N_CHECKED:
            return self._followed(rows, targets)
        if not record.is_settled and (self.compile is True or self._pays_compiling(record, rows, targets)):
            self._finish(record.program, _given(rows, targets))
        return record.by_program(rows, targets)

    def _followed(self, rows: Inputs, targets: Sequence[Any]) -> list[Result]:
        """Results by following the operations; they tell whether a program is right."""
        record = self.record
        found = self.work(rows, targets)
        # As many batches as there have been so far may come again.
        is_worth = self.compile is True or self.n_left + record.n_seen >= LEAST_BATCHES
        if record.program is None and not record.is_settled and is_worth:
            self._trace(rows, targets)
        if record.program is not None:
            self._check(record.program, rows, targets, found)
        return found

    def _pays_compiling(self, record: Record, rows: Inputs, targets: Sequence[Any]) -> bool:
        """Whether the batches to come win back the time of the compiler."""
        assert record.program is not None
        seconds, saved = COMPILING.get(rows.tensors[0].device.type, (0.0, 0.0))
        if saved == 0:
            return False
        if record.seconds == 0:
            record.seconds = _seconds(record.program, _given(rows, targets))
        won = (self.n_left + record.n_seen) * record.seconds * saved
        return won > seconds * record.program.n_operators

    def _trace(self, rows: Inputs, targets: Sequence[Any]) -> None:
        n_inputs = len(rows.tensors)

        def explained(*tensors: Tensor) -> list[Tensor]:
            arrays = iter(tensors[n_inputs:])
            wanted = [next(arrays) if isinstance(t, np.ndarray) else t for t in targets]
            results = self.work(replace(rows, tensors=tensors[:n_inputs]), wanted)
            return [t for result in results for t in result.tensors]

        try:
            self.record.program = traced(explained, _given(rows, targets))
        except NotTraceable as reason:
            self.record.refuse()
            _tell(f"Batches of this network cannot run as a program, and each is followed: {reason}.")

    def _check(self, program: Program, rows: Inputs, targets: Sequence[Any], wanted: list[Result]) -> None:
        """Compare a program with what following gave; one that gives something else is not used."""
        record = self.record
        record.like = [result.rows(slice(0)) for result in wanted]
        if self.compile is True and not record.is_settled:
            self._finish(program, _given(rows, targets))
        try:
            found = record.by_program(rows, targets)
            is_right = self._is_right(found, wanted, rows)
        except Exception as error:  # whatever it is, following works
            record.refuse()
            _tell(f"The program of this network failed, and each batch is followed: {first_line(error)}")
            return
        if is_right:
            record.n_checked += 1
        else:
            record.refuse()
            _tell(
                "The program of this network gave other values than following its operations (apart by "
                f"{max(map(_apart, found, wanted)):.1g} of their size), and each batch is followed. Does the "
                "model look at values?"
            )

    def _is_right(self, found: list[Result], wanted: list[Result], rows: Inputs) -> bool:
        """Whether two results are the same but for rounding."""
        tolerance = _tolerance(wanted[0].scores.dtype)
        if max(map(_apart, found, wanted)) <= tolerance:
            return True
        # Rules with a small epsilon make much of little: two ways to round may differ by a lot, though each
        # is as near to what is exact.
        part = slice(0, min(N_EXACT, len(rows)))
        exact = self.exactly(rows.rows(part), [result.outputs[part].cpu().numpy() for result in wanted])
        return all(
            _apart(a.rows(part), c) <= 2 * _apart(b.rows(part), c) + tolerance
            for a, b, c in zip(found, wanted, exact, strict=True)
        )

    def _finish(self, program: Program, given: Sequence[Tensor]) -> None:
        """Compile a program; it stays as it is where the compiler fails, or makes nothing faster."""
        self.record.is_settled = True
        taken = _seconds(program, given)
        for graphs in (False, True):
            if graphs and not (given[0].is_cuda and taken < QUICK):
                break
            before = program.run
            try:
                program.compile(given, cuda_graphs=graphs)
                now = _seconds(program, given)
            except Exception as error:
                program.run = before
                _tell(f"PyTorch's compiler failed, and the network runs without it: {first_line(error)}")
                break
            if now > taken:
                program.run = before
            taken = min(now, taken)


def _given(rows: Inputs, targets: Sequence[Any]) -> list[Tensor]:
    """What a program takes: the inputs, and the target of each row where it has its own."""
    arrays = [np.asarray(t, dtype=np.int64) for t in targets if isinstance(t, np.ndarray)]
    return [*rows.tensors, *(torch.tensor(t, device=rows.tensors[0].device) for t in arrays)]


def _now(given: Sequence[Tensor]) -> float:
    """Time when all that was asked of the device is done."""
    if given[0].is_cuda:
        torch.cuda.synchronize(given[0].device)
    return time.perf_counter()


def _seconds(program: Program, given: Sequence[Tensor]) -> float:
    """What a program takes for a batch, the best of some times."""
    taken = []
    for _ in range(4):  # the first ones of a recorded program warm up and record
        started = _now(given)
        program(*given)
        taken.append(_now(given) - started)
    return min(taken)


def _apart(found: Result, wanted: Result) -> float:
    """How far two results are apart, as a share of their size."""
    return max(map(_share_apart, found.tensors, wanted.tensors))


def _share_apart(a: Tensor, b: Tensor) -> float:
    # By squares, not the largest: a unit that is zero but for rounding may be on in one and off in the other.
    size = torch.linalg.vector_norm(b.double())
    far = torch.linalg.vector_norm(a.double() - b.double())
    return float(far / size) if size > 0 else float(far)


def _tolerance(dtype: torch.dtype) -> float:
    """How far apart sums in another order may be: 1e-2 in single precision, 4e-7 in double."""
    return min(0.5, 30 * torch.finfo(dtype).eps ** 0.5)


def _tell(what: str) -> None:
    warnings.warn(what, TellwhyWarning, stacklevel=2)


_records: WeakKeyDictionary[NetworkExplainer, dict[Any, Record]] = WeakKeyDictionary()


def record_of(
    explainers: Sequence[NetworkExplainer], model: Module, rows: Inputs, targets: Sequence[Any], size: int
) -> Record | None:
    """What is known of such batches; None where no program can serve them all.

    It is kept as long as the explainer lives, for the same settings, model and shape.
    """
    lead = explainers[0]
    ways = [way.method for explainer in explainers for way in explainer.passes()]
    wanted = ["its own" if isinstance(t, np.ndarray) else t for t in targets]
    key = key_of(lead, model, rows, wanted, size)
    if any(method.own for method in ways) or key is None:
        return None
    return Record() if len(explainers) > 1 else _records.setdefault(lead, {}).setdefault(key, Record())


def key_of(
    explainer: NetworkExplainer, model: Module, rows: Inputs, targets: Sequence[Any], size: int
) -> tuple[Any, ...] | None:
    """What batches have in common that one program serves; None where each one is to be followed."""
    if _is_watched(model) or any(map(callable, targets)):
        return None
    wanted = [t.tobytes() if isinstance(t, np.ndarray) else t for t in targets]
    batch = [(t.shape[1:], t.stride(), t.dtype, t.device) for t in rows.tensors]
    asked = (size, str(batch), str(wanted), rows.names, rows.nonnegative)
    return (*asked, _settings(explainer), _state(model))


def _is_watched(model: Module) -> bool:
    """Whether somebody's functions are called when modules run."""
    return any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())


def _settings(owner: Any) -> tuple[Any, ...]:
    """Attributes as they can be compared: numbers and words themselves, all else by which object it is."""
    return tuple((name, _plain(value)) for name, value in vars(owner).items() if not name.startswith("__"))


def _plain(value: Any) -> Any:
    if isinstance(value, (int, float, str, bool, type(None))):
        return value
    return (id(value), repr(value)) if isinstance(value, (tuple, dict, list)) else id(value)


def _state(model: Module) -> tuple[Any, ...]:
    """Which modules and parameters a model is made of, and the settings of its modules."""
    tensors = [*model.parameters(), *model.buffers()]
    parts = tuple((id(t), t.data_ptr(), t.dtype, t.shape) for t in tensors)
    return parts, tuple((id(module), _own_settings(module)) for module in model.modules())


def _own_settings(module: Module) -> tuple[Any, ...]:
    given = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return tuple((name, _plain(value)) for name, value in given.items())
