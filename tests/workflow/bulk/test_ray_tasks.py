"""The same blocks as tasks of Ray: the same bytes, and a killed worker costs a try."""

import os
import signal
import subprocess
import time

import pytest

pytest.importorskip("ray")

from workflow.bulk.runs import content_of, finish, make_inputs, start

pytestmark = pytest.mark.slow  # a cluster takes a while to start


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    make_inputs(folder)
    finish(start(folder, "whole", workers=1))
    return folder


def workers_of(process):
    """Processes of Ray that run tasks, started by a run."""
    found = subprocess.run(["ps", "-eo", "pid,sid,args"], capture_output=True, text=True, check=True).stdout
    lines = [line.split(maxsplit=2) for line in found.splitlines()[1:]]
    return [int(pid) for pid, sid, args in lines if int(sid) == process.pid and "explain_block" in args]


def test_ray_gives_the_same_bytes(place):
    finish(start(place, "ray", ray="local", workers=2))
    assert content_of(place / "ray") == content_of(place / "whole")


def test_a_killed_worker_costs_nothing(place):
    process = start(place, "ray-killed", ray="local", workers=2)
    n_killed = 0
    until = time.monotonic() + 240
    while process.poll() is None and n_killed < 2 and time.monotonic() < until:
        for pid in workers_of(process)[:1]:
            os.kill(pid, signal.SIGKILL)
            n_killed += 1
        time.sleep(1.0)
    finish(process)
    assert n_killed
    assert content_of(place / "ray-killed") == content_of(place / "whole")


def test_a_run_that_was_killed_as_a_whole_goes_on(place):
    process = start(place, "ray-resumed", ray="local", workers=2)
    until = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < until:
        if list((place / "ray-resumed" / "blocks").glob("*.json")):
            os.killpg(process.pid, signal.SIGKILL)
            break
        time.sleep(0.2)
    process.communicate(timeout=120)
    finish(start(place, "ray-resumed", ray="local", workers=2))
    assert content_of(place / "ray-resumed") == content_of(place / "whole")
