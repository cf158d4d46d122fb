"""Tensors in nested tuples, lists and dictionaries, as functions take and return them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


def all_tensors(tree: Any) -> list[Tensor]:
    """All tensors, in order, as often as they occur."""
    if isinstance(tree, Tensor):
        return [tree]
    found: list[Tensor] = []
    for part in _parts(tree):
        # Most parts are tensors or plain numbers: asking here saves a call for each of them.
        if isinstance(part, Tensor):
            found.append(part)
        elif isinstance(part, (tuple, list, dict)):
            found += all_tensors(part)
    return found


def tensors_in(tree: Any) -> list[Tensor]:
    """All tensors, each once, in order."""
    if isinstance(tree, Tensor):  # nearly always
        return [tree]
    return list({id(t): t for t in all_tensors(tree)}.values())


def map_tensors(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """Apply a function to all tensors; everything else stays as it is."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: map_tensors(function, value) for key, value in tree.items()} if tree else tree
    if not isinstance(tree, (tuple, list)):
        return tree
    parts = [map_tensors(function, part) for part in tree]
    # PyTorch's own tuples (x.max(dim=1), say) have `n_fields` and take a sequence, as plain ones do.
    if type(tree) in (tuple, list, torch.Size) or hasattr(tree, "n_fields"):
        return type(tree)(parts)
    return type(tree)(*parts)  # a named tuple takes its fields one by one


def _parts(tree: Any) -> Iterable[Any]:
    if isinstance(tree, dict):
        return tree.values()
    return tree if isinstance(tree, (tuple, list)) else ()
