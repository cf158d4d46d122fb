"""What is promised to users: public names, errors, exit statuses, commands, versions, and how long old names stay."""

import importlib
import inspect
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from pins_of_methods.signatures import list_public_names

import tellwhy
from tellwhy.core import errors
from tellwhy.core.old_names import GONE_IN, MOVED, OLD_NAMES, OLD_ORDERS
from tellwhy.views.cli.explain import TOO_MANY

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
sys.path.insert(0, str(ROOT / "docs" / "site"))

from commands import describe_commands, list_commands  # noqa: E402
from manual import STATUSES, write_manual  # noqa: E402


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def newest_changes():
    return re.findall(r"^## (.+)$", read("CHANGELOG.md"), flags=re.MULTILINE)[0]


def version(text):
    return tuple(int(part) for part in text.split(".")[:2])


@pytest.mark.skipif(not find_spec("torch"), reason="methods of networks have no signature without PyTorch")
def test_no_public_name_comes_or_goes_by_accident():
    held = set(read("docs/reference/public-names.txt").splitlines())
    found = set(list_public_names().splitlines())
    told = (
        "PYTHONPATH=tests python -m pins_of_methods.pins --write-signatures writes the file anew; say in "
        "CHANGELOG.md what changed, and keep an old name working (docs/reference/stability.md)."
    )
    assert held - found == set(), told
    if newest_changes() != "Unreleased":  # a release lists what is new
        assert found - held == set(), told


def test_a_release_takes_out_the_old_names_whose_time_has_come():
    if OLD_NAMES or OLD_ORDERS or MOVED:
        assert version(tellwhy.__version__) < version(GONE_IN), f"old names go in {GONE_IN}: take them out"


def test_versions_agree():
    assert f"version: {tellwhy.__version__}\n" in read("CITATION.cff")
    assert f"## {tellwhy.__version__}" in read("CHANGELOG.md")
    assert newest_changes() in {"Unreleased", tellwhy.__version__}


def test_the_list_of_changes_has_the_usual_headings():
    found = set(re.findall(r"^### (.+)$", read("CHANGELOG.md"), flags=re.MULTILINE))
    assert found <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_every_error_and_warning_is_told_of():
    page = read("docs/reference/errors.md")
    names = [name for name, thing in vars(errors).items() if inspect.isclass(thing)]
    assert len(names) > 8
    assert [name for name in [*names, "TookTooLong", "ServiceError"] if f"| `{name}` |" not in page] == []


def test_every_exit_status_is_told_of():
    listed = read("docs/reference/errors.md").partition("## Exit statuses")[2]
    told = {
        int(n) for row in re.findall(r"^\| ([\d, ]+) \|", listed, flags=re.MULTILINE) for n in row.split(",")
    }
    cli = importlib.import_module("tellwhy.views.cli.main")
    ours = {0, 2, TOO_MANY, cli.FAILED, cli.OUT_OF_TIME, cli.CLOSED_PIPE, cli.INTERRUPTED}
    assert told == ours | {129, 143}  # the two signals
    assert {int(status) for status in STATUSES} == ours


def test_the_manual_page_has_all_commands_and_options_as_they_are():
    assert write_manual() == read("docs/reference/tellwhy.1"), (
        "PYTHONPATH=src:docs/site python docs/site/manual.py > docs/reference/tellwhy.1"
    )


def test_the_page_of_commands_has_every_option():
    page = describe_commands()
    for name, command in list_commands().items():
        part = page.partition(f"## tellwhy {name}\n")[2].partition("\n## ")[0]
        for param in command.params:
            if param.param_type_name == "option" and not param.hidden:
                assert f"`{param.opts[-1]}" in part


def test_types_are_marked_for_type_checkers():
    assert (Path(tellwhy.__file__).parent / "py.typed").is_file()
