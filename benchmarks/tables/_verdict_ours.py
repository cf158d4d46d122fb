"""What tellwhy says of a table by default, read from the Python interface or from the command's --json."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.tables._verdict_planting import Planted


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Alarms and findings, as a user reads them.

    Attributes
    ----------
    alarms
        Rows above the threshold.
    reasons
        Of rows that are listed: the columns of the first reason, and its sentence.
    findings
        Kind, columns, rows, sentence and whether it makes a row odd, of each finding.
    stated
        How many false alarms the run expects; None where it does not say.
    """

    alarms: set[int]
    reasons: dict[int, tuple[frozenset[str], str]]
    findings: list[tuple[str, frozenset[str], frozenset[int], str]]
    stated: float | None
    n_flagged: int

    def flagged(self) -> set[int]:
        return self.alarms.union(*(rows for _, _, rows, _ in self.findings))


def ask(frame: pd.DataFrame, reference: pd.DataFrame | None, *, way: str) -> Verdicts:
    """Default settings, on a file as users have it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        frame.to_csv(path, index=False)
        other = None
        if reference is not None:
            other = Path(folder) / "reference.csv"
            reference.to_csv(other, index=False)
        return {"function": _by_function, "command": _by_command, "check": _by_check}[way](path, other)


def _by_function(path: Path, other: Path | None) -> Verdicts:
    from tellwhy.workflow import explain_table

    run = explain_table(path, reference=other)
    over = {int(r) for r, s in zip(run.rows, run.scores, strict=True) if s > run.threshold}
    over |= {int(a.row) for a in run.anomalies if a.above_threshold}
    reasons = {int(a.row): _first([(r.feature, r.text) for r in a.reasons]) for a in run.anomalies}
    findings = [
        (f.kind, frozenset(f.columns), frozenset(f.rows), f.text) for f in getattr(run, "findings", ())
    ]
    expected = getattr(getattr(run, "alarms", None), "expected_false", None)
    return Verdicts(over, reasons, findings, expected, int(getattr(run, "n_flagged", len(over))))


def _by_command(path: Path, other: Path | None) -> Verdicts:
    command = [
        sys.executable,
        "-m",
        "tellwhy",
        "explain",
        str(path),
        "--json",
        "--out",
        str(path.parent / "run"),
    ]
    command += ["--reference", str(other)] if other else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
    said: dict[str, Any] = json.loads(done.stdout)
    over = {int(a["row"]) for a in said["anomalies"] if a["above_threshold"]}
    reasons = {
        int(a["row"]): _first([(r["feature"], r.get("text", "")) for r in a["reasons"]])
        for a in said["anomalies"]
    }
    findings = [
        (f["kind"], frozenset(f["columns"]), frozenset(f["rows"]), f["text"])
        for f in said.get("findings", ())
    ]
    expected = dict(said.get("alarms") or {}).get("expected_false")
    return Verdicts(over, reasons, findings, expected, int(said.get("n_flagged", len(over))))


def _by_check(path: Path, other: Path | None) -> Verdicts:
    """The quality pass alone: alarms are rows of findings that make a row odd."""
    from tellwhy.kinds.checked_file import check_file

    found = check_file(path, reference=other).quality.findings
    alarms = {int(row) for f in found if f.surprise > 0 for row in f.rows}
    findings = [(f.kind, frozenset(f.columns), frozenset(f.rows), f.text) for f in found]
    return Verdicts(alarms, {}, findings, None, len(alarms))


def _first(reasons: list[tuple[str, str]]) -> tuple[frozenset[str], str]:
    """The columns that the first reason names: its own, and those that its sentence speaks of."""
    return (frozenset([reasons[0][0]]), reasons[0][1]) if reasons else (frozenset(), "no reason")


def judged(said: Verdicts, planted: Planted) -> dict[str, Any]:
    """Found and named, of each planted row; false alarms; what was said of the first row that went wrong."""
    flagged = said.flagged()
    found, named, words = [], [], []
    for row, also, right in zip(planted.rows, planted.also, planted.columns, strict=True):
        here = {row, also} - {-1}
        found.append(bool(here & flagged))
        named.append(any(_is_named(said, r, right, planted.kinds) for r in here & flagged))
        words.append(_words(said, row))
    wrong = [i for i in range(len(found)) if not (found[i] and named[i])]
    real = {*planted.rows, *planted.also}
    return {
        "found": found,
        "named": named,
        "n_alarms": len(said.alarms),
        "n_flagged": len(flagged),
        "false_alarms": len(said.alarms - real),
        "false_in_findings": len(flagged - said.alarms - real),
        "stated": said.stated,
        "wrong": f"{_cells(planted, wrong[0])}: {words[wrong[0]]}" if wrong else "",
        "false": [f"row {row}: {_words(said, row)}" for row in sorted(said.alarms - real)[:3]],
        "findings": [text for _, _, _, text in said.findings][:8],
    }


def _is_named(said: Verdicts, row: int, right: frozenset[str], kinds: frozenset[str]) -> bool:
    columns, _ = said.reasons.get(row, (frozenset(), ""))
    by_finding = any(row in rows and (right & cs or kind in kinds) for kind, cs, rows, _ in said.findings)
    return bool(columns & right) or by_finding


def _cells(planted: Planted, which: int) -> str:
    """The row and what stands in its wrong columns."""
    row = planted.rows[which]
    names = sorted(planted.columns[which])[:4]
    return f"row {row}, " + ", ".join(f"{name} = {planted.frame[name].iloc[row]}" for name in names)


def _words(said: Verdicts, row: int) -> str:
    state = "alarm" if row in said.alarms else "listed, no alarm" if row in said.reasons else "not listed"
    about = [text for _, _, rows, text in said.findings if row in rows]
    return "; ".join([state, *about, said.reasons.get(row, (None, ""))[1]]).strip("; ")
