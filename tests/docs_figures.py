"""Figures in prose that stand on a page of results, and are marked with their place there.

A mark is a comment behind the figure: `.83<!-- results/default_detector: mean: committee -->` is in the table of
docs/results/default_detector.md whose line begins with "mean", in the column "committee". Where several first cells are
needed to name the line, they are separated by commas. `python tests/docs_figures.py` writes all figures anew.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURE = re.compile(r"([\d.,]+)<!-- results/(.+?) -->")


def figure_of(where: str) -> float:
    """The figure that a mark names, as its page has it."""
    page, line, column = where.split(": ", 2) if where.count(": ") == 2 else _split(where)
    text = (ROOT / "docs" / "results" / f"{page}.md").read_text(encoding="utf-8")
    for table in re.findall(r"(?:^\|.*\n)+", text + "\n", flags=re.MULTILINE):
        names, _, *rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
        for row in rows:
            begins = ", ".join(row).startswith((f"{line}, ", line)) and _names(row, line)
            if begins and column in names:
                return float(row[names.index(column)].replace(",", ""))
    raise LookupError(f"No table of results/{page}.md has a line {line!r} and a column {column!r}.")


def _split(where: str) -> tuple[str, str, str]:
    page, _, rest = where.partition(": ")
    line, _, column = rest.rpartition(": ")
    return page, line, column


def _names(row: list[str], line: str) -> bool:
    """Whether the first cells of a row are those that a mark names."""
    return any(", ".join(row[:n]) == line for n in range(1, len(row) + 1))


def differs(shown: str, held: float) -> bool:
    """Whether a figure is not the held one, rounded to the digits that are shown."""
    return shown.replace(",", "").rstrip(".") != write(shown, held)


def write(shown: str, held: float) -> str:
    """A held figure in the digits and the form of the shown one."""
    digits = len(shown.rstrip(".").partition(".")[2])
    text = f"{held:.{digits}f}"
    return text.removeprefix("0") if shown.startswith(".") else text


def renew(page: Path) -> bool:
    """Write the marked figures of a page anew; whether one changed."""
    before = page.read_text(encoding="utf-8")
    after = FIGURE.sub(lambda m: f"{write(m[1], figure_of(m[2]))}<!-- results/{m[2]} -->", before)
    page.write_text(after, encoding="utf-8")
    return after != before


if __name__ == "__main__":
    for place in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if place.parent.name != "results" and renew(place):
            print("figures changed:", place.relative_to(ROOT))
