"""Every option of a command reaches the function that does the work, under the name that it has there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tellwhy.core.errors import InvalidInput
from tellwhy.views.cli import app

COMMON = {
    "id_column": None,
    "top": 10,
    "alarms": None,
    "contamination": None,
    "fdr": None,
    "columns": None,
    "exclude": (),
    "random_state": 0,
}
NO_KINDS: dict[str, list[str]] = {"category": [], "number": [], "date": [], "text": []}


class Asked(dict[str, Any]):
    """What a function was called with; it then stops the command."""

    def __call__(self, *args: object, **settings: object) -> None:
        self["args"] = args
        self.update(settings)
        raise InvalidInput("far enough")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run a command up to the call of a function, and return what that was called with."""
    monkeypatch.chdir(tmp_path)

    def of(function: str, *words: str) -> Asked:
        found = Asked()
        monkeypatch.setattr(function, found)
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 1, done.output
        assert "far enough" in done.stderr
        return found

    return of


def test_rows_of_a_table(asked: Any) -> None:
    function = "tellwhy.kinds.table.explain_table"
    own = {"reference": None, "normal": None, "by": (), "label": None, "detector": "auto", "method": "auto"}
    plain = asked(function, "explain", "t.csv")
    assert plain == COMMON | NO_KINDS | own | {
        "missing": "impute",
        "second_opinions": False,
        "args": (Path("t.csv"),),
    }
    words = (
        "--normal k=v --id n --detector SVDD --method Occlusion --top 7 --contamination 0.02 --columns a,b "
    )
    words += "--columns c --exclude d --label l --missing drop --seed 3 "
    words += "--category e --number f,g --date h --text i --ignore j --by k,l --by m --second-opinions"
    assert asked(function, "explain", "t.csv", *words.split()) == {
        "args": (Path("t.csv"),),
        "reference": None,
        "normal": "k=v",
        "id_column": "n",
        "detector": "SVDD",
        "method": "Occlusion",
        "top": 7,
        "alarms": None,
        "contamination": 0.02,
        "fdr": None,
        "columns": ["a", "b", "c"],
        "exclude": ["d", "j"],
        "category": ["e"],
        "number": ["f", "g"],
        "date": ["h"],
        "text": ["i"],
        "by": ["k", "l", "m"],
        "label": "l",
        "missing": "drop",
        "second_opinions": True,
        "random_state": 3,
    }
    assert asked(function, "explain", "t.csv", "--reference", "r.csv")["reference"] == Path("r.csv")


def test_nodes(asked: Any) -> None:
    function = "tellwhy.views.cli.media.explain_graph"
    own = {"time": None, "edges": None, "neighbours": None, "n_classes": None}
    assert asked(function, "explain", "c.npz", "--grid") == COMMON | own | {"args": (Path("c.npz"),)}
    words = "--classes 3 --neighbours 8 --top 4 --seed 5 --contamination 0.1 --exclude a"
    assert asked(function, "explain", "c.npz", "--grid", *words.split()) == COMMON | own | {
        "args": (Path("c.npz"),),
        "n_classes": 3,
        "neighbours": 8,
        "top": 4,
        "random_state": 5,
        "contamination": 0.1,
        "exclude": ["a"],
    }
    assert asked(function, "explain", "t.csv", "--time", "at", "--classes", "0")["time"] == "at"
    assert asked(function, "explain", "c.npz", "--grid", "--alarms", "9")["alarms"] == 9
    assert asked(function, "explain", "c.npz", "--grid", "--fdr", "0.2")["fdr"] == 0.2
    assert asked(function, "explain", "t.csv", "--edges", "e.csv")["edges"] == "e.csv"


def test_events(asked: Any) -> None:
    words = "--time at --reference r.csv --columns a,b --exclude c --top 3"
    told = {"time": "at", "reference": Path("r.csv"), "columns": ["a", "b"], "exclude": ["c"], "top": 3}
    function = "tellwhy.kinds.events.explain_events"
    assert asked(function, "explain", "t.csv", *words.split()) == {"args": (Path("t.csv"),), **told}


def test_pictures_and_windows(asked: Any) -> None:
    words = "--reference good --top 3 --fdr 0.2 --seed 4"
    told = {"reference": Path("good"), "top": 3, "fdr": 0.2, "random_state": 4}
    function = "tellwhy.kinds.pictures.explain_pictures"
    assert asked(function, "explain", "a.png", *words.split()) == {"args": (["a.png"],), **told}
    function = "tellwhy.kinds.windows.explain_series"
    words += " --time at --window 40 --columns a,b --exclude c"
    own = {"time": "at", "window": 40, "columns": ["a", "b"], "exclude": ["c"]}
    assert asked(function, "explain", "t.csv", *words.split()) == {"args": (Path("t.csv"),), **told, **own}


def test_comparisons(asked: Any) -> None:
    function = "tellwhy.kinds.comparison.compare_table"
    plain = asked(function, "compare", "t.csv")
    assert (plain["n_rows"], plain["n_features"], plain["random_state"]) == (100, 1, 0)
    words = (
        "--rows 30 --changed 2 --seed 4 --normal k=v --detector SVDD --columns a --exclude b --missing error"
    )
    assert asked(function, "compare", "t.csv", *words.split()) == NO_KINDS | {
        "args": (Path("t.csv"),),
        "reference": None,
        "normal": "k=v",
        "detector": "SVDD",
        "columns": ["a"],
        "exclude": ["b"],
        "missing": "error",
        "n_rows": 30,
        "n_features": 2,
        "random_state": 4,
    }


def test_insights(asked: Any) -> None:
    function = "tellwhy.kinds.model.fit"
    plain = asked(function, "insight", "m:f", "t.csv")
    assert (plain["n_sweeps"], plain["n_burn"], plain["n_chains"]) == (1000, 500, 4)
    assert plain["max_seconds"] == 300
    words = "--top 3 --components 4 --features 5 --sweeps 60 --chains 6 --minutes 0 --scale common --seed 7 --checkpoint c"
    assert asked(function, "insight", "m:f", "t.csv", *words.split()) == {
        "args": ("m:f",),
        "kind": "insight",
        "top": 3,
        "checkpoint": Path("c"),
        "n_components": 4,
        "features": 5,
        "n_sweeps": 60,
        "n_burn": 30,  # half as many
        "n_chains": 6,
        "max_seconds": None,
        "scale": "common",
        "random_state": 7,
    }


@pytest.mark.parametrize(
    ("words", "scale"),
    [
        ("t.csv --label y", True),  # columns of a table have units of their own
        ("t.parquet --label y", True),
        ("t.csv --label y --no-scale", False),
        ("rows.svm", False),
        ("rows.svm --scale", True),
    ],
)
def test_tables_are_scaled_unless_told_otherwise(asked: Any, words: str, scale: bool) -> None:
    job = asked("tellwhy.classifiers.svm.training.run.train", "fit-svm", *words.split())["args"][0]
    assert job.scale is scale


def test_machines(asked: Any) -> None:
    words = (
        "--c 0.5 --loss cs --tol 0.01 --max-epochs 9 --ranks 2 --threads 3 --dtype float32 --no-intercept "
    )
    words += "--checkpoint-every 4 --resume --seed 8 --quiet --out here --feature-parts 2"
    job = asked("tellwhy.classifiers.svm.training.run.train", "fit-svm", "rows.svm", *words.split())["args"][
        0
    ]
    assert (job.data, job.out, job.loss, job.C) == ("rows.svm", "here", "cs", 0.5)
    assert (job.tol, job.max_epochs, job.ranks, job.threads) == (0.01, 9, 2, 3)
    assert (job.dtype, job.fit_intercept, job.checkpoint_every) == ("float32", False, 4)
    assert (job.resume, job.seed, job.quiet, job.label) == (True, 8, True, None)
    assert job.feature_parts == 2
    plain = asked("tellwhy.classifiers.svm.training.run.train", "fit-svm", "data/rows.svm")["args"][0]
    assert (plain.out, plain.C, plain.loss) == ("rows-svm.tellwhy", 1.0, "ww")


def test_models(asked: Any) -> None:
    function = "tellwhy.kinds.table_model.fit_model"
    plain = asked(function, "fit", "t.csv", "--save", "m.tellwhy")
    usual = {"normal": None, "clean": False, "id_column": None, "detector": "auto", "contamination": None}
    usual |= {"fdr": None, "columns": None, "exclude": (), "by": (), "label": None, "missing": "impute"}
    assert plain == NO_KINDS | usual | {"random_state": 0, "args": (Path("t.csv"),)}
    words = "--normal k=v --clean --id n --detector SVDD --contamination 0.02 --columns a --exclude b "
    words += "--ignore c --by d,e --label f --missing drop --seed 3 --category g --number h --date i --text j"
    assert asked(function, "fit", "t.csv", "--save", "m.tellwhy", *words.split()) == {
        "args": (Path("t.csv"),),
        "normal": "k=v",
        "clean": True,
        "id_column": "n",
        "detector": "SVDD",
        "contamination": 0.02,
        "fdr": None,
        "columns": ["a"],
        "exclude": ["b", "c"],
        "by": ["d", "e"],
        "label": "f",
        "missing": "drop",
        "random_state": 3,
        "category": ["g"],
        "number": ["h"],
        "date": ["i"],
        "text": ["j"],
    }
    assert asked(function, "fit", "t.csv", "--save", "m", "--fdr", "0.2")["fdr"] == 0.2


def test_blocks(asked: Any) -> None:
    function = "tellwhy.bulk.run.explain_bulk"
    words = "explain t.csv u.csv --model m --out o --workers 3 --all --budget 0.5 --ray local --id n"
    assert asked(function, *words.split(), "--method", "Occlusion") == {
        "args": (["t.csv", "u.csv"],),
        "model": Path("m"),
        "out": Path("o"),
        "workers": 3,
        "explain_all": True,
        "budget": 0.5,
        "ray": "local",
        "id_column": "n",
        "method": "Occlusion",
        "is_own": False,
    }
    function = "tellwhy.bulk.fit.fit_bulk"
    words = "explain t.csv --out o --workers 1 --by a --seed 3 --exclude b --detector SVDD --missing drop"
    assert asked(function, *words.split()) == NO_KINDS | {
        "args": (["t.csv"],),
        "id_column": None,
        "detector": "SVDD",
        "columns": None,
        "exclude": ["b"],
        "by": ["a"],
        "missing": "drop",
        "random_state": 3,
    }


def test_networks(asked: Any) -> None:
    from tellwhy.kinds.networks.inputs import Preparation
    from tellwhy.kinds.networks.network import NetworkRequest

    function = "tellwhy.kinds.model.fit"
    plain = asked(function, "network", "m:f", "--input", "a.png")
    assert plain == {"args": ("m:f",), "kind": "network", **vars(NetworkRequest())}
    words = "--method lrp,gradient --target 3 --labels l.txt --size 8x9 --mean 0.1,0.2 --std 0.3 --vocabulary v.txt "
    words += "--no-check --batch-size 4 --out d --seed 3"
    preparation = Preparation((8, 9), (0.1, 0.2), (0.3,), Path("v.txt"))
    request = NetworkRequest("lrp,gradient", "3", Path("l.txt"), preparation, False, 4, 3)
    assert asked(function, "network", "m:f", "--input", "in", *words.split()) == {
        "args": ("m:f",),
        "kind": "network",
        **vars(request),
    }
