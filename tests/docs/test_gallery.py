"""The gallery: every example runs as it stands and prints what it says; every one has its picture."""

import doctest
import runpy
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))

from gallery import AREAS, PICTURES, list_examples, page_of  # noqa: E402

EXAMPLES = list_examples(ROOT)
QUICK = {"wrong_cells", "which_cell", "one_class_svm", "events", "which_method"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def marked(example):
    """An example; the longer ones are run by `make test-all`."""
    marks = [] if example.name in QUICK else [pytest.mark.slow]
    return pytest.param(example, id=example.name, marks=marks)


@pytest.mark.parametrize("example", [marked(example) for example in EXAMPLES])
def test_it_prints_what_it_says(example, capsys):
    for extra in example.needs:
        if not find_spec(extra):
            pytest.skip(f"needs {extra}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(example.path), run_name="__main__")
    printed = capsys.readouterr().out
    assert doctest.OutputChecker().check_output(example.prints + "\n", printed, FLAGS), printed


def test_there_are_twenty_from_every_area():
    assert len(EXAMPLES) >= 20
    assert {example.area for example in EXAMPLES} == set(AREAS)
    assert {example.name for example in EXAMPLES} >= QUICK


def test_every_example_has_a_picture_and_no_picture_is_left_over():
    drawn = {path.stem for path in (ROOT / PICTURES).glob("*.png")}
    assert drawn == {example.name for example in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_it_says_what_it_shows(example):
    assert example.title
    assert example.words
    assert example.prints
    assert page_of(f"examples/gallery/{example.path.name}") == f"gallery/{example.name}.md"
