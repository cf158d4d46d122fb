"""The tests of the folders that differ from the main branch, for `make test-fast`; or of the folders named."""

import subprocess
import sys
from pathlib import Path

TESTS = Path("tests")
ALWAYS = ["tests/test_house.py"]


def list_changed() -> list[str]:
    """Files that differ from the main branch, committed or not."""
    base = subprocess.run(
        ["git", "merge-base", "HEAD", "main"], capture_output=True, text=True, check=False
    ).stdout.strip()
    told = subprocess.run(
        ["git", "diff", "--name-only", base or "HEAD"], capture_output=True, text=True, check=True
    ).stdout
    return told.split()


def find_tests(path: str) -> Path | None:
    """The tests of a file: those of its folder, or the file itself where it is one of tests or a page."""
    parts = Path(path).parts
    if parts[:2] == ("src", "tellwhy") and len(parts) > 3:
        deep = TESTS.joinpath(*parts[2:-1])
        return deep if deep.is_dir() else TESTS / parts[2]
    if parts[0] == "tests" and parts[-1].startswith("test_"):
        return Path(path)
    if parts[0] == "docs" and path.endswith(".md") and "results" not in parts:
        return Path(path)
    return TESTS / "test_benchmarks.py" if parts[0] == "benchmarks" else None


def main() -> None:
    """Print what pytest should run."""
    if sys.argv[1:]:
        chosen = [TESTS / name for name in sys.argv[1:]]
    else:
        chosen = [found for path in list_changed() if (found := find_tests(path)) and found.exists()]
    print(*sorted({*ALWAYS, *(str(path) for path in chosen)}))


if __name__ == "__main__":
    main()
