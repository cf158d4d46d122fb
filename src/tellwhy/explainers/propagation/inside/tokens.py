"""Tokens: whole numbers have no gradient, so that relevance is handed to what is looked up for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from tellwhy.explainers.propagation.inside.token_places import TokenPlaces
from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.spellings.table import WRITTEN_OUT

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture

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
    return capture.token_leaf(call, result) if is_lookup else result


def token_leaf(capture: Capture, call: Call, found: Tensor) -> Tensor:
    """Let what is looked up for explained tokens be the input that relevance is handed to."""
    index = _index(call)
    known = capture.token_places
    if index is None or known is None:
        return found
    for number, tokens in capture.tokens.items():
        # The place in memory tells whether these are the explained tokens, also after a reshape and back.
        same = index.data_ptr() == tokens.data_ptr() and index.shape == tokens.shape
        if same and not known.has_changed(index):
            return _leaf(capture, found, number, Lookup(index.ndim))
    places = known.of(index)
    if places is not None:
        return _leaf(capture, found, min(capture.tokens), Lookup(index.ndim, places))
    for tokens in capture.tokens.values():
        if index.untyped_storage().data_ptr() == tokens.untyped_storage().data_ptr():
            capture.refuse(
                f"The embedding in module '{capture.paths.current}' looks up a part or another order of the "
                f"tokens, of shape {tuple(index.shape)}, that could not be followed: their relevance cannot "
                "be told apart. Change the embedding instead of the tokens."
            )
    return found


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
