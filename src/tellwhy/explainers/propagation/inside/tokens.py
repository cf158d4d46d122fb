"""Tokens: whole numbers have no gradient, so that relevance is handed to their embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.spellings.table import WRITTEN_OUT

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture


def run_constant(capture: Capture, call: Call) -> Any:
    """Run a call that does not depend on the input, unless it embeds the explained tokens."""
    if call.name == "embedding_bag" and capture.tokens:
        with capture:
            written = WRITTEN_OUT[call.name](call, capture.is_constant)
        if written is not None:
            return written
    result = capture.run_constant(call)
    return capture.token_leaf(call, result) if call.name == "embedding" else result


def token_leaf(capture: Capture, call: Call, embedded: Tensor) -> Tensor:
    """Let the embedding of explained tokens be the input that relevance is handed to."""
    looked_up = call.args[0] if call.args else call.kwargs["input"]
    for number, tokens in capture.tokens.items():
        # The place in memory tells whether these are the explained tokens, also after a reshape and back.
        if looked_up.data_ptr() == tokens.data_ptr() and looked_up.shape == tokens.shape:
            leaf = embedded.detach().requires_grad_()
            capture.add_leaf(leaf, number)
            return leaf
        if looked_up.untyped_storage().data_ptr() == tokens.untyped_storage().data_ptr():
            capture.refuse(
                f"The embedding in module '{capture.paths.current}' looks up a part or another order of the "
                f"tokens, of shape {tuple(looked_up.shape)}: their relevance cannot be told apart. "
                "Change the embedding instead of the tokens."
            )
    return embedded
