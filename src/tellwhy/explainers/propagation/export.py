"""Explanations as programs in files: prediction and relevance of new rows, without this package.

A file holds the graph of operators that `engine.program` writes down, for any number of rows, with the
weights. PyTorch loads it: `torch.export.load("explain.pt2").module()(x)`. Where its operators exist there,
the same is written as ONNX.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import Graph
from torch.nn import Module

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.optional import require
from tellwhy.explainers.propagation.batches import share_forward
from tellwhy.explainers.propagation.engine.graph_passes import simplified
from tellwhy.explainers.propagation.engine.program import (
    NotTraceable,
    first_line,
    quiet,
    traced,
    written_down,
)
from tellwhy.scoring.network_inputs import Inputs
from tellwhy.scoring.network_outputs import tensor_of
from tellwhy.scoring.network_passes import check_target, untouched
from tellwhy.storage.folders import check_new_file, new_file
from tellwhy.storage.overwriting import NEVER

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.base import NetworkExplainer

MOST_ROWS = 2**20
N_ROWS = 61  # of the tensors that stand for all others while a program is written
_SUFFIXES = (".pt2", ".onnx")


class Explaining(Module):
    """Prediction and explanation of rows, as the graph of a program gives them.

    Returns a dict: "prediction", what the network gives; "values", shaped like the input (of several inputs
    a list, in their order); "scores", the explained number of each row; "outputs", which output that is.
    """

    def __init__(self, graph: Module, n_inputs: int):
        super().__init__()
        self.steps = graph  # `graph` would be taken for that of the whole, once it is written
        self.n_inputs = n_inputs

    def forward(self, *inputs: Tensor) -> dict[str, Any]:
        """Prediction and explanation of some rows."""
        found = self.steps(*inputs)
        values = found[1] if self.n_inputs == 1 else list(found[1 : 1 + self.n_inputs])
        return {"prediction": found[0], "values": values, "scores": found[-2], "outputs": found[-1]}


def export(explainer: NetworkExplainer, path: str | Path, X: Any) -> Path:
    """Write the program that explains rows like X; see `NetworkExplainer.export`."""
    target = Path(path)
    if target.suffix not in _SUFFIXES:
        raise InvalidParameter(f"path must end in .pt2 or .onnx. Got {str(path)!r}.")
    check_new_file(target, sign=NEVER)
    model, rows = explainer.prepare(X)
    wanted = _checked(explainer, rows)
    with untouched(rows.tensors[0].device), torch.enable_grad():
        try:
            made = _program(explainer, model, rows, wanted)
            _compare(explainer, model, rows, made)
        except NotTraceable as reason:
            raise UnsupportedModel(
                f"{type(model).__name__} cannot be exported: {reason}. What it does has to be the same for "
                "all rows."
            ) from None
        sizes = [{0: torch.export.Dim("rows", min=1, max=MOST_ROWS)} for _ in rows.tensors]
        with quiet(), torch.no_grad():
            program = torch.export.export(made, _several(rows), dynamic_shapes={"inputs": tuple(sizes)})
    (_write_onnx if target.suffix == ".onnx" else _write)(program, target)
    return target


def graphs(explainer: NetworkExplainer, X: Any) -> dict[str, Graph]:
    """The graph of a batch as it is written down, and after each pass; see `NetworkExplainer.graphs`."""
    model, rows = explainer.prepare(X)
    wanted = check_target(explainer.target, len(rows))
    found: dict[str, Graph] = {}

    def explained(*tensors: Tensor) -> list[Tensor]:
        return share_forward([explainer], model, replace(rows, tensors=tensors), [wanted])[0].tensors

    def look(name: str, graph: Graph) -> None:
        found[f"{len(found)} {name}"] = copy.deepcopy(graph)

    with untouched(rows.tensors[0].device), torch.enable_grad():
        try:
            made = written_down(explained, rows.tensors)
            look("written_down", made.graph)
            with torch.no_grad():
                simplified(made, look)
        except NotTraceable as reason:
            raise UnsupportedModel(f"{type(model).__name__} has no graph: {reason}.") from None
    return found


def _checked(explainer: NetworkExplainer, rows: Inputs) -> Any:
    """The target, one for all rows; refuse explainers that do more than go down."""
    if not (explainer.shares_forward and explainer.goes_down_only):
        raise InvalidInput(
            f"{type(explainer).__name__} looks at other rows than those it explains, and cannot be exported. "
            "Gradient, InputTimesGradient and LRP can."
        )
    wanted = check_target(explainer.target, len(rows))
    if isinstance(wanted, np.ndarray):
        raise InvalidInput(
            "A program explains rows that come later, so that their target cannot be a number for each row. "
            "Use 'max' or the number of one output."
        )
    return wanted


def _program(explainer: NetworkExplainer, model: Module, rows: Inputs, wanted: Any) -> Explaining:
    def explained(*tensors: Tensor) -> list[Tensor]:
        batch = replace(rows, tensors=tensors)
        found = share_forward([explainer], model, batch, [wanted])[0]
        given = tensor_of(model, batch.apply(model, [t.clone() for t in tensors]))
        return [given.detach(), *found.tensors]

    graph = copy.deepcopy(traced(explained, _several(rows), any_rows=True).graph)
    for name, tensor in [*graph.named_parameters(), *graph.named_buffers()]:
        # Each tensor whole and alone: some are views of others.
        *owner, own_name = name.split(".")
        module = graph.get_submodule(".".join(owner))
        if own_name in module._parameters:
            module._parameters[own_name] = torch.nn.Parameter(tensor.detach().clone(), requires_grad=False)
        else:
            module._buffers[own_name] = tensor.detach().clone()
    return Explaining(graph, len(rows.tensors))


def _several(rows: Inputs) -> tuple[Tensor, ...]:
    """As many rows as hardly another size of a network is: PyTorch then knows which sizes go with them."""
    return tuple(torch.cat([t] * -(-N_ROWS // len(t)))[:N_ROWS] for t in rows.tensors)


def _compare(explainer: NetworkExplainer, model: Module, rows: Inputs, made: Module) -> None:
    """Refuse a program that gives something else than the explainer, for these rows or for the first."""
    for part in (slice(None), slice(0, 1)):
        batch = rows.rows(part)
        right = share_forward([explainer], model, batch, [check_target(explainer.target, 1)])[0].values
        with torch.no_grad():
            found = made(*batch.tensors)["values"]
        for a, b in zip([found] if isinstance(found, Tensor) else found, right, strict=True):
            far = torch.linalg.vector_norm(a.double() - b.double())
            if far > 1e-2 * torch.linalg.vector_norm(b.double()):
                raise NotTraceable("its program gives other values than following its operations")


def _write(program: Any, target: Path) -> None:
    with quiet(), new_file(target, sign=NEVER) as place:
        torch.export.save(program, place)


def _write_onnx(program: Any, target: Path) -> None:
    require("onnxscript", "writing ONNX")
    with quiet():
        try:
            made: Any = torch.onnx.export(program, dynamo=True, verbose=False)
        except Exception as error:
            raise UnsupportedModel(
                f"ONNX has not all operators of this explanation: {first_line(error)} Export it as .pt2."
            ) from error
    with new_file(target, sign=NEVER) as place:
        made.save(place)
