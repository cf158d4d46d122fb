"""What every explainer of networks shares: reading the input, batches, targets, and the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.extras import Extras
from tellwhy.core.params import (
    Rule as ParameterRule,
    Rules,
    generator,
    instance_of,
    integer,
    none,
    validate_parameters,
)
from tellwhy.core.progress import track
from tellwhy.explainers.propagation.engine.methods import Method
from tellwhy.explainers.propagation.engine.passes import (
    first_not_finite,
    run_backward,
    run_forward,
)
from tellwhy.explainers.propagation.found import Found, Room
from tellwhy.explainers.propagation.inputs import Inputs, read_inputs, readable
from tellwhy.scoring.scores.network_passes import check_model, placed, untouched
from tellwhy.scoring.scores.network_targets import check_target, chosen_outputs, describe, pick_scores

if TYPE_CHECKING:
    import pandas as pd

NETWORK_PARAMETERS: dict[str, Rules] = {
    "target": ParameterRule(
        "'max', an output's number, one per row, or a function", lambda value: value is not None
    ),
    "batch_size": integer(1),
    "device": (none, instance_of(str, torch.device, words="a device")),
}


@dataclass(frozen=True)
class Pass:
    """One way down: a method, and what each row's score hands down; the passes of an explainer add up by `weight`."""

    method: Method
    seed: Callable[[Tensor], Tensor] = torch.ones_like
    weight: float = 1.0


@dataclass(frozen=True)
class Explained:
    """Which number was explained: in words, and the number of each row's output where it is one."""

    explains: str
    extras: dict[str, Any]


class NetworkExplainer(ABC):
    """Base of the explainers of networks: `explain(x)` gives an `Explanation` of one output of each row."""

    kind: ClassVar[str] = "attribution"
    shares_forward: ClassVar[bool] = True  # whether one forward pass on the rows is all it needs
    random_state: Any = 0  # of the methods that draw random numbers
    _parameters: ClassVar[dict[str, Rules]] = NETWORK_PARAMETERS

    def __init__(self, model: Module, target: Any = "max", *, batch_size: int = 32, device: Any = None):
        self.model = model
        self.target = target
        self.batch_size = batch_size
        self.device = device

    def explain(self, x: Any) -> Any:
        """Explain the model's output for each row of x.

        Parameters
        ----------
        x
            A tensor or an array (n, *shape); for models of several inputs a tuple of them, or a dict by the
            names of forward's arguments.

        Returns
        -------
        An `Explanation`; for several inputs one of each, in a tuple or a dict like x. There the residual of
        each is that of the whole, and its `base_values` are what the other inputs got.
        """
        return explain_together([self], x)[0]

    def ledger(self, x: Any) -> pd.DataFrame:
        """Relevance that arrived at each operation, that it handed on, and that it absorbed, summed over the rows.

        What all operations absorbed adds up to the residual of `explain(x)` where the output is what is
        handed down.
        """
        import pandas as pd

        if self.kind != "attribution":
            raise InvalidInput(
                f"{type(self).__name__} has no ledger: its values are not shares of the output."
            )
        model, rows = self.prepare(x)
        target = check_target(self.target, len(rows))
        (way,) = self.passes()
        totals: list[Any] = []
        with untouched(rows.tensors[0].device), torch.enable_grad():
            for batch, part in batches(rows, self.batch_size, f"the ledger of {type(self).__name__}"):
                forward = run_forward(model, batch, [way.method], ledger=True)
                run_backward(
                    forward, way.method, partial(pick_scores, target=_of_rows(target, part)), way.seed
                )
                operations = [o for o in forward.capture.operations if not o.merged]
                totals = totals or [(o, 0.0, 0.0) for o in operations]
                totals = [
                    (o, a + p.arrived, h + p.handed_on)
                    for (o, a, h), p in zip(totals, operations, strict=True)
                ]
        lines = [(o.index, o.path, o.name, str(o.rule or o.kind), a, h, a - h) for o, a, h in totals]
        return pd.DataFrame(
            lines, columns=["index", "path", "operation", "rule", "arrived", "handed_on", "absorbed"]
        )

    @abstractmethod
    def passes(self) -> list[Pass]:
        """Return the ways down through the network whose sum is the explanation."""

    def explain_batch(self, model: Module, rows: Inputs, target: Any, rng: np.random.Generator) -> Found:  # noqa: ARG002
        """Explain some rows."""
        return share_forward([self], model, rows, [target])[0]

    def assemble(
        self, x: Any, values: np.ndarray, scores: np.ndarray, others: Any, what: Explained
    ) -> Explanation:
        """Make an explanation of one input; `others` is what the other inputs got."""
        settings = {name: _plain(getattr(self, name)) for name in self._parameters if name != "target"}
        return Explanation(
            values=values,
            scores=scores,
            base_values=others,
            data=readable(x),
            method=type(self).__name__,
            params={"explains": what.explains, **settings},
            kind=self.kind,
            extras=Extras(what.extras | self._extras(scores)),
        )

    def _extras(self, scores: np.ndarray) -> dict[str, Any]:  # noqa: ARG002
        """Further results per row."""
        return {}

    def prepare(self, x: Any) -> tuple[Module, Inputs]:
        """Check parameters, model and input; bring both to one device."""
        validate_parameters(self)
        check_model(self.model)
        weights = next((p for p in self.model.parameters() if p.is_floating_point()), None)
        rows = read_inputs(x, None if weights is None else weights.dtype)
        model, at, _ = placed(self.model, self.device, rows.tensors[0].device)
        return model, rows.to(at)

    def raise_not_finite(self, model: Module, rows: Inputs) -> None:
        """Say where values that are not finite arose."""
        operation = first_not_finite(model, rows, [way.method for way in self.passes()])
        if operation is None:
            raise InvalidInput(
                f"{type(self).__name__} found values that are not finite although every activation is: relevance "
                f"overflows {rows.tensors[0].dtype}. Use a wider type (model.double()) or another rule."
            )
        raise InvalidInput(
            f"The output of {operation.where} (operation {operation.index}) is not finite. "
            "Check the weights and the scale of x."
        )


def explain_together(explainers: Sequence[NetworkExplainer], x: Any) -> list[Any]:
    """Explain x by explainers of one model, device and batch size; several of them share each forward pass."""
    model, rows = explainers[0].prepare(x)
    for other in explainers[1:]:
        validate_parameters(other)
    targets = [check_target(e.target, len(rows)) for e in explainers]
    rooms = [Room(len(rows), partial(explainer.raise_not_finite, model)) for explainer in explainers]
    rng = generator(explainers[0].random_state)
    label = f"explaining with {', '.join(type(e).__name__ for e in explainers)}"
    with untouched(rows.tensors[0].device), torch.enable_grad():
        for batch, part in batches(rows, explainers[0].batch_size, label):
            wanted = [_of_rows(target, part) for target in targets]
            if len(explainers) == 1:
                results = [explainers[0].explain_batch(model, batch, wanted[0], rng)]
            else:
                results = share_forward(explainers, model, batch, wanted)
            for result, room in zip(results, rooms, strict=True):
                room.put(batch, part, result)
        found = [room.all_rows() for room in rooms]
    return [_finish(e, x, rows, whole, t) for e, whole, t in zip(explainers, found, targets, strict=True)]


def share_forward(
    explainers: Sequence[NetworkExplainer], model: Module, rows: Inputs, targets: Sequence[Any]
) -> list[Found]:
    """Run the model once on some rows, then the ways down of every explainer."""
    ways = [(k, way) for k, explainer in enumerate(explainers) for way in explainer.passes()]
    forward = run_forward(model, rows, [way.method for _, way in ways])
    sums: dict[int, list[Tensor]] = {}
    scores: dict[int, Tensor] = {}
    for number, (k, way) in enumerate(ways, start=1):
        pick = partial(pick_scores, target=targets[k])
        values, scores[k] = run_backward(forward, way.method, pick, way.seed, is_last=number == len(ways))
        parts = values if way.weight == 1 else [way.weight * v for v in values]
        sums[k] = [a + b for a, b in zip(sums[k], parts, strict=True)] if k in sums else parts
    chosen = [chosen_outputs(forward.outputs, target) for target in targets]
    return [Found(sums[k], scores[k], chosen[k], forward.softmax) for k in range(len(explainers))]


def batches(rows: Inputs, size: int, label: str) -> Iterator[tuple[Inputs, slice]]:
    """Yield the rows in parts, and where each part is."""
    starts = range(0, len(rows), size)
    for start in track(starts, len(starts), label):
        part = slice(start, start + size)
        yield rows.rows(part), part


def _of_rows(target: Any, part: slice) -> Any:
    return target[part] if isinstance(target, np.ndarray) else target


def _finish(explainer: NetworkExplainer, x: Any, rows: Inputs, found: Found, target: Any) -> Any:
    """One explanation per input, in the form of x."""
    scores, values = found.scores.numpy(), [value.numpy() for value in found.values]
    outputs = {} if callable(target) else {"output": found.outputs.numpy().astype(np.int64)}
    what = Explained(describe(target, found.softmax), outputs)
    made = []
    for one, own in zip(rows.given(x), values, strict=True):
        shared = explainer.kind == "attribution" and len(values) > 1
        others = sum(v.reshape(len(v), -1).sum(axis=1) for v in values if v is not own) if shared else None
        made.append(explainer.assemble(one, own, scores, others, what))
    return rows.like_given(made)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
