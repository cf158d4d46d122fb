"""The report holds every section, lets nothing in or out, and stays small for any input."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from views.example_run import HOSTILE, example_run, hostile_run, said
from zoo.anomalies import moved, odd_row

from tellwhy.core.errors import CannotWrite
from tellwhy.core.explanation import Explanation
from tellwhy.results.evidence import Agreement
from tellwhy.results.notice import written as said_so
from tellwhy.results.result import Group, Run, Typical
from tellwhy.views.page.anomalies import make_cards
from tellwhy.views.page.page import render, write_report
from tellwhy.views.page.scores import bin_scores
from tellwhy.views.page.shell import Limits
from tellwhy.views.page.svg import strip_axis
from tellwhy.words.wording import THIN

SECTIONS = ("summary", "scores", "columns", "groups", "anomalies", "evidence", "settings")
VOID = {"meta", "link", "input", "img", "br"}


class Page(HTMLParser):
    """Elements of a page, with the text of each id, and whether every element is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[tuple[str, str]] = []
        self.pieces: dict[str, list[str]] = {}
        self.feed(text)
        assert not self.open
        self.texts = {identity: "".join(found) for identity, found in self.pieces.items()}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {key: value or "" for key, value in attrs}
        self.elements.append((tag, attributes))
        if tag not in VOID:
            self.open.append((tag, attributes.get("id", "")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        name, _ = self.open.pop()
        assert name == tag, f"</{tag}> closes <{name}>"

    def handle_data(self, data: str) -> None:
        for _, identity in self.open:
            if identity:
                self.pieces.setdefault(identity, []).append(data)

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


@pytest.fixture(scope="module")
def run() -> Run:
    return example_run()


@pytest.fixture(scope="module")
def text(run: Run) -> str:
    return render(run)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_every_section_is_there_once(page: Page) -> None:
    ids = page.ids()
    assert len(ids) == len(set(ids))
    for name in (*SECTIONS, "detection"):
        assert name in ids
        assert page.texts[name].strip()


def test_summary_says_what_was_done(run: Run, page: Page) -> None:
    assert run.summary in page.texts["summary"]
    assert "25 of 3772 rows stand out." in page.texts["summary"]
    for notice in run.notes:
        assert notice in page.texts["summary"]


@pytest.mark.parametrize("source", ["/home/ann/thyroid.csv", r"C:\Users\ann\thyroid.csv"])
def test_folders_are_not_told(run: Run, source: str) -> None:
    text = render(replace(run, source=source))
    assert "<title>What is odd in thyroid.csv</title>" in text
    assert "ann" not in Page(text).texts["settings"].replace("scanned", "")


def test_histogram_counts_rows_above_the_threshold(run: Run, page: Page) -> None:
    assert f"25 of 3772 rows (0.66{THIN}%) score above the threshold" in page.texts["scores"]
    labels = [a["class"] for tag, a in page.elements if tag == "rect" and "class" in a]
    assert "threshold" in labels


def test_each_anomaly_has_a_line_and_a_card(run: Run, page: Page) -> None:
    for anomaly in run.anomalies:
        words = page.texts["ranked"]
        assert (anomaly.id or f"row {anomaly.row}") in words
        card = page.texts[f"anomaly-{anomaly.row}"]
        for reason in anomaly.reasons:
            assert reason.text.replace(" %", f"{THIN}%") in words
            assert reason.feature in card
        if anomaly.nearest_normal:
            assert "Would look normal with" in card


def test_cards_add_up(run: Run) -> None:
    limits = Limits()
    for card, row in zip(make_cards(run, limits), run.explanation, strict=True):
        drawn = [f for f in card.factors if not f.is_rest]
        assert 3 <= len(drawn) <= limits.factors
        rest = [str(f.name) for f in card.factors if f.is_rest]
        assert rest[-1] == "not attributed"
        total = sum(
            float(
                f.amount.replace("−", "-")
                .replace(" × 10⁻", "e-")
                .translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789"))
            )
            for f in card.factors
        )
        assert total == pytest.approx(row.scores[0], rel=0.01)


def test_signed_parts_and_standard_errors_are_drawn(run: Run) -> None:
    given = run.explanation
    signed = replace(
        given,
        values=given.values - 1.0,
        base_values=given.base_values + 2.0,
        stderr=np.full(given.values.shape, 0.125),
    )
    card = make_cards(replace(run, explanation=signed), Limits())[0]
    lowering = [f for f in card.factors if f.amount.startswith("−") and not f.is_rest]
    assert lowering
    assert all('class="usual"' in f.bar and f.share == "" for f in lowering)
    assert all('class="whisker"' in f.bar and f.error == "± 0.12" for f in card.factors if not f.is_rest)
    assert "2.00 before any column" in card.balance


def test_groups_link_to_cards(run: Run, page: Page) -> None:
    targets = {a["href"] for tag, a in page.elements if tag == "a"}
    ids = set(page.ids())
    assert {f"#anomaly-{row}" for group in run.groups for row in group.rows} <= targets
    assert {target[1:] for target in targets} <= ids


def test_evidence_is_said_in_words(page: Page) -> None:
    words = page.texts["evidence"] + page.texts["trust"]
    assert "outlierness −log Σ α k of the one-class SVM" in words
    assert f"8.1{THIN}% left over" in words
    assert "area 0.26, random order 0.54" in words
    assert "random order" in words
    assert "AnomalyShapley" in words
    assert "0.947" in page.texts["detection"]


def test_a_useless_explanation_is_called_so(run: Run) -> None:
    areas = {run.explanation.method: 0.56, "RandomAttribution": 0.54}
    weak = replace(
        run.evidence,
        flipping_area=areas,
        unattributed=0.8,
        agreement=[replace(run.evidence.agreement[0], same_top_feature=0.2)],
    )
    words = Page(render(replace(run, evidence=weak))).texts["trust"]
    assert "do not rely on the reasons" in words
    assert "take the reasons as hints" in words
    assert "often name another column" in words


def test_settings_repeat_the_run(run: Run, page: Page) -> None:
    words = page.texts["settings"]
    for piece in (run.fingerprint, run.created, "seed", run.settings["detector"], "scikit-learn", "1.9.0"):
        assert str(piece) in words


def test_no_connection_is_possible(text: str, page: Page) -> None:
    assert not re.search(r"https?:|//[a-z]|url\(|@import|xmlns", re.sub(r"(?m)^\s*// .*$", "", text))
    for tag, attributes in page.elements:
        assert tag not in {"iframe", "object", "embed", "base", "form"}
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        for name in ("src", "href", "action", "srcset", "data", "xlink:href"):
            if name in attributes:
                assert attributes[name].startswith(("#", "data:,"))


def test_the_policy_names_the_hashes_of_what_is_inlined(text: str, page: Page) -> None:
    policy = next(
        a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    given = dict(part.strip().split(" ", maxsplit=1) for part in policy.split(";"))
    assert set(given) == {"default-src", "style-src", "script-src", "img-src", "base-uri", "form-action"}
    # What is not loaded but sent has no default: a form, or a new base of all addresses.
    assert (given["img-src"], given["base-uri"], given["form-action"]) == ("data:", "'none'", "'none'")
    pieces = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", text, flags=re.DOTALL)
    assert len(pieces) == 3
    for piece in pieces:
        digest = base64.b64encode(hashlib.sha256(piece.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_hostile_text_stays_text() -> None:
    text = render(hostile_run())
    page = Page(text)
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert not any(tag == "img" for tag, _ in page.elements)
    assert not any(name.startswith("on") or name == "autofocus" for _, a in page.elements for name in a)
    for piece in HOSTILE:
        assert piece in page.texts["summary"]  # shown as written
    assert "49" not in page.texts["summary"].replace("{{ 7 * 7 }}", "")
    assert "<script>alert" not in text


def test_unprintable_characters_are_replaced(run: Run, tmp_path: Path) -> None:
    odd = "a\x00b\ud800c\u202ed\ne"
    changed = replace(
        run, done=said_so(odd), anomalies=[moved(run.anomalies[0], name=odd), *run.anomalies[1:]]
    )
    written = write_report(changed, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a\ufffdb\ufffdc\ufffdd e" in written
    assert "\x00" not in written
    assert "\u202e" not in written


@pytest.mark.parametrize("kind", ["sensitivity", "signal", "ranking"])
def test_what_is_no_share_is_not_drawn_as_one(kind: str) -> None:
    page = Page(render(example_run(300, top=6, kind=kind)))
    card = page.texts[
        "anomaly-" + next(i for i in page.ids() if i.startswith("anomaly-")).removeprefix("anomaly-")
    ]
    assert "not attributed" not in card
    assert "other column" not in card
    assert "not parts of the score" in card
    assert "left over" not in page.texts["evidence"]
    assert "%" not in page.texts["columns"]


def test_no_anomaly_at_all() -> None:
    run = example_run(500, top=0)
    page = Page(render(replace(run, threshold=1e9, detection=None)))
    assert "None of 500 rows stands out." in page.texts["summary"]
    assert "No row was explained." in page.texts["anomalies"]
    assert "detection" not in page.ids()
    assert set(SECTIONS) <= set(page.ids())


def test_one_column_and_one_row() -> None:
    run = example_run(300, top=1, columns=1)
    page = Page(render(replace(run, groups=[])))
    assert "TSH" in page.texts[f"anomaly-{run.anomalies[0].row}"]
    assert "other column" not in page.texts[f"anomaly-{run.anomalies[0].row}"]


def test_no_test_was_made(run: Run) -> None:
    bare = replace(run.evidence, flipping={}, flipping_area={}, agreement=[])
    words = Page(render(replace(run, evidence=bare, notices=[], versions={}))).texts["trust"]
    assert words.count("Not known") == 2
    nothing = float("nan")
    unknown = replace(
        run.evidence,
        unattributed=nothing,
        flipping={run.explanation.method: [nothing] * 3},
        flipping_area={run.explanation.method: nothing, "RandomAttribution": nothing},
        agreement=[Agreement("Occlusion", nothing, nothing)],
    )
    text = render(replace(run, evidence=unknown))
    assert Page(text).texts["trust"].count("Not known") == 3
    assert "nan" not in re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL)


def with_cells(values: list[object], typical: list[Typical], contributions: list[float]) -> Run:
    """A run of one anomaly with the given cells."""
    run = example_run(60, top=1)
    names = [t.column for t in typical]
    reasons = [said(n, v, [], 0.5, f"{n} is odd") for n, v in zip(names, values, strict=True)]
    explanation = Explanation(
        values=[contributions], scores=[sum(contributions)], method="Example", feature_names=names, data=None
    )
    return replace(
        run,
        columns=names,
        anomalies=[replace(run.anomalies[0], reasons=reasons, nearest_normal=None, score=sum(contributions))],
        explanation=explanation,
        usual={t.column: t for t in typical},
        column_shares=dict.fromkeys(names, 1 / len(names)),
        groups=[],
    )


def test_extreme_cells_leave_no_nan_in_the_page() -> None:
    q = [-1e300, -1e299, 0.0, 1.0, 2.0, 1e299, 1e300]
    same = [5.0] * 7
    typical = [
        Typical("huge", "number", quantiles=q),
        Typical("constant", "number", quantiles=same),
        Typical("missing", "number", quantiles=list(range(7))),
        Typical("not finite", "number", quantiles=list(range(7))),
        Typical("date", "date", quantiles=list(range(7)), labels=["2020-01-0" + str(k) for k in range(1, 8)]),
        Typical(
            "bad date", "date", quantiles=list(range(7)), labels=["2020-01-0" + str(k) for k in range(1, 8)]
        ),
        Typical("new word", "category", shares={"a": 0.6, "b": 0.4}),
        Typical("yes or no", "boolean", shares={"false": 0.9, "true": 0.1}),
        Typical("nothing known", "category"),
    ]
    values = [1.7e308, 5.0, None, float("inf"), "2031-05-05", "yesterday", "z", True, "x"]
    scores = np.concatenate([np.zeros(50), [1e300, np.nan, np.inf]])
    for contributions in ([1e300, -1e299, 3.0, 0.0, 1e-300, 1e5, 2.0, 1.0, 1e290], [1.0] * 9, [0.0] * 9):
        run = with_cells(values, typical, contributions)
        text = render(replace(run, scores=scores, rows=np.arange(53), threshold=1e299))
        visible = re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL)
        assert not re.search(r"\bnan\b|\binf\b|None|NaN", visible.replace("None of", ""))
        card = Page(text).texts[f"anomaly-{run.anomalies[0].row}"]
        assert "huge 1.7 × 10³⁰⁸" in card
        if contributions[2] == 1.0:
            assert "missing missing" in card
            assert "usually 2020-01-02 to 2020-01-06" in card
            assert "z (this row)" in card
            assert "true (this row)" in card


def test_categories_show_the_rows_own_value() -> None:
    shares = {"a": 0.5, "b": 0.3, "c": 0.1, "d": 0.05, "e": 0.04, "f": 0.01}
    run = with_cells(["f"], [Typical("letter", "category", shares=shares)], [3.0])
    lines = make_cards(run, Limits())[0].factors[0].beside
    assert lines is not None
    assert [(c.value, c.is_this_row) for c in lines.categories] == [
        ("a", False),
        ("b", False),
        ("c", False),
        ("f", True),
    ]


def test_a_far_value_does_not_squeeze_the_usual_range() -> None:
    axis = strip_axis([0.0, 0.9, 1.2, 1.6, 2.2, 4.1, 6.0], [145.0])
    assert axis.break_high
    assert axis.position(145.0) > axis.position(6.0) > axis.position(4.1) > axis.position(0.9) + 30
    near = strip_axis([0.0, 0.9, 1.2, 1.6, 2.2, 4.1, 6.0], [7.0])
    assert not near.break_high
    assert near.position(7.0) > near.position(6.0)


def test_bins_have_the_threshold_as_an_edge_and_count_every_row() -> None:
    rng = np.random.default_rng(0)
    for scores in (
        rng.gamma(2, 2, 4000),
        rng.normal(size=300),
        np.ones(20),
        np.array([3.0]),
        rng.pareto(0.5, 5000),
    ):
        threshold = float(np.quantile(scores, 0.97))
        bins = bin_scores(scores, threshold)
        assert bins.counts.sum() + bins.beyond == len(scores)
        assert bins.score(bins.threshold) == pytest.approx(threshold)
        above = bins.counts[bins.edges[:-1] >= bins.threshold - 1e-9].sum() + bins.beyond
        assert above == (scores > threshold).sum()


def test_heavy_tails_are_drawn_on_a_logarithmic_axis() -> None:
    rng = np.random.default_rng(0)
    heavy = bin_scores(np.exp(rng.normal(0, 2, 2000)), 20.0)
    assert heavy.log_scores
    assert heavy.beyond == 0
    assert (heavy.counts > 0).mean() > 0.6
    assert not bin_scores(rng.gamma(2, 2, 2000), 10.0).log_scores
    assert not bin_scores(np.array([-1.0, 0.0, 500.0]), 2.0).log_scores


def test_a_page_that_is_too_large_lists_and_draws_half_as_much() -> None:
    smaller = Limits().smaller()
    assert (smaller.listed, smaller.cards) == (Limits().listed // 2, Limits().cards // 2)
    assert smaller == replace(Limits(), listed=smaller.listed, cards=smaller.cards, items=smaller.items)
    last = Limits(listed=1, cards=1, items=1).smaller()
    assert (last.listed, last.cards, last.items) == (1, 0, 1)  # one row and one item are always listed


def test_the_page_is_small_for_any_input() -> None:
    n, d, long = 10_000, 5_000, "<&\"'é🙂" * 1_700
    names = [f"column {j} {'x' * 300}" for j in range(d)]
    one = np.linspace(1.0, 0.5, d)
    base = example_run(100, top=0)
    reasons = [said(names[j], long, [long], 0.2, f"{names[j]} = {long}") for j in range(5)]
    anomalies = [
        odd_row(i, long, 5.0, 99.0, True, reasons, dict.fromkeys(names[:20], long)) for i in range(n)
    ]
    run = replace(
        base,
        done=said_so(long),
        notices=[said_so(long)] * 5000,
        settings={f"{long}{k}": [long] * 200 for k in range(200)},
        columns=names,
        scores=np.random.default_rng(0).normal(size=n),
        rows=np.arange(n),
        anomalies=anomalies,
        explanation=Explanation(
            values=np.broadcast_to(one, (n, d)),
            scores=np.full(n, one.sum()),
            method="Example",
            feature_names=names,
            data=None,
        ),
        usual={
            name: Typical(name, "category", shares={f"{long}{k}": 0.1 for k in range(10)})
            for name in names[:50]
        },
        column_shares=dict.fromkeys(names, 1 / d),
        groups=[Group(names[:50], list(range(200))) for _ in range(500)],
    )
    text = render(run)
    assert 1_000_000 < len(text.encode()) <= 8_000_000
    words = Page(text).texts["anomalies"]
    assert f"of 10{THIN}000 explained rows are listed" in words
    assert "have charts" in words


def test_the_file_is_written_whole_or_not_at_all(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert write_report(run, target) == target
    assert target.read_text(encoding="utf-8") == render(run)
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(CannotWrite):
        write_report(run, tmp_path / "nowhere" / "report.html")
