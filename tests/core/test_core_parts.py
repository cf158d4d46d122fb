"""Files, progress, batches, tables, registry, optional imports."""

import time

import numpy as np
import pandas as pd
import pytest

import tellwhy.one_liner.explain  # noqa: F401  (fills the registry)
from tellwhy.core import arrays as tables, progress, registry
from tellwhy.core.errors import CannotWrite, InvalidInput, InvalidParameter, MissingExtra
from tellwhy.core.optional import require
from tellwhy.core.running import cut_batches, map_in_threads
from tellwhy.storage import documents, folders


def test_new_file_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out.txt"
    with folders.new_file(target) as work:
        work.write_text("first")
    assert target.read_text() == "first"
    with pytest.raises(RuntimeError), folders.new_file(target) as work:
        work.write_text("half")
        raise RuntimeError
    assert target.read_text() == "first"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]
    with (
        pytest.raises(CannotWrite, match="Nothing was written"),
        folders.new_file(tmp_path / "no" / "out.txt") as work,
    ):
        work.write_text("x")


def test_new_folder_is_removed_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), folders.new_folder(tmp_path / "run", marker="run.json") as work:
        (work / "run.json").write_text("{}")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(CannotWrite), folders.new_folder(tmp_path / "file" / "run", marker="run.json"):
        pass


def test_plain_values_for_json(tmp_path):
    given = {
        "a": np.float64(1.5),
        "b": np.arange(2),
        "c": (1, None),
        "d": float("inf"),
        3: np.bool_(True),
        "p": tmp_path,
    }
    expected = {"a": 1.5, "b": [0, 1], "c": [1, None], "d": "inf", "3": True, "p": str(tmp_path)}
    assert documents.make_plain(given) == expected


def test_progress_is_silent_when_quick_and_shown_when_slow(monkeypatch):
    shown = []
    with progress.show_with(lambda *told: shown.append(told)):
        assert list(progress.track(range(3), 3, "quick")) == [0, 1, 2]
        assert shown == []
        monkeypatch.setattr(progress, "QUIET_SECONDS", 0.01)
        for _ in progress.track(range(3), 3, "slow"):
            time.sleep(0.02)
    assert shown[-1] == ("slow", 3, 3)


def test_progress_line_needs_a_terminal(capsys, monkeypatch):
    progress._write_line_on_stderr("label", 1, 2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    progress._write_line_on_stderr("label", 2, 2)
    assert "label [##############################] 2/2" in capsys.readouterr().err


def test_batches_cover_every_row_once():
    for n, size in [(0, 10), (1, 10), (100, 7), (100, 10**9)]:
        covered = np.concatenate([np.arange(n)[b] for b in cut_batches(n, size, limit=100)] or [np.arange(0)])
        np.testing.assert_array_equal(covered, np.arange(n))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_keep_the_order(n_jobs):
    assert map_in_threads(lambda x: x * x, list(range(20)), n_jobs) == [x * x for x in range(20)]


def test_bad_cells_are_named_by_row_and_column():
    frame = pd.DataFrame({"age": [1.0, 2.0, np.nan], "size": [1.0, 2.0, 3.0]})
    with pytest.raises(InvalidInput, match=r"NaN in row 2, column 'age' \(the only such cell\)"):
        tables.as_floats(frame)
    with pytest.raises(
        InvalidInput, match=r"NaN in row 0, column 0 \(2 such cells in all\).*those cells first"
    ):
        tables.as_floats([[np.nan, np.nan]])
    with pytest.raises(InvalidInput, match=r"infinity \(-inf\) in row 0, column 1"):
        tables.as_floats([[1.0, -np.inf]])
    with pytest.raises(InvalidInput, match="'x' in row 0, column 1"):
        tables.as_floats(np.array([[1, "x"]], dtype=object))
    with pytest.raises(InvalidInput, match="2 columns, but the model was fitted on 3"):
        tables.as_floats([[1.0, 2.0]], n_columns=3)
    huge = np.full((10, 2), 1e308)  # their sum overflows, they do not
    assert tables.as_floats(huge) is huge


def test_registry_finds_names_however_written():
    assert registry.card("explainer", "one_class_dtd").name == "OneClassDTD"
    assert registry.card("detector", "one-class-svm").name == "OneClassSVM"
    with pytest.raises(InvalidParameter, match=r"no explainer named 'zzz'\. tellwhy\.methods\(\) lists them"):
        registry.card("explainer", "zzz")
    with pytest.raises(InvalidParameter, match=r"'kernelshape'; did you mean 'KernelShap'\?"):
        registry.card("explainer", "kernelshape")


def test_a_class_that_is_entered_again_replaces_itself_and_no_other():
    told = {"needs": "-", "cost": "-", "exactness": "-", "citation": "-"}

    def entered(role, name, module="notebook"):
        made = type(name, (), {"__module__": module})
        return registry.register(role, **told)(made)

    first, second = entered("explainer", "TwiceRun"), entered("graph explainer", "TwiceRun")
    try:
        assert registry.find_explainer("twice_run").cls is second
        assert registry.find_explainer("TwiceRun").role == "graph explainer"
        assert "TwiceRun" not in [card.name for card in registry.cards("explainer")]
        with pytest.raises(InvalidParameter, match="'Twicerun' is taken: notebook has a graph explainer"):
            entered("explainer", "Twicerun", "elsewhere")
        with pytest.raises(InvalidParameter, match="There is no role 'oracle'"):
            entered("oracle", "TwiceRun")
        entered("detector", "TwiceRun", "elsewhere")  # detectors have names of their own
        registry.forget(registry.card("detector", "TwiceRun").cls)
    finally:
        registry.forget(first)
        registry.forget(second)
    with pytest.raises(InvalidParameter, match=r"no explainer named 'TwiceRun'"):
        registry.find_explainer("TwiceRun")


def test_a_missing_extra_says_how_to_install_it():
    with pytest.raises(MissingExtra, match=r"pip install 'tellwhy\[mpi\]'"):
        require("mpi4py.no_such_part", "training over ranks")
