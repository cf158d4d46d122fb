"""The report in a real browser: no request, no complaint, and everything works by hand and on paper."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from views.chromium import Browser
from views.example_run import example_run, hostile_run

from tellwhy.results.result import Run
from tellwhy.views.page.page import render, write_report


@pytest.fixture(scope="module")
def run() -> Run:
    return example_run()


@pytest.fixture(scope="module")
def pages(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, text = tmp_path_factory.mktemp("pages"), render(run)
    made = {
        "example": text,
        "hostile": render(hostile_run()),
        "empty": render(example_run(50, top=0)),
        "sensitivity": render(example_run(300, top=5, kind="sensitivity")),
        "broken into": text.replace(
            "</main>", "<script>document.title='in'</script><img src='https://x.invalid/a.png'></main>"
        ),
    }
    paths = {}
    for name, content in made.items():
        paths[name] = folder / f"{name}.html"
        paths[name].write_text(content, encoding="utf-8")
    return paths


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("name", ["example", "hostile", "empty", "sensitivity"])
def test_browser_requests_nothing_and_does_not_complain(
    browser: Browser, pages: dict[str, Path], name: str, width: int
) -> None:
    browser.open(pages[name], width=width)
    assert browser.requests() == [pages[name].as_uri()]
    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
def test_the_policy_stops_what_was_smuggled_in(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["broken into"])
    assert browser.run("document.title") != "in"
    assert len(browser.complaints()) >= 2
    assert browser.blocked() == ["csp"]


@pytest.mark.browser
def test_rows_can_be_searched_sorted_and_unfolded(browser: Browser, pages: dict[str, Path], run: Run) -> None:
    browser.open(pages["example"])
    visible = "Array.from(document.querySelectorAll('tr.line')).filter(r => r.offsetParent !== null)"
    assert browser.run(f"{visible}.length") == 25
    browser.run("document.querySelector('#show-more').click()")
    assert browser.run(f"{visible}.length") == len(run.anomalies)
    browser.run("document.querySelector('th[data-key=score] button').click()")
    browser.run("document.querySelector('th[data-key=score] button').click()")
    assert browser.run(f"{visible}[0].dataset.rank") == str(len(run.anomalies))
    assert (
        browser.run("document.querySelector('th[data-key=score]').getAttribute('aria-sort')") == "ascending"
    )
    search = "const s = document.querySelector('#search'); s.value = 'patient 10024'; s.dispatchEvent(new Event('input'))"
    browser.run(f"(() => {{ {search} }})()")
    assert browser.run(f"{visible}.length") == 1
    row = run.anomalies[2].row
    assert browser.run(f"document.querySelector('#anomaly-{row}').offsetParent") is None
    browser.run(f"document.querySelector('button[aria-controls=anomaly-{row}]').click()")
    assert (
        browser.run(
            f"document.querySelector('button[aria-controls=anomaly-{row}]').getAttribute('aria-expanded')"
        )
        == "true"
    )
    assert browser.complaints() == []


@pytest.mark.browser
def test_a_link_opens_its_card(browser: Browser, pages: dict[str, Path], run: Run) -> None:
    row = run.anomalies[-1].row
    browser.open(pages["example"], fragment=f"#anomaly-{row}")
    assert browser.run(f"document.querySelector('#anomaly-{row}').offsetParent !== null")
    assert browser.run("document.activeElement.className").startswith("unfold")


@pytest.mark.browser
def test_themes_follow_the_system_and_the_button(browser: Browser, pages: dict[str, Path]) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.open(pages["example"])
    light_paper = browser.run(background)
    browser.call("Emulation.setEmulatedMedia", features=dark)
    dark_paper = browser.run(background)
    assert dark_paper != light_paper
    browser.run("document.querySelector('#theme').click()")
    assert browser.run(background) == light_paper
    browser.call("Emulation.setEmulatedMedia", features=[])
    browser.run("document.querySelector('#theme').click()")
    assert browser.run(background) == dark_paper
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.run(background) == "rgb(255, 255, 255)"
    cards_shown = "Array.from(document.querySelectorAll('.card-row')).some(r => r.offsetParent !== null)"
    assert not browser.run(cards_shown)  # paper holds the lines, the screen their charts
    browser.call("Emulation.setEmulatedMedia", media="")
    browser.run("localStorage.clear()")


@pytest.mark.browser
def test_everything_is_there_without_scripts(browser: Browser, pages: dict[str, Path], run: Run) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages["example"])
        shown = (
            "Array.from(document.querySelectorAll('.card-row')).filter(r => r.offsetParent !== null).length"
        )
        assert browser.run(shown) == len(run.anomalies)
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.browser
def test_a_long_report_prints_on_few_pages(browser: Browser, tmp_path: Path) -> None:
    long = example_run(top=200)
    path = write_report(long, tmp_path / "long.html")
    browser.open(path)
    paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True, "preferCSSPageSize": True}
    printed = base64.b64decode(browser.call("Page.printToPDF", **paper)["data"])
    assert 1 < len(re.findall(rb"/Type\s*/Page[^s]", printed)) <= 10
