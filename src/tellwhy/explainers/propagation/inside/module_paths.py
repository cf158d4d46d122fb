"""Which module is running: its path in the model, without a trace on the model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


class ModulePaths:
    """Path of the module whose forward is running in this thread.

    The hooks are PyTorch's process-wide ones: nothing is attached to the model, and they do nothing in other
    threads.
    """

    def __init__(self, model: Module):
        self._model = model
        self._running: list[Module] = []
        self._thread = threading.get_ident()
        self.on_enter: Callable[[str, Any], None] | None = None  # given the path and arguments of a module
        self.on_output: Callable[[str, Any], Any] | None = None  # given the path and output of a module

    @cached_property
    def _names(self) -> dict[int, str]:
        """Paths by module; not asked for where a batch repeats what an earlier one did."""
        return {id(module): name for name, module in self._model.named_modules()}

    @property
    def current(self) -> str:
        """Path of the innermost running module that has a name in the model."""
        for module in reversed(self._running):
            if id(module) in self._names:
                return self._names[id(module)]
        return ""

    @contextmanager
    def followed(self) -> Iterator[ModulePaths]:
        """Follow the modules that run inside this block."""
        handles = [register_module_forward_pre_hook(self._enter), register_module_forward_hook(self._leave)]
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: Module, args: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        self._running.append(module)
        if self.on_enter is not None and id(module) in self._names:
            self.on_enter(self._names[id(module)], args)

    def _leave(self, module: Module, args: Any, output: Any) -> Any:  # noqa: ARG002
        if threading.get_ident() != self._thread:
            return None
        # A module that raised, and was caught by the model, never left: it is dropped here.
        while self._running and self._running.pop() is not module:
            pass
        if self.on_output is None or id(module) not in self._names:
            return None
        return self.on_output(self._names[id(module)], output)
