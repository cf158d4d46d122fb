"""Write every page of results again, with this commit: `make results`.

A script that ended well is noted in build/results/<commit>/, so that a run that was cut off goes on where it was.
Scripts that fail, or lack data, are listed at the end; their pages stay. `python .ci/results.py tables one_class` runs
some chapters.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def ask_git(*words: str) -> str:
    """What git says, in one line."""
    return subprocess.run(
        ["git", *words], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.strip()


def list_scripts(chapters: list[str]) -> list[str]:
    """Modules of the benchmarks, chapter by chapter."""
    found = sorted((ROOT / "benchmarks").glob("*/[a-z]*.py"))
    return [
        f"benchmarks.{path.parent.name}.{path.stem}"
        for path in found
        if path.parent.name != "shared" and (not chapters or path.parent.name in chapters)
    ]


def main() -> int:
    """Run what is not done."""
    if ask_git("status", "--porcelain", "src", "benchmarks"):
        print("Commit first: pages name the commit that they were written with.", file=sys.stderr)
        return 2
    notes = ROOT / "build" / "results" / ask_git("rev-parse", "--short=12", "HEAD:src")
    notes.mkdir(parents=True, exist_ok=True)
    failed = []
    for module in list_scripts(sys.argv[1:]):
        note = notes / module
        if note.exists():
            continue
        started = time.monotonic()
        print(f"{module} …", flush=True)
        with (notes / f"{module}.log").open("w") as log:
            ran = subprocess.run(
                [sys.executable, "-m", module], cwd=ROOT, check=False, stdout=log, stderr=log
            )
        if ran.returncode:
            failed.append(f"{module}: see {(notes / module).relative_to(ROOT)}.log")
        else:
            note.write_text(f"{time.monotonic() - started:.0f} s\n")
    print("\n".join(failed) or "All pages are written.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
