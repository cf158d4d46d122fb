"""Where tokens went: the place in the inputs that each whole number came from.

Models shift their tokens, take some of them, join questions and answers, or add an offset to each column
before they look them up. Whatever moves tokens moves their places alike, so that relevance finds back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.operations.nested import all_tensors
from tellwhy.explainers.propagation.operations.operation import operation_name

NOBODY = -1  # the place of a number that is no token
# Each number stays where it is, whatever becomes of it.
_STAYING = """to long int short type type_as clone contiguous detach cpu cuda float double half add sub
    mul remainder fmod floor_divide clamp clip clamp_min clamp_max abs bitwise_and"""
_MOVING = """view reshape view_as reshape_as flatten unflatten ravel squeeze unsqueeze permute transpose
    swapaxes swapdims movedim t T mT chunk split split_with_sizes tensor_split unbind getitem narrow select
    index_select gather take_along_dim expand expand_as broadcast_to repeat repeat_interleave tile roll flip
    rot90 diagonal unfold"""
_STAYS = frozenset(_STAYING.split())
_MOVES = frozenset(_MOVING.split())


class TokenPlaces:
    """Places of tensors that were made of tokens; `tokens` are the inputs of whole numbers, by number.

    Places are counted through all these inputs, one after the other.
    """

    def __init__(self, tokens: Mapping[int, Tensor]):
        self._known: dict[int, tuple[Tensor, Tensor]] = {}  # by id; the tensor is kept, so that its id is
        self._changed: set[int] = set()
        start = 0
        for given in tokens.values():
            places = torch.arange(start, start + given.numel(), device=given.device).reshape(given.shape)
            self._known[id(given)] = (given, places)
            start += given.numel()

    def of(self, tensor: Tensor) -> Tensor | None:
        """Place of each number, `NOBODY` for what is no token; None for a tensor without tokens."""
        known = self._known.get(id(tensor))
        return None if known is None else known[1]

    def has_changed(self, tensor: Tensor) -> bool:
        """Whether a tensor of tokens was changed in place."""
        return id(tensor) in self._changed

    def follow(self, call: Call, result: Any) -> None:
        """Note the places of what a call made of tokens."""
        if not any(id(t) in self._known for t in all_tensors((call.args, call.kwargs))):
            return
        in_place = operation_name(call.function)[1]
        places = self._places(call, result)
        outputs = [call.target] if in_place else all_tensors(result)
        moved = [None] * len(outputs) if places is None else all_tensors(places)
        for tensor, found in zip(outputs, moved, strict=False):
            if found is not None and found.shape == tensor.shape:
                self._known[id(tensor)] = (tensor, found)
            elif in_place:
                self._known.pop(id(tensor), None)
            if in_place:
                self._changed.add(id(tensor))

    def _places(self, call: Call, result: Any) -> Any:
        with torch.no_grad():
            if call.name in _STAYS:
                return self._stayed(call, result)
            if call.name in _MOVES:
                first = self.of(call.target)
                return None if first is None else call.function(first, *call.args[1:], **call.kwargs)
            special = _SPECIAL.get(call.name)
            return None if special is None else special(self, call)

    def _stayed(self, call: Call, result: Any) -> Tensor | None:
        """Places of a result of the same shape, where one of the arguments has some."""
        given = [self.of(t) for t in all_tensors((call.args, call.kwargs))]
        known = [places for places in given if places is not None]
        is_alike = isinstance(result, Tensor) and len(known) == 1 and known[0].shape == result.shape
        return known[0] if is_alike else None

    def or_nobody(self, value: Any, like: Tensor | None = None) -> Any:
        """Places of a value; `NOBODY` for what is no token."""
        places = self.of(value) if isinstance(value, Tensor) else None
        if places is not None or not isinstance(value, Tensor):
            return NOBODY if places is None else places
        return torch.full(value.shape, NOBODY, device=value.device if like is None else like.device)


def _joined(known: TokenPlaces, call: Call) -> Tensor:
    parts = [known.or_nobody(part) for part in call.target]
    joined: Tensor = call.function(parts, *call.args[1:], **call.kwargs)
    return joined


def _chosen(known: TokenPlaces, call: Call) -> Tensor | None:
    given = call.arguments(("condition", "input", "other"))
    if "other" not in given:
        return None
    condition = given["condition"]
    kept = [torch.as_tensor(known.or_nobody(given[name])).to(condition.device) for name in ("input", "other")]
    return torch.where(condition, kept[0], kept[1])


def _filled(known: TokenPlaces, call: Call) -> Tensor | None:
    places = known.of(call.target)
    mask = call.arguments(("input", "mask"))["mask"]
    return None if places is None else places.masked_fill(mask, NOBODY)


def _set(known: TokenPlaces, call: Call) -> Tensor:
    changed: Tensor = known.or_nobody(call.target).clone()
    changed[call.args[1]] = known.or_nobody(call.args[2], changed)
    return changed


def _padded(known: TokenPlaces, call: Call) -> Tensor | None:
    places = known.of(call.target)
    given = call.arguments(("input", "pad", "mode"))
    if places is None or given.get("mode", "constant") != "constant":
        return None
    return functional.pad(places, given["pad"], value=NOBODY)


_SPECIAL: Mapping[str, Callable[[TokenPlaces, Call], Tensor | None]] = {
    **dict.fromkeys(("cat", "stack", "hstack", "vstack"), _joined),
    "where": _chosen,
    "masked_fill": _filled,
    "setitem": _set,
    "pad": _padded,
}
