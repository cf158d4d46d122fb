"""Compiled loops where their cache cannot be written, or is damaged: they are compiled again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
from tellwhy.core.compiled import njit

@njit(nogil=True, cache=True)
def inner(x):
    return x + 1

@njit(nogil=True, cache=True)
def outer(x):
    return 2 * inner(x)
"""
CALL = """
import sys
sys.path.insert(0, sys.argv[1])
import loops
print(loops.outer(3), sum(loops.outer.stats.cache_hits.values()))
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "loops.py").write_text(MODULE)
    (tmp_path / "here").mkdir()
    return tmp_path


def called(place, **environment):
    """What the function gives, and how many of its versions came from the cache."""
    ran = subprocess.run(
        [sys.executable, "-P", "-c", CALL, str(place / "code")],
        cwd=place / "here",
        env={**os.environ, "HOME": str(place), "XDG_CACHE_HOME": str(place / "cache"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return tuple(map(int, ran.stdout.split()))


def caches(place):
    return sorted((place / "code" / "__pycache__").glob("*.nb[ic]"))


def test_what_was_compiled_is_kept(place):
    assert called(place) == (8, 0)
    assert len(caches(place)) == 4
    assert called(place) == (8, 1)


def test_what_calls_a_loop_of_another_file_is_compiled_again_when_that_changes(place):
    inner, outer = MODULE.split("\n@njit(nogil=True, cache=True)\ndef outer")
    code = place / "code"
    (code / "_compiled_inner.py").write_text(inner)
    head = "from tellwhy.core.compiled import njit\nfrom _compiled_inner import inner\n\n"
    (code / "loops.py").write_text(head + "@njit(nogil=True, cache=True)\ndef outer" + outer)
    assert called(place) == (8, 0)
    assert called(place) == (8, 1)
    (code / "_compiled_inner.py").write_text(inner.replace("x + 1", "x + 2"))
    assert called(place) == (10, 0)
    assert called(place) == (10, 1)


def test_a_home_and_a_package_that_cannot_be_written(place):
    (place / "code" / "__pycache__").write_text("a file, so that no folder can be made there")
    for _ in range(2):
        assert called(place, HOME=os.devnull, XDG_CACHE_HOME=os.devnull + "/cache") == (8, 0)


def damaged(kind, held):
    middle = len(held) // 2
    return {
        "empty": b"",
        "cut": held[:middle],
        "zeros": bytes(len(held)),
        "one bit": held[:middle] + bytes([held[middle] ^ 1]) + held[middle + 1 :],
        "text": b"not a cache at all\n" * 10,
        "longer": held + b"\n",
    }[kind]


@pytest.mark.parametrize("kind", ["empty", "cut", "zeros", "one bit", "text", "longer"])
@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
def test_a_cache_that_is_damaged(kind, ending, place):
    called(place)
    for path in caches(place):
        if path.suffix == ending:
            path.write_bytes(damaged(kind, path.read_bytes()))
    assert called(place) == (8, 0)
    assert called(place) == (8, 1)  # and is mended


def test_settings_of_the_working_folder_do_not_say_where_code_is_kept(place):
    # Stands for PyYAML, without which numba does not read such files.
    (place / "code" / "yaml.py").write_text("def safe_load(file): return {'cache_dir': 'theirs'}")
    (place / "here" / ".numba_config.yaml").write_text("cache_dir: theirs\n")
    assert called(place) == (8, 0)
    assert os.listdir(place / "here") == [".numba_config.yaml"]


def test_settings_of_the_environment_go_before(place):
    assert called(place, NUMBA_CACHE_DIR=str(place / "elsewhere")) == (8, 0)
    assert list((place / "elsewhere").rglob("*.nbi"))
    assert called(place, NUMBA_DISABLE_JIT="0") == (8, 0)


def test_every_compiled_loop_is_kept_in_this_way():
    import tellwhy

    for path in Path(tellwhy.__file__).parent.rglob("*.py"):
        if path != Path(tellwhy.__file__).parent / "core" / "compiled.py":
            assert "numba.njit(" not in path.read_text(encoding="utf-8"), path


def test_types_that_an_earlier_version_had(place):
    whole = "from {0} import Pair\n" + MODULE.replace("return x + 1", "return x + Pair(1, 2).a")
    pair = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    a: int\n    b: int\n"
    call = CALL.replace("loops.outer(3)", "loops.first(loops.Pair(8, 9))").replace(
        "outer.stats", "first.stats"
    )
    whole += "\n@njit(nogil=True, cache=True)\ndef first(pair):\n    return pair.a\n"
    for name in ("before", "after"):
        for old in (place / "code").glob("*.py"):
            old.unlink()
        (place / "code" / f"{name}.py").write_text(pair)
        (place / "code" / "loops.py").write_text(whole.format(name))
        ran = subprocess.run(
            [sys.executable, "-P", "-c", call, str(place / "code")],
            cwd=place / "here",
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.split() == ["8", "0"]


LATE = """
import pickle, sys
import tellwhy.kernels, tellwhy.scoring.distance_scores as scores
from tellwhy.scoring._compiled_one_class import keep_nearest
assert "numba" not in sys.modules
again = pickle.loads(pickle.dumps(keep_nearest))
assert "numba" not in sys.modules
assert again.signatures == keep_nearest.signatures == []
assert "numba" in sys.modules
assert pickle.loads(pickle.dumps(keep_nearest)).py_func is keep_nearest.py_func
"""


def test_numba_is_loaded_by_the_first_loop_that_is_called():
    subprocess.run([sys.executable, "-c", LATE], check=True)
