"""What is known of each activation while the model runs: where it came from, and what replaced it.

Both are looked up by the tensor itself. Entries hold weak references: they do not keep activations alive, and
an id that was given to a new tensor after the old one was freed is not mistaken for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from tellwhy.explainers.propagation.operations.operation import Operation


@dataclass(slots=True)
class Origin:
    """Where an activation came from.

    Attributes
    ----------
    operation
        The operation whose output it is.
    depth
        Layers on the longest way to it from the input.
    nonnegative
        Whether it is known to have no negative element.
    inputs
        What went into the operation; kept only where a batch norm may be merged with it, or where it may be a
        softmax.
    role
        What it is to the operations that use it: see `operations.roles`.
    parents
        The activations that went into the operation, as far as they still exist.
    ancestors
        Activations of the same shape of which it is a function, element by element; the nearest one last.
    n_uses
        How many operations it has gone into so far.
    """

    operation: Operation
    depth: int = 0
    nonnegative: bool = False
    inputs: tuple[Tensor, ...] = ()
    role: str = ""
    parents: tuple[weakref.ref[Tensor], ...] = ()
    ancestors: tuple[weakref.ref[Tensor], ...] = ()
    n_uses: int = 0


def depth_of(origins: Sequence[Origin | None]) -> int:
    """Layers on the longest way to some activations."""
    depth = 0
    for origin in origins:  # asked at every operation: a generator would take longer
        if origin is not None and origin.depth > depth:
            depth = origin.depth
    return depth


def common_ancestor(tensors: Sequence[Tensor], origins: Sequence[Origin | None]) -> Tensor | None:
    """The nearest activation of which all these are functions, element by element; None for no such."""
    lines = []
    for tensor, origin in zip(tensors, origins, strict=True):
        before = () if origin is None else origin.ancestors
        lines.append([t for t in (ref() for ref in before) if t is not None] + [tensor])
    others = [{id(t) for t in line} for line in lines[1:]]
    for candidate in reversed(lines[0]):
        if all(id(candidate) in line for line in others):
            return candidate
    return None


def reaches(tensor: Tensor, leaves: Sequence[Tensor]) -> bool:
    """Whether a tensor was computed from some of the leaves, by the record that autograd has of it."""
    waiting = [tensor.grad_fn]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        start = getattr(node, "variable", None)
        if start is not None and any(start is leaf for leaf in leaves):
            return True
        waiting += [before for before, _ in node.next_functions]
    return False


class Origins:
    """The origin of each activation, and the new tensor of each one that was changed in place.

    An operation that would change a tensor in place is carried out on a copy, which from then on stands for
    the tensor: the backward pass needs the values from before the change.
    """

    def __init__(self) -> None:
        self._origins: dict[int, tuple[weakref.ref[Tensor], Origin]] = {}
        self._replaced: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}

    def of(self, tensor: Tensor) -> Origin | None:
        """Return where an activation came from."""
        kept = self._origins.get(id(tensor))
        return kept[1] if kept is not None and kept[0]() is tensor else None

    def keep(self, tensor: Tensor, origin: Origin) -> None:
        """Remember where an activation came from."""
        key = id(tensor)
        # Forgotten with the tensor: an origin may hold the inputs of a layer, which are large.
        self._origins[key] = (weakref.ref(tensor, lambda _: self._origins.pop(key, None)), origin)

    def replace(self, tensor: Tensor, new: Tensor) -> None:
        """Let another tensor stand for one that the model changed in place."""
        key = id(tensor)
        self._replaced[key] = (weakref.ref(tensor, lambda _: self._replaced.pop(key, None)), new)

    def may_be_replaced(self, tensors: Sequence[Tensor]) -> bool:
        """Whether `newest` is worth calling; quick, since it is asked for every operation."""
        return any(id(t) in self._replaced for t in tensors)

    @property
    def has_replaced(self) -> bool:
        """Whether some tensor was changed in place."""
        return bool(self._replaced)

    def newest(self, tensor: Tensor) -> Tensor:
        """Return what in-place operations made of a tensor; the tensor itself where they left it alone."""
        # A tensor may have been changed several times: each change replaced the tensor of the one before.
        while (kept := self._replaced.get(id(tensor))) is not None and kept[0]() is tensor:
            tensor = kept[1]
        return tensor

    def clear(self) -> None:
        """Let go of everything."""
        self._origins.clear()
        self._replaced.clear()
