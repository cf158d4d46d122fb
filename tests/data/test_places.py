from __future__ import annotations

import pandas as pd

from tellwhy.data.places import mark_lines, place_of, refuse_cell, show_cell


def marked(n=6):
    frame = pd.DataFrame({"a": range(n)})
    mark_lines(frame, 2)
    return frame


def test_rows_keep_their_lines_when_cut_out():
    frame = marked()
    assert place_of(frame, 3) == "row 3 (line 5 of the file)"
    assert place_of(frame.iloc[[4, 1]], 1) == "row 1 (line 3 of the file)"
    assert place_of(frame[frame["a"] > 2], 0) == "row 3 (line 5 of the file)"


def test_no_line_is_claimed_where_it_is_unknown():
    assert place_of(marked()[["a"]].iloc[2:].reset_index(drop=True), 0) == "row 0"
    assert place_of(pd.DataFrame({"a": [1]}), 0) == "row 0"
    assert place_of(marked().set_index(pd.Index(list("uvwxyz"))), 1) == "row 1"


def test_long_cells_are_cut():
    frame = pd.DataFrame({"a": ["x" * 500]})
    message = str(refuse_cell(frame, "a", 0, expected="a number", advice="Fix it."))
    assert len(message) < 150
    assert message.endswith("…  in row 0; expected a number. Fix it.".replace("  ", " "))
    assert show_cell("<b>") == "'<b>'"
