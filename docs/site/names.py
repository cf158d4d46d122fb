"""The public names of a package with their signatures and docstrings, as Markdown."""

import importlib
import inspect
import re
import textwrap
from typing import Any

HEADINGS = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", flags=re.MULTILINE)
LISTED = ("Parameters", "Attributes", "Returns", "Raises", "Yields")
WIDTH = 88
COLUMNS = ("name", "family", "needs", "cost", "exactness", "citation")


def list_methods() -> str:
    """The catalogue of explainers as a table."""
    import tellwhy

    lines = ["| method | needs | cost | exactness | cite |", "| --- | --- | --- | --- | --- |"]
    for row in tellwhy.methods()[list(COLUMNS)].itertuples():
        cells = (f"`{row.name}`", row.needs, row.cost, row.exactness, row.citation)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def describe_names(module: str) -> str:
    """All public names of a module: calls and classes first by their order there, then what is left."""
    package = importlib.import_module(module)
    listed = getattr(package, "__all__", None) or [
        name for name, thing in vars(package).items() if inspect.isclass(thing) and thing.__module__ == module
    ]
    found = {name: getattr(package, name) for name in listed if not name.startswith("__")}
    called = {name: thing for name, thing in found.items() if callable(thing)}
    return "\n\n".join([_overview(called), *(_describe(module, name, called[name]) for name in called)])


def _overview(found: dict[str, Any]) -> str:
    lines = ["| name | |", "| --- | --- |"]
    for name, thing in found.items():
        first = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        lines.append(f"| [`{name}`](#{name.lower()}) | {first} |")
    return "\n".join(lines)


def _describe(module: str, name: str, thing: Any) -> str:
    """A name, how it is called, what it says of itself, and the methods of a class."""
    parts = [f"## {name}", _signature(f"{module}.{name}", thing), _docstring(thing)]
    if inspect.isclass(thing):
        parts += [_method(name, method, member) for method, member in _methods(thing)]
    return "\n\n".join(part for part in parts if part)


def _method(owner: str, name: str, member: Any) -> str:
    heading = f"### {owner}.{name} {{ #{owner.lower()}-{name.lower().strip('_')} }}"
    return f"{heading}\n\n{_signature(f'{name}', member)}\n\n{_docstring(member)}"


def _methods(cls: type) -> list[tuple[str, Any]]:
    """Methods that the class itself defines and says something about."""
    found = []
    for name, member in vars(cls).items():
        plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if not name.startswith("_") and inspect.isfunction(plain) and inspect.getdoc(plain):
            found.append((name, plain))
    return found


def _signature(name: str, thing: Any) -> str:
    try:
        taken = inspect.signature(thing)
    except (ValueError, TypeError):  # of exceptions, which Python makes
        return f"```python\n{name}\n```"
    own = [p for p in taken.parameters.values() if p.name not in {"self", "cls"}]
    words = [_parameter(p, own, place) for place, p in enumerate(own)]
    line = f"{name}({', '.join(words)})".replace(",\n    ", ", ")
    if len(line) > WIDTH:
        line = f"{name}(\n" + "".join(f"    {word},\n" for word in words) + ")"
    return f"```python\n{line}\n```"


def _parameter(p: inspect.Parameter, listed: list[inspect.Parameter], place: int) -> str:
    """A parameter as it is written in a call, with the star where names begin."""
    before = listed[place - 1].kind if place else None
    star = "*,\n    " if p.kind is p.KEYWORD_ONLY and before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL) else ""
    mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    default = "" if p.default is p.empty else f"={_shown(p.default)}"
    return f"{star}{mark}{p.name}{default}"


def _shown(default: Any) -> str:
    plain = isinstance(default, (str, int, float, tuple, frozenset, type(None)))
    return repr(default) if plain else getattr(default, "__name__", f"<{type(default).__name__}>")


def _docstring(thing: Any) -> str:
    """A docstring in numpydoc, as Markdown."""
    text = inspect.getdoc(thing) or ""
    pieces = HEADINGS.split(text)
    parts = [_prose(pieces[0])]
    for heading, body in zip(pieces[1::2], pieces[2::2], strict=True):
        content = _listed(body) if heading in LISTED else _prose(body)
        parts.append(f"**{heading}**\n\n{content}")
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def _listed(body: str) -> str:
    """Names with what they mean, one entry each."""
    entries: list[str] = []
    for line in body.splitlines():
        if line and not line[0].isspace():
            entries.append(f"- `{line.strip()}`: ")
        elif entries:
            entries[-1] += line.strip() + " " if line.strip() else ""
    return "\n".join(entry.rstrip(": ") if entry.endswith(": ") else entry.rstrip() for entry in entries)


def _prose(text: str) -> str:
    """Paragraphs, with examples as code."""
    parts = []
    for block in re.split(r"\n{2,}", text.strip("\n")):
        if block.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{textwrap.dedent(block)}\n```")
        elif block.startswith("    "):
            parts.append(f"```text\n{textwrap.dedent(block)}\n```")
        else:
            parts.append(block)
    return (
        "\n\n".join(parts).replace("*", "\\*") if "```" not in text and "* " in text else "\n\n".join(parts)
    )
