"""The page in a real browser: every hand on it, no network but its own server, no complaint, no fault of access."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from views.chromium import chromium
from views.example_run import table
from views.server.opened import TOKEN, example_folder, judged_folder

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("duckdb")
sync_api = pytest.importorskip("playwright.sync_api")

from tellwhy.kinds.decisions import Decisions  # noqa: E402

pytestmark = pytest.mark.browser
SERVER = """
import sys
from tellwhy.views.server.app import make_app
from tellwhy.views.server.app_session import Session
from tellwhy.views.server.http import open_socket, serve

with open_socket("127.0.0.1", 0) as place:
    app = make_app(Session.open(sys.argv[1]), token=sys.argv[2])
    serve(app, place, ready=lambda address: print(address, flush=True))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("browser")
    judged_folder(place)
    example_folder(place / "example")
    return place


class Served:
    """A server in a process of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(folder), TOKEN], stdout=subprocess.PIPE, text=True
        )
        self.address = self.process.stdout.readline().strip()

    @property
    def page(self):
        return f"{self.address}/?token={TOKEN}"

    def end(self, *, hard=False):
        (self.process.kill if hard else self.process.terminate)()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def served(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    server = Served(tmp_path / "copy" / "run")
    yield server
    server.end()


@pytest.fixture(scope="module")
def example(made):
    server = Served(made / "example")
    yield server
    server.end()


@pytest.fixture(scope="module")
def browser():
    if chromium() is None:
        pytest.skip("no Chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield started
        started.close()


class Watched:
    """A page whose requests and complaints are noted; no request leaves for another server."""

    def __init__(self, browser, server, **settings):
        self.context = browser.new_context(**settings)
        self.complaints = []
        self.strangers = []
        self.page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.route("**/*", self._watch)
        self.address = server.address
        self.page.goto(server.page)
        self.page.wait_for_selector(".row-card")

    def _watch(self, route):
        url = route.request.url
        if url.startswith((self.address, "data:")):
            route.continue_()
        else:
            self.strangers.append(url)
            route.abort()

    def end(self):
        self.context.close()
        assert self.complaints == []
        assert self.strangers == []


@pytest.fixture
def watch(browser):
    opened = []

    def start(server, **settings):
        opened.append(Watched(browser, server, **settings))
        return opened[-1].page

    yield start
    for each in opened:
        each.end()


def chosen(page):
    return int(page.get_attribute("tr.item.chosen", "data-row"))


def settle(page):
    page.wait_for_load_state("networkidle")


def test_the_keyboard_goes_through_rows_and_decides(served, watch):
    page = watch(served)
    rows = page.eval_on_selector_all("tr.item", "items => items.map(item => Number(item.dataset.row))")
    assert chosen(page) == rows[0]
    page.keyboard.press("j")
    page.wait_for_selector(f'.row-card[data-row="{rows[1]}"]')
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(f'.row-card[data-row="{rows[2]}"]')
    page.keyboard.press("k")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector(f'.row-card[data-row="{rows[0]}"]')
    page.keyboard.press("b")
    page.wait_for_selector(".decided.is-benign")
    assert "benign" in page.inner_text("tr.item.chosen")
    assert Decisions(served.folder).standing().rows[rows[0]].verdict == "benign"
    page.keyboard.press("c")
    page.wait_for_selector(".decided.is-confirmed")
    page.keyboard.press("u")
    page.wait_for_selector(".decided.is-benign")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("no such row")
    page.wait_for_selector("text=No row fits.")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")


def test_a_changed_cell_is_judged_at_once(served, watch):
    page = watch(served)
    page.fill(".what-if input", "0.2")
    page.click(".what-if button:not([type])")
    page.wait_for_selector("text=It would be no alarm any more.")
    page.wait_for_selector("text=Nothing is wrong with it as data.")
    page.select_option(".opinion select", "Occlusion")
    page.click(".opinion button")
    page.wait_for_selector("text=Both name the same column first")
    page.wait_for_selector(".near tr.own")
    page.click('[data-chart="size"]')
    page.wait_for_selector(".chart-row svg")


def test_rows_are_filtered_sorted_grouped_and_the_address_remembers_it(example, watch):
    page = watch(example)
    page.select_option('[name="show"]', "all")
    page.wait_for_selector("text=of 600.")
    page.fill('[name="where"]', "age > 80")
    old = (table(600)["age"] > 80).sum()
    page.wait_for_selector(f'.list-head:has-text("{old}")')
    page.select_option('[name="sort"]', "-age")
    settle(page)
    assert "sort=-age" in page.url
    count = page.locator("tr.item").count()
    page.reload()
    page.wait_for_selector(".row-card")
    assert page.locator("tr.item").count() == count
    assert page.input_value('[name="where"]') == "age > 80"
    page.fill('[name="where"]', "")
    page.check('[name="group"]')
    page.wait_for_selector("text=causes")
    page.locator("[data-set=cause]").first.click()
    page.wait_for_selector("text=all causes")


@pytest.mark.slow
def test_parts_of_the_page_open_and_lead_back_to_rows(served, watch):
    page = watch(served)
    for name in page.eval_on_selector_all(".tabs a", "all => all.map(link => link.dataset.tab)")[1:]:
        page.click(f'.tabs a[data-tab="{name}"]')
        page.wait_for_selector("#tab-other h2")
        settle(page)
    page.click('.tabs a[data-tab="line"]')
    page.fill('#line-form [name="alarms"]', "12")
    page.wait_for_selector("#line-figures >> text=12")
    page.click("text=List these rows")
    page.wait_for_selector("tr.item")
    page.click('.tabs a[data-tab="segments"]')
    page.locator("[data-where]").first.click()
    page.wait_for_selector(".list-head")
    assert "where=" in page.url


@pytest.mark.slow
def test_files_are_dropped_and_explained(served, watch, tmp_path):
    from views.server.opened import judged_table

    table = tmp_path / "new table.csv"
    judged_table(180, seed=4).to_csv(table, index=False)
    page = watch(served)
    page.click('.tabs a[data-tab="open"]')
    page.set_input_files('[name="files"]', [str(table)])
    page.click("#explain-files")
    page.wait_for_selector('.top-source:has-text("new table")', timeout=60_000)


AXE = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.filter(each => ["serious", "critical"].includes(each.impact))
    .map(each => each.id + ": " + each.nodes.slice(0, 3).map(node => node.target.join(" ")).join(", "));
}"""


def axe_script():
    package = pytest.importorskip("axe_playwright_python")
    return next(Path(package.__file__).parent.rglob("axe.min.js")).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "look",
    [
        {"viewport": {"width": 1440, "height": 900}},
        pytest.param(
            {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"}, marks=pytest.mark.slow
        ),
        {"viewport": {"width": 390, "height": 844}, "is_mobile": True},
        # 200 % zoom
        pytest.param(
            {"viewport": {"width": 720, "height": 450}, "device_scale_factor": 2}, marks=pytest.mark.slow
        ),
    ],
    ids=["wide", "dark", "phone", "zoomed"],
)
def test_no_serious_fault_of_access_at_any_size(served, watch, look):
    page = watch(served, **look)
    script = axe_script()
    for name in ("rows", "findings", "line", "segments", "decisions", "open"):
        if name != "rows":
            page.click(f'.tabs a[data-tab="{name}"]')
            page.wait_for_selector("#tab-other h2")
        settle(page)
        page.evaluate(script)
        assert page.evaluate(AXE) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name


def test_two_browsers_that_mark_at_once_lose_nothing(example):
    client = pytest.importorskip("httpx").Client
    rows = [int(row) for row in re.findall(r'data-row="(\d+)"', _list(client, example))][:24]

    def mark(turn):
        with client(base_url=example.address) as one:
            one.get(f"/?token={TOKEN}")
            for row in rows[turn::2]:
                told = {"row": row, "verdict": ("benign", "confirmed")[turn]}
                assert one.post("/marks", json=told).status_code == 200

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(mark, (0, 1)))
    standing = Decisions(example.folder).standing()
    assert {row: d.verdict for row, d in standing.rows.items()} == {
        row: ("benign", "confirmed")[place % 2] for place, row in enumerate(rows)
    }


def _list(client, server):
    with client(base_url=server.address) as one:
        one.get(f"/?token={TOKEN}")
        return one.get("/list", params={"show": "explained"}).text


def test_a_server_that_is_killed_loses_no_mark_that_was_shown_as_saved(made, tmp_path):
    client = pytest.importorskip("httpx").Client
    shutil.copytree(made / "example", tmp_path / "run")
    server = Served(tmp_path / "run")
    saved = []
    with client(base_url=server.address) as one:
        one.get(f"/?token={TOKEN}")
        rows = [int(row) for row in re.findall(r'data-row="(\d+)"', one.get("/list?show=explained").text)]
        threading.Timer(0.25, server.process.kill).start()
        try:
            for row in rows * 50:
                if one.post("/marks", json={"row": row, "verdict": "confirmed"}).status_code == 200:
                    saved.append(row)
        except Exception:  # the server is gone in the middle of an answer
            pass
    server.end(hard=True)
    assert saved
    written = Decisions(tmp_path / "run").standing()
    assert written.n_records >= len(saved)
    assert set(saved) <= set(written.rows)


@pytest.mark.slow
def test_a_part_of_a_series_is_enlarged(watch, tmp_path):
    from views.server.test_app_kinds import series

    from tellwhy.verdicts.run_io import save_run
    from tellwhy.workflow import explain_events

    server = Served(save_run(explain_events(series(), time="t"), tmp_path / "run"))
    try:
        page = watch(server)
        page.click('.tabs a[data-tab="report"]')
        lane = page.locator("svg.zoomable").first
        box = lane.bounding_box()
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.5, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.75, middle)
        page.mouse.up()
        left, _, width, _ = map(float, lane.get_attribute("viewBox").split())
        assert (left, width) == (pytest.approx(450, abs=5), pytest.approx(225, abs=5))
        lane.dblclick()
        assert lane.get_attribute("viewBox").startswith("0 0 900")
    finally:
        server.end()
