"""What a model may do that cannot be followed, and how explaining stops there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from tellwhy.explainers.propagation.engine.inputs import Inputs
from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.operations.kinds import BUILT_IN
from tellwhy.explainers.propagation.operations.named import contradiction
from tellwhy.explainers.propagation.operations.operation import Operation

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture
    from tellwhy.explainers.propagation.engine.origins import Origin

OUT_OF_SIGHT = (
    "where it cannot be seen: in a scripted, traced or compiled module, in an autograd.Function, or behind a "
    "backward hook. Use the plain module there."
)

RECOMPUTES = (
    "The model throws activations away and computes them again on the way back (torch.utils.checkpoint), "
    "where its operations cannot be followed. Switch gradient checkpointing off: it saves memory in training "
    "only."
)


def hint(inputs: Inputs, error: Exception) -> str:
    """What to do about an error of the model's, where that is known."""
    if any(t.dtype == torch.uint8 for t in inputs.tensors):
        return " Pictures go in as floats, scaled as in training: x / 255, say."
    if "functorch" in str(error):
        return " It uses torch.vmap or torch.func, inside which operations cannot be followed."
    return ""


def note_unknown(capture: Capture, call: Call, operation: Operation) -> None:
    """Refuse an operation without a rule, where a method needs one."""
    if not capture.follows_rules or capture.tolerant:
        return
    start = f"There is no rule for {operation.where} (operation {operation.index})"
    end = "`coverage(model, x)` lists all operations. Gradient and SmoothGrad need no rules."
    if call.name in capture.kinds:
        capture.refuse(
            f"{start} as it is called here, or where its weights, its divisor, or several of its "
            f"arguments depend on the input. Write the model with operations that have one. {end}"
        )
    capture.refuse(
        f"{start}. Write the model with operations that have one, or name its kind: for a function of "
        f"single elements by LRP(model, operations={{{call.name!r}: 'elementwise'}}), or once for all by "
        f"tellwhy.explainers.propagation.register_operation({call.name!r}, 'elementwise'); "
        f"docs/write-your-own-rule.md tells the other kinds. {end}"
    )


def check_seen(capture: Capture, call: Call, operation: Operation, origins: Sequence[Origin | None]) -> None:
    """Refuse activations that were computed out of sight."""
    for tensor, origin in zip(call.activations, origins, strict=True):
        if origin is None and tensor.grad_fn is not None and capture.must_see:
            capture.refuse(
                f"An input of {operation.where} (operation {operation.index}) was computed {OUT_OF_SIGHT}"
            )


def check_evaluation_mode(capture: Capture, call: Call, operation: Operation) -> None:
    """Refuse an operation that behaves as in training."""
    if call.in_training_mode:
        capture.refuse(
            f"{operation.where} runs in training mode although the model is in evaluation mode: its "
            "output depends on chance or on the other rows. Pass training=self.training there."
        )


def check_complex(capture: Capture, call: Call, operation: Operation) -> None:
    """Refuse complex numbers where relevance itself travels: it would have to be shared by their parts."""
    if capture.carries_relevance and any(t.is_complex() for t in call.activations):
        capture.refuse(
            f"{operation.where} works on complex numbers, which rules that give relevance to zeros do not "
            "know. Use LRP with the rules z, epsilon, gamma or alpha_beta."
        )


def check_named(capture: Capture, call: Call, operation: Operation) -> None:
    """Refuse an operation that is not of the kind that somebody gave it by its name."""
    if call.name in BUILT_IN or not capture.follows_rules:
        return
    against = contradiction(call, operation.kind)
    if against:
        capture.refuse(f"The kind that was named for {operation.where} does not fit: {against}.")
