"""The gallery: what each example in `examples/gallery/` says of itself, and its pages."""

import ast
import re
import runpy
import textwrap
from dataclasses import dataclass
from pathlib import Path
from posixpath import basename

FOLDER = "examples/gallery"
PICTURES = "docs/images/gallery"
AREAS = (
    "tables",
    "models",
    "trees",
    "SVMs",
    "networks",
    "language models",
    "pictures",
    "series",
    "graphs",
    "texts",
    "running it",
)
START = """---
hide:
  - navigation
---

# Gallery

Short programs, one idea each. Each runs as it stands: `python examples/gallery/forest.py`.
"""


@dataclass(frozen=True)
class Example:
    """What the docstring of an example says, and its code."""

    path: Path
    title: str
    words: str
    area: str
    needs: tuple[str, ...]
    prints: str
    code: str

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.path.stem


def read_example(path: Path) -> Example:
    """Read an example: title, words, `Area:`, `Needs:` where it takes an extra, and what it `Prints:`."""
    text = path.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(text), clean=True) or ""
    head, _, prints = docstring.partition("\nPrints:\n")
    facts = dict(re.findall(r"^(Area|Needs): (.+)$", head, flags=re.MULTILINE))
    title, _, words = head.partition("\n\n")
    code = text.split('"""', 2)[2].strip("\n")
    return Example(
        path,
        title.rstrip("."),
        re.split(r"^Area: ", words, flags=re.MULTILINE)[0].strip(),
        facts["Area"],
        tuple(facts.get("Needs", "").split()),
        textwrap.dedent(prints).strip("\n"),
        code,
    )


def list_examples(root: Path) -> list[Example]:
    """All examples, area by area."""
    found = [read_example(path) for path in sorted((root / FOLDER).glob("[a-z]*.py"))]
    return sorted(found, key=lambda each: (AREAS.index(each.area), each.title))


def list_areas(root: Path) -> list[dict[str, list[str]]]:
    """The part of the navigation below "Gallery"."""
    shown: dict[str, list[str]] = {}
    for each in list_examples(root):
        shown.setdefault(each.area[0].upper() + each.area[1:], []).append(f"gallery/{each.name}.md")
    return [{area: pages} for area, pages in shown.items()]


def page_of(file: str) -> str | None:
    """The page that shows a file of the repository, if it is an example."""
    if file.startswith(f"{FOLDER}/") and file.endswith(".py"):
        return f"gallery/{basename(file).removesuffix('.py')}.md"
    return None


def write_report(root: Path) -> str:
    """The page of a run, as it is sent to a colleague: mistakes in the orders of a shop."""
    import tellwhy

    made = runpy.run_path(str(root / "examples" / "shop.py"), run_name="shop")
    orders = made["plant_mistakes"](made["make_orders"]())
    return tellwhy.tell(tellwhy.workflow.explain_table(orders, id_column="order"), "html")


def write_pages(root: Path) -> dict[str, str]:
    """All pages of the gallery by their places."""
    examples = list_examples(root)
    pages = {f"gallery/{each.name}.md": _write_page(each) for each in examples}
    return {"gallery/index.md": _write_index(examples), **pages}


def _write_page(example: Example) -> str:
    """The page of one example: words, picture, what it prints, code."""
    needs = "".join(f"\nNeeds the extra `{each}`.\n" for each in example.needs)
    return f"""# {example.title}

{example.words}
{needs}
![{example.title}](../images/gallery/{example.name}.png)

```text
{example.prints}
```

## Program

```python
{example.code}
```

[All examples](index.md)
"""


def _write_index(examples: list[Example]) -> str:
    """Cards with pictures, area by area."""
    parts = [START]
    for area in AREAS:
        shown = [each for each in examples if each.area == area]
        if shown:
            parts.append(f'## {area[0].upper()}{area[1:]}\n\n<div class="cards" markdown>\n')
            parts += [_write_card(each) for each in shown]
            parts.append("</div>\n")
    return "\n".join(parts)


def _write_card(example: Example) -> str:
    picture = f"![](../images/gallery/{example.name}.png){{ loading=lazy }}"
    return f"[{picture} {example.title}]({example.name}.md)\n"
