"""A network up to one of its layers."""

from __future__ import annotations

import threading
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook

from tellwhy.core.errors import InvalidInput, UnsupportedModel


class _Reached(Exception):
    """The layer has given its output: what comes after it is not computed."""


class UpToLayer(Module):
    """The activations of a named layer as the output of a network; nothing after the layer is computed.

    Every method that explains an output of a network then explains a neuron: its number is the `target`.

    Parameters
    ----------
    network
        A `torch.nn.Module`. It is not changed.
    layer
        Name of the module, as in `network.named_modules()`.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> UpToLayer(network, "1")(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    """

    def __init__(self, network: Module, layer: str):
        super().__init__()
        known = dict(network.named_modules())
        if layer not in known or not layer:
            near = [name for name in known if name][:12]
            raise InvalidInput(f"The network has no layer {layer!r}; some of its layers are {near}.")
        self.network = network
        self.layer = layer
        self.training = network.training

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Return the activations of the layer, for what the network is applied to."""
        found: list[Any] = []
        wanted = self.network.get_submodule(self.layer)
        thread = threading.get_ident()

        def keep(module: Module, args: Any, output: Any) -> None:  # noqa: ARG001
            if module is wanted and threading.get_ident() == thread:
                found.append(output)
                raise _Reached

        handle = register_module_forward_hook(keep)  # of the process: nothing is attached to the network
        try:
            self.network(*inputs, **named)
        except _Reached:
            pass
        finally:
            handle.remove()
        if not found or not isinstance(found[0], Tensor):
            got = "is not reached" if not found else f"gives a {type(found[0]).__name__}, not one tensor"
            raise UnsupportedModel(f"The layer {self.layer!r} {got}. Name another layer.")
        return found[0]
