"""What one page works on: a result in its folder, its rows, its decisions, and its model when needed."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellwhy.core.errors import InvalidInput
from tellwhy.kinds.decisions import Decisions, Standing
from tellwhy.results.result import Anomaly, Result
from tellwhy.results.store import load_result
from tellwhy.verdicts.similar import list_suspect_cells, wrong_cells
from tellwhy.views.server.app_rows import RowTable
from tellwhy.views.server.app_view import LIKELY

if TYPE_CHECKING:
    from tellwhy.kinds.table_model import TableModel
    from tellwhy.verdicts.repair import Change

REMEMBERED = 8  # rows that were judged alone
PIECE = 16_384  # rows of a table that are read to show one of them
TABLE = "table.parquet"  # in the folder of a result, the table as it was read, all rows
PARQUET = (".parquet", ".pq")


@dataclass(eq=False)
class Session:
    """A result that is open.

    Attributes
    ----------
    folder
        The folder of the result.
    result
        What was found.
    rows
        The rows, to be listed.
    decisions
        What people decided about them.
    """

    folder: Path
    result: Result
    rows: RowTable
    decisions: Decisions
    _alone: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _judged: dict[int, Result] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, folder: str | Path) -> Session:
        """Open the folder that a command wrote; of a run block by block, the folder `run` in it."""
        place = Path(folder)
        inside = place / "run"
        place = inside if inside.is_dir() and not (place / "result.json").exists() else place
        result = load_result(place)
        return cls(
            place,
            result,
            RowTable(result, cells_of(place, result) if result.kind == "table" else None),
            Decisions(place, model_of(place, result)),
        )

    @property
    def name(self) -> str:
        """The last part of the source's name."""
        return Path(self.result.source).name or self.result.source

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of each explained row among the anomalies."""
        return {number: place for place, number in enumerate(self.rows.numbers)}

    def standing(self) -> Standing:
        """What is decided now; the list of rows knows it too."""
        standing = self.decisions.standing()
        self.rows.take_decisions(standing)
        return standing

    def anomaly(self, row: int) -> Anomaly | None:
        """What is told of a row; None of one that was not explained."""
        place = self.places.get(row)
        return None if place is None else self.result.anomalies[place]

    @cached_property
    def wrong_cells(self) -> dict[int, dict[str, tuple[float, Any]]]:
        """By row and column: how probable it is that a cell is wrong, and what it should hold."""
        return wrong_cells(self.result.findings)

    @cached_property
    def suspect_cells(self) -> dict[int, set[str]]:
        """By row: columns that a finding blames."""
        return list_suspect_cells(self.result.findings)

    @cached_property
    def cells(self) -> Path | None:
        """The Parquet file that holds all rows of the table."""
        return cells_of(self.folder, self.result) if self.result.kind == "table" else None

    @cached_property
    def repairs(self) -> list[Change]:
        """Cells that are rather wrong than right and whose right value is known."""
        import pyarrow.parquet as pq

        from tellwhy.data.reading.arrow_frames import frame_from_arrow
        from tellwhy.verdicts.repair import find_sure_changes

        told = [finding for finding in self.result.findings if finding.probabilities and finding.columns]
        if self.cells is None or not told:
            return []
        named = {str(name) for finding in told for name in finding.columns}
        there = [name for name in self.rows.columns if name in named]
        frame = frame_from_arrow(pq.read_table(self.cells, columns=there))
        return find_sure_changes(told, frame, LIKELY)

    @property
    def model_file(self) -> Path | None:
        """The file of the model that judged the rows; None where there is none any more."""
        return self.decisions.model_file

    @cached_property
    def _model(self) -> TableModel:
        from tellwhy.kinds.table_model import load_table_model

        if self.model_file is None:
            raise InvalidInput(
                "This result was made without a model that was kept. Open its data instead, `tellwhy app "
                f"{self.name}`, or explain them by a model: `tellwhy fit`, then `tellwhy explain --model`."
            )
        return load_table_model(self.model_file)

    def model(self) -> TableModel:
        """The model that judged the rows; it is read when it is first needed."""
        with self._alone:
            return self._model

    def judged_alone(self, row: int) -> Result:
        """A row as the detector judges it, without looking at it as data; the last few are remembered."""
        from tellwhy.kinds.one_row import judge_one

        with self._alone:
            if row not in self._judged:
                frame = self.rows.frame_of(row)
                if frame is None:
                    raise InvalidInput(f"The cells of row {row} are not known.")
                while len(self._judged) >= REMEMBERED:
                    del self._judged[next(iter(self._judged))]
                self._judged[row] = judge_one(self._model, frame, with_checks=False).result
            return self._judged[row]

    @cached_property
    def _methods(self) -> list[str]:
        from tellwhy.kinds.one_row import list_opinions

        return list_opinions(self.model())

    def methods(self) -> list[str]:
        """The methods that can be asked for another opinion."""
        return self._methods

    @property
    def has_model(self) -> bool:
        """Whether rows can be judged again."""
        return self.result.kind == "table" and self.model_file is not None


def model_of(folder: Path, result: Result) -> Path | None:
    """The file of the very model that judged the rows; None where it is gone, or another one by now."""
    from tellwhy.kinds.mark_file import fingerprint_of

    told = str(result.settings.get("model") or "")
    # A folder that was moved took the model beside it along, perhaps.
    candidates = [folder.with_name(f"{folder.name}.tellwhy"), *([Path(told)] if told else [])]
    wanted = result.settings.get("model_sha256")
    there = (path for path in candidates if path.is_file())
    return next((path for path in there if wanted in (None, fingerprint_of(path))), None)


def cells_of(folder: Path, result: Result) -> Path | None:
    """The Parquet file that holds all rows of the table; None where there is none that fits the result."""
    source = Path(result.source)
    candidates = [folder / TABLE, *([source] if source.suffix.lower() in PARQUET else [])]
    n_rows = len(result.scores)
    last = n_rows if result.rows is None or not n_rows else int(max(result.rows)) + 1
    return next((path for path in candidates if path.is_file() and _n_rows(path) >= last), None)


def _n_rows(path: Path) -> int:
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, ValueError):
        return -1


def make_result(source: Any, folder: Path, asked: dict[str, Any], model_file: Path | None = None) -> Path:
    """Learn from a table, judge it, and write the folder: the result and the rows; beside it the model.

    It is what `tellwhy fit`, then `tellwhy explain --model`, write.

    Parameters
    ----------
    source
        A file or a table.
    folder
        Where the result is written.
    asked
        Settings, as `explain_table` takes them.
    model_file
        A model to judge by; without one it is learned from the table itself, and written beside the folder.
    """
    from tellwhy.kinds.table import explain_and_compare
    from tellwhy.kinds.table_model import load_table_model
    from tellwhy.kinds.table_rows import read_source, write_rows
    from tellwhy.storage.documents import write_stored_table
    from tellwhy.verdicts.run_io import check_place, save_run
    from tellwhy.views.page.page import write_report

    check_place(folder)
    table = read_source(source)
    told = {name: asked[name] for name in JUDGING if name in asked}
    place = folder.with_name(f"{folder.name}.tellwhy") if model_file is None else model_file
    if model_file is None:
        _fit(table, asked, place)
    run, _ = explain_and_compare(load_table_model(place), table, model_file=place, **told)

    def add(work: Path) -> None:
        write_stored_table(write_rows(table.frame), work / TABLE, index=False, row_group_size=PIECE)
        write_report(run, work / "report.html")

    return save_run(run, folder, add=add)


def judge_again(session: Session, settings: dict[str, Any]) -> Path:
    """Judge the rows of a session once more: what is marked as benign by now is held back.

    The model is fitted to the same rows, so that it would come out the same: it need not be fitted again.
    """
    from tellwhy.kinds.table_rows import read_source

    if session.cells is None or session.model_file is None:
        raise InvalidInput("The table or its model is not at its place: the rows cannot be judged again.")
    table = read_source(session.cells)
    known = session.result.settings
    asked = {name: known[name] for name in JUDGING if known.get(name) is not None and name != "method"}
    if "alarms" in settings:
        asked = {name: value for name, value in asked.items() if name not in ("fdr", "contamination")}
    # The model knows its own rows by their fingerprint, which is that of the file they came from.
    named = replace(table, source=session.result.source, fingerprint=session.result.fingerprint)
    folder = free_folder(session.folder.resolve().parent, session.folder.resolve().name)
    return make_result(named, folder, {**asked, **settings}, session.model_file)


def explain_named(
    names: Sequence[str],
    folder: Path,
    asked: dict[str, Any],
    *,
    model_file: Path | None = None,
    db: str | None = None,
) -> Path:
    """Find what is odd in what was named, as `tellwhy explain` reads it, and write the folder."""
    from tellwhy.kinds.choose_kind import find_kind
    from tellwhy.kinds.table_rows import read_named

    kind = None if db is not None else find_kind(names, time=None, window=None)
    if model_file is not None:
        from tellwhy.kinds.model import kind_of_model
        from tellwhy.storage.model_file import load

        kind = kind_of_model(load(model_file))
    if kind in (None, "table"):
        return make_result(read_named(names, db=db), folder, asked, model_file)
    return _explain_other(kind, names, folder, model_file)


def _explain_other(kind: str, names: Sequence[str], folder: Path, model_file: Path | None) -> Path:
    """Pictures, texts, a series: learned from themselves, or judged by a model."""
    from tellwhy.kinds.model import fit, judge
    from tellwhy.kinds.table_rows import read_named
    from tellwhy.storage.model_file import load
    from tellwhy.verdicts.run_io import save_run

    source = list(names) if kind == "pictures" else read_named(names)
    model = fit(source, kind=kind) if model_file is None else load(model_file)
    return save_run(judge(model, source), folder)


def free_folder(parent: Path, name: str) -> Path:
    """A folder that is not there yet: of this name, or with a number behind it."""
    base = re.sub(r"(?<=.)-\d+$", "", name)
    numbered = (parent / f"{base}-{number}" for number in range(2, 10_000))
    return next(place for place in (parent / base, *numbered) if not place.exists())


def _fit(table: Any, asked: dict[str, Any], place: Path) -> None:
    """Learn from a table, and write the model; marks of one that stood there before are carried over."""
    from tellwhy.kinds.mark_file import carry_marks
    from tellwhy.kinds.table_model import fit_model, marks_at
    from tellwhy.storage.model_file import check_place, save

    check_place(place)
    before = marks_at(place)
    save(fit_model(table, **asked), place)
    carry_marks(place, before)


JUDGING = ("id_column", "label", "method", "top", "alarms", "contamination", "fdr", "second_opinions")
