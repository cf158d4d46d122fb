"""The shape of the API: few parameters by place, one word for one idea, progress wherever something is explained."""

import dataclasses
import importlib
import inspect
from importlib.util import find_spec

import pytest

from tellwhy.core.old_names import OLD_NAMES

FOLDERS = (
    "bases",
    "classifiers",
    "data",
    "detectors",
    "evaluation",
    "explainers",
    "kernels",
    "scoring",
    "testing",
)
MOST_BY_PLACE = 3
# words that stand for an idea which has another name everywhere
OTHER_WORDS = {
    "false_alarms": "contamination",
    "fill": "baseline",
    "max_steps": "max_iter",
    "n_background": "max_background",
    "n_neighbours": "n_neighbors",
    "of": "target",
    "reference": "baseline",
    "references": "baseline",
    "region": "patch_size",
    "replacement": "baseline",
    "tolerance": "tol",
}


def calls():
    """Every public class, function and method, by name; what only holds results has no parameters of its own."""
    for folder in FOLDERS:
        package = importlib.import_module(f"tellwhy.{folder}")
        for name in package.__all__:
            thing = getattr(package, name)
            if inspect.ismodule(thing) or not callable(thing):
                continue
            if not dataclasses.is_dataclass(thing):
                yield f"{folder}.{name}", thing
            if inspect.isclass(thing) and not dataclasses.is_dataclass(thing):
                yield from methods(f"{folder}.{name}", thing)


def methods(owner, cls):
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        is_ours = any(name in vars(c) and c.__module__.startswith("tellwhy") for c in cls.__mro__)
        if is_ours and not name.startswith("_") and inspect.isfunction(member):
            yield f"{owner}.{name}", member


def taken(call):
    listed = list(inspect.signature(call).parameters.values())
    return listed[1:] if listed and listed[0].name == "self" else listed


CALLS = dict(calls()) if find_spec("torch") else {}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@every_call
def test_at_most_three_parameters_go_by_place(call):
    by_place = [p.name for p in taken(call) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    assert len(by_place) <= MOST_BY_PLACE, by_place


@every_call
def test_an_idea_has_one_word(call):
    found = {p.name: OTHER_WORDS[p.name] for p in taken(call) if p.name in OTHER_WORDS}
    # KeepTop.interval(of=…) names a column of its result
    assert not found or call.__qualname__ == "KeepTop.interval", f"one word for one idea: {found}"


@pytest.mark.parametrize("name", [name for name in CALLS if name.endswith(".explain")])
def test_explaining_shows_how_far_it_is(name):
    progress = inspect.signature(CALLS[name]).parameters["progress"]
    assert (progress.kind, progress.default) == (progress.KEYWORD_ONLY, None)


@every_call
def test_defaults_are_one(call):
    defaults = {p.name: p.default for p in taken(call) if p.default is not p.empty}
    assert defaults.get("n_jobs") is None
    assert defaults.get("random_state", 0) == 0


@pytest.mark.skipif(not find_spec("torch"), reason="explainers of networks have no signature without PyTorch")
@pytest.mark.parametrize("owner", OLD_NAMES)
def test_no_old_name_is_a_parameter_and_every_new_one_is(owner):
    known = {name.split(".", 1)[1]: call for name, call in CALLS.items()}
    bases = {base.__name__: base for call in CALLS.values() if inspect.isclass(call) for base in call.__mro__}
    if owner.partition(".")[0] in bases and "." in owner:
        cls, _, method = owner.partition(".")
        call = getattr(bases[cls], method)
    else:
        call = known.get(owner)
    if call is None:  # the base of many: each of them has the new name
        return
    names = {p.name for p in taken(call)}
    assert names.isdisjoint(OLD_NAMES[owner])
    # What ends in _ is learned, not given.
    assert {name for name in OLD_NAMES[owner].values() if not name.endswith("_")} <= names
