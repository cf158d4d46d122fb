"""What every explainer of networks shares: reading the input, batches, targets, and the result."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import Rule as ParameterRule
from tellwhy.core.params import Rules, generator, instance_of, integer, none, validate_parameters
from tellwhy.core.progress import track
from tellwhy.explainers.propagation.capture import Method
from tellwhy.explainers.propagation.engine import (
    check_model,
    first_not_finite,
    run_backward,
    run_forward,
    untouched,
)
from tellwhy.explainers.propagation.targets import check_target, describe, pick_scores

if TYPE_CHECKING:
    import pandas as pd

NETWORK_PARAMETERS: dict[str, Rules] = {
    "target": ParameterRule("'max', an output's number, one per row, or a function", lambda value: value is not None),
    "batch_size": integer(1),
    "device": (none, instance_of(str, torch.device, words="a device")),
}


class NetworkExplainer(ABC):
    """Base of the explainers of networks: `explain(x)` gives an `Explanation` of one output of each row."""

    kind: ClassVar[str] = "attribution"
    random_state: Any = 0  # of the methods that draw random numbers
    _parameters: ClassVar[dict[str, Rules]] = NETWORK_PARAMETERS

    def __init__(self, model: Module, target: Any = "max", *, batch_size: int = 32, device: Any = None):
        self.model = model
        self.target = target
        self.batch_size = batch_size
        self.device = device

    def explain(self, x: Any) -> Explanation:
        """Explain the model's output for each row of x: a tensor or an array (n, *shape)."""
        model, rows = self._prepare(x)
        target = check_target(self.target, len(rows))
        method = self._method()
        rng = generator(self.random_state)
        values, scores, softmax = [], [], ""
        with untouched(rows):
            for batch, part in self._batches(rows, target):
                found, score, softmax = self._explain_batch(model, batch, method, part, rng)
                self._check_finite(model, batch, method, found, score)
                values.append(found.cpu().double().numpy())
                scores.append(score.cpu().double().numpy())
        return self._explanation(x, np.concatenate(values), np.concatenate(scores), describe(target, softmax))

    def ledger(self, x: Any) -> pd.DataFrame:
        """Relevance that arrived at each operation, that it handed on, and that it absorbed, summed over the rows.

        What all operations absorbed adds up to the residual of `explain(x)` where the output is what is handed down.
        """
        import pandas as pd

        if self.kind != "attribution":
            raise InvalidInput(f"{type(self).__name__} has no ledger: its values are not shares of the output.")
        model, rows = self._prepare(x)
        target = check_target(self.target, len(rows))
        totals: list[Any] = []
        with untouched(rows):
            for batch, part in self._batches(rows, target):
                forward = run_forward(model, batch, self._method(), ledger=True)
                run_backward(forward, partial(pick_scores, target=part), self._seed)
                operations = [o for o in forward.capture.operations if not o.merged]
                totals = totals or [(o, 0.0, 0.0) for o in operations]
                totals = [(o, a + p.arrived, h + p.handed_on) for (o, a, h), p in zip(totals, operations, strict=True)]
        lines = [(o.index, o.path, o.name, str(o.rule or o.kind), a, h, a - h) for o, a, h in totals]
        return pd.DataFrame(lines, columns=["index", "path", "operation", "rule", "arrived", "handed_on", "absorbed"])

    @abstractmethod
    def _method(self) -> Method:
        """Say how operations hand relevance down."""

    def _seed(self, scores: Tensor) -> Tensor:
        """What each row's score hands down."""
        return torch.ones_like(scores)

    def _explain_batch(
        self,
        model: Module,
        x: Tensor,
        method: Method,
        target: Any,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor, str]:
        forward = run_forward(model, x, method)
        values, scores = run_backward(forward, partial(pick_scores, target=target), self._seed)
        return values, scores, forward.softmax

    def _explanation(self, x: Any, values: np.ndarray, scores: np.ndarray, explains: str) -> Explanation:
        settings = {name: _plain(getattr(self, name)) for name in self._parameters if name != "target"}
        return Explanation(
            values=values,
            scores=scores,
            data=x,
            method=type(self).__name__,
            params={"explains": explains, **settings},
            kind=self.kind,
            extras=self._extras(scores),
        )

    def _extras(self, scores: np.ndarray) -> dict[str, Any]:  # noqa: ARG002
        """Further results per row."""
        return {}

    def _prepare(self, x: Any) -> tuple[Module, Tensor]:
        """Check parameters, model and input; bring both to one device."""
        validate_parameters(self)
        check_model(self.model)
        weights = next((p for p in self.model.parameters() if p.is_floating_point()), None)
        rows = _as_rows(x, None if weights is None else weights.dtype)
        at = rows.device if weights is None else weights.device
        model = self.model
        if self.device is not None and torch.device(self.device) != at:
            model, at = copy.deepcopy(self.model).to(self.device), torch.device(self.device)
        return model, rows.to(at)

    def _batches(self, rows: Tensor, target: Any) -> Iterator[tuple[Tensor, Any]]:
        starts = range(0, len(rows), self.batch_size)
        for start in track(starts, len(starts), f"explaining with {type(self).__name__}"):
            part = slice(start, start + self.batch_size)
            yield rows[part], target[part] if isinstance(target, np.ndarray) else target

    def _check_finite(self, model: Module, x: Tensor, method: Method, values: Tensor, scores: Tensor) -> None:
        if bool(torch.isfinite(values).all()) and bool(torch.isfinite(scores).all()):
            return
        operation = first_not_finite(model, x, method)
        if operation is None:
            raise InvalidInput(
                f"{type(self).__name__} found values that are not finite although every activation is: relevance "
                f"overflows {x.dtype}. Use a wider type (model.double()) or another rule."
            )
        raise InvalidInput(
            f"The output of {operation.where} (operation {operation.index}) is not finite. "
            "Check the weights and the scale of x."
        )


def _as_rows(x: Any, dtype: torch.dtype | None) -> Tensor:
    """Input as a tensor (n, *shape); arrays of floats take the model's type."""
    rows = x.detach() if isinstance(x, Tensor) else torch.as_tensor(np.asarray(x))
    if rows.ndim < 2 or 0 in rows.shape:
        raise InvalidInput(
            f"x must have rows first, then the shape of one input, none of them empty. Got shape {tuple(rows.shape)}; "
            "add the rows' axis of a single input with x[None]."
        )
    if rows.is_floating_point():
        if dtype is not None and rows.dtype != dtype:
            if isinstance(x, Tensor):
                raise InvalidInput(f"x has dtype {rows.dtype}, the model's weights have {dtype}: use x.to({dtype}).")
            rows = rows.to(dtype)
        if not bool(torch.isfinite(rows).all()):
            row = int((~torch.isfinite(rows)).flatten(1).any(dim=1).nonzero()[0])
            raise InvalidInput(f"x is not finite in row {row}. Fill in missing values first.")
    return rows


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
