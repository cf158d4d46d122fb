"""Rows of a table, encoded: a detector fitted to them, and rows put together from cells of several."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from tellwhy.core.arrays import draw_sample, spread_evenly
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.registry import card
from tellwhy.core.score import Floats, Integers, LeavesRowsOut
from tellwhy.data import Table, TableEncoder
from tellwhy.data.columns.reading import read_numbers
from tellwhy.detectors import Committee
from tellwhy.detectors.committee.committee import CommitteeScore
from tellwhy.kinds.marks import NOTHING_HELD, Held
from tellwhy.kinds.request import Request
from tellwhy.kinds.table_rows import Selection
from tellwhy.kinds.text_columns import TextColumns
from tellwhy.one_liner.explain import explain, takes_background
from tellwhy.one_liner.method import choose_card
from tellwhy.results.result import Result
from tellwhy.scoring import EncodedScore, as_score
from tellwhy.scoring.distance_scores import points_of
from tellwhy.verdicts.alarms import Alarms, Calibration, Ranking, rank_rows
from tellwhy.verdicts.causes import DONORS, TRIALS, Trials
from tellwhy.verdicts.findings import RowFindings

TRAINING_ROWS = 5_000
LEAST_ROWS = 10
TRIM = 0.1  # share of rows that is set aside where nobody vouches for them


def draw_training_sample(n: int, rng: np.random.Generator) -> Integers:
    """Rows to learn from: all, or a random sample of many."""
    return np.sort(draw_sample(n, TRAINING_ROWS, rng))


def make_detector(name: str, Z: Floats, *, is_clean: bool) -> tuple[Any, str]:
    """Return a fitted detector of encoded rows, and the words that describe it.

    'auto' is a committee of simple detectors that look for different things (`tellwhy.detectors.Committee`).
    It takes any shape of data, its score is minus the logarithm of a p-value, and it is explained exactly.
    Trained on the rows it scores it sets the oddest tenth aside before it learns what is ordinary; a
    reference of ordinary rows is learned from whole. benchmarks/tables/default_detector.py measures it.
    """
    if len(Z) < LEAST_ROWS:
        raise InvalidInput(f"There are only {len(Z)} rows to learn from; at least {LEAST_ROWS} are needed.")
    if name != "auto":
        chosen = card("detector", name)
        settings: dict[str, Any] = {}
        if "contamination" in inspect.signature(chosen.cls).parameters:
            settings["contamination"] = 0.01  # the share that the default detector of a clean reference has
        return chosen.cls(**settings).fit(Z), chosen.name
    model = Committee(trim=0.0 if is_clean else TRIM).fit(Z)
    return model, "committee of six simple detectors"


@dataclass(frozen=True, eq=False)
class KnownRows:
    """Encoded rows, and tables whose cells say where in them to look.

    Explainers and tests of explanations take tables: they pick rows, and they put rows together from the
    cells of several. They get tables of the user's columns in which every cell is a row number: r in row i
    and column c means that row i has there what row r has. To encode such a table is to look its cells up.

    Attributes
    ----------
    encoded
        The rows, encoded.
    owner
        The user's column that each encoded column was made from.
    columns
        Names of the user's columns.

    Examples
    --------
    >>> known = KnownRows(np.array([[0.0, 1, 0], [5.0, 0, 1]]), np.array([0, 1, 1]), ["size", "kind"])
    >>> table = known.table(np.array([1, 0]))
    >>> table["size"] = [0, 0]
    >>> known.encode(table)
    array([[0., 0., 1.],
           [0., 1., 0.]])
    """

    encoded: Floats
    owner: Integers
    columns: Sequence[str]

    def table(self, rows: Integers) -> pd.DataFrame:
        """Return some of the rows, told by their numbers."""
        numbers = np.repeat(np.asarray(rows)[:, None], len(self.columns), axis=1)
        return pd.DataFrame(numbers, columns=self.columns)

    def encode(self, table: pd.DataFrame) -> Floats:
        """Look the cells of a table of row numbers up."""
        numbers = np.asarray(table)
        if (numbers == numbers[:, :1]).all():  # whole rows: one look for all columns
            return self.encoded[numbers[:, 0]]
        return np.take_along_axis(self.encoded, numbers[:, self.owner], axis=0)

    def score(self, score: EncodedScore) -> EncodedScore:
        """Return a score of the user's rows as one of tables of row numbers."""
        return replace(score, encode=self.encode, decode=None)


ORDINARY_SHARE = 0.8  # of the rows learned from, those that score lowest: usual values are taken from them
TRIAL_CELLS = 2e7  # row × donor × column, whose distances are held in memory


@dataclass(frozen=True, eq=False)
class FittedTable:
    """Score of the rows of a table, which of them the detector learned from, and all of them encoded.

    Attributes
    ----------
    score
        Score of rows as the user has them.
    detector
        Of encoded rows.
    words
        The detector, in words.
    sample
        Positions in the reference of the rows learned from.
    known
        The selected rows, encoded; below them those learned from, where they are not among the selected ones.
    finds_learned
        Whether rows learned from may be among the selected ones, and nobody knows which: they are then found
        by their cells.
    made_from
        Of each selected row, the row learned from that it was made of by changing cells, told by its place
        among those; −1 for none. It is judged without that one.
    learned_scores
        Scores of the rows learned from, where they are known already.
    """

    selection: Selection
    encoder: TableEncoder
    score: EncodedScore
    detector: Any
    words: str
    sample: Integers
    known: KnownRows
    finds_learned: bool = False
    made_from: Integers | None = None
    learned_scores: Floats | None = None
    _tried: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def learned(self) -> Integers:
        """Number, among the known rows, of each row learned from."""
        return number_learned_rows(self.selection, self.sample)

    def scores(self) -> Floats:
        """Score of every selected row; those learned from are scored as if they were new."""
        return self._score_known(slice(len(self.selection.frame)))  # a slice copies nothing of a large table

    def reference_scores(self, scores: Floats) -> Floats:
        """Scores of the reference rows (if it is separate, of those learned from), each as if it were new."""
        if self.selection.own is not None:
            return scores[self.selection.own]
        return self.scores_of_learned() if self.learned_scores is None else self.learned_scores

    def scores_of_learned(self) -> Floats:
        """Scores of the rows that the detector learned from, each as if it were new."""
        return self._score_known(self.learned)

    def explain(self, positions: Integers, method: str) -> Explanation:
        """Explain some of the selected rows, told by their numbers (see `KnownRows`)."""
        chosen = choose_card(self.score, method)
        # Chosen here, not by the one-liner: cells are numbers of rows, none can be moved to try methods on.
        params = dict(getattr(chosen.cls, "when_automatic", {})) if method == "auto" else {}
        if "training_rows" in inspect.signature(chosen.cls).parameters:
            params["training_rows"] = self.training_rows(positions)
        table = self.known.table(positions)
        background = self.background() if takes_background(chosen.cls) else None
        return explain(self.known_score, table, chosen.name, background=background, **params)

    def known_rows(self, numbers: Integers) -> pd.DataFrame:
        """Known rows as the user has them, with what the encoding puts where a cell is missing."""
        n_selected = len(self.selection.frame)
        is_selected = numbers < n_selected
        own = self.selection.frame.iloc[numbers[is_selected]]
        others = self.selection.reference.iloc[self.sample[numbers[~is_selected] - n_selected]]
        place = np.argsort(np.argsort(~is_selected, kind="stable"))  # selected rows stand first
        rows = pd.concat([own, others])[list(self.encoder.columns_)].iloc[place]
        decoded = self.decoded_rows(numbers)
        filled = rows.astype(object).set_axis(decoded.index)
        return filled.where(filled.notna(), decoded)

    def decoded_rows(self, numbers: Integers) -> pd.DataFrame:
        """Known rows as the detector sees them: numbers are relative to their segments, if there are any."""
        return self.encoder.inverse_transform(self.known.encoded[numbers])

    @cached_property
    def known_score(self) -> EncodedScore:
        """Score of tables of row numbers (see `KnownRows`)."""
        return self.known.score(self.score)

    def background(self) -> pd.DataFrame:
        """Rows that the detector learned from, told by their numbers."""
        return self.known.table(self.learned)

    def ordinary_rows(self) -> pd.DataFrame:
        """Rows that the detector learned from, as the user has them."""
        return self.selection.reference.iloc[self.sample]

    def read_rows(self, positions: Integers) -> pd.DataFrame:
        """Some of the selected rows, with numbers and dates that are stored as text read as such."""
        rows = self.selection.frame.iloc[positions].copy()
        decoded = self.decoded_rows(positions).set_axis(rows.index)
        for name, kind in self.encoder.kinds_.items():
            if kind == "number" and not is_numeric_dtype(rows[name]):
                rows[name] = read_numbers(rows, name)
            elif kind == "date" and not is_datetime64_any_dtype(rows[name]):
                # The encoder knows how the column writes dates, but puts a date where one is missing.
                rows[name] = decoded[name].where(rows[name].notna())
        return rows

    def training_rows(self, known: Integers | slice) -> Integers:
        """Number of some known rows in the order the detector saw them; −1 for a row that it did not see."""
        place = np.full(len(self.known.encoded), -1, dtype=np.int64)
        place[self.learned] = np.arange(len(self.learned))
        if self.made_from is not None:
            place[: len(self.made_from)] = self.made_from
        return np.asarray(place[known])

    def calibration(self, reference_scores: Floats) -> Calibration:
        """How scores become surprises; those of a committee are surprises already."""
        if isinstance(self.score.inner, CommitteeScore):
            return Calibration()
        return Calibration.learn(reference_scores, is_clean=self.selection.is_clean)

    def trials(self, positions: Integers) -> Trials:
        """What can be tried on some of the selected rows, with usual values of the rows learned from."""
        is_judged = np.zeros(len(self.known.encoded), dtype=bool)
        is_judged[positions] = True
        candidates = self.learned[~is_judged[self.learned]]
        if not len(candidates):  # every row is judged: each may then give usual values to the others
            candidates = self.learned
        scores = self.learned_scores
        if scores is None or len(candidates) != len(self.learned):
            scores = self._score_known(candidates)
        ordinary = candidates[scores <= np.quantile(scores, ORDINARY_SHARE)]
        cells = max(1, len(positions) * len(self.encoder.columns_))
        n_donors = max(TRIALS, min(DONORS, int(TRIAL_CELLS / cells)))
        donors = ordinary[spread_evenly(len(ordinary), n_donors)]
        return Trials.of(positions, donors, self.known.encoded, self.known.owner, self.score_cells)

    def score_cells(self, cells: Integers, rows: Integers) -> Floats:
        """Score rows told by the numbers of their cells (see `KnownRows`), each made from a known row.

        A row that was made from one that the detector learned from is judged without it.
        """
        keys = key_rows(np.column_stack([rows, cells]))
        new, first = np.unique(keys, return_index=True)
        first = first[[key not in self._tried for key in new.tolist()]]
        if len(first):
            Z = np.take_along_axis(self.known.encoded, cells[first][:, self.known.owner], axis=0)
            scores = self._score_rows(Z, rows[first])
            self._tried.update(zip(keys[first].tolist(), scores.tolist(), strict=True))
        return np.array([self._tried[key] for key in keys.tolist()])

    @cached_property
    def _known_scores(self) -> Floats:
        """Scores of the known rows, NaN until somebody asked for them: a row is scored once in a run."""
        return np.full(len(self.known.encoded), np.nan)

    def _score_known(self, known: Integers | slice) -> Floats:
        numbers = np.arange(len(self.known.encoded))[known]
        new = numbers[np.isnan(self._known_scores[numbers])]
        if len(new) == len(numbers):  # a slice copies nothing of a large table
            self._known_scores[known] = self._score_rows(self.known.encoded[known], known)
        elif len(new):
            self._known_scores[new] = self._score_rows(self.known.encoded[new], new)
        return self._known_scores[known]

    def _score_rows(self, Z: Floats, known: Integers | slice) -> Floats:
        inner = self.score.inner
        if not isinstance(inner, LeavesRowsOut):
            return np.asarray(inner.value(Z))
        points = points_of(self.training_rows(known), inner.remembered)
        if self.finds_learned:
            points = np.where(points < 0, inner.match(Z), points)
        return np.asarray(inner.value(Z, inner.leave_some(points)))


def fit_table(
    selection: Selection, encoder: TableEncoder, detector: str, rng: np.random.Generator
) -> FittedTable:
    """Encode the rows, and fit a detector to the reference rows, or to a random sample of many.

    The detector draws folds and halves of its rows. It sees them in an order that depends on what they hold,
    so that these draws, and with them the scores, do not depend on the order of the rows in the table.
    """
    sample = draw_training_sample(len(selection.reference), rng)
    encoded = encode_rows(selection, encoder, sample)
    learned = number_learned_rows(selection, sample)
    order = order_by_content(encoded[learned])
    sample = sample[order]
    if selection.own is None:
        encoded[learned] = encoded[learned[order]]
    known = KnownRows(encoded, encoder.owner_, list(encoder.columns_))
    model, words = make_detector(
        detector, known.encoded[number_learned_rows(selection, sample)], is_clean=selection.is_clean
    )
    return FittedTable(selection, encoder, make_encoded_score(encoder, model), model, words, sample, known)


def make_encoded_score(encoder: TableEncoder, model: Any) -> EncodedScore:
    """Score of rows as the user has them, by a detector of encoded rows."""
    inner = as_score(model)
    return EncodedScore(
        inner=inner,
        encode=encoder.transform,
        owner=encoder.owner_,
        n_columns=len(encoder.columns_),
        feature_names=list(encoder.columns_),
        describes=inner.describes,
        decode=encoder.inverse_transform,
        decodes_any=True,
    )


def order_by_content(Z: Floats) -> Integers:
    """Return an order of rows that depends on what they hold, and not on the order in which they stand.

    It is by a number for each row that looks random: neighbours have nothing in common.

    Examples
    --------
    >>> Z = np.random.default_rng(0).normal(size=(50, 3))
    >>> swapped = Z[::-1].copy()
    >>> bool((Z[order_by_content(Z)] == swapped[order_by_content(swapped)]).all())
    True
    >>> bool((order_by_content(Z) == order_by_content(Z[:, ::-1])).all())
    True
    """
    # Means and scales that were added up in another order differ in their last digits: these do not count.
    # −0 and 0 are one number.
    bits = np.ascontiguousarray(Z + 0.0, dtype=np.float32).view(np.uint32).astype(np.uint64)
    # Each column has a factor that depends on what it holds, so that the order of columns counts only where
    # columns hold the same in other rows, as those of labels that are equally frequent do.
    factors = bits.sum(axis=0, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)
    mixed = (bits + np.uint64(1)) * factors
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.lexsort((key_rows(bits.astype(np.int64)), mixed.sum(axis=1, dtype=np.uint64)))


def key_rows(numbers: Integers) -> NDArray[np.uint64]:
    """Return a number for each row of whole numbers, which rows that differ do not share.

    Sums with random odd weights, modulo 2⁶⁴: of a million different rows two agree with probability 10⁻⁷.

    Examples
    --------
    >>> keys = key_rows(np.array([[1, 2], [2, 1], [1, 2]]))
    >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
    (True, False)
    """
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 2**63, size=numbers.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return np.asarray((numbers.astype(np.uint64) * weights).sum(axis=1, dtype=np.uint64))


def number_learned_rows(selection: Selection, sample: Integers) -> Integers:
    """Number of each row learned from, counting the selected rows first and then a separate reference."""
    if selection.own is None:
        return len(selection.frame) + np.arange(len(sample))
    return selection.own[sample]


def encode_rows(
    selection: Selection, encoder: TableEncoder, sample: Integers, learned: Floats | None = None
) -> Floats:
    """Encode the selected rows, and below them what is learned from a separate reference.

    `learned` is the latter, where it was encoded before.
    """
    frame, reference = selection.compared()
    selected = encoder.transform(frame)
    if selection.own is not None:
        return selected
    return np.vstack([selected, encoder.transform(reference.iloc[sample]) if learned is None else learned])


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows beside what is ordinary: read, checked and encoded, ready to be scored.

    Attributes
    ----------
    table, request
        The rows, and what was asked of them.
    fitted
        The detector beside these rows.
    found
        What is wrong with them as data.
    cleaned
        The rows as they were read; cells that a finding explains are missing.
    texts
        Columns of texts, which count by how odd each text is.
    calibration
        How scores become surprises; learned from these very rows where it is None.
    drawn
        Where alarms begin, if that was decided before.
    held
        What marks of the model hold back.
    line
        Score above which the model calls a row odd, whatever list it stands in; None where these very rows
        draw it.
    """

    table: Table
    request: Request
    fitted: FittedTable
    found: RowFindings
    cleaned: pd.DataFrame
    texts: TextColumns
    calibration: Calibration | None = None
    drawn: Alarms | None = None
    held: Held = NOTHING_HELD
    line: float | None = None

    def judged(self) -> Judged:
        """Score the rows, and draw the line between alarms and others."""
        scores = self.fitted.scores()
        reference = self.fitted.reference_scores(scores)
        learned = self.fitted.calibration(reference) if self.calibration is None else self.calibration
        ranking = self._ranked(scores, learned, reference)
        found = self.found.without_far(ranking.model_surprises > ranking.alarms.level)
        if found is self.found:
            return Judged(self, learned, ranking)
        told = replace(self, found=found)
        return Judged(told, learned, told._ranked(scores, learned, reference))

    def _ranked(self, scores: Floats, learned: Calibration, reference: Floats) -> Ranking:
        return rank_rows(
            scores,
            learned,
            reference,
            self.request,
            self.found.added,
            drawn=self.drawn,
            crowded=self.found.crowded(),
        )


@dataclass(frozen=True, eq=False)
class Judged:
    """Rows that were scored.

    Attributes
    ----------
    batch
        The rows.
    calibration
        How scores became surprises.
    ranking
        Their scores, and which of them are alarms.
    """

    batch: Batch
    calibration: Calibration
    ranking: Ranking

    @property
    def line(self) -> float:
        """Score above which a row is odd: what is told of a row does not depend on the rows beside it."""
        return self.ranking.threshold if self.batch.line is None else self.batch.line

    def in_words(self, run: Result) -> Result:
        """The run, its reasons in words where a column of texts makes a row odd."""
        return self.batch.texts.told_in(run)
