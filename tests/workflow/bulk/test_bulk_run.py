"""Rows explained block by block: as in one go, and the same bytes whatever happens on the way."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import tellwhy
from tellwhy.bulk import block as block_module, blocks as blocks_module
from tellwhy.bulk.block import explain_block
from tellwhy.bulk.blocks import plan_blocks
from tellwhy.bulk.parts import make_folders, read_record
from tellwhy.bulk.plan import Job
from tellwhy.bulk.run import explain_bulk
from tellwhy.core.errors import CannotWrite, MissingExtra, UnreadableFile
from tellwhy.data import as_table
from tellwhy.kinds.table import change_request, judge, tell_judged
from tellwhy.workflow import fit_model, load_run
from workflow.bulk.runs import GROUP, content_of, finish, make_inputs, readings, run_here, start

ROWS = 6 * GROUP


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Inputs, and the content of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("bulk")
    make_inputs(folder)
    assert finish(start(folder, "whole", workers=1))[0] == ROWS
    return folder


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks_module, "BLOCK_ROWS", GROUP)


@pytest.fixture
def in_process(monkeypatch):
    run_here(monkeypatch)


def test_scores_and_alarms_are_those_of_one_go(place):
    model = tellwhy.load(place / "m.tellwhy")
    request = change_request(model, {"top": 300})
    whole = tell_judged(judge(model, as_table(pd.read_parquet(place / "big.parquet")), request, is_part=True))
    parts = sorted((place / "whole" / "parts").glob("*-scores.parquet"))
    scores = pd.concat([pd.read_parquet(part) for part in parts], ignore_index=True)
    assert scores["row"].tolist() == list(range(ROWS))
    # What findings add depends on how many rows of a block they are about; the detector's part does not.
    assert np.array_equal(scores["is_alarm"], whole.scores > whole.threshold)
    alarms = pd.concat(
        [pd.read_parquet(part) for part in sorted((place / "whole" / "parts").glob("*-alarms.parquet"))]
    )
    assert sorted(alarms["row"]) == sorted(a.row for a in whole.anomalies if a.above_threshold)
    assert alarms["reason_1"].str.startswith(("b = 3", "b = 4")).all()


def test_the_run_lists_the_oddest_alarms_of_all_blocks(place):
    run = load_run(place / "whole" / "run")
    assert run.alarms.n_flagged == run.n_flagged == ROWS // 20
    assert len(run.scores) == ROWS
    frame = pd.read_parquet(place / "big.parquet")
    assert [a.score for a in run.anomalies] == sorted((a.score for a in run.anomalies), reverse=True)
    for anomaly, (_, cells) in zip(run.anomalies, run.table_rows.iterrows(), strict=True):
        assert frame["b"].iloc[anomaly.row] == cells["b"] > 20
        assert np.isclose(run.scores[anomaly.row], anomaly.score)
    listed = json.loads((place / "whole" / "parts.json").read_text())
    assert listed["n_rows"] == ROWS
    assert len(listed["parts"]) == 12


def test_two_workers_give_the_same_bytes(place):
    assert finish(start(place, "two", workers=2))[0] == ROWS
    assert content_of(place / "two") == content_of(place / "whole")


def kill_and_resume(place, rng, n_kills):
    """Kill a run at random moments until it has been killed so often; finished runs begin anew."""
    reference = content_of(place / "whole")
    kills = finished = 0
    longest = 12.0
    while kills < n_kills:
        process = start(place, "killed")
        began = time.monotonic()
        if rng.random() < 0.5:  # at any moment, or while blocks are being written
            time.sleep(float(rng.uniform(0.3, longest)))
        else:
            wait_for_block(process, place / "killed" / "blocks")
            time.sleep(float(rng.uniform(0.0, 1.5)))
        victims = ["all", "parent", "starter", "worker"]
        victim = victims[int(rng.integers(4))]
        if process.poll() is None:
            kills += 1
            kill(process, victim)
        process.communicate(timeout=600)
        if process.returncode == 0:
            longest = max(1.0, 0.5 * (longest + time.monotonic() - began))
            assert content_of(place / "killed") == reference, victim
            shutil.rmtree(place / "killed")
            finished += 1
    finish(start(place, "killed"))
    assert content_of(place / "killed") == reference
    shutil.rmtree(place / "killed")


def wait_for_block(process, folder):
    """Wait until one more block is done, or the run has ended."""
    before = len(list(folder.glob("*.json")))
    until = time.monotonic() + 300
    while process.poll() is None and len(list(folder.glob("*.json"))) <= before:
        assert time.monotonic() < until
        time.sleep(0.02)


def kill(process, victim):
    if victim == "starter":
        kill_all(below(process.pid))
    elif victim == "worker":
        kill_all([worker for starter in below(process.pid) for worker in below(starter)][-1:])
    elif victim == "parent":
        process.kill()  # its workers must not outlive it
    else:
        os.killpg(process.pid, signal.SIGKILL)


def below(pid):
    """Processes that a process started and that are still there."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]


def kill_all(pids):
    for pid in pids:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGKILL)


def test_killed_a_few_times_nothing_is_lost_or_doubled(place):
    kill_and_resume(place, np.random.default_rng(0), 2)


@pytest.mark.slow
def test_killed_at_fifty_moments_nothing_is_lost_or_doubled(place):
    kill_and_resume(place, np.random.default_rng(1), 50)


def test_ctrl_c_ends_it_and_the_next_run_goes_on(place):
    process = start(place, "stopped")
    time.sleep(4)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    finish(start(place, "stopped"))
    assert content_of(place / "stopped") == content_of(place / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["parent", "starter"])
def test_workers_do_not_outlive_those_that_started_them(place, victim):
    process = start(place, f"orphans-{victim}")
    wait_for_block(process, place / f"orphans-{victim}" / "blocks")
    workers = [worker for starter in below(process.pid) for worker in below(starter)]
    assert len(workers) == 2
    kill(process, victim)
    until = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{worker}/exe") for worker in workers):
        assert time.monotonic() < until
        time.sleep(0.02)
    process.communicate(timeout=600)
    assert process.returncode == (0 if victim == "starter" else -signal.SIGKILL)


def test_a_corrupt_row_group_is_named_and_the_rest_delivered(place, tmp_path, small_blocks, in_process):
    content = bytearray((place / "big.parquet").read_bytes())
    group = pq.read_metadata(place / "big.parquet").row_group(3).column(0)
    at = group.data_page_offset + group.total_compressed_size // 2
    content[at : at + 8] = b"\xff" * 8
    (tmp_path / "big.parquet").write_bytes(bytes(content))
    result = explain_bulk(tmp_path / "big.parquet", model=place / "m.tellwhy", out=tmp_path / "out")
    assert [words for words, _ in result.failed] == [f"row group 3 of {tmp_path / 'big.parquet'}"]
    assert result.n_rows == ROWS - GROUP
    rows = set()
    for part in (tmp_path / "out" / "parts").glob("*-scores.parquet"):
        rows |= set(pd.read_parquet(part)["row"])
    assert rows == set(range(ROWS)) - set(range(3 * GROUP, 4 * GROUP))
    assert any("row group 3" in text for text in load_run(tmp_path / "out" / "run").notes)
    assert json.loads((tmp_path / "out" / "parts.json").read_text())["failed"]


def test_what_the_fitting_did_not_see_is_counted_over_all_blocks(place, tmp_path, small_blocks, in_process):
    frame = readings(ROWS, 1)
    frame.loc[[3, 200, 201], "kind"] = ["z", "z", "y"]
    frame.to_parquet(tmp_path / "new.parquet", row_group_size=GROUP)
    result = explain_bulk(tmp_path / "new.parquet", model=place / "m.tellwhy", out=tmp_path / "out")
    before = readings(240, 0).query("b < 20")
    n = int(((frame["b"] < before["b"].min()) | (frame["b"] > before["b"].max())).sum())
    told = json.loads((tmp_path / "out" / "parts.json").read_text())["beyond"]
    assert told["b"] == {"n": n, "n_filled": ROWS, "labels": {}}
    assert told["kind"] == {"n": 2, "n_filled": ROWS, "labels": {"z": 2}}
    since = [text for text in result.run.notes if text.startswith("Since the model was fitted: ")]
    assert len(since) == 1
    assert f"b: {n} of {ROWS} (" in since[0]
    assert f"kind: 2 of {ROWS} have labels not seen: z (2)" in since[0]


def test_counts_of_one_block_are_not_told_of_all(tmp_path, small_blocks, in_process):
    """Later dates, and rows in which a relation holds, are many in all and few in each block."""
    before, after = [readings(4 * GROUP, seed).query("b < 20").reset_index(drop=True) for seed in (0, 1)]
    for frame, first in ((before, "2026-01-01"), (after, "2026-01-20")):
        frame["day"] = np.datetime64(first) + np.arange(len(frame)) * 7 % 30
        frame["twice"] = 2 * frame["c"]
    after.loc[[5, 150], "twice"] = 30.0
    after.to_parquet(tmp_path / "new.parquet", row_group_size=GROUP)
    path = tellwhy.save(fit_model(before), tmp_path / "m.tellwhy")
    run = explain_bulk(tmp_path / "new.parquet", model=path, out=tmp_path / "out").run
    told = " ".join(run.notes)
    n = int((after["day"] > before["day"].max()).sum())
    assert f"day: {n} of {len(after)} (" in told
    assert "day: dates later than those of the fitting are not compared." in run.notes
    assert "dates are later" not in told
    texts = [finding.text for finding in run.findings]
    assert [text for text in texts if text.startswith("2 rows: ") and "does not hold" in text]
    assert not [text for text in texts if "holds in the other" in text]


def test_a_cluster_that_is_not_installed_leaves_no_folder(place, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match="--ray needs 'ray'"):
        explain_bulk(place / "big.parquet", model=place / "m.tellwhy", out=tmp_path / "out", ray="local")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_is_told_and_the_next_run_goes_on(place, tmp_path, small_blocks, in_process):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    settings = {"model": place / "m.tellwhy", "out": tmp_path / "out"}
    resource.setrlimit(resource.RLIMIT_FSIZE, (4500, hard))
    try:
        with pytest.raises(CannotWrite):
            explain_bulk(place / "big.parquet", **settings)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert explain_bulk(place / "big.parquet", **settings).n_rows == ROWS
    assert content_of(tmp_path / "out") == content_of(place / "whole")


def test_a_part_that_was_damaged_afterwards_is_made_again(place, tmp_path, small_blocks, in_process):
    shutil.copytree(place / "whole", tmp_path / "out")
    part = tmp_path / "out" / "parts" / "00004-scores.parquet"
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    (tmp_path / "out" / "parts" / "00005-alarms.parquet").unlink()
    result = explain_bulk(place / "big.parquet", model=place / "m.tellwhy", out=tmp_path / "out")
    assert result.n_resumed == 4
    assert content_of(tmp_path / "out") == content_of(place / "whole")


def test_another_run_is_not_mixed_with_this_one(place, tmp_path, small_blocks, in_process):
    shutil.copytree(place / "whole", tmp_path / "out")
    settings = {"model": place / "m.tellwhy", "out": tmp_path / "out"}
    with pytest.raises(CannotWrite, match="--all changed since it began"):
        explain_bulk(place / "big.parquet", explain_all=True, **settings)
    readings(50, 3).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(CannotWrite, match="the files changed"):
        explain_bulk(tmp_path / "other.parquet", **settings)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(CannotWrite, match="holds something else"):
        explain_bulk(place / "big.parquet", model=place / "m.tellwhy", out=tmp_path / "mine")


def test_a_model_that_cannot_be_read_leaves_no_folder(place, tmp_path):
    (tmp_path / "cut.tellwhy").write_bytes((place / "m.tellwhy").read_bytes()[:3000])
    with pytest.raises(UnreadableFile, match="is no model, or a damaged one"):
        explain_bulk(place / "big.parquet", model=tmp_path / "cut.tellwhy", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_block_that_kills_its_process_is_named(place, tmp_path, monkeypatch, small_blocks):
    """The pool tries it three times, the last time alone; the other blocks are delivered."""
    monkeypatch.setattr("tellwhy.bulk.block.explain_block", deadly)
    result = explain_bulk(place / "big.parquet", model=place / "m.tellwhy", out=tmp_path / "out", workers=2)
    assert [words for words, _ in result.failed] == [f"row group 2 of {place / 'big.parquet'}"]
    assert "killed 3 times" in result.failed[0][1]
    assert result.n_rows == ROWS - GROUP


def test_what_a_killed_worker_left_half_written_is_removed(place, tmp_path, monkeypatch, small_blocks):
    def work(job, block):
        (tmp_path / "out" / "unfinished" / f"{block.number}.json").write_text("half")
        return explain_block(job, block)

    run_here(monkeypatch, work)
    explain_bulk(place / "big.parquet", model=place / "m.tellwhy", out=tmp_path / "out")
    assert content_of(tmp_path / "out") == content_of(place / "whole")


def deadly(job, block):
    if block.number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return explain_block(job, block)


def test_attributions_of_every_row(place, tmp_path, small_blocks, in_process):
    explain_bulk(place / "big.parquet", model=place / "m.tellwhy", out=tmp_path / "out", explain_all=True)
    found = pd.read_parquet(tmp_path / "out" / "parts" / "00003-attributions.parquet")
    assert found["row"].tolist() == list(range(3 * GROUP, 4 * GROUP))
    values = found.filter(like="value: ")
    assert list(values.columns) == ["value: a", "value: b", "value: c", "value: d", "value: kind"]
    assert np.allclose(values.sum(axis=1), found["score"], rtol=0.2, atol=0.5)


def test_a_budget_leaves_reasons_out_but_no_alarm(place, tmp_path, small_blocks, monkeypatch, in_process):
    monkeypatch.setattr(block_module, "EXPLAINED_AT_ONCE", 1)
    settings = {"model": place / "m.tellwhy", "budget": 1e-9}
    result = explain_bulk(place / "big.parquet", out=tmp_path / "out", **settings)
    assert result.n_alarms == ROWS // 20
    notes = pd.read_parquet(tmp_path / "out" / "parts" / "00000-alarms.parquet")["note"]
    assert notes.str.startswith("not explained").sum() >= len(notes) - 1


def test_many_small_files_share_blocks(place, tmp_path, in_process):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for k in range(12):
        where = tmp_path / "in" / ("deep" if k % 2 else ".")
        readings(25, k).to_csv(where / f"f{k:02d}.csv", index=False)
    (tmp_path / "in" / "notes.md").write_text("no table")
    assert len(plan_blocks([tmp_path / "in"])) == 1
    result = explain_bulk(tmp_path / "in", model=place / "m.tellwhy", out=tmp_path / "out")
    assert result.n_rows == 300
    assert result.n_alarms == sum(int((readings(25, k)["b"] > 20).sum()) for k in range(12))
    alarms = pd.read_parquet(tmp_path / "out" / "parts" / "00000-alarms.parquet")
    assert set(alarms["row"]) == {7}
    assert len(set(alarms["file"])) == 12


def test_one_broken_file_of_many_costs_itself_alone(place, tmp_path, in_process):
    (tmp_path / "in").mkdir()
    for k in range(3):
        readings(25, k).to_parquet(tmp_path / "in" / f"f{k}.parquet")
    (tmp_path / "in" / "f1.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    result = explain_bulk(tmp_path / "in", model=place / "m.tellwhy", out=tmp_path / "out")
    assert result.n_rows == 50
    assert len(result.failed) == 1
    assert "f1.parquet" in result.failed[0][0]
    with pytest.raises(UnreadableFile, match="holds no table"):
        (tmp_path / "none").mkdir()
        explain_bulk(tmp_path / "none", model=place / "m.tellwhy", out=tmp_path / "out2")


def test_records_that_are_made_up_are_not_believed(place, tmp_path, small_blocks):
    make_folders(tmp_path)
    assert read_record(tmp_path, 0) is None
    (tmp_path / "blocks" / "00000.json").write_text('{"number": 0, "parts": {"x": [1, 2]}}')
    assert read_record(tmp_path, 0) is None
    (tmp_path / "blocks" / "00001.json").write_text("[]")
    assert read_record(tmp_path, 1) is None
    job = Job(str(place / "m.tellwhy"), "", str(tmp_path))
    record = explain_block(job, plan_blocks([place / "big.parquet"])[0])
    assert read_record(tmp_path, 0) == record
    assert pq.read_table(tmp_path / "parts" / "00000-scores.parquet").num_rows == GROUP


def test_without_alarms_the_oddest_rows_are_told_by_their_numbers(place, tmp_path, small_blocks, in_process):
    frame = readings(3 * GROUP, 5)
    frame = frame[frame["b"] < 20].reset_index(drop=True)
    frame.to_parquet(tmp_path / "quiet.parquet", index=False)
    result = explain_bulk(tmp_path / "quiet.parquet", model=place / "m.tellwhy", out=tmp_path / "out")
    assert result.n_alarms == 0
    assert result.run.headline[0].startswith(f"None of the {len(frame)} rows stands out")
    assert "No row is above the threshold" in result.run.summary
    oddest = result.run.anomalies[0]
    assert oddest.row == int(np.argmax(result.run.scores))
    assert result.run.table_rows["b"].iloc[0] == frame["b"].iloc[oddest.row]


def test_rows_with_gaps_that_are_dropped_keep_the_numbers_of_the_others(tmp_path, small_blocks, in_process):
    model = fit_model(readings(240, 0).query("b < 20"), missing="drop")
    path = tellwhy.save(model, tmp_path / "m.tellwhy")
    frame = readings(3 * GROUP, 1)
    frame.loc[[2, 3, 70, 71, 72], "a"] = np.nan
    frame.to_parquet(tmp_path / "gaps.parquet", row_group_size=GROUP, index=False)
    result = explain_bulk(tmp_path / "gaps.parquet", model=path, out=tmp_path / "out")
    assert result.n_rows == 3 * GROUP - 5
    odd = set(frame.index[(frame["b"] > 20) & frame["a"].notna()])
    assert {anomaly.row for anomaly in result.run.anomalies} == odd
    assert set(result.run.rows[result.run.scores > result.run.threshold]) == odd
    part = pd.read_parquet(tmp_path / "out" / "parts" / "00001-scores.parquet")
    assert part.index[part["score"].isna()].tolist() == [10, 11, 12]
