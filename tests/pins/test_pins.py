"""What twenty tables come to by every way stays what it is, bit by bit; see README.md here."""

import json
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from pins.tables import TABLES
from pins.ways import WAYS, made_with, pinned, told

KEPT = json.loads((Path(__file__).parent / "pins.json").read_text(encoding="utf-8"))
# A saved model reads only the rows that `normal` names.
APART = ("marked_ordinary",)
SAME_MACHINE = KEPT["made with"] == made_with()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TABLES)
def test_every_way_says_what_it_said(name, tmp_path):
    table = TABLES[name]()
    found = {}
    with threadpool_limits(limits=1):
        for way, judge in WAYS.items():
            folder = tmp_path / way
            folder.mkdir()
            found[way] = pinned(told(judge(table, folder)))
    if SAME_MACHINE:
        assert found == KEPT["pins"][name]
    else:  # elsewhere the last digits may differ, and with them the hashes
        assert _in_clear(found) == _in_clear(KEPT["pins"][name])


@pytest.mark.parametrize("name", TABLES)
def test_ways_that_mean_the_same_say_the_same(name):
    pins = KEPT["pins"][name]
    if name not in APART:
        assert pins["explain"] == pins["own_model"]
    if pins["reference"] is not None:
        assert pins["reference"] == pins["clean_model"]


def _in_clear(pins):
    return {way: pin and {k: v for k, v in pin.items() if k != "hashes"} for way, pin in pins.items()}
