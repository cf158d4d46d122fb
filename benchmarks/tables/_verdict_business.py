"""Generated tables of offices: orders, tickets, ledgers, inventory, surveys."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.tables._verdict_draws import CITIES, COUNTRIES, DAY, WORDS, Draw, Schema


def orders(g: Draw) -> dict[str, object]:
    country = g.levels(COUNTRIES, count=(5, 12), least=0.02)
    payment = g.levels(("card", "invoice", "paypal", "transfer"), count=(3, 4), least=0.08)
    payment = np.where((country == "US") & (payment == "invoice"), "card", payment)
    products = np.array([f"P{100 + i}" for i in range(g.rng.integers(8, 40))], dtype=object)
    which = g.rng.integers(len(products), size=g.n)
    groups = np.array(["toys", "books", "garden", "kitchen", "sport"], dtype=object)
    list_price = np.exp(g.rng.normal(np.log(g.between(15, 80)), g.between(0.3, 0.7), len(products)))
    price = (list_price[which] * np.exp(g.between(0.02, 0.1) * g.rng.normal(size=g.n))).round(2)
    quantity = 1 + g.rng.poisson(g.between(0.5, 4), g.n)
    ordered = g.moments(days=(60, 300))
    status = g.levels(("delivered", "returned", "cancelled"), count=(3, 3), least=0.04)
    delivered = pd.Series(
        ordered + pd.to_timedelta(g.rng.integers(1, 15, g.n) * DAY, unit="s")
    ).dt.normalize()
    return {
        "order_id": np.arange(100_000, 100_000 + g.n),
        "ordered": ordered,
        "delivered": delivered.mask(status == "cancelled") + pd.Timedelta(days=1),
        "status": status,
        "country": country,
        "payment": payment,
        "product": products[which],
        "category": groups[g.rng.integers(5, size=len(products))][which],
        "price": price,
        "quantity": quantity,
        "total": (price * quantity).round(2),
        "customer_age": np.clip(g.normal((35, 50), (8, 13)), 18, 95).round(),
        "visits": g.rng.negative_binomial(1, g.between(0.1, 0.5), g.n),
        **g.extras(4),
    }


ORDERS = Schema(
    bell=("customer_age",),
    slips=("price", "total"),
    positive=("price", "total", "quantity"),
    nonzero=("customer_age", "price"),
    ages=("customer_age",),
    counts=("quantity", "visits"),
    levels=("country", "payment", "status", "category"),
    events=("ordered", "delivered"),
    orders=(("ordered", "delivered"),),
    ids=("order_id",),
    products=(("total", "price", "quantity"),),
    dependencies=(("product", "category"),),
    pairs=(("country", "US", "payment", "invoice"),),
    swaps=(("customer_age", "quantity"),),
    absent=(("status", "cancelled", "delivered"),),
)


def tickets(g: Draw) -> dict[str, object]:
    teams = np.array(["network", "desktop", "billing", "accounts"], dtype=object)
    topics = np.array([f"{t}/{w}" for t in teams for w in ("question", "fault", "change")], dtype=object)
    topic = g.levels(g.rng.permutation(topics), count=(8, 12), least=0.02)
    opened = g.moments(days=(40, 300), office=True)
    reply = g.lognormal((10, 90), (0.5, 1.0)).round()
    work = g.lognormal((60, 600), (0.5, 1.0)).round()
    first = opened + pd.to_timedelta(reply * 60, unit="s")
    channel = g.levels(("email", "phone", "chat", "portal"), count=(3, 4), least=0.05)
    written = [" ".join(g.rng.choice(WORDS, g.rng.integers(2, 7))) for _ in range(g.n)]
    return {
        "ticket": [f"T{i:06d}" for i in range(4_000, 4_000 + g.n)],
        "opened": opened,
        "first_reply": first,
        "closed": first + pd.to_timedelta(work * 60, unit="s"),
        "reply_minutes": reply,
        "work_minutes": work,
        "total_minutes": reply + work,
        "topic": topic,
        "team": pd.Series(topic).str.split("/").str[0],
        "priority": g.levels(("normal", "high", "low", "urgent"), count=(3, 4), least=0.03),
        "channel": channel,
        "call_seconds": pd.Series(g.lognormal((60, 300), (0.3, 0.7)).round()).where(channel == "phone"),
        "city": g.levels(CITIES, count=(6, 12), least=0.02),
        "reopened": g.rng.binomial(3, g.between(0.01, 0.1), g.n),
        "satisfaction": g.missing(np.clip(g.normal((3, 4.2), (0.7, 1.1)).round(), 1, 5), g.between(0.2, 0.5)),
        "subject": written,
        **g.extras(3),
    }


TICKETS = Schema(
    slips=(),
    positive=("reply_minutes", "work_minutes"),
    ratings=("satisfaction",),
    counts=("reopened",),
    levels=("priority", "channel", "topic", "team"),
    letters=("city",),
    events=("opened", "closed"),
    orders=(("opened", "first_reply"), ("first_reply", "closed")),
    office=("opened",),
    ids=("ticket",),
    codes=("ticket",),
    sums=(("total_minutes", "reply_minutes", "work_minutes"),),
    dependencies=(("topic", "team"),),
    absent=(("channel", "email", "call_seconds"),),
)


def ledger(g: Draw) -> dict[str, object]:
    accounts = np.arange(4_000, 4_000 + 10 * g.rng.integers(8, 25), 10)
    types = np.array(["revenue", "material", "travel", "rent", "wages"], dtype=object)
    of_account = types[g.rng.integers(5, size=len(accounts))]
    which = g.rng.integers(len(accounts), size=g.n)
    currency = g.levels(("EUR", "USD", "JPY"), count=(3, 3), least=0.08)
    size = np.where(currency == "JPY", 150.0, 1.0)
    net = (g.lognormal((80, 900), (0.4, 0.9)) * size).round(2)
    rate = g.rng.choice([0.19, 0.07, 0.0], g.n, p=[0.7, 0.2, 0.1])
    vat = (net * rate).round(2)
    document = g.levels(("invoice", "receipt", "payment"), count=(3, 3), least=0.1)
    posted = g.moments(days=(60, 300), office=True)
    user = g.levels(("anna", "bert", "chloé", "dörte", "emil", "fatma", "gül"), count=(4, 7), least=0.03)
    return {
        "entry": np.arange(1, g.n + 1) + g.rng.integers(1_000, 90_000),
        "posted": posted,
        "approved": (posted + pd.to_timedelta(g.rng.integers(0, 6, g.n) * DAY, unit="s")).normalize()
        + pd.Timedelta(days=1),
        "account": accounts[which],
        "type": of_account[which],
        "document": document,
        "cost_centre": [f"CC-{i:03d}" for i in g.rng.integers(1, g.rng.integers(10, 40), g.n)],
        "user": np.where((document == "payment") & (user == "anna"), "bert", user),
        "currency": currency,
        "net": net,
        "vat_rate": rate,
        "vat": vat,
        "gross": (net + vat).round(2),
        **g.extras(3),
    }


LEDGER = Schema(
    positive=("net", "gross"),
    levels=("document", "currency", "type", "user"),
    letters=("user",),
    events=("posted", "approved"),
    orders=(("posted", "approved"),),
    office=("posted",),
    ids=("entry",),
    codes=("cost_centre",),
    products=(("vat", "net", "vat_rate"),),
    sums=(("gross", "net", "vat"),),
    dependencies=(("account", "type"),),
    pairs=(("document", "payment", "user", "anna"),),
    currencies=(("currency", "net", "vat", "gross"),),
)


def inventory(g: Draw) -> dict[str, object]:
    category = g.levels(("bolts", "pipes", "cables", "tools", "paint"), count=(4, 5), least=0.05)
    suppliers = np.array([f"Supplier {c}" for c in "ABCDEFGHIJKL"], dtype=object)
    homes = g.rng.choice(np.array(COUNTRIES[:8], dtype=object), len(suppliers))
    which = g.rng.integers(g.rng.integers(6, 13), size=g.n)
    stock = g.rng.negative_binomial(3, g.between(0.01, 0.08), g.n) + 5
    reserved = np.minimum(g.rng.binomial(stock, g.between(0.05, 0.3)), stock)
    cost = g.lognormal((3, 60), (0.4, 0.8)).round(2)
    length = g.normal((1.5, 4.0), (0.2, 0.4)).clip(0.3).round(2)
    weight = (length * g.between(1, 5) * np.exp(g.between(0.01, 0.03) * g.rng.normal(size=g.n))).round(2)
    digits = g.rng.integers(1_000, 10_000, g.n)
    return {
        "sku": [f"{c[:2].upper()}-{d}-{i:04d}" for c, d, i in zip(category, digits, range(g.n), strict=True)],
        "category": category,
        "warehouse": g.levels(("north", "south", "east", "west"), count=(3, 4), least=0.05),
        "supplier": suppliers[which],
        "supplier_country": homes[which],
        "unit_cost": cost,
        "stock": stock,
        "reserved": reserved,
        "available": stock - reserved,
        "value": (cost * stock).round(2),
        "length_m": length,
        "weight_kg": weight,
        "storage_temp_c": g.normal((15, 20), (0.5, 1.5)).round(1),
        "fill_pct": (100 * g.rng.beta(g.between(2, 6), g.between(1, 4), g.n)).round(1),
        "counted": g.moments(days=(60, 300)).normalize(),
        **g.extras(5),
    }


INVENTORY = Schema(
    bell=("length_m", "storage_temp_c"),
    slips=("length_m", "weight_kg"),
    positive=("unit_cost", "stock", "weight_kg"),
    nonzero=("length_m", "storage_temp_c"),
    percents=("fill_pct",),
    counts=("stock", "reserved"),
    celsius=("storage_temp_c",),
    kilograms=("weight_kg",),
    metres=("length_m",),
    levels=("warehouse", "category"),
    events=("counted",),
    ids=("sku",),
    codes=("sku",),
    products=(("value", "unit_cost", "stock"),),
    sums=(("stock", "reserved", "available"),),
    dependencies=(("supplier", "supplier_country"),),
    correlated=(("length_m", "weight_kg"),),
    swaps=(("storage_temp_c", "length_m"),),
)


def survey(g: Draw) -> dict[str, object]:
    mood = g.rng.normal(size=g.n)
    asked = {}
    for i in range(g.rng.integers(5, 12)):
        answer = g.between(2.5, 4) + g.between(0.5, 0.9) * mood + g.between(0.4, 0.9) * g.rng.normal(size=g.n)
        asked[f"q{i + 1}"] = g.missing(np.clip(answer.round(), 1, 5), g.between(0, 0.1))
    age = np.clip(g.normal((38, 52), (10, 15)), 18, 90).round()
    started = g.moments(days=(20, 90))
    work = g.levels(("employed", "retired", "student", "seeking"), count=(4, 4), least=0.08)
    work = np.where((work == "retired") & (age < 55), "employed", work)
    work = np.where((work == "student") & (age > 40), "employed", work)
    sex = g.levels(("f", "m", "d"), count=(2, 3), least=0.05)
    minutes = g.lognormal((6, 15), (0.2, 0.4))
    return {
        "respondent": [f"R{i:05d}" for i in g.rng.permutation(g.n)],
        "started": started,
        "finished": started + pd.to_timedelta((minutes * 60).round(), unit="s"),
        "age": age,
        "sex": sex,
        "region": g.levels(CITIES, count=(6, 12), least=0.02),
        "work": work,
        "income": g.missing(g.lognormal((1_800, 4_000), (0.3, 0.5)).round(-1), g.between(0.05, 0.3)),
        "household": 1 + g.rng.binomial(5, g.between(0.1, 0.4), g.n),
        "hours_per_week": np.clip(g.normal((32, 38), (4, 7)), 5, 65).round(),
        **asked,
        "commute_pct": (100 * g.rng.beta(2, 5, g.n)).round(),
        **g.extras(2),
    }


SURVEY = Schema(
    bell=("hours_per_week",),
    slips=("income",),
    positive=("age", "income", "hours_per_week"),
    nonzero=("hours_per_week", "income"),
    ages=("age",),
    percents=("commute_pct",),
    ratings=("q1", "q3"),
    counts=("household",),
    levels=("sex", "work", "region"),
    letters=("region",),
    events=("started",),
    orders=(("started", "finished"),),
    ids=("respondent",),
    codes=("respondent",),
    swaps=(("hours_per_week", "household"),),
)
