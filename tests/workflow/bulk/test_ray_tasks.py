"""The same blocks as tasks of Ray: the same bytes, and a killed worker costs a try."""

import os
import signal
import subprocess
import sys
import textwrap
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


def raylets_of(process):
    """The node processes of Ray that a run started on this machine."""
    found = subprocess.run(["ps", "-eo", "pid,sid,comm"], capture_output=True, text=True, check=True).stdout
    lines = [line.split(maxsplit=2) for line in found.splitlines()[1:]]
    return [int(pid) for pid, sid, name in lines if int(sid) == process.pid and name.startswith("raylet")]


CLUSTER = """
    import sys
    from ray.cluster_utils import Cluster
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node = cluster.add_node(num_cpus=1)
    print(cluster.address, flush=True)
    sys.stdin.readline()
    node.kill_raylet()
    print("killed", flush=True)
    sys.stdin.readline()
    cluster.shutdown()
"""


def test_a_killed_node_of_two_costs_nothing(place):
    """One of two machines goes in mid-work: its blocks are done by the other."""
    # In a process of its own: Ray leaves files and processes open, which would be warnings here.
    cluster = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CLUSTER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    process = start(place, "ray-node", ray=address_of(cluster))
    until = time.monotonic() + 300
    while not list((place / "ray-node" / "blocks").glob("*.json")) and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.1)
    was_at_work = process.poll() is None
    cluster.stdin.write("now\n")
    cluster.stdin.flush()
    assert finish(process)[3] == 0
    cluster.communicate("end\n", timeout=120)
    assert was_at_work
    assert content_of(place / "ray-node") == content_of(place / "whole")


def address_of(cluster):
    """What the process that holds a cluster printed, below what Ray prints."""
    for line in cluster.stdout:
        if line.strip().replace(".", "").replace(":", "").isdigit():
            return line.strip()
    raise AssertionError("no cluster was started")


def test_the_only_node_is_killed_and_the_next_run_goes_on(place):
    process = start(place, "ray-alone", ray="local", workers=2)
    until = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < until:
        if list((place / "ray-alone" / "blocks").glob("*.json")):
            for pid in raylets_of(process):
                os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.1)
    process.communicate(timeout=300)
    # Whether that run came to an end or not, nothing is lost or doubled.
    finish(start(place, "ray-alone", ray="local", workers=2))
    assert content_of(place / "ray-alone") == content_of(place / "whole")


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
