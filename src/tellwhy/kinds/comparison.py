"""Which explainer to trust on a table: fitted to some of its ordinary rows, measured on others made odd."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tellwhy.core.arrays import spread_evenly, take_rows
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import generator, integer, validate_value
from tellwhy.core.registry import cards
from tellwhy.core.score import Floats, Integers
from tellwhy.data.table import Table, TableLike
from tellwhy.evaluation import compare
from tellwhy.kinds.request import Request
from tellwhy.kinds.table import check_rows, read_rows
from tellwhy.kinds.table_model import choose_ordinary, fit
from tellwhy.kinds.table_rows import read_reference, read_source
from tellwhy.results.notice import Notice, as_notices, say_all

COMPARED_ROWS = 100
# Every method explains every changed row: these numbers keep that below a minute, however large the table is.
LEARNED_ROWS = 1_000
BACKGROUND_ROWS = 200
COALITIONS = 256  # a row, of Shapley values; their own default is up to 2,048
SAMPLING = ("AnomalyShapley", "KernelShap")


@dataclass(frozen=True, eq=False)
class TableComparison:
    """The table of `tellwhy.evaluation.compare`, what it was measured on, and which methods to trust."""

    table: pd.DataFrame
    source: str
    detector: str
    n_rows: int
    said: list[Notice]
    advice: Notice

    @property
    def notices(self) -> list[str]:
        """What to know of the table and of the measurements, one sentence each."""
        return say_all(self.said)

    @property
    def recommendation(self) -> str:
        """Which methods to trust: the best, and those that may be just as good."""
        return self.advice.text


def compare_table(
    data: str | Path | TableLike,
    *,
    reference: str | Path | TableLike | None = None,
    n_rows: int = COMPARED_ROWS,
    n_features: int = 1,
    **settings: Any,
) -> TableComparison:
    """Inject anomalies into ordinary rows of a table, and measure which explainers find the changed columns.

    Parameters
    ----------
    data, reference, settings
        As in `explain_table`.
    n_rows
        How many ordinary rows to change, each twice; they are held out from the detector.
    n_features
        How many columns of each row are changed.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(200, 4))
    >>> "OneClassDTD" in set(compare_table(rows, n_rows=20).table["method"])
    True
    """
    validate_value("compare_table", "n_rows", n_rows, integer(2))
    table = read_source(data)
    rows = _choose_ordinary(table, reference, Request(**settings))
    learned, held_out = _split(len(rows.table.frame), n_rows, generator(rows.request.random_state))
    model = fit(_take(rows.table, learned), rows.request, clean=rows.are_clean)
    batch = check_rows(model, read_rows(model, _take(rows.table, held_out), rows.request))
    fitted = batch.fitted
    used = list(model.encoder.columns_)  # columns that the encoder left out are no truth to be found
    ordinary = _take_least_odd(fitted.selection.frame[used], fitted.scores(), n_rows)
    background = take_rows(fitted.ordinary_rows()[used], spread_evenly(len(fitted.sample), BACKGROUND_ROWS))
    measured = compare(
        [_make_affordable(card.cls, fitted.score, rows.request.random_state) for card in cards("explainer")],
        fitted.score,
        ordinary,
        n_features=n_features,
        background=background,
        random_state=rows.request.random_state,
    )
    cheaper = Notice("fewer_coalitions", {"methods": sorted(SAMPLING), "n": COALITIONS})
    said = [*table.said, *as_notices(model.encoder.said_), cheaper]
    return TableComparison(measured, table.source, model.words, len(ordinary), said, recommend(measured))


class _Ordinary(NamedTuple):
    """Rows to learn from and to change, what is asked of them, and whether somebody vouches for them."""

    table: Table
    request: Request
    are_clean: bool


def _choose_ordinary(table: Table, reference: Any, request: Request) -> _Ordinary:
    """The rows of a reference, those that `normal` names, or all."""
    if request.by:
        raise InvalidParameter("Methods are compared on the whole table: leave out by.")
    if reference is not None:
        return _Ordinary(*read_reference(table, read_source(reference), request), True)
    if request.normal is None:
        return _Ordinary(table, request, False)
    return _Ordinary(choose_ordinary(table, request.normal), request, True)


def _take(table: Table, rows: Integers) -> Table:
    """Some rows as a table of their own."""
    return replace(table, frame=table.frame.iloc[rows].reset_index(drop=True), fingerprint="")


def _make_affordable(explainer: Any, score: object, seed: int) -> Any:
    """The explainer's class, or for those that score most, an instance that scores less."""
    if explainer.__name__ not in SAMPLING:
        return explainer
    centres = {"baseline": "kmeans"} if explainer.__name__ == "KernelShap" else {}
    return explainer(score, n_coalitions=COALITIONS, random_state=seed, **centres)


def _split(n: int, n_rows: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Rows to learn from, and others to change.

    A changed row must not have its original among the support points: it would be found by that alone.
    """
    order = rng.permutation(n)
    n_held_out = min(2 * n_rows, n // 3)
    return np.sort(order[n_held_out:][:LEARNED_ROWS]), np.sort(order[:n_held_out])


def _take_least_odd(rows: pd.DataFrame, scores: Floats, n_rows: int) -> pd.DataFrame:
    """Return the rows that score lowest: what is injected should be the only odd thing about them."""
    order = np.argsort(scores, kind="stable")[:n_rows]
    return rows.iloc[np.sort(order)]


def recommend(table: pd.DataFrame) -> Notice:
    """Tell which methods to trust: the best, and those that may be just as good."""
    measured = table[table["mrr"].notna() & (table["method"] != "RandomAttribution")]
    if not len(measured):
        return Notice("none_measured")
    best = measured.iloc[0]
    level = [
        m for m, high in zip(measured["method"], measured["mrr_high"], strict=True) if high >= best["mrr"]
    ]
    others = [name for name in level if name != best["method"]]
    random = table.loc[table["method"] == "RandomAttribution", "mrr_high"]
    if len(random) and best["mrr_low"] <= float(random.iloc[0]):
        return Notice("trust_none")
    return Notice("trust_best", {"method": best["method"], "mrr": float(best["mrr"]), "others": others})
