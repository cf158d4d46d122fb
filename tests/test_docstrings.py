"""Every public name says what it takes, what it returns, and shows an example that runs.

What does not yet is listed in `docstring_gaps.txt`, a line for each name: the list may only get shorter.
"""

import dataclasses
import importlib
import inspect
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = (
    "tellwhy",
    "tellwhy.bases",
    "tellwhy.classifiers",
    "tellwhy.data",
    "tellwhy.detectors",
    "tellwhy.evaluation",
    "tellwhy.explainers",
    "tellwhy.kernels",
    "tellwhy.plot",
    "tellwhy.scoring",
    "tellwhy.testing",
    "tellwhy.workflow",
)
LIST = Path(__file__).parent / "docstring_gaps.txt"


def public():
    """Public functions and classes by their names, each once."""
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", None) or dir(module):
            thing = getattr(module, name)
            is_ours = (getattr(thing, "__module__", None) or "").startswith("tellwhy")
            if not name.startswith("_") and is_ours and (inspect.isclass(thing) or inspect.isfunction(thing)):
                found.setdefault(id(thing), (f"{package}.{name}", thing))
    return dict(found.values())


def lacks(thing):
    """What the docstring of a function or a class does not say."""
    words = inspect.getdoc(thing) or ""
    function = thing.__init__ if inspect.isclass(thing) else thing
    taken = [p for p in inspect.signature(function).parameters if p != "self"]
    is_record = dataclasses.is_dataclass(thing) or getattr(thing, "_is_protocol", False)
    gaps = []
    if taken and not is_record and "Parameters\n" not in words and "Parameters as in" not in words:
        gaps.append("parameters")
    if is_record and "Attributes\n" not in words and "Parameters\n" not in words:
        gaps.append("attributes")
    gives = not inspect.isclass(thing) and inspect.signature(thing).return_annotation not in ("None", None)
    if gives and "Returns\n" not in words:
        gaps.append("returns")
    if ">>>" not in words:
        gaps.append("example")
    return gaps


def written():
    lines = [line.split(": ") for line in LIST.read_text(encoding="utf-8").splitlines()]
    return {name: gaps.split(", ") for name, gaps in lines}


@pytest.mark.skipif(not find_spec("torch"), reason="names of networks need PyTorch")
def test_the_list_of_gaps_only_gets_shorter():
    found = {name: gaps for name, thing in public().items() if (gaps := lacks(thing))}
    new = {name: gaps for name, gaps in found.items() if set(gaps) - set(written().get(name, []))}
    assert not new, f"these must say what they lack: {new}"
    closed = {name: gaps for name, gaps in written().items() if set(gaps) - set(found.get(name, []))}
    assert not closed, f"take these from {LIST.name}: {closed}"


if __name__ == "__main__":
    gaps = {name: found for name, thing in sorted(public().items()) if (found := lacks(thing))}
    LIST.write_text(
        "".join(f"{name}: {', '.join(found)}\n" for name, found in gaps.items()), encoding="utf-8"
    )
