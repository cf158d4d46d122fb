"""Places inside a network at whose outputs relevance is collected: modules, and operations in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tellwhy.explainers.propagation.engine.taps import collected
from tellwhy.explainers.propagation.operations.nested import map_tensors
from tellwhy.explainers.propagation.operations.operation import Operation

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture


class Places:
    """Relevance that came to each place, by its name: "path" of a module, or "path:operation"."""

    def __init__(self, names: Sequence[str]):
        self.found: dict[str, list[Tensor]] = {name: [] for name in names}

    def __bool__(self) -> bool:
        return bool(self.found)

    def after_operation(self, capture: Capture, operation: Operation, result: Any) -> Any:
        """Output of an operation, which is watched where that is asked for."""
        here = f"{operation.path}:{operation.name}"
        return map_tensors(partial(self._collect, capture, here), result) if here in self.found else result

    def after_module(self, capture: Capture, path: str, output: Any) -> Any:
        """Output of a module, which is watched where that is asked for; None where nothing changes."""
        if path not in self.found:
            return None
        with torch._C.DisableTorchFunction():
            return map_tensors(partial(self._collect, capture, path), output)

    def _collect(self, capture: Capture, place: str, tensor: Tensor) -> Tensor:
        newest = capture.origins.newest(tensor)
        if not capture.is_activation(newest):
            return tensor
        origin = capture.origins.of(newest)
        watched = collected(newest, self.found[place], capture.current)
        if origin is not None:
            capture.origins.keep(watched, origin)
        return watched
