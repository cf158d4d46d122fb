"""Threads that wait for each other, and that share out tasks, inside compiled loops.

numba has no atomic counters of its own, so that these few instructions are written for LLVM directly.
"""

import platform
import sys

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tellwhy.core.compiled import njit

LINE = 8  # counters in a cache line: threads that write to the same one would slow each other down
_LOOKS = 1000  # before the core is offered to others


def _place(context, builder, signature, args):
    kind = signature.args[0]
    counters = context.make_array(kind)(context, builder, args[0])
    return cgutils.get_item_pointer(context, builder, kind, counters, [args[1]], wraparound=False)


@intrinsic
def _set_count(typingctx, counters, at, value):
    """Set a counter, after everything that was written before."""

    def generate(context, builder, signature, args):
        # "release": whoever sees this count also sees what this thread wrote before it.
        builder.store_atomic(args[2], _place(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.none(counters, types.intp, types.int64), generate


@intrinsic
def _read_count(typingctx, counters, at):
    """Read a counter, before everything that is read after."""

    def generate(context, builder, signature, args):
        return builder.load_atomic(_place(context, builder, signature, args), "acquire", 8)

    return types.int64(counters, types.intp), generate


@intrinsic
def take_next_task(typingctx, counters, at):
    """The number that a counter had before this call added one to it: no two threads get the same."""

    def generate(context, builder, signature, args):
        one = context.get_constant(types.int64, 1)
        return builder.atomic_rmw("add", _place(context, builder, signature, args), one, "monotonic")

    return types.int64(counters, types.intp), generate


_HAS_PAUSE = platform.machine().lower() in ("x86_64", "amd64")


@intrinsic
def _pause(typingctx):
    """Wait for some cycles, which leaves the core to a thread that runs on its other half."""

    def generate(context, builder, signature, args):
        if _HAS_PAUSE:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.none(), generate


if sys.platform == "win32":

    @njit(nogil=True, cache=True)
    def _offer_core():
        pass

else:
    _sched_yield = types.ExternalFunction("sched_yield", types.int32())

    @njit(nogil=True, cache=True)
    def _offer_core():
        _sched_yield()


@njit(nogil=True, cache=True)
def wait_for_all(t, barrier, times):
    """Let thread t come to the barrier for the `times`-th time and wait until all threads have."""
    if barrier.n_threads == 1:
        return
    _set_count(barrier.arrived, LINE * t, times)
    for other in range(barrier.n_threads):
        looks = 0
        # Threads are some microseconds apart, far less than sleeping and waking would take.
        while _read_count(barrier.arrived, LINE * other) < times:
            looks += 1
            _pause()
            if looks > _LOOKS:
                _offer_core()
