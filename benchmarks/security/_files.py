"""Attacks by what is read and printed: rows that get lost, bombs, damage, any table, text that is obeyed."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from benchmarks.shared.places import TESTS
from tellwhy.core.errors import TellwhyError
from tellwhy.data import read_table
from tellwhy.data.graph_files import read_grid
from tellwhy.detectors import KernelDensity
from tellwhy.storage.csv_cells import neutralise
from tellwhy.views.cli.main import app

sys.path.append(str(TESTS))
fuzzed_files = import_module("fuzzing.test_fuzzed_files")
fuzzed_folders = import_module("fuzzing.test_fuzzed_folders")
random_tables = import_module("fuzzing.random_tables")

Row = tuple[str, int, int]  # class of attack, attempts, failures
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
FLIPS = 600
DAMAGES = 500  # of each kind of file
FOLDERS = 150  # of each kind of folder


def is_kept(read: Callable[[], Any], holds: Callable[[Any], bool]) -> bool:
    """Whether something is read as it was meant, or refused by an error of ours."""
    try:
        return holds(read())
    except TellwhyError:
        return True
    except Exception:
        return False


def quotation_marks(place: Path, n: int = 300) -> Row:
    """A stray mark anywhere: the file is refused, or no line is swallowed by another."""
    rng = np.random.default_rng(0)
    failures = 0
    for k in range(n):
        cell = "note{}" if k % 2 else '"note{}"'
        rows = [f"{i},{i * 1.5},{cell.format(i)}" for i in range(60)]
        at = int(rng.integers(60))
        inside = int(rng.integers(len(rows[at]) + 1))
        rows[at] = rows[at][:inside] + '"' + rows[at][inside:]
        path = place / "t.csv"
        path.write_text("a,b,c\n" + "\n".join(rows) + "\n")
        failures += not is_kept(lambda path=path: read_table(path).frame, lambda frame: len(frame) == 60)
    return "5 rows: stray quotation marks", n, failures


def identifiers(place: Path) -> Row:
    """Long and zero-led identifiers in every format arrive as they were written."""
    kinds = {
        "long": [str(10**19 + i) for i in range(40)],
        "led": [f"{i:05d}" for i in range(40)],
        "one led": ["00007", *(str(10_000 + i) for i in range(39))],
        "many": [str(i) for i in range(800)] + [str(10**21 + i) for i in range(40)],
    }
    failures = 0
    for cells in kinds.values():
        table = pd.DataFrame({"id": cells, "x": np.arange(len(cells)) / 3})
        for form in random_tables.FORMATS:
            path = random_tables.write(table, place, form)
            failures += not is_kept(
                lambda path=path: read_table(path).frame["id"],
                lambda found, cells=cells: [str(c) for c in found] == cells,
            )
    return "5 identifiers: 20 digits, zeros before digits", len(kinds) * len(random_tables.FORMATS), failures


def flipped_bits(place: Path) -> Row:
    """A bit of the pages of a Parquet file with checksums: noticed, or without effect."""
    rng = np.random.default_rng(1)
    content = io.BytesIO()
    table = pa.table({"x": rng.normal(size=500), "k": rng.integers(0, 99, 500), "t": ["a", "bc"] * 250})
    pq.write_table(table, content, write_page_checksum=True)
    path = place / "t.parquet"
    path.write_bytes(content.getvalue())
    truth = read_table(path).frame
    end = len(content.getvalue()) - 8 - int.from_bytes(content.getvalue()[-8:-4], "little")  # of the pages
    failures = 0
    for _ in range(FLIPS):
        damaged = bytearray(content.getvalue())
        damaged[rng.integers(4, end)] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        failures += not is_kept(lambda: read_table(path).frame, truth.equals)
    return "5 values: bits of Parquet pages", FLIPS, failures


def masks(n: int = 50) -> Row:
    """Numbers below a mask: a model refuses the rows, whatever the numbers are."""
    rng = np.random.default_rng(2)
    failures = 0
    for _ in range(n):
        rows = np.ma.masked_array(rng.normal(size=(30, 3)), mask=np.zeros((30, 3), bool))
        rows[rng.integers(30), rng.integers(3)] = np.ma.masked
        try:
            KernelDensity().fit(rows)
            failures += 1
        except TellwhyError:
            pass
    return "5 values: masks of arrays", n, failures


def any_table(place: Path, n: int = 120) -> Row:
    """Tables of any columns, in any format, with any detector and method: a status, and a report."""
    properties = import_module("fuzzing.test_any_table")
    rng = np.random.default_rng(3)
    failures = 0
    for k in range(n):
        names = list(rng.choice(random_tables.NAMES, rng.integers(1, 7), replace=False))
        kinds = rng.choice(len(random_tables.KINDS), len(names))
        rows = int(rng.integers(1, 61))
        columns = {
            name: pd.Series(random_tables.KINDS[j](rng, rows)) for name, j in zip(names, kinds, strict=True)
        }
        words = (
            []
            if k % 2
            else ["--detector", rng.choice(properties.FAST), "--method", rng.choice(properties.METHODS)]
        )
        file = random_tables.write(pd.DataFrame(columns), place, str(rng.choice(random_tables.FORMATS)))
        out = place / "run"
        shutil.rmtree(out, ignore_errors=True)
        try:
            status = properties.run("explain", file, "--out", out, *words)
            failures += status in properties.FINISHED and properties.run("report", out) != 0
        except AssertionError:
            failures += 1
    return "7 any table, format, detector and method", n, failures


def damaged_files(place: Path) -> Row:
    """Bytes and structures changed at random: read as was meant where checksums tell, or refused in words."""
    attempts = 0
    failures = 0
    for case in fuzzed_files.cases():
        for seed in range(DAMAGES // 25):
            attempts += 25
            try:
                fuzzed_files.attack(case, place, 25, 1000 + seed)
            except AssertionError:
                failures += 1
    return "8 damaged files: bytes and structures", attempts, failures


def damaged_folders(place: Path) -> Row:
    """Runs, explanations and models with one file changed: used, or refused in words."""
    attempts = 0
    failures = 0
    sound = (place / "sound", {})
    sound[0].mkdir()
    for name in fuzzed_folders.CASES:
        for seed in range(FOLDERS // 25):
            attempts += 25
            work = place / "work"
            shutil.rmtree(work, ignore_errors=True)
            try:
                fuzzed_folders.attack(name, sound, work, 25, 1000 + seed)
            except AssertionError:
                failures += 1
    return "8 damaged folders: runs, explanations, models", attempts, failures


def bombs(place: Path) -> Row:
    """Small files that ask for gigabytes, or for ever: refused before memory is given to them."""
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(30_000, np.int32)), pa.array(["x" * 400_000]))
    pq.write_table(pa.table({"t": repeated}), place / "text.parquet")
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 10000000), }".ljust(117) + "\n"
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + b"\0" * 64
    (place / "a.npy").write_bytes(array)
    for name, signs in (("lists", "[]"), ("objects", '{"a":}')):
        deep = signs[:-1] * 10**6 + ("1" if name == "objects" else "") + signs[-1] * 10**6
        (place / f"{name}.jsonl").write_text('{"a": 1}\n{"a": ' + deep + "}\n")
        (place / f"{name}.json").write_text('[{"a": 1}, {"a": ' + deep + "}]")
    (place / "names.jsonl").write_text("\n".join(json.dumps({f"n{i}": i}) for i in range(60_000)))
    tries: list[Callable[[], Any]] = [lambda: read_grid(place / "a.npy")]
    for name in ("text.parquet", "lists.jsonl", "lists.json", "objects.jsonl", "objects.json", "names.jsonl"):
        tries.append(lambda name=name: read_table(place / name))
    for name in ("/dev/zero", "/dev/stdin"):
        tries += [lambda name=name: read_table(name), lambda name=name: read_grid(name)]
    failures = sum(not is_kept(read, lambda _: False) for read in tries)
    return "8 bombs: sizes, depths, names, devices", len(tries), failures


def obeyed_text(place: Path) -> Row:
    """Controls in headers, labels, ids and names of files; formulas behind every separator."""
    evil = "evil\x1b]0;pwned\x07\x1b[2J\x9b31m\u202e\u2028x"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.normal(size=60), evil: rng.normal(size=60), "k": rng.choice([evil, "b"], 60)}
    )
    frame["id"] = [f"{evil}{i}" for i in range(60)]
    frame.to_csv(place / f"{evil}.csv", index=False)
    file = str(place / f"{evil}.csv")
    commands = [
        ["explain", file, "--id", "id", "--out", str(place / "o")],
        ["check", file],
        ["diff", file, file],
    ]
    commands += [[*command, "--json"] for command in commands] + [["explain", evil], ["report", evil]]
    printed = [CliRunner().invoke(app, command).output for command in commands]
    failures = sum(CONTROLS.search(text) is not None or not text for text in printed)
    starts = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
    befores = ("", " ", '"', "a;", "a; ", 'a;"', "a\t", "a\n", "a\r\n", "a|")
    for start in starts:
        for before in befores:
            pieces = re.split(r"[;\t\n\r|]", neutralise(f"{before}{start}1+1"))
            failures += any(piece.lstrip(' "').startswith(start) for piece in pieces)
    return (
        "9 text that a terminal or a spreadsheet obeys",
        len(printed) + len(starts) * len(befores),
        failures,
    )


def rows() -> list[Row]:
    """Every class of attack."""
    found = [masks()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for attack in (
            quotation_marks,
            identifiers,
            flipped_bits,
            any_table,
            bombs,
            damaged_files,
            damaged_folders,
            obeyed_text,
        ):
            with tempfile.TemporaryDirectory() as made:
                found.append(attack(Path(made)))
    return found
