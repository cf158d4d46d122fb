"""Units of work on several processes, each on a core of its own; results come as they are finished."""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

Unit = dict[str, Any]


def finished(
    do: Callable[[Unit], Unit], units: list[Unit], cores: list[int], seconds: float
) -> Iterator[Unit]:
    """Yield what `do` makes of each unit, in any order; nothing new is started after some seconds.

    Without cores, everything happens here. A process whose unit failed reports it and is replaced, twenty times.
    """
    end = time.time() + seconds
    if not cores:
        for unit in units:
            if time.time() < end:
                yield do(unit)
        return
    context = multiprocessing.get_context("spawn")
    waiting, made = context.Queue(), context.Queue()
    for unit in units:
        waiting.put(unit)
    running = {core: _started(context, core, do, waiting, made, end) for core in cores}
    replaced = 0
    while running:
        try:
            core, unit, problem = made.get(timeout=5)
        except queue.Empty:
            running = {core: process for core, process in running.items() if process.is_alive()}
            continue
        if unit is not None:
            yield unit
            continue
        running.pop(core).join()
        if problem is not None:
            print(problem, flush=True)
            replaced += 1
        if problem is not None and replaced <= 20:
            running[core] = _started(context, core, do, waiting, made, end)


def _started(context: Any, core: int, *arguments: Any) -> Any:
    process = context.Process(target=_work, args=(core, *arguments), daemon=True)
    process.start()
    return process


def _work(core: int, do: Callable[[Unit], Unit], waiting: Any, made: Any, end: float) -> None:
    os.sched_setaffinity(0, {core})
    while time.time() < end:
        try:
            unit = waiting.get(timeout=1)
        except queue.Empty:
            break
        try:
            made.put((core, do(unit), None))
        except Exception:
            made.put((core, None, f"{unit}\n{traceback.format_exc()}"))
            return
    made.put((core, None, None))
