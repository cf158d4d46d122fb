"""What changed since a table: learned from the earlier one, told of a later one as any other result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from tellwhy.core.errors import InvalidInput
from tellwhy.core.optional import versions
from tellwhy.core.params import Fit, are_texts, real, validate_value
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats
from tellwhy.data import Table
from tellwhy.data.columns.reading import Role
from tellwhy.data.columns.roles import ReadColumns
from tellwhy.data.table import TableLike
from tellwhy.kinds.drift import LEVEL, Difference, Pair, choose_entries, compare_pair, list_shared, read_pair
from tellwhy.kinds.model import change_settings, judge, kind
from tellwhy.kinds.table_rows import read_as_told, read_source
from tellwhy.results.notice import Notice, as_notices
from tellwhy.results.result import AlarmRule, Anomaly, Headline, Part, Reason, Result
from tellwhy.storage import clock
from tellwhy.storage.documents import make_plain
from tellwhy.storage.model_file import SavedAsFile
from tellwhy.storage.saved_classes import saved
from tellwhy.verdicts.column_drift import Drift

DRIFT = "drift"
KINDS = ("category", "number", "date", "text")  # that a user may tell of columns
CHANGEABLE = ("by", "random_state", "level")


@saved
@dataclass(frozen=True)
class DriftRequest:
    """What is asked of two tables; see `diff_tables`."""

    exclude: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    number: tuple[str, ...] = ()
    date: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    level: float = LEVEL
    random_state: int = 0

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> DriftRequest:
        """Check settings once; lists of columns become tuples."""
        asked: dict[str, Any] = _make_tuples(settings)
        found = cls(**asked)
        validate_value("diff_tables", "level", found.level, real(0, 1, closed="neither"))
        return found

    @property
    def told(self) -> dict[str, tuple[str, ...]]:
        """The kinds that the user told of columns."""
        return {name: getattr(self, name) for name in KINDS}

    def _require(self) -> Iterator[Fit]:
        for name in ("exclude", *KINDS, "by"):
            yield name, are_texts(*getattr(self, name)), True
        yield "level", 0 < self.level < 1, True


def _make_tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, (list, tuple)) else v for name, v in settings.items()}


@saved
@dataclass(frozen=True, eq=False)
class DriftModel(SavedAsFile):
    """The earlier table, as it was read.

    Attributes
    ----------
    source, names
        Where it came from, and all its columns.
    rows, roles
        The columns that are compared, and what each was taken for.
    said
        How they were read.
    """

    kind: ClassVar[str] = DRIFT

    source: str
    request: DriftRequest
    names: tuple[str, ...]
    rows: pd.DataFrame
    roles: Mapping[str, Role]
    said: tuple[Notice, ...]

    def _require(self) -> Iterator[Fit]:
        yield "names", are_texts(*self.names), True
        yield "rows", isinstance(self.rows, pd.DataFrame), True
        yield "roles", sorted(self.roles) == sorted(self.rows.columns), True
        yield "roles", all(isinstance(role, Role) for role in self.roles.values()), True
        yield "said", all(isinstance(each, (str, Notice)) for each in self.said), True

    @property
    def old(self) -> Table:
        """The earlier table by its names alone, with as many rows."""
        return Table(pd.DataFrame(columns=list(self.names), index=self.rows.index), self.source)


@dataclass(frozen=True, eq=False)
class Later:
    """A later table, and what it shares with the earlier one."""

    table: Table
    request: DriftRequest
    pair: Pair
    remembered: dict[str, Difference] = field(default_factory=dict)


@kind(DRIFT)
class DriftKind:
    """Two tables of the same columns, one after the other."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool = False) -> DriftModel:
        """Read the earlier table; whether its rows are ordinary is not asked."""
        del clean
        request = DriftRequest.of(settings)
        table = read_source(source)
        stage("reading columns")
        left = set(request.exclude)
        names = [name for name in table.frame.columns if name not in left]
        if not names:
            raise InvalidInput(f"{table.source} has no column left to compare; leave out fewer.")
        told = {k: choose_entries(entries, names, left) for k, entries in request.told.items()}
        read = read_as_told(table.frame[names], None, told)
        return DriftModel(
            source=table.source,
            request=request,
            names=tuple(table.frame.columns),
            rows=read.frame.reset_index(drop=True),
            roles=dict(read.roles),
            said=(*table.said, *read.said),
        )

    def read(self, model: DriftModel, source: Any, settings: Mapping[str, Any]) -> Later:
        """Read the columns that both tables have as the later one writes them."""
        asked = change_settings(model.request, _make_tuples(settings), CHANGEABLE)
        request = replace(model.request, **asked)
        table = read_source(source)
        stage("reading columns")
        left = set(request.exclude)
        shared = list_shared(model.old, table, left)
        told = {k: choose_entries(entries, shared, left) for k, entries in request.told.items()}
        known = ReadColumns(model.rows[shared], {name: model.roles[name] for name in shared}, [])
        return Later(table, request, read_pair(known, table.frame[shared], told))

    def check(self, _model: DriftModel, batch: Later) -> Later:
        """Return the batch: cells are compared as they are."""
        return batch

    def score(self, model: DriftModel, batch: Later) -> Floats:
        """Compare every column; a score is the size of a difference, from 0 to 1."""
        asked = batch.request
        found = compare_pair(
            model.old,
            batch.table,
            batch.pair,
            exclude=asked.exclude,
            level=asked.level,
            seed=asked.random_state,
            by=asked.by,
        )
        batch.remembered[DRIFT] = replace(found, said=list(as_notices(model.said)))
        return np.array([each.size for each in found.drifts])

    def explain(self, _model: DriftModel, batch: Later, scores: Floats) -> Result:
        """Tell what drifted, the largest difference first."""
        return as_result(batch.remembered[DRIFT], scores, asdict(batch.request))


def diff_tables(
    old: str | Path | TableLike,
    new: str | Path | TableLike,
    *,
    exclude: Sequence[str] = (),
    category: Sequence[str] = (),
    number: Sequence[str] = (),
    date: Sequence[str] = (),
    text: Sequence[str] = (),
    by: Sequence[str] = (),
    level: float = LEVEL,
    random_state: int = 0,
) -> Difference:
    """Tell what changed from one table to another: values, levels, missing cells, columns, how they are read.

    Numbers and dates are compared by Kolmogorov–Smirnov, levels by chi-square and by the chance of levels
    that one table lacks, missing cells by Fisher's test. p-values are corrected for their number (Holm).

    Parameters
    ----------
    old, new
        A file, or a table in memory.
    exclude
        Columns to leave out.
    category, number, date, text
        Columns to read so, whatever they look like; a date may be 'COLUMN=FORMAT'.
    by
        Columns such as a country: rows are compared with those of the same one, so that a table with more of
        one country has not drifted in all else.
    level
        Chance that anything is said to have drifted though nothing has.
    random_state
        Seed of the 200,000 rows whose numbers are compared where a table has more.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> january = pd.DataFrame({"price": rng.normal(20, 2, 500), "size": rng.normal(size=500)})
    >>> february = pd.DataFrame({"price": rng.normal(25, 2, 500), "size": rng.normal(size=500)})
    >>> [drift.column for drift in diff_tables(january, february).drifted]
    ['price']
    """
    told = {"category": category, "number": number, "date": date, "text": text}
    tables = [read_source(old), read_source(new)]
    list_shared(tables[0], tables[1], set(exclude))
    model = DriftKind().fit(tables[0], {"exclude": exclude, **told, "level": level})
    return read_difference(judge(model, tables[1], by=by, random_state=random_state))


def as_result(found: Difference, scores: Floats, settings: Mapping[str, Any]) -> Result:
    """Return what was found as the one result that all kinds have; an anomaly is a column that drifted."""
    n_rows = found.n_rows[1]
    alarms = AlarmRule("", len(found.drifted), found.level)
    return Result(
        kind=DRIFT,
        source=found.new,
        settings={**make_plain(settings), "reference": found.old},
        anomalies=[_make_anomaly(each) for each in found.drifted],
        scores=scores,
        names=[each.name for each in found.drifts],
        threshold=None,
        alarms=alarms,
        roles=found.roles,
        opening=Headline(n_rows, alarms, is_written=True, more=[_make_opening(found)]),
        notices=found.said,
        own={DRIFT: make_plain(asdict(found))},
        versions=versions(),
        created=clock.stamp(),
    )


def _make_opening(found: Difference) -> Notice:
    facts = {
        "n": len({each.column for each in found.drifts}),
        "n_drifted": len({each.column for each in found.drifted}),
        "old": found.old,
        "new": found.new,
        "n_rows": list(found.n_rows),
    }
    return Notice("columns_drifted", facts)


def _make_anomaly(drift: Drift) -> Anomaly:
    """A column that drifted, and what moved in it."""
    facts = {"said": drift.moved.kind, **drift.moved.facts}
    reason = Reason(drift.name, None, [], 1.0, kind="moved", facts=facts, is_share=False)
    part = Part("column", column=drift.column, name=drift.name)
    return Anomaly(part, drift.size, drift.p_adjusted, is_alarm=True, reasons=[reason])


def read_difference(result: Result) -> Difference:
    """Return what a result of this kind holds."""
    record = dict(result.own[DRIFT])
    drifts = [Drift(**{**each, "moved": Notice(**each["moved"])}) for each in record["drifts"]]
    changed = {name: tuple(words) for name, words in record["changed"].items()}
    said = list(as_notices(record.pop("notices", None) or record["said"]))
    made = {"drifts": drifts, "changed": changed, "n_rows": tuple(record["n_rows"]), "said": said}
    return Difference(**{**record, **made})
