"""Programs: everything that is done for a batch, up the network and down again, as one graph of operators.

A program is traced once: the engine runs as ever, and every operator that PyTorch carries out is written down
(`torch.fx`). `graph_passes` then makes the graph simpler. What depends on parameters alone is computed before
the first batch. The rest runs for each batch without the model's own code, as it is or compiled.
"""

from __future__ import annotations

import linecache
import logging
import operator
import threading
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from traceback import walk_tb
from typing import Any, Literal

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from tellwhy.explainers.propagation.engine.calls import has_derivatives, is_traced
from tellwhy.explainers.propagation.engine.graph_passes import (
    allow_any_order,
    attention_as_products,
    drop_copies,
    simplified,
)

Explained = Callable[..., list[Tensor]]  # tensors of a batch -> tensors of its result
_READ = frozenset(("tolist", "numpy", "__array__", "item", "is_nonzero", "equal", "allclose"))
_READ |= {"__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__"}
# Files of PyTorch, of this package, and code that was made while running.
_NOT_THE_USERS = (str(Path(torch.__file__).parent), str(Path(__file__).parents[3]), "<")


_ONE_AT_A_TIME = threading.RLock()  # PyTorch's tools for graphs change what all threads see


class NotTraceable(Exception):
    """The model, or a rule, looks at values: what it then does holds for this batch only."""


class _WithoutReading(TorchFunctionMode):
    """Refuses functions that give Python a number out of a tensor."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _READ:
            raise NotTraceable(f"{func.__name__} reads values of a tensor")
        return func(*args, **(kwargs or {}))


class Program:
    """What is done for batches of one shape, as a graph.

    Attributes
    ----------
    graph
        The graph of a batch; its parameters, and what was computed of them, are its attributes.
    n_operators
        Operators in the graph.
    run
        Runs it: the graph itself, or what a compiler made of it.
    """

    def __init__(self, graph: GraphModule):
        self._constants, self.graph = _apart(graph)
        self._names = [name for name in self.graph._buffers if name.startswith(_CONSTANT)]
        self.n_operators = sum(node.op == "call_function" for node in self.graph.graph.nodes)
        self.run: Callable[..., Any] = self.graph

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        """Tensors of the result of a batch."""
        with torch.no_grad():
            return list(self.run(*tensors))

    @property
    def is_compiled(self) -> bool:
        """Whether it runs compiled."""
        return self.run is not self.graph

    def refresh(self) -> None:
        """Compute anew what depends on parameters alone, which may have changed."""
        with torch.no_grad():
            for name, value in zip(self._names, self._constants(), strict=True):
                held = getattr(self.graph, name)
                if held.data_ptr() != value.data_ptr():  # a view of a parameter shows its changes
                    held.copy_(value)

    def compile(self, tensors: Sequence[Tensor], *, cuda_graphs: bool = False) -> None:
        """Compile the graph by Inductor; `tensors` are a batch.

        With `cuda_graphs` all kernels of a batch start at once: each batch writes into the same memory.
        """
        from torch._inductor import compile as compiled

        with _ONE_AT_A_TIME, torch.no_grad(), quiet():
            graph = attention_as_products(self.graph, tensors)
            made = compiled(graph, list(tensors), options={"triton.cudagraphs": cuda_graphs})
            made(*tensors)  # what is compiled when it first runs
        self.run = (lambda *given: [t.clone() for t in made(*given)]) if cuda_graphs else made


def traced(explained: Explained, tensors: Sequence[Tensor], *, any_rows: bool = False) -> Program:
    """Program of a function of a batch's tensors; `NotTraceable` where it looks at values.

    With `any_rows` it serves any number of rows: no size of it may depend on how many these are.
    """
    made = written_down(explained, tensors, any_rows=any_rows)
    try:
        with quiet(), torch.no_grad():
            return Program(simplified(made))
    except Exception as error:
        raise NotTraceable(_reason(error)) from error


def written_down(explained: Explained, tensors: Sequence[Tensor], *, any_rows: bool = False) -> GraphModule:
    """Graph of a function of a batch's tensors, which changes nothing in place, before all passes."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx

    given = [t.detach() for t in tensors]
    mode: Literal["real", "fake"] = (
        "real"  # so that what reads values is found, also where PyTorch cannot see it
    )
    sizes: AbstractContextManager[None] = nullcontext()
    table: dict[Any, Any] = {}
    if any_rows:
        given = _standing_for(given)
        mode = "fake"
        # PyTorch's own functions then keep the sizes open too; of padding there is another one that does.
        sizes = enable_python_dispatcher()
        table = {torch.ops.aten.constant_pad_nd.default: _padded}
    try:
        with _ONE_AT_A_TIME, quiet(), _tracing(), sizes:
            written = make_fx(explained, table, tracing_mode=mode, _allow_non_fake_inputs=any_rows)(*given)
        return _without_changes(written, _WRITTEN_OUT, given)
    except Exception as error:  # whatever it is, following each batch works, or tells what is wrong
        raise NotTraceable(_reason(error)) from error


def with_derivatives(explained: Explained, tensors: Sequence[Tensor]) -> tuple[GraphModule, bool]:
    """Graph of a function of a batch's tensors that can be differentiated, and whether it serves other rows.

    It does not where the function looks at values: what is written down then is what these rows lead to.
    """
    try:
        return _pure(explained, tensors, may_read=False), True
    except Exception:
        return _pure(explained, tensors, may_read=True), False


def _pure(explained: Explained, tensors: Sequence[Tensor], *, may_read: bool) -> GraphModule:
    """Graph without changes in place, and without the places where a history was cut off."""
    from torch.fx.experimental.proxy_tensor import make_fx

    mark = has_derivatives.set(True)
    try:
        # The fast kernels of attention have no second derivative.
        with quiet(), sdpa_kernel(SDPBackend.MATH), _tracing(may_read=may_read):
            written = make_fx(explained, tracing_mode="real", _error_on_data_dependent_ops=not may_read)(
                *tensors
            )
    finally:
        has_derivatives.reset(mark)
    allow_any_order(written.graph)
    written.graph.eliminate_dead_code()
    written.recompile()
    made = _without_changes(written, _differentiable_forms(), tensors)
    drop_copies(made.graph)
    allow_any_order(made.graph)
    made.graph.eliminate_dead_code()
    made.recompile()
    return made


def _without_changes(written: GraphModule, forms: dict[Any, Any], tensors: Sequence[Tensor]) -> GraphModule:
    """The same graph without changes in place, with some operators written in others."""
    from torch.fx.experimental.proxy_tensor import make_fx

    with _ONE_AT_A_TIME, quiet(), torch.no_grad():
        pure = torch.func.functionalize(written, remove="mutations")
        return make_fx(pure, forms, tracing_mode="fake", _allow_non_fake_inputs=True)(*tensors)


def _copied(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:  # noqa: ARG001
    """`copy`: the source in the form of x."""
    made = source.to(x.dtype).expand(x.shape)
    return made.contiguous() if x.is_contiguous() else made


def _places(x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None) -> Tensor:
    """Where the elements of a strided view are in the memory of x."""
    places = torch.full((), offset or 0, device=x.device)
    for n, step in zip(size, stride, strict=True):
        places = places[..., None] + step * torch.arange(n, device=x.device)
    return places.flatten()


def _strided(x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> Tensor:
    """`as_strided`, whose own derivative goes by the order in memory of what comes down."""
    if not x.is_contiguous():
        return NotImplemented
    return x.reshape(-1)[_places(x, size, stride, offset)].reshape(list(size))


def _strided_scatter(
    x: Tensor, source: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Tensor:
    """`as_strided_scatter`, likewise."""
    if not x.is_contiguous():
        return NotImplemented
    return x.reshape(-1).scatter(0, _places(x, size, stride, offset), source.reshape(-1)).reshape(x.shape)


def _differentiable_forms() -> dict[Any, Callable[..., Any]]:
    """Operators whose own derivative PyTorch does not have, or not of all inputs, written in others."""
    from torch._decomp import decomposition_table, get_decompositions

    aten = torch.ops.aten
    norms = (
        "native_batch_norm",
        "_native_batch_norm_legit_no_training",
        "native_layer_norm",
        "native_group_norm",
    )
    found: dict[Any, Callable[..., Any]] = {
        op: form for op, form in decomposition_table.items() if "_backward" in str(op)
    }
    # ReLU's own tells autograd that what is cut off is fixed, and that a derivative of zero exists.
    del found[aten.threshold_backward.default]
    found.update(get_decompositions([getattr(aten, name) for name in norms]))
    found[aten.copy.default] = _copied
    found[aten.as_strided.default] = _strided
    found[aten.as_strided_scatter.default] = _strided_scatter
    return found


def _standing_for(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors without numbers and with some number of rows, which stand for all like these."""
    from torch._dynamo.source import ConstantSource
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    found: list[Tensor] = []
    for k, tensor in enumerate(tensors):
        sizes = [DimDynamic.DYNAMIC, *[DimDynamic.STATIC] * (tensor.ndim - 1)]
        context: Any = StatelessSymbolicContext(dynamic_sizes=sizes)
        source = ConstantSource(f"input_{k}")
        found.append(mode.from_tensor(tensor, source=source, symbolic_context=context, static_shapes=False))
    return found


def _filled(x: Tensor, mask: Tensor, value: float) -> Tensor:
    """`masked_fill`, which would put its result rows first; all around it are channels last."""
    return torch.where(mask, value, x)


def _padded(x: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """`constant_pad_nd`, the last axis first; where less than nothing is added, something is cut off."""
    for k in range(len(pad) // 2):
        axis = x.ndim - 1 - k
        x = x.narrow(axis, max(-pad[2 * k], 0), x.shape[axis] + min(pad[2 * k], 0) + min(pad[2 * k + 1], 0))
        sizes = [max(n, 0) for n in pad[2 * k : 2 * k + 2]]
        ends = [x.new_full((*x.shape[:axis], n, *x.shape[axis + 1 :]), value) for n in sizes]
        x = torch.cat([ends[0], x, ends[1]], dim=axis)
    return x


_WRITTEN_OUT = {torch.ops.aten.masked_fill.Scalar: _filled}


def first_line(error: BaseException) -> str:
    """What an error says first."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _reason(error: BaseException) -> str:
    """What went wrong first, and the line of the user's model that did it."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    said = first_line(error)
    if "_local_scalar_dense" in said:
        said = "a number is read out of a tensor"
    passed = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    users = [place for place in passed if not place[0].startswith(_NOT_THE_USERS)]
    if not users:
        return said
    path, line = users[-1]
    return f"{said} ({path}, line {line}: {linecache.getline(path, line).strip()})"


@contextmanager
def _tracing(*, may_read: bool = False) -> Iterator[None]:
    """A block in which operators are written down, those of the way back too."""
    mark = is_traced.set(True)
    reading = nullcontext() if may_read else _WithoutReading()
    try:
        # Only this thread writes.
        with torch.enable_grad(), torch.autograd.set_multithreading_enabled(False), reading:
            yield
    finally:
        is_traced.reset(mark)


_CONSTANT = "constant_"


def _apart(module: GraphModule) -> tuple[GraphModule, GraphModule]:
    """The graph of what depends on parameters alone, and that of a batch, which has its results."""
    # Tensors that depend on nothing, such as zeros, are made anew: keeping them would cost memory.
    constant: dict[Node, None] = {}  # in their order
    free: dict[Node, None] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            constant[node] = None
        elif node.op == "call_function" and all(i in constant or i in free for i in node.all_input_nodes):
            (constant if any(i in constant for i in node.all_input_nodes) else free)[node] = None
    wanted = [node for node in constant if node.op != "get_attr" and _is_read_outside(node, constant)]
    constants = _computing(module, wanted, constant | free)
    with torch.no_grad():
        values = constants()
    for k, (node, value) in enumerate(zip(wanted, values, strict=True)):
        module.register_buffer(f"{_CONSTANT}{k}", value)
        with module.graph.inserting_before(node):
            held = module.graph.get_attr(f"{_CONSTANT}{k}")
        node.replace_all_uses_with(held)
    module.graph.eliminate_dead_code()
    module.delete_all_unused_submodules()
    module.recompile()
    return constants, module


def _is_read_outside(node: Node, constant: Container[Node]) -> bool:
    """Whether a constant tensor is used by what depends on the batch; of several in one, each is asked."""
    several = any(user.target is operator.getitem for user in node.users)
    return not several and any(user not in constant for user in node.users)


def _computing(module: GraphModule, wanted: Sequence[Node], among: Container[Node]) -> GraphModule:
    """Module that computes some constants."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in module.graph.nodes:
        if node in among:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in wanted))
    graph.eliminate_dead_code()
    return GraphModule(module, graph)


@contextmanager
def quiet() -> Iterator[None]:
    """A block in which PyTorch's tools for graphs keep their remarks to themselves."""
    loggers = [logging.getLogger(name) for name in ("torch._inductor", "torch.fx", "torch._dynamo")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
