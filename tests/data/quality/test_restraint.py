"""What must not be claimed: tails taken for edges, columns that a relation does not need, habits of a table."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from data.quality.clean_tables import orders
from tellwhy.checks.chance import beyond_evidence, edge_evidence, fit_tail, many
from tellwhy.checks.check import check_table
from tellwhy.checks.facts import facts_of
from tellwhy.checks.relations import relations_of

SEEDS = range(3)


@pytest.fixture(params=SEEDS)
def rng(request):
    return np.random.default_rng([request.param, 6])


def kinds(frame, **more):
    return {finding.kind for finding in check_table(frame, **more).findings}


def test_a_distribution_that_thins_out_has_no_edge(rng):
    steps = np.repeat([0.0, 1, 2, 3], [501, 1487, 1242, 257])
    assert edge_evidence(steps, beyond=23, step=1.0) == 0  # 23 rows at −1: the next step of a bell
    assert edge_evidence(steps, beyond=0, step=1.0) > 20
    group = np.sort(np.r_[np.abs(rng.normal(2, 1, size=100)), rng.normal(30, 3, size=1900)])
    assert edge_evidence(group, beyond=12, step=1e-6) < 7


def test_a_scale_with_a_thin_end_may_go_on():
    families = -np.repeat([3.0, 2, 1, 0], [40, 300, 500, 600])
    assert beyond_evidence(np.sort(families), k=1, gap=1, step=1.0) < 5
    ratings = -np.repeat([5.0, 4, 3, 2, 1], [117, 422, 652, 476, 191])
    assert beyond_evidence(np.sort(ratings), k=3, gap=3, step=1.0) > 5


@pytest.mark.parametrize("draw", ["exponential", "standard_normal", "lognormal", "pareto"])
def test_the_tail_of_a_column_expects_its_own_extremes(draw, rng):
    """The largest of a sample is no surprise to a tail fitted to another sample."""
    arguments = {"pareto": (2.0,), "lognormal": (0.0, 1.0)}.get(draw, ())
    worst = []
    for _ in range(30):
        tail = fit_tail(np.sort(getattr(rng, draw)(*arguments, size=2000)), step=1e-6)
        largest = float(getattr(rng, draw)(*arguments, size=2000).max())
        worst.append(many(1, 2000 * float(np.exp(-tail.surprise(largest)))))
    assert np.mean(np.array(worst) > 3) <= 0.1
    assert max(worst) < 12


def test_a_relation_needs_every_one_of_its_columns(rng):
    b = rng.uniform(5e4, 1e5, size=800)
    frame = pd.DataFrame(
        {"b": b, "a": b * (1 + 1e-5 * rng.normal(size=800)), "c": rng.uniform(0, 9, size=800)}
    )
    facts = facts_of(frame, None)
    assert [set(held.relation.columns) for held in relations_of(facts, facts)] == [{"a", "b"}]


def test_a_rising_column_does_not_follow_from_any_small_one(rng):
    rising = 70_000 + np.cumsum(rng.integers(1, 4, size=800))
    facts = facts_of(pd.DataFrame({"rising": rising, "c": rng.uniform(1, 9, size=800)}), None)
    assert relations_of(facts, facts) == []


def test_the_cell_that_breaks_two_relations_is_the_wrong_one(rng):
    frame = orders(rng, 1000)
    frame["tax"] = (frame["total"] * 0.19).round(2)
    rows = np.sort(rng.choice(1000, 12, replace=False))
    frame.loc[rows, "total"] += rng.uniform(9, 60, size=12).round(2)
    found = [finding for finding in check_table(frame).findings if finding.surprise > 0]
    assert {finding.columns[0] for finding in found} == {"total"}
    assert sorted(row for finding in found for row in finding.rows) == rows.tolist()


def test_the_far_corner_of_two_marks_that_go_together_is_no_rare_pair(rng):
    mood = rng.normal(size=6000)
    marks = np.array(["very bad", "bad", "fair", "good", "very good"])
    cuts = [-1.2, -0.4, 0.4, 1.2]
    first = marks[np.digitize(mood + 0.45 * rng.normal(size=6000), cuts)]
    second = marks[np.digitize(mood + 0.45 * rng.normal(size=6000), cuts)]
    assert "rare_pair" not in kinds(pd.DataFrame({"first": first, "second": second}))


def among_zeros(rng, n_others, draw):
    """2,000 cells, of which so many are drawn and the others 0."""
    column = np.zeros(2000)
    column[rng.choice(2000, n_others, replace=False)] = draw(n_others)
    return column


def test_signs_and_fractions_are_judged_without_the_zeros_that_most_cells_have(rng):
    changes = among_zeros(rng, 20, lambda m: rng.normal(0, 100, m).round(1))
    amounts = among_zeros(rng, 8, lambda m: rng.gamma(3, 20, m).round(2))
    frame = pd.DataFrame({"changes": changes, "amounts": amounts})
    assert not kinds(frame) & {"sign_flip", "broken_order", "decimal_slip"}


@pytest.mark.parametrize(("value", "n_rows"), [(-140.0, 1), (-999.0, 12)])
def test_a_wrong_sign_and_a_placeholder_among_zeros_are_still_found(rng, value, n_rows):
    amounts = among_zeros(rng, 100, lambda m: rng.gamma(3, 50, m).round())
    rows = rng.choice(2000, n_rows, replace=False)
    amounts[rows] = value
    found = check_table(pd.DataFrame({"amounts": amounts, "size": rng.normal(size=2000)})).findings
    assert {row for finding in found if finding.surprise > 0 for row in finding.rows} == set(rows.tolist())


def test_the_dearest_price_of_a_list_is_no_placeholder(rng):
    price = rng.choice([9.99, 19.99, 49.99, 99.0, 199.0, 499.0], 1500, p=[0.4, 0.3, 0.15, 0.1, 0.04, 0.01])
    assert "placeholder" not in kinds(pd.DataFrame({"price": price, "size": rng.normal(size=1500)}))


def test_a_distance_of_0_on_a_grid_is_no_placeholder(rng):
    away, across = rng.geometric(0.3, (2, 3000)) - 1
    distance = (30 * np.hypot(away, across)).round(2)
    distance[rng.random(3000) < np.where(distance == 0, 0.7, 0.0)] = 30.0  # 0 is in some 3 % of the rows
    assert "placeholder" not in kinds(pd.DataFrame({"distance": distance, "size": rng.normal(size=3000)}))


def test_a_pair_of_labels_that_more_than_a_few_rows_have_is_a_habit(rng):
    job = rng.choice(["craft", "office", "sales", "care", "school", "farm"], size=6000)
    sex = rng.choice(["female", "male"], size=6000, p=[0.3, 0.7])
    women = np.flatnonzero((job == "craft") & (sex == "female"))
    sex[women[20:]] = "male"  # about 300 would be in this job if both were independent
    assert "rare_pair" not in kinds(pd.DataFrame({"job": job, "sex": sex}))


def test_new_levels_of_a_long_tail_are_one_line(rng):
    names = np.array([f"item {chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(180)])
    shares = 1 / np.arange(1, 181)
    drawn = rng.choice(names, size=2000, p=shares / shares.sum())
    before = pd.DataFrame({"item": drawn[:1000], "x": rng.normal(size=1000)})
    after = pd.DataFrame({"item": drawn[1000:], "x": rng.normal(size=1000)})
    (finding,) = check_table(after, reference=before).findings
    assert (finding.kind, finding.surprise) == ("new_level", 0)
    assert "levels that the reference lacks, such as" in finding.text


def test_two_ways_of_writing_are_no_misspelling(rng):
    frame = pd.DataFrame({"answer": rng.choice(["Yes", "yes", "No"], size=900), "x": rng.normal(size=900)})
    assert kinds(frame) == set()


def test_a_dependency_that_no_longer_holds_is_not_told_row_by_row(rng):
    before = orders(rng, 1000)
    after = orders(rng, 1000)
    moved = rng.random(1000) < 0.2
    after.loc[moved, "country"] = rng.choice(["DE", "FR", "IT"], size=int(moved.sum()))
    assert "broken_dependency" not in kinds(after, reference=before)


def test_numbers_of_other_sizes_are_not_put_in_order(rng):
    frame = pd.DataFrame({"share": rng.uniform(0, 1, size=900), "pay": rng.normal(200, 5, size=900)})
    frame.loc[5, ["share", "pay"]] = [0.9, 0.4]
    assert "broken_order" not in kinds(frame)


def test_frequent_exceptions_make_no_row_odd(rng):
    frame = orders(rng, 1500)
    often = rng.random(1500) < 0.04
    frame.loc[often, "total"] += 25.0
    assert [f for f in check_table(frame).findings if f.surprise > 0] == []


def services(rng, n=3000):
    """Connections of services: half at the highest count that is kept, one service with two habits."""
    service = rng.choice(["web", "mail", "names", "other"], size=n, p=[0.55, 0.2, 0.2, 0.05])
    usual = np.select([service == "mail", service == "names"], [60, 12], 255)
    count = np.minimum(usual * rng.lognormal(0, 0.3, size=n), 255).astype(int)
    few = service == "other"
    count[few] = np.where(rng.random(few.sum()) < 0.1, 255, rng.integers(2, 4, size=few.sum()))
    protocol = np.where(np.isin(service, ["names", "other"]), "udp", "tcp")
    protocol[np.flatnonzero(few)[:12]] = "tcp"
    return pd.DataFrame({"service": service, "protocol": protocol, "count": count})


def test_a_value_that_half_of_the_rows_have_is_no_slip(rng):
    assert "decimal_slip" not in kinds(services(rng)[["service", "count"]])


def test_a_level_that_is_wide_itself_has_no_slips(rng):
    frame = services(rng)
    wide = (frame.service == "other").to_numpy()
    frame["size"] = frame.service.map({"web": 6.0, "mail": 80.0, "names": 900.0, "other": 0.5})
    frame.loc[wide & (rng.random(len(frame)) < 0.25), "size"] = 50.0
    frame["size"] *= rng.lognormal(0, 0.2, size=len(frame))
    assert "decimal_slip" not in kinds(frame[["service", "size"]])


def test_a_second_partner_that_comes_again_and_again_breaks_no_dependency(rng):
    frame = services(rng)[["service", "protocol"]]
    assert "broken_dependency" not in kinds(frame)
    lone = int(np.flatnonzero(frame.service == "web")[0])
    frame.loc[lone, "protocol"] = "udp"
    # A dependency that one service breaks again and again is not strict: the lone row is odd, and no more.
    assert {finding.rows for finding in check_table(frame).findings} == {(lone,)}


def test_a_slip_within_its_level_is_still_told(rng):
    frame = services(rng)
    frame["size"] = frame.service.map({"web": 3.0, "mail": 40.0, "names": 500.0, "other": 7000.0})
    frame["size"] = (frame["size"] * rng.normal(1, 0.05, size=len(frame))).round(3)
    rows = np.flatnonzero(frame.service == "mail")[:6]
    frame.loc[rows, "size"] /= 100
    found = check_table(frame[["service", "size"]]).findings
    assert {(each.kind, each.facts["times"]) for each in found} == {("decimal_slip", 0.01)}
    told = {row for each in found for row in each.rows}
    assert told <= set(rows.tolist())
    assert len(told) >= 4


def bills(rng, n=1200):
    """Plans whose bills have different sizes: 10 times a small one is what the largest plan pays."""
    plan = rng.choice(["basic", "plus", "family", "business"], size=n, p=[0.45, 0.3, 0.18, 0.07])
    size = pd.Series(plan).map({"basic": 13, "plus": 25, "family": 45, "business": 130}).to_numpy()
    bill = (size * rng.lognormal(0, 0.12, size=n)).round(2)
    return pd.DataFrame({"plan": plan, "age": rng.integers(18, 90, size=n), "bill": bill})


@pytest.mark.parametrize("plan", ["basic", "plus", "family"])
def test_a_slip_that_other_levels_reach_is_told_for_its_level(rng, plan):
    frame = bills(rng)
    rows = np.flatnonzero(frame["plan"] == plan)[[5, 20, 40, 60, 80]]
    frame.loc[rows, "bill"] *= 10
    findings = check_table(frame).findings
    assert {(f.kind, f.facts["times"]) for f in findings} == {("decimal_slip", 10.0)}
    told = {row for f in findings for row in f.rows}
    assert told <= set(rows.tolist())
    assert len(told) >= 4
    if plan == "basic":  # where other plans have such bills
        low, high = (f"{end:.4g}" for end in frame.loc[frame["plan"] == plan, "bill"].quantile([0.05, 0.95]))
        assert f"for plan = {plan} (there usually {low}–{high})" in findings[0].text


def test_long_tails_within_levels_are_no_slips(rng):
    for draw in ("standard_normal", "laplace", "gumbel", "logistic"):
        frame = bills(rng)
        frame["bill"] *= np.exp(0.15 * getattr(rng, draw)(size=len(frame)))
        assert kinds(frame) == set()


def test_zeros_below_amounts_that_thin_out_towards_it_are_amounts(rng):
    cancer = load_breast_cancer(as_frame=True)
    columns = ["mean concavity", "worst concave points"]
    assert "placeholder" not in kinds(cancer.data.loc[cancer.target == 1, columns].reset_index(drop=True))
    points = rng.gamma(3.0, 0.03, size=400).round(5)
    points[:12] = 0
    assert "placeholder" not in kinds(pd.DataFrame({"points": points, "other": rng.normal(size=400)}))


def test_a_name_with_a_word_more_is_another_name(rng):
    names = np.where(rng.random(3000) < 0.01, "domain", "domain_u")
    names[:1500] = "http"
    assert "misspelling" not in kinds(pd.DataFrame({"service": names}))


def test_one_value_again_and_again_is_no_slip(rng):
    sizes = np.exp(rng.normal(6.5, 0.7, size=3000)).round()
    rows = rng.choice(3000, 40, replace=False)
    slipped = sizes.copy()
    slipped[rows] = (sizes[rows] / 1000).round(3)
    assert "decimal_slip" in kinds(pd.DataFrame({"bytes": slipped}))
    sizes[rows] = 1
    assert "decimal_slip" not in kinds(pd.DataFrame({"bytes": sizes}))


def test_a_small_level_is_told_and_makes_no_row_odd(rng):
    sites = rng.choice(["North", "South", "South-West"], size=1200, p=[0.5, 0.49, 0.01])
    (small,) = check_table(pd.DataFrame({"site": sites})).findings
    assert small.kind == "rare_level"
    assert small.surprise == 0


def requests(rng, n=3000):
    """A log of requests: '/' is a path, and the answers of one path have one size."""
    path = rng.choice(["/", "/login", "/items", "/health"], size=n, p=[0.3, 0.3, 0.32, 0.08])
    size = np.where(path == "/health", 2, rng.lognormal(7.5, 0.8, size=n).round())
    at = pd.Timestamp("2024-05-06") + pd.to_timedelta(np.arange(n) * 40, unit="s")
    return pd.DataFrame({"at": at, "path": path, "bytes": size})


def test_a_mark_that_most_labels_begin_with_is_no_placeholder(rng):
    frame = requests(rng)
    assert kinds(frame) == set()
    frame.loc[[7, 8, 9], "path"] = "?"
    assert {(f.kind, f.rows) for f in check_table(frame).findings} == {("placeholder", (7, 8, 9))}


def test_the_one_value_of_a_level_is_not_stuck(rng):
    frame = requests(rng)
    rows = np.flatnonzero(frame["path"] == "/health")
    frame.loc[rows[[60, 150]], "bytes"] = 2048  # what is left of the level are shorter runs of its one value
    assert not any(f.kind == "stuck" for f in check_table(frame).findings)
    items = np.flatnonzero(frame["path"] == "/items")[100:140]
    frame.loc[items, "bytes"] = 1700
    (stuck,) = (f for f in check_table(frame).findings if f.kind == "stuck")
    assert set(stuck.rows) <= set(items.tolist())


def test_any_large_value_of_a_wide_level_is_near_a_power_of_ten_and_no_slip(rng):
    frame = requests(rng)
    row = int(np.flatnonzero(frame["path"] == "/items")[3])
    frame.loc[row, "bytes"] = 900_000
    assert "decimal_slip" not in kinds(frame)


def test_what_nearly_follows_from_a_part_of_an_equation_is_no_equation(rng):
    """With a discount of 5 %, 400 pieces are not amount / price, though small numbers round to it."""
    price = rng.choice([4.95, 12.5, 34.0, 59.9], size=1500)
    pieces = 1 + rng.poisson(0.8, size=1500)
    discount = rng.choice([0, 0, 5, 10, 15], size=1500)
    pieces[7] = 400
    discount[7] = 5
    net = (price * pieces * (1 - discount / 100)).round(2)
    frame = pd.DataFrame({"price": price, "pieces": pieces, "discount": discount, "net": net})
    assert "broken_relation" not in kinds(frame)


def test_a_word_that_could_not_be_read_is_not_told_as_missing_too(rng):
    written = pd.DataFrame({"visits": rng.poisson(5, size=600), "age": rng.integers(18, 90, size=600)})
    written = written.astype({"visits": object})
    written.loc[[4, 9], "visits"] = "n/a?"
    read = written.assign(visits=pd.to_numeric(written["visits"], errors="coerce"))
    assert "gap" not in kinds(read, raw=written)
    assert "gap" in kinds(read)


def test_an_amount_is_not_put_in_order_with_its_rate(rng):
    net = rng.lognormal(5, 1.4, size=1500).round(2)
    rate = rng.choice([0, 0.07, 0.19], size=1500, p=[0.1, 0.2, 0.7])
    net[rate > 0] = np.maximum(net[rate > 0], 2)
    small = int(np.flatnonzero(rate == 0.19)[0])
    net[small] = 0.4  # its tax of 0.08 is below 0.19
    frame = pd.DataFrame({"net": net, "tax_rate": rate, "tax": (net * rate).round(2)})
    assert "broken_order" not in kinds(frame)


def test_amounts_of_a_second_currency_in_a_level_are_no_slips(rng):
    account = rng.choice(["rent", "wages", "travel", "post"], size=3000, p=[0.3, 0.3, 0.3, 0.1])
    size = pd.Series(account).map({"rent": 900.0, "wages": 3100.0, "travel": 240.0, "post": 6.0}).to_numpy()
    is_yen = (account == "travel") & (rng.uniform(size=3000) < 0.06)
    amount = np.where(is_yen, 100, 1) * size * rng.lognormal(0, 0.1, size=3000)
    assert "decimal_slip" not in kinds(pd.DataFrame({"account": account, "amount": amount.round(2)}))


def test_pay_that_others_earn_too_is_the_tail_of_pay_and_no_slip(rng):
    pay = np.exp(rng.normal(6.5, 0.25, size=4000))
    low = some_rows(rng, 4000, 160)
    pay[low] = np.exp(rng.normal(5.0, 0.9, size=160))
    found = check_table(pd.DataFrame({"pay": pay.round(2)})).findings
    assert (
        sum(len(finding.rows) for finding in found) <= 3
    )  # 28 and 39 where nothing on the way speaks for a tail


def some_rows(rng, n, k):
    return np.sort(rng.choice(n, k, replace=False))


def test_one_who_votes_with_the_other_party_is_an_exception_and_no_error(rng):
    party = np.repeat(["R", "D"], [250, 190])
    vote = np.where(party == "R", "no", rng.choice(["yes", "no"], 440, p=[0.85, 0.15]))
    vote[3] = "yes"
    frame = pd.DataFrame({"party": party, "vote": vote}).sample(frac=1, random_state=1, ignore_index=True)
    found = check_table(frame).findings
    assert not [finding for finding in found if finding.surprise > 0]


def test_a_row_that_breaks_an_order_stays_in_the_fit(rng):
    low = rng.normal(100, 20, size=800).round(1)
    frame = pd.DataFrame({"low_bp": low, "high_bp": low + rng.gamma(4, 8, size=800).round(1)})
    frame.loc[5, "low_bp"], frame.loc[5, "high_bp"] = 140.0, 90.0
    quality = check_table(frame)
    assert [finding.action for finding in quality.findings if finding.kind == "broken_order"] == ["told only"]
    assert not quality.explained


@pytest.mark.parametrize("column", ["name", "colour"])
def test_names_and_colours_have_no_common_form(rng, column):
    names = [
        f"{a}{b}" for a in ["Mo", "Fi", "Ba", "Sa", "Tru"] for b in ["rel", "nch", "ker", "lter", "ngar"]
    ]
    colours = ["#" + "".join(rng.choice(list("0123456789ABCDEF"), 6)) for _ in range(300)]
    frame = pd.DataFrame({"name": rng.choice(names, 300), "colour": colours, "x": rng.normal(size=300)})
    frame.loc[8, "name"] = "O'Shea"
    frame.loc[9, "colour"] = "#FDDCAF"
    assert not [f for f in check_table(frame).findings if f.columns[0] == column]


def test_codes_of_other_forms_are_one_finding(rng):
    codes = pd.Series([f"{a}-{b}" for a, b in rng.integers([1000, 10_000], [9999, 99_999], size=(600, 2))])
    codes[[4, 90, 300]] = ["123-4567890", "4711 12345", "AB-12345"]
    (found,) = [f for f in check_table(pd.DataFrame({"code": codes})).findings if f.kind == "rare_level"]
    assert found.rows == (4, 90, 300)
    assert [each["value"] for each in found.own] == ["123-4567890", "4711 12345", "AB-12345"]


def test_a_time_of_day_is_no_slip_of_another_and_is_told_as_a_time(rng):
    hours = rng.normal(12, 1.2, size=500)
    opened = pd.Series([f"{int(h)}:{int(60 * (h % 1)):02d}" for h in hours])
    opened[[7, 60]] = ["1:15", "1:31"]
    found = check_table(pd.DataFrame({"opened": opened, "x": rng.normal(size=500)})).findings
    assert "decimal_slip" not in {finding.kind for finding in found}


def test_rows_of_one_moment_are_not_stuck(rng):
    n_days = 150
    day = np.repeat(np.arange(n_days), 8)
    frame = pd.DataFrame({"date": pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")})
    frame["price"] = rng.normal(90, 15, len(frame)).round(2)
    frame.loc[400:407, "price"] = 84.0  # eight rooms of one booking
    assert "stuck" not in kinds(frame)
    frame["date"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(frame)), unit="h")
    assert "stuck" in kinds(frame)
