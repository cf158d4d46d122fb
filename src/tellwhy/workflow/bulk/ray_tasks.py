"""Blocks as tasks of a Ray cluster: the same function as on one machine, and the same bytes.

Every machine of the cluster must see the files, the model and the folder of the run under the same names (a
network disk). A worker or a machine that dies costs its blocks one more try.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Any

from tellwhy.core.optional import require
from tellwhy.workflow.bulk.blocks import Block
from tellwhy.workflow.bulk.explain_block import Job, explain_block
from tellwhy.workflow.bulk.parts import Record
from tellwhy.workflow.bulk.pool import MOST_TRIES, killed

LOCAL = "local"
_QUEUED = 2  # blocks per processor of the cluster that are handed out at a time


def run_on_ray(job: Job, blocks: Sequence[Block], address: str, n_workers: int) -> Iterator[Record]:
    """Explain blocks as Ray tasks; records come as blocks are done.

    Parameters
    ----------
    job, blocks
        What is to be done.
    address
        Of a cluster ('ray://head:10001', '10.0.0.1:6379', 'auto'), or 'local' for one on this machine.
    n_workers
        Processes of a local cluster; one elsewhere is used whole.
    """
    ray: Any = require("ray", "--ray")
    with redirect_stdout(sys.stderr):  # Ray tells of dead workers where results are printed
        _connect(ray, address, n_workers)
        try:
            yield from _records(ray, job, blocks)
        finally:
            ray.shutdown()


def _connect(ray: Any, address: str, n_workers: int) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    settings: dict[str, Any] = {
        "include_dashboard": False,
        "log_to_driver": False,
        "configure_logging": False,
    }
    if address == LOCAL:
        settings["num_cpus"] = n_workers
    else:
        settings = {"address": address, "log_to_driver": False, "configure_logging": False}
    ray.init(ignore_reinit_error=True, **settings)


def _records(ray: Any, job: Job, blocks: Sequence[Block]) -> Iterator[Record]:
    # Tries are counted here, so that a block that kills every worker is named in the end.
    task = ray.remote(num_cpus=1, max_retries=0)(explain_block)
    waiting = list(reversed(blocks))
    tries: Counter[int] = Counter()
    at_work: dict[Any, Block] = {}
    while waiting or at_work:
        most = _QUEUED * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while waiting and len(at_work) < most:
            block = waiting.pop()
            at_work[task.remote(job, block)] = block
        done, _ = ray.wait(list(at_work), num_returns=1)
        for reference in done:
            block = at_work.pop(reference)
            try:
                yield ray.get(reference)
            except _deaths(ray):
                tries[block.number] += 1
                if tries[block.number] >= MOST_TRIES:
                    yield killed(block)
                else:
                    waiting.append(block)
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from error


def _deaths(ray: Any) -> tuple[type[Exception], ...]:
    """What a task raises whose worker was killed, or whose machine went, with or without its result."""
    names = (
        "WorkerCrashedError",
        "NodeDiedError",
        "LocalRayletDiedError",
        "ObjectLostError",
        "OutOfMemoryError",
    )
    return tuple(getattr(ray.exceptions, name) for name in names if hasattr(ray.exceptions, name))
