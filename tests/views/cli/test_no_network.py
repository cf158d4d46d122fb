"""No command speaks to the network, and no package that it loads does: sockets are forbidden here."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd

FORBIDDEN = """
import socket, sys

def refuse(*_args, **_settings):
    raise AssertionError("a socket was opened")

class Closed(socket.socket):
    def connect(self, address):
        if self.family != getattr(socket, "AF_UNIX", None):
            refuse()
        return super().connect(address)
    connect_ex = connect
    def sendto(self, *_args):
        refuse()

socket.socket = Closed
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = refuse
from typer.testing import CliRunner
from tellwhy.views.cli import app

for line in sys.stdin.read().splitlines():
    done = CliRunner().invoke(app, line.split())
    if done.exit_code:
        raise SystemExit(f"{line}: {done.output} {done.stderr} {done.exception!r}")
"""
COMMANDS = """\
check t.csv -q
explain t.csv --out run -q
fit t.csv --save m.tellwhy -q
explain t.csv --model m.tellwhy --out by-model -q
explain t.csv --model m.tellwhy --workers 1 --out blocks -q
diff t.csv u.csv
repair t.csv --out clean.csv -q
report run
methods
explain t.csv --time at --out events -q
mark m.tellwhy
"""


def test_no_command_opens_a_connection(tmp_path):
    rng = np.random.default_rng(0)
    for name in "tu":
        frame = pd.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"])
        frame.insert(0, "at", pd.date_range("2026-01-01", periods=90, freq="h"))
        frame.loc[40, "a"] = 99.0
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    done = subprocess.run(
        [sys.executable, "-c", FORBIDDEN],
        input=COMMANDS,
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "run" / "report.html").exists()
