"""Small tables in many row groups, and bulk runs over them in processes of their own."""

import subprocess
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import tellwhy
from tellwhy.bulk.block import explain_block
from tellwhy.workflow import fit_model

GROUP = 60
# As people write it, with nothing that keeps copies of the process from running it once more.
CODE = """
    from tellwhy.bulk import blocks
    from tellwhy.bulk.run import explain_bulk
    blocks.BLOCK_ROWS = {group}
    result = explain_bulk({source!r}, model={model!r}, out={out!r}, workers={workers}, ray={ray!r})
    print(result.n_rows, result.n_alarms, result.n_resumed, len(result.failed))
"""


def readings(n: int, seed: int) -> pd.DataFrame:
    """Three numbers and a label; every twentieth row has an absurd number."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["d"] = frame["a"] + 0.1 * rng.normal(size=n)
    frame["kind"] = rng.choice(["x", "y"], n)
    frame.loc[frame.index % 20 == 7, "b"] = 40.0 + rng.normal(size=int((frame.index % 20 == 7).sum()))
    return frame


def make_inputs(folder: Path, *, groups: int = 6) -> None:
    """Write `m.tellwhy` and `big.parquet`, a file of several row groups."""
    tellwhy.save(fit_model(readings(240, 0).query("b < 20")), folder / "m.tellwhy")
    table = pa.Table.from_pandas(readings(groups * GROUP, 1), preserve_index=False)
    pq.write_table(table, folder / "big.parquet", row_group_size=GROUP, write_page_checksum=True)


def start(
    folder: Path, out: str, *, workers: int = 2, ray: str | None = None, source: str = "big.parquet"
) -> subprocess.Popen:
    """Begin a run in a process (and a process group) of its own."""
    code = textwrap.dedent(CODE).format(
        group=GROUP,
        source=str(folder / source),
        model=str(folder / "m.tellwhy"),
        out=str(folder / out),
        workers=workers,
        ray=ray,
    )
    script = folder / f"run-{out}.py"  # no name that an import could mean
    script.write_text(code)
    return subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_here(monkeypatch, work=explain_block) -> None:
    """Let blocks be explained in this process: faster, where processes are not the matter."""
    runner = lambda workers, ray: nullcontext(lambda job, blocks: (work(job, block) for block in blocks))  # noqa: E731
    monkeypatch.setattr("tellwhy.bulk.run._choose_runner", runner)


def finish(process: subprocess.Popen) -> list[int]:
    """Wait for a run; return rows, alarms, blocks that were done before, and failures."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return [int(word) for word in out.split()]


def content_of(folder: Path) -> dict[str, bytes]:
    """Every file of a run by its name, but for the lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "at-work"
    }
