"""How data were read, what was left out or filled in, and what rows were compared with, in English."""

from __future__ import annotations

from collections.abc import Sequence

from tellwhy.results.notice import Notice
from tellwhy.words.english.notices import notes
from tellwhy.words.numbers import write_count, write_rows

_SIGNS = {"\t": "tabs", ";": "semicolons", "|": "vertical bars", ",": "commas", " ": "spaces"}


def _quote(names: Sequence[str], most: int = 5) -> str:
    """'"a", "b", …', the first of some names."""
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")


# A file


@notes("separated_by")
def _note_separated_by(n: Notice) -> str:
    sign = n.facts["sign"]
    return f"Columns are separated by {_SIGNS.get(sign, repr(sign))}."


@notes("decimal_comma")
def _note_decimal_comma(n: Notice) -> str:
    return f"Numbers have a decimal comma ({n.facts['example']})."


@notes("no_header")
def _note_no_header(_n: Notice) -> str:
    return "The first row holds only numbers and was read as data; columns are named column_1, column_2, …"


@notes("names_are_numbers")
def _note_names_are_numbers(n: Notice) -> str:
    names = ", ".join(n.facts["names"])
    return f"Some column names are numbers ({names}). If the file has no line of column names, add one."


@notes("unnamed_columns")
def _note_unnamed_columns(n: Notice) -> str:
    named = ", ".join(f"column_{place}" for place in n.facts["places"])
    more = ", …" if n.facts["n"] > len(n.facts["places"]) else ""
    verb = "is" if n.facts["n"] == 1 else "are"
    return f"{write_count(n.facts['n'], 'column')} without a name {verb} called {named}{more}."


@notes("blank_lines")
def _note_blank_lines(_n: Notice) -> str:
    return "Blank lines hold no row; write NA where a value is missing."


@notes("read_as")
def _note_read_as(n: Notice) -> str:
    return f"Read the text as {n.facts['encoding']}."


@notes("not_utf8")
def _note_not_utf8(n: Notice) -> str:
    read = f"The text is not UTF-8 (see line {n.facts['line']}); it was read as {n.facts['encoding']}."
    return f"{read} If letters look wrong, pass the encoding."


@notes("mixed_encodings")
def _note_mixed_encodings(n: Notice) -> str:
    cells = "1 cell was" if n.facts["n"] == 1 else f"{n.facts['n']:,} cells were"
    return f"The text mixes encodings: {cells} read as UTF-8, such as {n.facts['example']!r}."


@notes("numbers_for_people")
def _note_numbers_for_people(n: Notice) -> str:
    return f"Read numbers in column {n.facts['column']!r} as written for people: {n.facts['example']}."


@notes("unknown_zone")
def _note_unknown_zone(n: Notice) -> str:
    return f"Column {n.facts['column']!r}: the time zone {n.facts['zone']!r} is not known; read as UTC."


@notes("one_sheet")
def _note_one_sheet(n: Notice) -> str:
    return f"Read sheet {n.facts['sheet']!r}; not read: {', '.join(map(repr, n.facts['others']))}."


@notes("rows_of_list")
def _note_rows_of_list(n: Notice) -> str:
    return f"The rows are the {n.facts['n']:,} objects of the list {n.facts['list']!r}."


@notes("names_hold_columns")
def _note_names_hold_columns(_n: Notice) -> str:
    return "Each name holds a column."


@notes("names_hold_rows")
def _note_names_hold_rows(n: Notice) -> str:
    return f"Each name holds a row; the names are the column {n.facts['column']!r}."


@notes("features_are_rows")
def _note_features_are_rows(_n: Notice) -> str:
    place = "longitude and latitude are those of its point, or of the middle of its shape"
    return f"Each feature is a row; {place}."


@notes("rows_of_query")
def _note_rows_of_query(n: Notice) -> str:
    return f"Rows of the query: {n.facts['query']}"


@notes("files_joined")
def _note_files_joined(n: Notice) -> str:
    first = n.facts["first"]
    counts = ", ".join(f"{k:,} from {name}" for name, k in first)
    n_more = n.facts["n_files"] - len(first)
    more = f" and {write_count(n_more, 'more file')}" if n_more else ""
    return f"{n.facts['n_rows']:,} rows of {n.facts['n_files']} files joined: {counts}{more}."


@notes("array_of_other_shape")
def _note_array_of_other_shape(n: Notice) -> str:
    shape = tuple(n.facts["shape"])
    return f"Left out {n.facts['name']!r}: its shape is {shape}, the grid's is {tuple(n.facts['grid'])}."


@notes("array_of_no_numbers")
def _note_array_of_no_numbers(n: Notice) -> str:
    return f"Left out {n.facts['name']!r}: it holds {n.facts['type']}, not numbers."


# Columns


@notes("read_so")
def _note_read_so(n: Notice) -> str:
    """How a column was read, and what of it was not written so."""
    f = n.facts
    told = f["as"] if f["kind"] == "date" else f"{f['as']}, read as {f['kind']}s"
    parts = [told.removeprefix("numbers, ")]
    if "converted" in f:
        parts.append(f"{_describe_cells(*f['converted'])} converted")
    if "unread" in f:
        parts.append(f"{_describe_cells(*f['unread'])} not written so and taken as missing")
    return f"{f['column']}: {'; '.join(parts)}."


def _describe_cells(n: int, example: str) -> str:
    return f"one cell, {example}, is" if n == 1 else f"{n:,} cells such as {example} are"


@notes("used_as_categories")
def _note_used_as_categories(n: Notice) -> str:
    return f"{n.facts['column']}: {n.facts['as']}, used as categories."


@notes("mixed_signs")
def _note_mixed_signs(n: Notice) -> str:
    kind = "categories" if n.facts["kind"] == "category" else "text"
    return f"{n.facts['column']}: {n.facts['as']}, which cannot be compared: read as {kind}."


@notes("not_read_so")
def _note_not_read_so(n: Notice) -> str:
    f = n.facts
    many = f"{f['n']:,} cells cannot be read as {f['kind']}s, as they were in fitting, and are"
    cells = f"1 cell cannot be read as a {f['kind']}, as in fitting, and is" if f["n"] == 1 else many
    return f"{f['column']}: {cells} taken as missing."


@notes("left_out")
def _note_left_out(n: Notice) -> str:
    f = n.facts
    if f["n"] == 1:
        return f"Left out {f['columns'][0]!r}: {f['reason']}."
    return f"Left out {f['n']} columns, each because {f['reason']}: {_quote(f['columns'])}."


@notes("varies_only_here")
def _note_varies_only_here(n: Notice) -> str:
    return f"Never varied in the reference rows, but does in the scored ones: {_quote(n.facts['columns'])}."


@notes("rows_with_gaps")
def _note_rows_with_gaps(n: Notice) -> str:
    rows = write_rows(n.facts["n_rows"])
    return _say_where(n, f"Left out {rows} with missing cells: {_list_counts(n)}.")


_FILLED = {
    "number": "Filled missing numbers with the median",
    "boolean": "Filled missing booleans with the more common value",
    "date": "Filled missing dates with the median date",
    "category": "Missing categories count as a label of their own",
}


@notes("gaps_filled")
def _note_gaps_filled(n: Notice) -> str:
    return _say_where(n, f"{_FILLED[n.facts['kind']]}: {_list_counts(n)}.")


def _say_where(n: Notice, text: str) -> str:
    return f"In the scored rows: {text[0].lower()}{text[1:]}" if n.facts.get("where") == "scored" else text


def _list_counts(n: Notice) -> str:
    f = n.facts
    shown = ", ".join(f"{name!r} ({k})" for name, k in f["counts"].items())
    rest = f" and {write_count(f['n_more'], 'more column')} ({write_count(f['more_cells'], 'cell')})"
    return shown + (rest if f["n_more"] else "")


@notes("hour_compared")
def _note_hour_compared(n: Notice) -> str:
    return f"{n.facts['column']} only tells {n.facts['orders']}; its hour of day is compared."


@notes("other_dates")
def _note_other_dates(n: Notice) -> str:
    f = n.facts
    dates = "1 date is" if f["n"] == 1 else f"{f['n']:,} dates are"
    compared = "it is not compared" if f["n"] == 1 else "they are not compared"
    return f"{f['column']}: {dates} {f['side']} than those that the model was fitted on; {compared}."


@notes("later_dates")
def _note_later_dates(n: Notice) -> str:
    return f"{n.facts['column']}: dates later than those of the fitting are not compared."


@notes("new_since_fitted")
def _note_new_since_fitted(n: Notice) -> str:
    told = "; ".join(f"{name}: {text}" for name, text in n.facts["columns"])
    n_more = n.facts["n"] - len(n.facts["columns"])
    more = f"; and {write_count(n_more, 'more column')}" if n_more else ""
    return f"Since the model was fitted: {told}{more}."


# Rows and segments


@notes("learned_from_sample")
def _note_learned_from_sample(n: Notice) -> str:
    return f"The detector learned from a random {n.facts['n']:,} of {n.facts['of']:,} reference rows."


@notes("compared_in_segments")
def _note_compared_in_segments(n: Notice) -> str:
    return f"Rows are compared within {n.facts['n']:,} segments by {' and '.join(n.facts['columns'])}."


@notes("small_segments")
def _note_small_segments(n: Notice) -> str:
    few = f"fewer than {n.facts['few']} rows: other rows help to tell what is usual there"
    return f"{n.facts['n']:,} of these segments {'has' if n.facts['n'] == 1 else 'have'} {few}."


@notes("no_segment")
def _note_no_segment(n: Notice) -> str:
    column = n.facts["column"]
    if n.facts["n"] == 1:
        return f"1 row has no {column}, or a new one: it is compared with the whole table."
    return f"{n.facts['n']:,} rows have no {column}, or a new one: they are compared with the whole table."


@notes("texts_by_oddness")
def _note_texts_by_oddness(n: Notice) -> str:
    return f"Texts of {n.facts['column']!r} count by how odd each is: {n.facts['by']}."


# Time


@notes("put_in_order")
def _note_put_in_order(n: Notice) -> str:
    return f"Rows were sorted by {n.facts['column']}."


@notes("same_times")
def _note_same_times(n: Notice) -> str:
    have = "1 row has" if n.facts["n"] == 1 else f"{n.facts['n']:,} rows have"
    why = "a clock that was set back, rows entered twice, or several series in one table"
    return f"{have} the {n.facts['column']} of another row: {why}."


@notes("gaps_in_time")
def _note_gaps_in_time(n: Notice) -> str:
    f = n.facts
    gaps = "one gap" if f["n"] == 1 else f"{f['n']:,} gaps, the longest"
    return f"{f['column']} has {gaps} from {f['first']} to {f['last']}."


@notes("summer_time")
def _note_summer_time(n: Notice) -> str:
    rule = n.facts["rule"]
    return f"Times are in UTC, and the days follow the summer time of {rule}: an hour is added then."


@notes("same_season")
def _note_same_season(n: Notice) -> str:
    return f"Compared with the same {n.facts['season']} in other cycles: {', '.join(n.facts['columns'])}."


@notes("no_numbers")
def _note_no_numbers(n: Notice) -> str:
    return f"Not used, as they hold no numbers: {', '.join(n.facts['columns'])}."


@notes("averaged")
def _note_averaged(_n: Notice) -> str:
    return "Rows with the same time were averaged."


@notes("readings_filled")
def _note_readings_filled(n: Notice) -> str:
    readings = "1 missing reading was" if n.facts["n"] == 1 else f"{n.facts['n']:,} missing readings were"
    return f"{readings} filled in between neighbours."


@notes("never_changes")
def _note_never_changes(n: Notice) -> str:
    return f"Never changes{n.facts['where']}: {', '.join(n.facts['columns'])}."


@notes("nodes_left_out")
def _note_nodes_left_out(n: Notice) -> str:
    k = n.facts["n"]
    nodes = "1 node has missing values and is" if k == 1 else f"{k:,} nodes have missing values and are"
    return f"{nodes} left out of the grid."


# Block by block


@notes("piece_left_out")
def _note_piece_left_out(n: Notice) -> str:
    return f"{n.facts['name']} was left out: {n.facts['why']}"


@notes("more_left_out")
def _note_more_left_out(n: Notice) -> str:
    were = "piece was" if n.facts["n"] == 1 else "pieces were"
    return f"{n.facts['n']:,} more {were} left out; parts.json names them."


@notes("held_back_in_all")
def _note_held_back_in_all(n: Notice) -> str:
    rows = "1 row was" if n.facts["n"] == 1 else f"{n.facts['n']:,} rows were"
    return f"{rows} held back by marks of the model."


@notes("scores_in_parts")
def _note_scores_in_parts(n: Notice) -> str:
    return f"The scores of {n.facts['n']:,} rows are in the parts, not here."


# Labels of texts


@notes("trained_on")
def _note_trained_on(n: Notice) -> str:
    trained = f"Trained on {write_count(n.facts['n'], 'text')}"
    if n.facts["n_held"]:
        return f"{trained}; those counted and shown here are {n.facts['n_held']:,} others, chosen at random."
    return f"{trained}, the same texts that are counted and shown here: expect more errors on new texts."


@notes("judged_out_of_fold")
def _note_judged_out_of_fold(n: Notice) -> str:
    texts = write_count(n.facts["n"], "text")
    return f"Trained on {texts}; each is judged here by a model that has not seen it."


@notes("labels_alone")
def _note_labels_alone(n: Notice) -> str:
    k = n.facts["n"]
    alone = (
        "1 text whose label no other text has" if k == 1 else f"{k:,} texts whose labels no other text has"
    )
    return f"Left out {alone}."


@notes("texts_left_out")
def _note_texts_left_out(n: Notice) -> str:
    lacking = "a text or a label" if n.facts["has_labels"] else "a text"
    return f"Left out {write_rows(n.facts['n'])} without {lacking}."


@notes("texts_shown")
def _note_texts_shown(n: Notice) -> str:
    f = n.facts
    if f["n_shown"] == f["n"]:
        return "All texts, in the order they came."
    some = f"{f['n_shown']} of {f['n']:,} texts"
    closest = "those whose label has the smallest lead"
    if not f["n_wrong"]:
        return f"{some}: {closest}."
    wrong = "those with a wrong label, the surest first"
    return f"{some}: {wrong}." if f["n_wrong"] == f["n_shown"] else f"{some}: first {wrong}, then {closest}."
