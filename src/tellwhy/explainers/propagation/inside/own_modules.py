"""Modules that are one step each: relevance goes from their output to their inputs by the user's function."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tellwhy.explainers.propagation.engine.composed_steps import HandoverStep
from tellwhy.explainers.propagation.engine.origins import Origin, depth_of
from tellwhy.explainers.propagation.engine.steps import Followed
from tellwhy.explainers.propagation.operations.nested import all_tensors
from tellwhy.explainers.propagation.operations.operation import Operation
from tellwhy.explainers.propagation.rules import Handover

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture


class OwnModules:
    """The user's functions: `functions` of single operations, `modules` by the path of each module.

    `inside` is the path of the module that is running, where it is one of these.
    """

    def __init__(self, capture: Capture, own: Sequence[Handover]):
        # A weak reference: a circle would keep all records of a batch until Python's next search for garbage.
        self._capture: Capture = weakref.proxy(capture)
        self.functions = [each for each in own if not isinstance(each.when, str)]
        self.modules = {each.when: each for each in own if isinstance(each.when, str)}
        self.inside = ""
        self._inputs: list[Tensor] = []

    def enter(self, path: str, args: Any) -> None:
        """Note the inputs of a module that begins to run."""
        if self.inside or path not in self.modules:
            return
        given = [self._capture.origins.newest(t) for t in all_tensors(args)]
        self._inputs = list({id(t): t for t in given if self._capture.is_activation(t)}.values())
        if self._inputs:
            self.inside = path

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run an operation inside; only gradients look at it."""
        if self._capture.has_gradients:
            return function(*args, **kwargs)
        with torch.no_grad():
            return function(*args, **kwargs)

    def leave(self, path: str, output: Any) -> Tensor | None:
        """Make one step of the module that has run; None for all other modules."""
        if not self.inside or path != self.inside:
            return None
        self.inside = ""
        capture = self._capture
        if not isinstance(output, Tensor):
            capture.refuse(
                f"Module '{path}' returns a {type(output).__name__}: a Handover takes modules that return "
                "one tensor."
            )
        with torch._C.DisableTorchFunction():
            return self._step(path, output)

    def _step(self, path: str, output: Tensor) -> Tensor:
        capture = self._capture
        operation = Operation(0, "module", "own", path)
        origins = [capture.origins.of(t) for t in self._inputs]
        operation.before = tuple(origin.operation for origin in origins if origin is not None)
        inputs = capture.watch(operation, self._inputs)
        n = len(inputs)
        if capture.has_gradients:
            inputs.append(output)
        step = HandoverStep(
            operation, capture.current, differentiates=False, handover=self.modules[path], n_inputs=n
        )
        made = capture.record(operation, Followed.apply(step, lambda _: output.detach().clone(), *inputs))
        capture.origins.keep(made, Origin(operation, depth=depth_of(origins) + 1))
        self._inputs = []
        return made
