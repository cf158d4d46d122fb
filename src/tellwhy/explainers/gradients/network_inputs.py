"""Integrated gradients of networks with tokens or several inputs, moved side by side as one flat row."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Extras
from tellwhy.core.running import NETWORK_BATCH
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.gradients.integrated_gradients import Integrated, Lines
from tellwhy.scoring.network_inputs import Inputs, Place, places, read_inputs, replaced
from tellwhy.scoring.network_passes import (
    TrailingSoftmax,
    check_model,
    check_target,
    choose_outputs,
    copy_sharing_weights,
    describe,
    pick_scores,
    placed,
    tensor_of,
    untouched,
)

if TYPE_CHECKING:
    from tellwhy.explainers.gradients.integrated_gradients import IntegratedGradients


class MovedInputs:
    """One output of a network, by the numbers of its inputs and by the vectors of its tokens.

    A flat row holds every input of floats, and for every input of tokens the vectors that the network's
    embedding has for them. Inputs of whole numbers that no embedding takes (masks) stay as they are.
    `value` and `gradient` take, besides flat rows, the number of each row's output and the row of X whose
    tokens and masks go with it.

    Parameters
    ----------
    model
        A network in evaluation mode that returns one tensor. It is not changed.
    X
        Its inputs: an array, a tuple of arrays or a dict by the names of forward's arguments.
    target, batch_size, device
        As in `NetworkOutput`.
    """

    def __init__(
        self, model: Any, X: Any, target: Any = "max", *, batch_size: int | None = None, device: Any = None
    ):
        check_model(model)
        there = placed(model, device)
        self.model = copy_sharing_weights(
            there.model
        )  # hooks are put on it for a moment, and never on the user's own
        self.device = there.device
        self.rows = read_inputs(X, there.dtype, converts=True).to(there.device)
        self.target = check_target(target, len(self.rows))
        self.batch_size = NETWORK_BATCH if batch_size is None else batch_size
        with untouched(self.device):
            self.places = _checked(places(self.model, self.rows), type(model).__name__)
        self.flat = self.numbers(self.rows)
        self.dtype = there.dtype
        self.softmax = ""  # name of a softmax at the end, which is left out, once one was met

    def numbers(self, rows: Inputs) -> Floats:
        """Return the flat rows of inputs like X."""
        parts = []
        for tensor, place in zip(rows.tensors, self.places, strict=True):
            if place.shape is not None:
                moved = tensor if place.embedding is None else _embed_tokens(place, tensor)
                parts.append(moved.reshape(len(rows), -1).double().cpu().numpy())
        return np.concatenate(parts, axis=1)

    def empty(self) -> Floats:
        """Return the flat row that lines start from by default: zeros, and padding in the place of tokens."""
        parts = []
        for place in self.places:
            row = np.zeros(place.size)
            if place.embedding is not None and place.embedding.padding_idx is not None and place.shape:
                pad = place.embedding.weight[place.embedding.padding_idx].detach().double().cpu().numpy()
                row = np.broadcast_to(pad, place.shape).reshape(-1)
            parts.append(row)
        return np.concatenate(parts)

    def fixed(self) -> Integers:
        """Return the number of each row's output; zeros where the target is a function."""
        found = []
        for batch in self._batches(np.arange(len(self.rows))):
            with untouched(self.device), torch.no_grad():
                outputs = tensor_of(self.model, self.rows.take(batch).apply(self.model))
            wanted = self.target[batch] if isinstance(self.target, np.ndarray) else self.target
            found.append(choose_outputs(outputs, wanted).cpu().numpy())
        return np.concatenate(found)

    def value(self, Z: Floats, output: Integers, row: Integers) -> Floats:
        """Return the explained number of each flat row."""
        values = np.empty(len(Z))
        for batch in self._batches(np.arange(len(Z))):
            with untouched(self.device), torch.no_grad():
                values[batch] = self._scores(Z[batch], output[batch], row[batch])[0].double().cpu().numpy()
        return _finite(values)

    def gradient(self, Z: Floats, output: Integers, row: Integers) -> Floats:
        """Return the derivative of each flat row's number."""
        slopes = np.empty(Z.shape)
        for batch in self._batches(np.arange(len(Z))):
            with untouched(self.device), torch.enable_grad():
                scores, leaf = self._scores(Z[batch], output[batch], row[batch])
                found = torch.autograd.grad(scores.sum(), leaf)[0]
            slopes[batch] = found.double().cpu().numpy()
        return _finite(slopes)

    def split(self, values: Floats) -> list[Floats]:
        """Return values as one array per input, shaped like it: a token has the sum of its vector."""
        arrays: list[Floats] = []
        start = 0
        for tensor, place in zip(self.rows.tensors, self.places, strict=True):
            if place.shape is None:
                arrays.append(np.zeros(tuple(tensor.shape)))
                continue
            part = values[:, start : start + place.size].reshape(len(values), *place.shape)
            arrays.append(part if place.embedding is None else part.sum(axis=-1))
            start += place.size
        return arrays

    def _scores(self, Z: Floats, output: Integers, row: Integers) -> tuple[Tensor, Tensor]:
        """Explained number of each flat row, and the tensor of these rows that it was computed from."""
        leaf = torch.as_tensor(Z, dtype=self.dtype, device=self.device).requires_grad_(
            torch.is_grad_enabled()
        )
        given = self.rows.take(row)
        tensors = list(given.tensors)
        with ExitStack() as stack:
            start = 0
            for k, place in enumerate(self.places):
                if place.shape is None:
                    continue
                part = leaf[:, start : start + place.size].reshape(len(Z), *place.shape)
                start += place.size
                if place.embedding is None:
                    tensors[k] = part
                else:
                    stack.enter_context(replaced(place.embedding, tensors[k], part))
            with TrailingSoftmax() as watch:
                outputs = given.apply(self.model, [tensor.clone() for tensor in tensors])
        outputs, self.softmax = watch.left_out(tensor_of(self.model, outputs))
        is_function = callable(self.target)
        return pick_scores(outputs, self.target if is_function else output), leaf

    def _batches(self, numbers: Integers) -> list[Integers]:
        return [numbers[start : start + self.batch_size] for start in range(0, len(numbers), self.batch_size)]


def _embed_tokens(place: Place, tokens: Tensor) -> Tensor:
    assert place.embedding is not None
    with torch.no_grad():
        return place.embedding(tokens)


def _checked(found: list[Place], model: str) -> list[Place]:
    if all(place.shape is None for place in found):
        raise UnsupportedModel(
            f"The inputs of {model} are whole numbers that go through no nn.Embedding, so that nothing can "
            "be moved along a line. Pass floats, or use method='KernelShap' with a function of the rows."
        )
    return found


def _finite(numbers: Floats) -> Floats:
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)))
        raise InvalidInput(
            f"The output, or its gradient, is not finite for row {row}. Check the weights, the scale of the "
            "rows, and whether the type of the weights is wide enough."
        )
    return numbers


def explain_inputs(explainer: IntegratedGradients, X: Any) -> Any:
    """Explain one output of a network by all its inputs at once: one explanation for each of them."""
    score: Any = explainer.score
    moved = MovedInputs(
        score.model, X, score.target, batch_size=explainer.network_batch, device=explainer.device
    )
    output = moved.fixed()
    found = _integrated(explainer, moved, output)
    parts = moved.split(found.values)
    sums = [part.reshape(len(part), -1).sum(axis=1) for part in parts]
    extras = {"n_gradients": found.n_gradients}
    if not callable(moved.target):
        extras["output"] = output
    settings = {name: getattr(explainer, name) for name in explainer._parameters}
    # Scores are the sum over all inputs: to each of them, what the others got belongs to the base.
    made = [
        Explanation(
            values=part,
            scores=found.scores,
            base_values=found.base + sum(sums) - own_sum,
            data=data,
            method=type(explainer).__name__,
            params={"explains": describe(moved.target, moved.softmax), **settings, **explainer.used()},
            extras=Extras(extras),
        )
        for part, own_sum, data in zip(parts, sums, moved.rows.given(X), strict=True)
    ]
    return moved.rows.like_given(made)


def _integrated(explainer: IntegratedGradients, moved: MovedInputs, output: Integers) -> Integrated:
    together = -(-explainer.network_batch // explainer.n_steps)  # lines whose gradients fill a batch
    own = (output, np.arange(len(output)))
    score = explainer._batched(moved)
    return explainer.integrated(Lines(score, moved.flat, _reference(explainer, moved), own, together))


def _reference(explainer: IntegratedGradients, moved: MovedInputs) -> Floats:
    """Return where lines start, as a flat row: the mean of the background, a given row, or nothing."""
    reference = explainer.baseline
    background = vars(explainer).get("inputs_")
    if reference is None:
        reference = "zero" if background is None else "mean"
    if isinstance(reference, str) and reference == "zero":
        return moved.empty()
    if isinstance(reference, str):
        if background is None:
            raise InvalidInput(
                "IntegratedGradients has no baseline: call fit(X) with background rows before explain(X)."
            )
        return _numbers(moved, background).mean(axis=0)
    if not moved.rows.alone:
        raise InvalidInput(
            "baseline is one row of one input, and the network has several. Pass background=<inputs like X> "
            "instead, whose mean is where lines start."
        )
    return _numbers(moved, np.asarray(reference)[None])[0]


def _numbers(moved: MovedInputs, given: Any) -> Floats:
    """Rows like X as flat rows, or an error that says how they differ."""
    rows = read_inputs(given, moved.dtype, converts=True).to(moved.device)
    shapes = [tuple(t.shape[1:]) for t in rows.tensors]
    wanted = [tuple(t.shape[1:]) for t in moved.rows.tensors]
    if shapes != wanted:
        raise InvalidInput(f"The background's inputs have rows of shape {shapes}; expected {wanted}, like X.")
    return moved.numbers(rows)
