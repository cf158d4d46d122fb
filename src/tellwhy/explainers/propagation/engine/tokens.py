"""Tokens: whole numbers have no gradient, so that relevance is handed to what is looked up for them.

Models shift their tokens, take some of them, join questions and answers, or add an offset to each column
before they look them up. Whatever moves tokens moves their places alike, so that relevance finds back to the
place in the inputs that each whole number came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tellwhy.explainers.propagation.engine.calls import Call, all_tensors, operation_name
from tellwhy.explainers.propagation.engine.decompositions import WRITTEN_OUT

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture


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


LOOKUPS = frozenset(("embedding", "getitem", "index_select"))


class Lookup(NamedTuple):
    """What was looked up for tokens: the axes of the tokens, and where in the inputs each one was.

    Without places the tokens are those of one input as it was given.
    """

    n_axes: int
    places: Tensor | None = None


def run_constant(capture: Capture, call: Call) -> Any:
    """Run a call that does not depend on the input, unless it looks up the explained tokens."""
    if not capture.tokens:
        return capture.run_constant(call)
    if call.name == "embedding_bag":
        with capture:
            written = WRITTEN_OUT[call.name](call, capture.is_constant)
        if written is not None:
            return written
    result = capture.run_constant(call)
    if capture.token_places is None:
        capture.token_places = TokenPlaces(capture.tokens)
    capture.token_places.follow(call, result)
    is_lookup = call.name in LOOKUPS and isinstance(result, Tensor) and result.is_floating_point()
    return token_leaf(capture, call, result) if is_lookup else result


def token_leaf(capture: Capture, call: Call, found: Tensor) -> Tensor:
    """Let what is looked up for explained tokens be the input that relevance is handed to."""
    index = _index(call)
    known = capture.token_places
    if index is None or known is None:
        return found
    for number, tokens in capture.tokens.items():
        # The place in memory tells whether these are the explained tokens, also after a reshape and back.
        same = _storage(index) == _storage(tokens) and index.storage_offset() == tokens.storage_offset()
        if same and index.shape == tokens.shape and not known.has_changed(index):
            return _leaf(capture, found, number, Lookup(index.ndim))
    places = known.of(index)
    if places is not None:
        return _leaf(capture, found, min(capture.tokens), Lookup(index.ndim, places))
    for tokens in capture.tokens.values():
        if _storage(index) == _storage(tokens):
            capture.refuse(
                f"The embedding in module '{capture.paths.current}' looks up a part or another order of the "
                f"tokens, of shape {tuple(index.shape)}, that could not be followed: their relevance cannot "
                "be told apart. Change the embedding instead of the tokens."
            )
    return found


def _storage(tensor: Tensor) -> int:
    """Which memory a tensor is in; tensors that stand for others while a program is written have one too."""
    return tensor.untyped_storage()._cdata


def _index(call: Call) -> Tensor | None:
    """The whole numbers that a call looks up along the first axis of a table; None for other calls."""
    if call.name == "embedding":
        index = call.args[0] if call.args else call.kwargs["input"]
    elif call.name == "getitem":
        index = call.args[1]
        if isinstance(index, Tensor) and index.ndim == 0:  # one entry for all rows: weights, say
            return None
    else:
        given = call.arguments(("input", "dim", "index"))
        index = given["index"] if given["dim"] == 0 else None
    whole = isinstance(index, Tensor) and index.dtype not in (torch.bool, torch.uint8)
    return index if whole and not index.is_floating_point() else None


def _leaf(capture: Capture, found: Tensor, number: int, lookup: Lookup) -> Tensor:
    leaf = found.detach().requires_grad_()
    capture.lookups[len(capture.leaves)] = lookup
    capture.add_leaf(leaf, number)
    return leaf


def add_to_tokens(
    values: list[Tensor], number: int, lookup: Lookup, value: Tensor, tokens: Mapping[int, Tensor]
) -> None:
    """Add what came down to a lookup to the values of its tokens: each gets the sum over its entries."""
    each = value.flatten(lookup.n_axes).sum(dim=-1) if value.ndim > lookup.n_axes else value
    if lookup.places is None:
        values[number] = values[number] + each
        return
    sizes = [values[k].numel() for k in tokens]
    # One more place at the end takes what belongs to no token.
    flat = each.new_zeros(sum(sizes) + 1)
    places = torch.where(lookup.places < 0, sum(sizes), lookup.places).flatten()
    parts = flat.index_add(0, places, each.flatten())[:-1].split(sizes)
    for k, part in zip(tokens, parts, strict=True):
        values[k] = values[k] + part.reshape(values[k].shape)
