"""Pages of documentation: all in the navigation, links with anchors that exist, figures as their results have them."""

import re
from pathlib import Path

import pytest
from docs_figures import FIGURE, differs, figure_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
WRITTEN = [page for page in PAGES if page.parent.name != "results"]
SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
MADE = {"gallery/index.md", "results/index.md", "changelog.md", "contributing.md"}  # when the site is built
LINK = re.compile(r"\]\(([^)\s:#]*)#([^)\s]+)\)")


def named(path):
    return str(path.relative_to(DOCS))


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"([\w/.-]+\.md)$", SETTINGS.rpartition("\nnav:")[2], flags=re.MULTILINE))
    assert listed == {named(page) for page in WRITTEN if page != DOCS / "README.md"} | MADE


def anchors(path):
    """The anchors of a page: its headings as GitHub and the site write them."""
    found = set()
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize(
    "page", [*WRITTEN, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name
)
def test_anchors_exist(page):
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve() if target else page
        assert anchor in anchors(path), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "README.md"], ids=lambda p: p.name)
def test_nothing_is_loaded_from_elsewhere(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"!\[[^\]]*\]\(https?:|<(?:script|link|img)[^>]*https?:", text)


def marked_figures():
    return [
        (page, *each)
        for page in [*WRITTEN, ROOT / "README.md"]
        for each in FIGURE.findall(page.read_text("utf-8"))
    ]


@pytest.mark.parametrize(("page", "shown", "where"), marked_figures(), ids=lambda value: str(value)[-60:])
def test_figures_in_prose_are_those_of_their_pages(page, shown, where):
    held = figure_of(where)
    assert not differs(shown, held), f"{page.name} says {shown}, {where} is {held}"


def test_a_wrong_figure_is_noticed():
    _, shown, where = marked_figures()[0]
    assert differs("9" + shown, figure_of(where))
    with pytest.raises(LookupError):
        figure_of(where + " of nothing")
