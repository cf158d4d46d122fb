"""One row of a table asked again: what if a cell were another, which ordinary rows are near, what others say.

Everything is answered by the model that judged the row. A changed row is judged as if the model had not been
fitted to the row that it was made of: else it would be found by that alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.core.registry import card, cards
from tellwhy.core.running import one_blas_thread
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table
from tellwhy.evaluation import flipping
from tellwhy.kinds.marks import NOTHING_HELD
from tellwhy.kinds.request import check_column
from tellwhy.kinds.table import change_request, check_rows, place_rows, read_rows
from tellwhy.kinds.table_cells import ORDINARY_SHARE, Batch
from tellwhy.kinds.table_model import TableModel
from tellwhy.kinds.table_result import run_of
from tellwhy.results.result import Result
from tellwhy.verdicts.evidence import correlate_ranks, explain_by
from tellwhy.verdicts.findings import RowFindings

RANDOM = "RandomAttribution"
ASKED = ("CommitteeShares", "OneClassDTD", "TreeShapley", "AnomalyShapley", "KernelShap", "Occlusion")
MORE = ("GaussianNLL", "Compensation", "AnomalyContribution", "Lime", "Sensitivity", "CorruptionPosterior")


@dataclass(frozen=True, eq=False)
class OneRow:
    """A row that was judged alone.

    Attributes
    ----------
    result
        A result of this row, with its reasons.
    batch
        The row beside what is ordinary.
    """

    result: Result
    batch: Batch

    @property
    def score(self) -> float:
        """Its score."""
        return float(self.result.scores[0])

    @property
    def p_value(self) -> float | None:
        """The chance that an ordinary row is as odd."""
        return self.result.anomalies[0].p_value


@one_blas_thread()
def judge_one(
    model: TableModel,
    row: pd.DataFrame,
    changes: Mapping[str, str] | None = None,
    *,
    with_checks: bool = True,
) -> OneRow:
    """Judge a row, perhaps with other cells, and say why it is odd.

    Parameters
    ----------
    model
        What is ordinary.
    row
        One row of the table, with all its columns.
    changes
        Cells that are to be others, by column, as a person types them; nothing empties a cell.
    with_checks
        Whether it is looked at as data too: placeholders, broken relations and the like. Without, only the
        detector judges it, which is faster.

    Examples
    --------
    >>> from tellwhy.kinds.table_model import fit_model
    >>> table = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)), columns=["height", "weight"])
    >>> model = fit_model(table)
    >>> one = judge_one(model, table.iloc[[7]], {"weight": "9"})
    >>> one.result.anomalies[0].reasons[0].feature, one.score > model.threshold
    ('weight', True)
    """
    own = _batch(model, row, with_checks=False)
    changed = change_cells(row, changes or {})
    batch = _batch(model, changed, with_checks=with_checks) if changes or with_checks else own
    fitted = replace(batch.fitted, made_from=_place_learned(own), finds_learned=True)
    judged = replace(batch, fitted=fitted).judged()
    return OneRow(judged.in_words(run_of(judged, with_evidence=False)), judged.batch)


def _batch(model: TableModel, row: pd.DataFrame, *, with_checks: bool) -> Batch:
    table = Table(row.reset_index(drop=True), model.source)
    read = replace(read_rows(model, table, change_request(model, {"top": 1})), is_part=True)
    if with_checks:
        return check_rows(model, read)
    return place_rows(model, read, read.new.frame, RowFindings.of([], 1), NOTHING_HELD)


def _place_learned(own: Batch) -> Integers:
    """Which of the rows learned from a row is, by its cells; −1 for none."""
    fitted = own.fitted
    learned = fitted.known.encoded[fitted.learned]
    same = np.flatnonzero((learned == fitted.known.encoded[0]).all(axis=1))
    return np.array([same[0] if len(same) else -1], dtype=np.int64)


def change_cells(row: pd.DataFrame, changes: Mapping[str, str]) -> pd.DataFrame:
    """Return a row with other cells; what a person types is read as its column is."""
    changed = row.copy()
    for name, text in changes.items():
        check_column(Table(row, "The table"), name)
        changed[name] = _typed(row[name], name, str(text).strip())
    return changed


def _typed(column: pd.Series, name: str, text: str) -> Any:
    if not text:
        return np.nan if is_numeric_dtype(column) else None
    if is_datetime64_any_dtype(column):
        return _read(lambda: pd.Timestamp(text, tz=column.dt.tz), name, text, "a date")
    if is_numeric_dtype(column) and not isinstance(column.dtype, pd.BooleanDtype) and column.dtype != bool:
        return _read(lambda: float(text.replace("−", "-").replace(" ", "")), name, text, "a number")
    return text


def _read(read: Any, name: str, text: str, what: str) -> Any:
    try:
        return read()
    except (ValueError, OverflowError) as error:
        raise InvalidParameter(f"{name} holds {what} in every row; got {text[:60]!r}.") from error


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Ordinary rows that are like a row.

    Attributes
    ----------
    rows
        The rows as the user has them, the nearest first.
    distances
        How far away each is: the root of the mean square of the differences, in units of the detector.
    """

    rows: pd.DataFrame
    distances: Floats


@one_blas_thread()
def find_neighbours(model: TableModel, row: pd.DataFrame, most: int = 5) -> Neighbours:
    """Return the ordinary rows nearest to a row, among those that the detector learned from.

    Ordinary are the four fifths of them that score lowest. The row itself is not among them.
    """
    own = _batch(model, row, with_checks=False)
    fitted = own.fitted
    learned = fitted.learned
    encoded = fitted.known.encoded[learned]
    scores = fitted.reference_scores(fitted.scores())
    gaps = np.sqrt(((encoded - fitted.known.encoded[0]) ** 2).mean(axis=1))
    gaps[scores > np.quantile(scores, ORDINARY_SHARE)] = np.inf
    gaps[_place_learned(own)[_place_learned(own) >= 0]] = np.inf
    order = np.argsort(gaps, kind="stable")[:most]
    chosen = order[np.isfinite(gaps[order])]
    kept = model.reference.iloc[fitted.sample[chosen]]
    return Neighbours(kept, gaps[chosen])


@dataclass(frozen=True, eq=False)
class Opinion:
    """What another method says of the same row.

    Attributes
    ----------
    explanation
        Its own, of one row.
    area, own_area, random_area
        The area below the score as columns are reset in its order, in the order of the first explanation, and
        in a random one: the less, the sooner it named what makes the row odd. NaN where it says nothing.
    correlation
        Of the two orders of columns (Spearman).
    same_first
        Whether both name the same column first.
    """

    explanation: Explanation
    area: float
    own_area: float
    random_area: float
    correlation: float
    same_first: bool


def list_opinions(model: TableModel) -> list[str]:
    """The methods that can be asked about rows of a model, besides the one that explains them."""
    from tellwhy.one_liner.method import choose_card
    from tellwhy.scoring import as_score

    score = as_score(model.detector)
    chosen = choose_card(score, "auto").name
    known = {each.name: each for each in cards("explainer")}
    named = [known[name] for name in (*ASKED, *MORE) if name in known and name != chosen]
    return [each.name for each in named if each.applies is None or each.applies(score)]


@one_blas_thread()
def ask_opinion(model: TableModel, row: pd.DataFrame, method: str) -> Opinion:
    """Ask another method about a row, and test both by resetting the columns in their order."""
    card("explainer", method)  # a name that there is not is an error here
    batch = _batch(model, row, with_checks=False)
    fitted = replace(batch.fitted, made_from=_place_learned(batch), finds_learned=True)
    first = np.zeros(1, dtype=np.int64)
    told = fitted.explain(first, "auto")
    other = fitted.explain(first, method)
    background = fitted.background()
    random = explain_by(RANDOM, fitted.known_score, told.data, background)
    areas = [flipping(each, fitted.known_score, background=background).area for each in (other, told, random)]
    one = other.values.reshape(-1)
    two = told.values.reshape(-1)
    as_told = replace(other, data=fitted.read_rows(first))
    return Opinion(
        as_told,
        area=float(areas[0]),
        own_area=float(areas[1]),
        random_area=float(areas[2]),
        correlation=correlate_ranks(one, two),
        same_first=bool(one.argmax() == two.argmax()),
    )
