"""`TableEncoder`: any table's columns as numbers, each encoded number owned by one column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.arrays import draw_sample
from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import (
    Fit,
    Rules,
    Seed,
    are_texts,
    generator,
    instance_of,
    integer,
    none,
    one_of,
    seed,
    validate_parameters,
)
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.codes import (
    BooleanCode,
    CategoryCode,
    Code,
    DateCode,
    NumberCode,
    Sample,
    is_missing,
    learn_code,
)
from tellwhy.data.columns.kinds import (
    CONSTANT,
    Verdict,
    choose_columns,
    judge_by_role,
    judge_column,
    refuse_no_column,
)
from tellwhy.data.columns.names import list_names
from tellwhy.data.columns.reading import Role, Values, read_booleans, read_dates, read_labels, read_numbers
from tellwhy.data.places import place_of
from tellwhy.data.table import TableLike, as_frame
from tellwhy.results.notice import Notice, as_notices, say_all

SCALE_ROWS = 1_000_000  # from which scales are estimated; quantiles of more rows take long and say the same
_READERS: dict[str, Callable[[pd.DataFrame, str], Values]] = {
    "number": read_numbers,
    "boolean": read_booleans,
    "category": read_labels,
}
_several_names = instance_of(list, tuple, set, words="a list of column names")


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table as numbers of comparable size, each owned by one column.

    Each column is found to be a number, a boolean, a date or a category and encoded as
    `tellwhy.data.columns.codes` says: one encoded unit is about one robust standard deviation. Columns that
    say nothing about what is odd are left out with a notice: constant or empty ones, row identifiers (text
    that differs in every row; whole numbers that count the rows, or differ in every row under a name such as
    id), and free text.

    Parameters
    ----------
    missing
        'impute' puts missing numbers at the median, missing booleans at the more common value, missing dates
        at the median date, and makes a missing category a label of its own; 'drop' leaves rows with missing
        cells out (see `kept_rows`); 'error' raises with the first missing cell.
    exclude
        Columns to ignore.
    columns
        Columns to use; all by default. Whole numbers named here are used even if they look like a row
        identifier.
    max_categories
        Most labels a category keeps; rarer ones share the label '(other)'.
    roles
        What columns are, as `read_columns` found it: text, identifiers and columns that only order the rows
        are left out, categories are used whatever they look like. Others are found out as always.
    compress
        Whether numbers far out are drawn in, so that a long-tailed column does not decide every distance.
    random_state
        Seed of the million rows from which scales are estimated when there are more.

    Attributes
    ----------
    columns_
        Names of the columns used, in order.
    kinds_
        'number', 'boolean', 'date' or 'category' of each column used.
    owner_
        For each encoded column the index into `columns_` of the column it came from.
    encoded_names_
        Names of the encoded columns.
    verdicts_
        What each column used was found to be.
    codes_
        How each column is encoded.
    left_out_
        Why each column that was left out was.
    said_
        What the user should know; `notices_` are its sentences.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"id": range(8), "mm": [1.0, 2, 3, 4, 5, 6, 7, 90], "wind": list("aaaaabbb")})
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.columns_, encoder.owner_.tolist()
    (['mm', 'wind'], [0, 1, 1, 1])
    >>> encoder.notices_
    ["Left out 'id': every row has its own value (an identifier)."]
    >>> encoder.transform(frame)[0].round(1).tolist()
    [-0.2, 0.5, 0.0, 0.0]
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "missing": one_of("impute", "error", "drop"),
        "exclude": _several_names,
        "columns": (none, _several_names),
        "max_categories": integer(1),
        "roles": (none, instance_of(Mapping, words="a mapping of column names to roles")),
        "compress": instance_of(bool, words="True or False"),
        "random_state": seed,
    }

    def __init__(
        self,
        *,
        missing: str = "impute",
        exclude: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        max_categories: int = 50,
        roles: Mapping[str, Role] | None = None,
        compress: bool = True,
        random_state: Seed = 0,
    ) -> None:
        self.missing = missing
        self.exclude = exclude
        self.columns = columns
        self.max_categories = max_categories
        self.roles = roles
        self.compress = compress
        self.random_state = random_state

    def fit(
        self,
        frame: TableLike,
        y: object = None,  # noqa: ARG002
        *,
        scored: TableLike | None = None,
    ) -> TableEncoder:
        """Decide what each column is and how it is encoded. `y` is ignored.

        Parameters
        ----------
        frame
            A `Table`, or anything that `as_table` reads.
        scored
            Rows that will be compared with those of `frame`. A column that is constant in `frame` but not
            here is used: any other value than the constant one is then as odd as something seen in none of
            the rows.
        """
        validate_parameters(self)
        table = as_frame(frame)
        if len(table) == 0:
            raise InvalidInput("The table has no rows; expected at least two, to learn what is usual.")
        others = None if scored is None else as_frame(scored)
        names = choose_columns(table, self.columns, self.exclude)
        verdicts = {name: self._judge(table, name) for name in names}
        novel = {} if others is None else self._find_novel(verdicts, table, others)
        verdicts.update(novel)
        self.left_out_ = {name: verdict.reason for name, verdict in verdicts.items() if verdict.reason}
        self.verdicts_ = {name: verdict for name, verdict in verdicts.items() if not verdict.reason}
        if not self.verdicts_:
            raise refuse_no_column(len(table), self.left_out_, were_named=self.columns is not None)
        self.columns_ = list(self.verdicts_)
        self.kinds_ = {name: verdict.kind for name, verdict in self.verdicts_.items()}
        values = self._read(table)
        self._learn(values, self._find_kept(table, values))
        if others is not None:
            self._scale_novel(novel, others, len(table))
        self.said_ = [
            *collect_left_out(self.left_out_),
            *([Notice("varies_only_here", {"columns": list(novel)})] if novel else []),
            *_count_missing(values, self.kinds_, self.missing),
        ]
        return self

    @property
    def notices_(self) -> list[str]:
        """What the user should know, one sentence each."""
        return say_all(as_notices(self.said_))

    def _find_novel(
        self, verdicts: dict[str, Verdict], frame: pd.DataFrame, scored: pd.DataFrame
    ) -> dict[str, Verdict]:
        """Return the columns that are constant in `frame` and vary in the scored rows, with what they are."""
        constant = [
            name for name, verdict in verdicts.items() if verdict.reason == CONSTANT and name in scored
        ]
        found = {name: self._judge(pd.concat([frame[[name]], scored[[name]]]), name) for name in constant}
        return {name: verdict for name, verdict in found.items() if not verdict.reason}

    def _scale_novel(self, novel: Iterable[str], scored: pd.DataFrame, n: int) -> None:
        """Give numbers that never varied a scale: their own rows show none."""
        for name in novel:
            code = self.codes_[name]
            if isinstance(code, NumberCode):
                seen = read_numbers(scored, name)
                self.codes_[name] = NumberCode.around_constant(code.centre, seen, n, compress=self.compress)

    def transform(self, frame: TableLike) -> Floats:
        """Return the encoded rows, shape (n, len(owner_)); with missing='drop', those of `kept_rows`.

        Columns that were not used in fitting are ignored; a used column that is absent, or a cell that cannot
        be read as before, raises.
        """
        check_is_fitted(self)
        table = as_frame(frame)
        values = self._read(table)
        rows = self._find_kept(table, values)
        encoded = np.empty((len(table) if rows is None else len(rows), len(self.owner_)))
        start = 0
        for name, code in self.codes_.items():
            column = values.pop(name)  # read columns are let go one by one: a wide table is not held twice
            block = encoded[:, start : start + code.width]
            code.write(column if rows is None else column[rows], block)  # type: ignore[arg-type]
            start += code.width
        return encoded

    def inverse_transform(self, X: ArrayLike) -> pd.DataFrame:
        """Return the table that encodes to the given numbers, or nearest to them, in the user's units."""
        check_is_fitted(self)
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.owner_):
            raise InvalidInput(
                f"Expected encoded rows with {len(self.owner_)} columns. Got shape {rows.shape}."
            )
        blocks = {name: rows[:, self.owner_ == i] for i, name in enumerate(self.columns_)}
        return pd.DataFrame({name: self.codes_[name].decode(block) for name, block in blocks.items()})

    def kept_rows(self, frame: TableLike) -> Integers:
        """Return the 0-based positions of the rows that `transform` returns: all, unless missing='drop'."""
        check_is_fitted(self)
        table = as_frame(frame)
        rows = self._find_kept(table, self._read(table)) if self.missing == "drop" else None
        return np.arange(len(table)) if rows is None else rows

    def missing_in(self, frame: TableLike, emptied: Mapping[str, int] | None = None) -> list[str]:
        """Return sentences on the missing cells of other rows, and on what `transform` does about them."""
        return say_all(self.count_missing_in(frame, emptied))

    def count_missing_in(self, frame: TableLike, emptied: Mapping[str, int] | None = None) -> list[Notice]:
        """Count the missing cells of other rows, and tell what `transform` does about them.

        Of each column, as many as `emptied` says are not counted: they were not missing in the user's table.
        """
        check_is_fitted(self)
        return _count_missing(self._read(as_frame(frame)), self.kinds_, self.missing, emptied)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the encoded columns, for scikit-learn."""
        check_is_fitted(self)
        return np.array(self.encoded_names_, dtype=object)

    def _judge(self, frame: pd.DataFrame, name: str) -> Verdict:
        role = None if self.roles is None else self.roles.get(name)
        told = None if role is None else judge_by_role(frame[name], role)
        return told or judge_column(
            frame,
            name,
            max_categories=self.max_categories,
            missing_is_label=self.missing == "impute",
            keep_numbering=self.columns is not None,
        )

    def _read(self, frame: pd.DataFrame) -> dict[str, Values]:
        absent = [name for name in self.columns_ if name not in frame.columns]
        if absent:
            raise InvalidInput(
                f"The table lacks {len(absent)} column(s) that were there in fitting: {list_names(absent)}. "
                f"It has: {list_names(list(frame.columns))}."
            )
        values: dict[str, Values] = {}
        for name, verdict in self.verdicts_.items():
            if verdict.kind == "date":
                values[name] = read_dates(frame, name, verdict.layout)
            else:
                values[name] = _READERS[verdict.kind](frame, name)
        return values

    def _find_kept(self, frame: pd.DataFrame, values: dict[str, Values]) -> Integers | None:
        """Return the positions of complete rows for missing='drop', None for all rows; raise for 'error'."""
        if self.missing == "impute":
            return None
        is_incomplete = np.zeros(len(frame), dtype=bool)
        for column in values.values():
            is_incomplete |= is_missing(column)
        if not is_incomplete.any():
            return None
        if self.missing == "error":
            raise self._refuse_missing_cell(frame, values, int(np.argmax(is_incomplete)))
        if is_incomplete.all():
            n_missing = {name: int(is_missing(column).sum()) for name, column in values.items()}
            worst = max(n_missing, key=lambda name: n_missing[name])
            raise InvalidInput(
                "Every row has a missing cell, so missing='drop' leaves none. Exclude columns with gaps "
                f"({worst!r} has {n_missing[worst]}), or use missing='impute'."
            )
        return np.flatnonzero(~is_incomplete)

    def _refuse_missing_cell(self, frame: pd.DataFrame, values: dict[str, Values], row: int) -> InvalidInput:
        column = next(name for name, column in values.items() if is_missing(column)[row])
        n = sum(int(is_missing(column).sum()) for column in values.values())
        return InvalidInput(
            f"Column {column!r} has no value in {place_of(frame, row)} ({n} missing cells in all); expected "
            "every cell to be filled. Fill it in, exclude the column, or use missing='impute' or 'drop'."
        )

    def _learn(self, values: dict[str, Values], rows: Integers | None) -> None:
        columns = {name: column if rows is None else column[rows] for name, column in values.items()}
        n_rows = len(next(iter(columns.values())))
        sample: Sample = slice(None)
        if n_rows > SCALE_ROWS:  # a slice of everything is cheaper than an index of everything
            sample = draw_sample(n_rows, SCALE_ROWS, generator(self.random_state))
        self.codes_: dict[str, Code] = {
            name: learn_code(
                self.kinds_[name],
                column,
                max_categories=self.max_categories,
                sample=sample,
                compress=self.compress,
            )
            for name, column in columns.items()
        }
        widths = [code.width for code in self.codes_.values()]
        self.owner_ = np.repeat(np.arange(len(widths)), widths)
        self.encoded_names_ = [encoded for name, code in self.codes_.items() for encoded in code.names(name)]

    def _require(self) -> Iterator[Fit]:
        names = list(self.columns_)
        yield "columns_", len(names) > 0 and are_texts(*names), True
        for part in ("kinds_", "codes_", "verdicts_"):
            yield part, list(getattr(self, part)), names
        codes = list(self.codes_.values())
        known = (BooleanCode, CategoryCode, DateCode, NumberCode)
        yield "codes_", all(isinstance(code, known) for code in codes), True
        yield "kinds_", list(self.kinds_.values()), [code.kind for code in codes]
        yield "verdicts_", [each.kind for each in self.verdicts_.values()], [code.kind for code in codes]
        owner = np.repeat(np.arange(len(codes)), [code.width for code in codes])
        yield "owner_", np.array_equal(self.owner_, owner), True
        yield "encoded_names_", len(self.encoded_names_), len(owner)
        yield "said_", all(isinstance(each, (str, Notice)) for each in self.said_), True


_ALIKE = 10  # up to so many columns with the same reason are told one by one
_COUNTED = 20  # columns whose missing cells are told one by one


def collect_left_out(left_out: Mapping[str, str]) -> list[Notice]:
    """Return a notice for each column left out, or one for all with the same reason when they are many."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(name)
    single = [
        Notice("left_out", {"columns": [name], "n": 1, "reason": reason})
        for name, reason in left_out.items()
        if len(by_reason[reason]) <= _ALIKE
    ]
    joined = [
        Notice("left_out", {"columns": names[:_ALIKE], "n": len(names), "reason": reason})
        for reason, names in by_reason.items()
        if len(names) > _ALIKE
    ]
    return single + joined


def _count_missing(
    values: Mapping[str, Values],
    kinds: Mapping[str, str],
    missing: str,
    emptied: Mapping[str, int] | None = None,
) -> list[Notice]:
    """Count the missing cells of each column, and tell what was done about them.

    Cells that were `emptied` because something is wrong with them are told elsewhere.
    """
    known = emptied or {}
    counts = {name: int(is_missing(column).sum()) - known.get(name, 0) for name, column in values.items()}
    counts = {name: n for name, n in counts.items() if n > 0}
    if not counts:
        return []
    if missing == "drop":
        # Rows are left out, cells are counted: a row with two gaps is one row.
        n_rows = int(np.any([is_missing(column) for column in values.values()], axis=0).sum())
        return [Notice("rows_with_gaps", {"n_rows": n_rows, **_list_counts(counts)})]
    grouped: dict[str, dict[str, int]] = {kind: {} for kind in ("number", "boolean", "date", "category")}
    for name, n in counts.items():
        grouped[kinds[name]][name] = n
    return [Notice("gaps_filled", {"kind": k, **_list_counts(own)}) for k, own in grouped.items() if own]


def _list_counts(counts: Mapping[str, int]) -> dict[str, Any]:
    """The first columns with their counts, and how many more there are, with the cells of these."""
    pairs = list(counts.items())
    rest = [n for _, n in pairs[_COUNTED:]]
    return {"counts": dict(pairs[:_COUNTED]), "n_more": len(rest), "more_cells": sum(rest)}
