"""The index of results: one claim, its page, the command that measures it. Made from benchmarks/README.md."""

import re
from pathlib import Path

LINE = re.compile(r"^\| \[(\w+)\]\((\S+)\.py\) \| \[\w+\]\(\.\./docs/(\S+)\) \| (.+) \|$")
START = """# Results

What is claimed, page by page. Each page was written by the command beside it, and names the day and the machine. Claims
that were not met stand on their pages, too. The data sets are public; [Contributing](../contributing.md) says how the
commands are run.
"""


def _read(root: Path) -> dict[str, list[tuple[str, str, str]]]:
    """The chapters of the benchmarks: of each script its module, its page and its claim."""
    chapters: dict[str, list[tuple[str, str, str]]] = {}
    lines: list[tuple[str, str, str]] = []
    for line in (root / "benchmarks" / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            lines = chapters.setdefault(line.removeprefix("## "), [])
        found = LINE.match(line)
        if found:
            lines.append((f"benchmarks.{found[2].replace('/', '.')}", found[3], found[4]))
    return chapters


def list_chapters(root: Path) -> list[dict[str, list[str]]]:
    """The part of the navigation below "Results"."""
    return [
        {chapter: [page for _, page, _ in lines if page.startswith("results/") and page.endswith(".md")]}
        for chapter, lines in _read(root).items()
    ]


def write_index(root: Path) -> str:
    """The page that leads from each claim to its figures and its script."""
    parts = [START]
    for chapter, lines in _read(root).items():
        parts.append(f"## {chapter}\n\n| claim or question | measured by |\n| --- | --- |")
        for module, page, claim in lines:
            where = page.removeprefix("results/") if page.startswith("results/") else f"../{page}"
            shown = f"[{claim}]({where})" if page.endswith(".md") else claim
            parts.append(f"| {shown} | `python -m {module}` |")
        parts.append("")
    return "\n".join(parts)
