"""Passes through a PyTorch network that leave no trace on it: one number per row, and its derivatives.

A target says which number of the output that is: "max" (the largest output of each row), the number of an
output, one such number per row, or a function from the outputs to one number per row.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from torch.overrides import TorchFunctionMode

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyError, UnsupportedModel
from tellwhy.scoring.network_inputs import check_one_a_row

Pick = Callable[[Tensor], Tensor]  # outputs of some rows -> the explained number of each
Device = str | torch.device | None


def check_model(model: Any) -> None:
    """Refuse what is not a network in evaluation mode."""
    if not isinstance(model, Module):
        raise UnsupportedModel(
            f"Expected a torch.nn.Module. Got {type(model).__name__} instead: leave the method out, and one "
            "that suits the model is picked."
        )
    if _is_exported(model):
        raise UnsupportedModel(
            "An exported program has no evaluation mode, and its operations are not PyTorch's functions. "
            "Save it by torch.export.save(program, 'model.pt2') and explain "
            "tellwhy.workflow.load_network('model.pt2').model."
        )
    for name, module in model.named_modules():
        if module.training:
            where = f"its module '{name}'" if name else "it"
            raise UnsupportedModel(
                f"{type(model).__name__} cannot be explained: {where} is in training mode, where dropout and "
                "batch norm depend on chance and on the other rows. Call model.eval() first."
            )


def _is_exported(model: Module) -> bool:
    """Whether this is `torch.export.export(...).module()`: a graph of PyTorch's innermost operations."""
    if not isinstance(model, torch.fx.GraphModule):
        return False
    return any(isinstance(node.target, torch._ops.OpOverload) for node in model.graph.nodes)


class Placed(NamedTuple):
    """A model where it computes, that device, and the type of its weights."""

    model: Module
    device: torch.device
    dtype: torch.dtype


def placed(model: Module, device: Device, otherwise: str | torch.device = "cpu") -> Placed:
    """Return the model on a device: itself where it is there already, else a copy.

    Without a device the model stays where it is; `otherwise` is where a model without weights is. A compiled
    model is taken as the module it was made from, whose operations can be followed.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile keeps of the module
    weights = next((p for p in model.parameters() if p.is_floating_point()), None)
    at = torch.device(otherwise) if weights is None else weights.device
    dtype = torch.get_default_dtype() if weights is None else weights.dtype
    if device is None:
        return Placed(model, at, dtype)
    try:
        wanted = torch.empty(0, device=device).device  # "cuda" becomes "cuda:0", which can be compared
    except (RuntimeError, AssertionError) as error:
        raise InvalidParameter(
            f"device={device!r} cannot be used here ({str(error).splitlines()[0]}): leave it out, or pass "
            "'cpu'."
        ) from error
    if wanted == at:
        return Placed(model, at, dtype)
    return Placed(copy.deepcopy(model).to(wanted), wanted, dtype)


@contextmanager
def untouched(device: torch.device) -> Iterator[None]:
    """A block in which random numbers that the model draws do not show outside, without mixed precision."""
    cuda = [device] if device.type == "cuda" else []
    state = torch.get_rng_state()
    cuda_states = [torch.cuda.get_rng_state(place) for place in cuda]
    try:
        # A caller's inference mode would forbid gradients, and autocast would change the numbers.
        with torch.inference_mode(False), torch.autocast(device.type, enabled=False):
            yield
    finally:
        if not torch.equal(torch.get_rng_state(), state):
            torch.set_rng_state(state)
        for place, before in zip(cuda, cuda_states, strict=True):
            torch.cuda.set_rng_state(before, place)


class TrailingSoftmax(TorchFunctionMode):
    """Remembers the newest softmax of a forward pass: its name, what went in and what came out."""

    def __init__(self) -> None:
        super().__init__()
        self.name = ""
        self.newest: tuple[Any, Any] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation."""
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in ("softmax", "log_softmax"):
            logits = args[0] if args else (kwargs or {}).get("input")
            self.name = name
            self.newest = (logits, result)
        return result

    def left_out(self, outputs: Any) -> tuple[Any, str]:
        """Outputs before the softmax, and its name, if it was the last operation; else the outputs and ''."""
        if self.newest is not None and self.newest[1] is outputs:
            return self.newest[0], self.name
        return outputs, ""


def compute_outputs_of(model: Module, x: Tensor) -> tuple[Tensor, str]:
    """Outputs of the model before a trailing softmax, and the name of that softmax ('' for none)."""
    watch = TrailingSoftmax()
    with watch:
        outputs = applied(model, x)
    return watch.left_out(outputs)


def applied(model: Module, x: Tensor) -> Tensor:
    """Outputs of the model as it gives them, or an error that says which rows it was applied to."""
    try:
        outputs = model(x)
    except TellwhyError:
        raise
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{type(model).__name__} cannot be applied to rows of shape {tuple(x.shape)} and dtype {x.dtype} "
            f"(rows first): {error}"
        ) from error
    checked: Tensor = check_one_a_row(model, tensor_of(model, outputs), len(x))
    return checked


USUAL = "logits"  # what models of Hugging Face call the outputs that classes are read from


def tensor_of(model: Module, outputs: Any) -> Tensor:
    """The tensor among what a model returned: itself, the one called "logits", or the only one there is."""
    if isinstance(outputs, Tensor):
        return outputs
    tensors = {key: value for key, value in parts_of(outputs).items() if isinstance(value, Tensor)}
    if USUAL not in tensors and len(tensors) != 1:
        raise UnsupportedModel(describe_not_one_tensor(model, outputs))
    found: Tensor = tensors.get(USUAL, next(iter(tensors.values())))
    return found


def parts_of(outputs: Any) -> dict[str, Any]:
    """What a network returned, by name: a dict, an object with fields, a tuple by place."""
    if isinstance(outputs, Mapping):
        return {str(key): value for key, value in outputs.items()}
    if hasattr(outputs, "_fields"):  # a named tuple
        return {name: getattr(outputs, name) for name in outputs._fields}
    if isinstance(outputs, (tuple, list)):
        return {str(place): value for place, value in enumerate(outputs)}
    return {key: value for key, value in getattr(outputs, "__dict__", {}).items() if not key.startswith("_")}


def describe_not_one_tensor(model: Module, outputs: Any) -> str:
    """What to say of a model that returns something else than one tensor."""
    return (
        f"{type(model).__name__} returns a {type(outputs).__name__}; one tensor of outputs (rows first) can "
        "be explained, or the one called 'logits' of several. Wrap the model in a module whose forward "
        "returns the tensor you mean."
    )


def as_tensor(X: Any, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return rows as a tensor on a device: whole numbers (tokens) as such, others in the given type."""
    # A copy, because a model may work in place. It keeps the order of X in memory: sums of a matrix product
    # in single precision depend on it, and the same rows must give the same bits.
    copied = np.array(X, order="K")
    whole = copied.dtype.kind in "iu"
    return torch.as_tensor(copied, device=device, dtype=torch.long if whole else dtype)


def put_in_evaluation_mode(model: Module) -> Module:
    """Return the model, or a copy in evaluation mode where some part of the model is in training mode.

    The mode of the model itself is never switched, not even for a moment: another thread may be training it.
    The copy holds the same weights, not copies of them, so that it costs next to no memory.
    """
    if not any(module.training for module in model.modules()):
        return model
    try:
        return copy_sharing_weights(model).eval()
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise UnsupportedModel(
            f"{type(model).__name__} is in training mode, and no copy in evaluation mode can be made of it "
            f"({error}). Call model.eval() first."
        ) from error


def copy_sharing_weights(model: Module) -> Module:
    """Return a copy of a model that holds the same weights, not copies of them."""
    # What deepcopy finds in its memo it takes over as it is. Weights must not be doubled; other tensors that
    # are attributes may be results of a computation (weight norm keeps one), which cannot be copied. Buffers
    # are copied, since a forward pass may write to them.
    shared: dict[int, Any] = {id(weight): weight for weight in model.parameters()}
    for module in model.modules():
        shared.update({id(value): value for value in vars(module).values() if isinstance(value, Tensor)})
    return copy.deepcopy(model, shared)


def outputs_in_evaluation_mode(model: Module, X: Any, batch_size: int) -> Any:
    """Outputs of all rows, in float64, as the model gives them in evaluation mode; it is left as it is.

    Rows may be an array, or a tensor that is where the model computes (from `place_on_device`).
    """
    there = placed(model, None)
    evaluated = put_in_evaluation_mode(there.model)
    n_batches = -(-len(X) // batch_size)
    with untouched(there.device), torch.no_grad():
        if isinstance(X, Tensor):
            tensors = iter(torch.tensor_split(X, n_batches))
        else:
            tensors = (as_tensor(rows, there.device, there.dtype) for rows in np.array_split(X, n_batches))
        parts = [applied(evaluated, rows) for rows in tensors]
        return torch.cat(parts).double().cpu().numpy()


def place_on_device(model: Module, X: Any) -> Tensor:
    """Return rows as the model takes them, where it computes: rows that are made of them need no copy."""
    there = placed(model, None)
    return as_tensor(X, there.device, there.dtype)


def compute_slopes_of(model: Module, x: Tensor, pick: Pick) -> tuple[Tensor, Tensor]:
    """Explained number of each row, and its derivative by each cell of the row."""
    try:
        return _slopes(model, x, pick)
    except RuntimeError as error:
        if "inplace operation" not in str(error):
            raise
    # Slower, for models that change in place what autograd has kept: it then keeps copies.
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        return _slopes(model, x, pick)


def _slopes(model: Module, x: Tensor, pick: Pick) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        scores = pick(
            compute_outputs_of(model, leaf.clone())[0]
        )  # the copy may be changed in place, a leaf may not
        if not scores.requires_grad:
            raise UnsupportedModel(
                f"The output of {type(model).__name__} does not depend on its input through operations with "
                "a gradient: something on the way detaches it (torch.no_grad, .detach(), .data, numpy)."
            )
        return scores.detach(), torch.autograd.grad(scores.sum(), leaf)[0]


Target = str | int | Sequence[int] | np.ndarray | Tensor | Callable[[Tensor], Tensor]
CheckedTarget = str | int | np.ndarray | Tensor | Callable[[Tensor], Tensor]


def check_target(target: Any, n_rows: int) -> CheckedTarget:
    """Return 'max', an int, a function, or one int per row; refuse everything else."""
    if target == "max" if isinstance(target, str) else callable(target):
        checked: CheckedTarget = target
        return checked
    wanted = np.asarray(target.detach().cpu() if isinstance(target, Tensor) else target)
    if wanted.dtype.kind not in "iu" or wanted.ndim > 1:
        raise InvalidParameter(
            "The 'target' parameter must be 'max', an output's number, one number per row, or a function of "
            f"the outputs that gives one number per row. Got {target!r} instead."
        )
    if wanted.ndim == 1 and len(wanted) != n_rows:
        raise InvalidInput(f"target has {len(wanted)} entries for {n_rows} rows of x.")
    return int(wanted) if wanted.ndim == 0 else wanted


def of_rows(target: CheckedTarget, rows: slice) -> CheckedTarget:
    """The target of some of the rows."""
    return target[rows] if isinstance(target, np.ndarray) else target


def pick_scores(outputs: Tensor, target: CheckedTarget) -> Tensor:
    """Explained number of each row of outputs (n, k), (n, 1) or (n,)."""
    if callable(target):
        scores = target(outputs)
        if not isinstance(scores, Tensor) or scores.shape != outputs.shape[:1]:
            got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise InvalidInput(
                f"target(outputs) must give a tensor of shape ({len(outputs)},). Got {got} instead."
            )
        return scores
    if outputs.ndim > 2:
        raise InvalidInput(
            f"The model's outputs have shape {tuple(outputs.shape)}: say which number is explained with "
            "target=<function of the outputs that gives one number per row>."
        )
    return outputs.reshape(outputs.shape[0], -1).gather(1, choose_outputs(outputs, target)[:, None])[:, 0]


def choose_outputs(outputs: Tensor, target: CheckedTarget) -> Tensor:
    """Return the number of each row's explained output, on the device of the outputs.

    Zeros where the target is a function.
    """
    if isinstance(target, str):
        return outputs.detach().reshape(outputs.shape[0], -1).argmax(dim=1)
    if callable(target):
        return torch.zeros(outputs.shape[0], dtype=torch.int64, device=outputs.device)
    if isinstance(target, Tensor):  # one for each row, where the outputs are
        return target
    if isinstance(target, int):  # made on the device, which a copy would have to wait for
        in_range(np.array([target]), outputs[:1].numel())
        return torch.full((outputs.shape[0],), target, dtype=torch.int64, device=outputs.device)
    wanted = np.broadcast_to(np.asarray(target, dtype=np.int64), len(outputs))
    return torch.as_tensor(in_range(wanted, outputs[:1].numel()).copy(), device=outputs.device)


def in_range(chosen: np.ndarray, n_outputs: int) -> np.ndarray:
    """Return numbers of outputs, or say which of them there is not."""
    # Negative numbers are refused too: counting from the end is more often a mistake than meant.
    bad = chosen[(chosen < 0) | (chosen >= n_outputs)]
    if len(bad):
        raise InvalidInput(f"target {bad[0]} is out of range: the model has outputs 0 to {n_outputs - 1}.")
    return chosen


def describe(target: CheckedTarget, softmax: str) -> str:
    """One sentence: which number is explained; `softmax` is the name of one that was left out."""
    if callable(target):
        named = f"{getattr(target, '__name__', 'a function')} of the outputs"
        what = getattr(target, "describes", named)
    elif isinstance(target, str):
        what = "the largest output of each row"
    else:
        what = f"output {target}" if isinstance(target, int) else "one given output per row"
    return f"{what}, before the trailing {softmax} (left out)" if softmax else what
