"""What a mistake is: each kind declared once, with the forms in which it shows, their facts and what follows.

Checks find mistakes, `words` says them, verdicts mend rows and hold marked ones back: all of them ask here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tellwhy.checks.chance import most
from tellwhy.core.score import Integers
from tellwhy.results.result import MISSING, TOLD, Finding

if TYPE_CHECKING:
    from tellwhy.checks.facts import Facts


@dataclass(frozen=True)
class Mistake:
    """A kind of mistake.

    Attributes
    ----------
    kind
        Its name.
    forms
        In which ways it shows, and the facts that a finding of each holds.
    empties
        The forms whose cells tell nothing, so that they are treated as missing.
    is_repairable
        Whether the guilty cell alone is to blame and does not say what was meant, so that a usual value in it
        would mend the row.
    is_of_one_value
        Whether two findings in a column have the same cause only where they are about the same value.
    is_repeat
        Whether its rows repeat others.
    is_of_alarms
        Whether it is made of rows that a detector found odd, and is no mistake for itself.
    """

    kind: str
    forms: Mapping[str, frozenset[str]]
    empties: frozenset[str] = frozenset()
    is_repairable: bool = False
    is_of_one_value: bool = False
    is_repeat: bool = False
    is_of_alarms: bool = False

    def report(
        self,
        seen: Facts,
        columns: str | Sequence[str],
        rows: Integers | Sequence[int],
        facts: Mapping[str, Any] | None = None,
        usual: Mapping[str, Any] | None = None,
        *,
        form: str = "",
        surprise: float = 0.0,
        is_told_only: bool = False,
        **more: Any,
    ) -> Finding:
        """Make a finding; its example are the cells of its first row, unless others are given.

        Parameters
        ----------
        seen
            The table; it limits how surprising a finding can be.
        columns, rows, facts, usual, form, surprise
            Fields of the finding.
        is_told_only
            Whether the cells stay although they are of a form that empties cells.
        more
            Other fields of the finding.
        """
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        positions = tuple(int(row) for row in rows)
        empties = (form or self.kind) in self.empties and not is_told_only
        return Finding(
            self.kind,
            names,
            positions,
            facts or {},
            usual or {},
            more.pop("cells", None) or seen.cells(names, positions[0]),
            form=form,
            action=MISSING if empties else TOLD,
            surprise=min(surprise, most(seen.n)),
            **more,
        )


MISTAKES: dict[str, Mistake] = {}


def declare(kind: str, forms: Mapping[str, str], empties: str = "", **traits: bool) -> Mistake:
    """Declare a kind of mistake: of each form the names of its facts, and which forms empty cells."""
    facts = {form: frozenset(names.split()) for form, names in forms.items()}
    MISTAKES[kind] = Mistake(kind, facts, frozenset(empties.split()), **traits)
    return MISTAKES[kind]


PLACEHOLDER = declare(
    "placeholder",
    {
        "placeholder": "value",
        "default_day": "value",
        "placeholder_word": "value",
        "unread_word": "value among",
    },
    empties="placeholder default_day placeholder_word",
    is_repairable=True,
    is_of_one_value=True,
)
GAP = declare("gap", {"gap": ""})
EMPTY_ROW = declare("empty_row", {"empty_row": "least n_columns"})
IMPOSSIBLE_DATE = declare("impossible_date", {"impossible_date": "value"}, is_repairable=True)
FUTURE_DATE = declare("future_date", {"future_date": ""}, empties="future_date", is_repairable=True)
SIGN_FLIP = declare(
    "sign_flip",
    {"sign_flip": "", "relation_sign": "equation is_first times"},
    empties="sign_flip relation_sign",
    is_repairable=True,
)
DECIMAL_SLIP = declare(
    "decimal_slip",
    {
        "slip": "times label level",
        "not_whole": "",
        "relation_slip": "equation is_first times",
        "dependency": "source target",
    },
    empties="slip relation_slip dependency",
)
# In real tables most cells that seem to be in another unit, swapped or stuck are only unusual: they stay.
MIXED_UNITS = declare("mixed_units", {"slip": "times label level", "fahrenheit": ""}, is_repairable=True)
SWAPPED = declare("swapped", {"swapped": ""})
STUCK = declare(
    "stuck",
    {"stuck": "value", "stuck_reading": "first last is_clock value"},
    empties="stuck_reading",
)
# Which of the cells is wrong is mostly not known of rows that break an equation or an order: they stay.
BROKEN_RELATION = declare("broken_relation", {"relation": "equation is_first times"})
BROKEN_ORDER = declare(
    "broken_order",
    {"order": "low high is_date", "beyond_bound": "side bound"},
    is_repairable=True,
)
BROKEN_DEPENDENCY = declare(
    "broken_dependency",
    {
        "dependency": "source target",
        "report": "source target",
        "missing_cell": "source target",
        "filled_cell": "level",
    },
    empties="dependency report filled_cell",
)
MISSPELLING = declare("misspelling", {"misspelling": "level meant"}, "misspelling", is_of_one_value=True)
NEW_LEVEL = declare(
    "new_level", {"new_level": "level n", "new_levels": "level n"}, is_repairable=True, is_of_one_value=True
)
SECOND_CONVENTION = declare("second_convention", {"second_convention": "written usual"}, is_of_one_value=True)
DAMAGED_TEXT = declare("damaged_text", {"damaged_text": ""}, is_repairable=True)
MISPLACED = declare(
    "misplaced", {"misplaced": "value home", "two_values": "value home"}, "misplaced", is_of_one_value=True
)
FAR = "far_value"  # form of an odd cell
ODD_CELL = declare("odd_cell", {"odd_cell": "", FAR: ""}, is_repairable=True)
VANISHED_LEVEL = declare("vanished_level", {"vanished_level": "level"})
RARE_LEVEL = declare(
    "rare_level",
    {"rare_level": "level", "off_scale": "values", "odd_pattern": ""},
    is_repairable=True,
    is_of_one_value=True,
)
RARE_PAIR = declare("rare_pair", {"rare_pair": "levels"})
RARE_IN_SEGMENT = declare("rare_in_segment", {"rare_in_segment": "level segment"}, is_of_one_value=True)
DUPLICATE = declare("duplicate", {"duplicate": "n_columns", "repeated_identifier": ""}, is_repeat=True)
BURST = declare("burst", {"burst": "n_columns", "one_moment": "value"}, is_repeat=True)
REPEATED_ELSEWHERE = declare("repeated_elsewhere", {"repeated_elsewhere": "n_columns row first"})
SPIKE = declare("spike", {"spike": "first last is_clock moment season size"})
PASSING_SHIFT = declare("passing_shift", {"passing_shift": "first last is_clock moment season size"})
LEVEL_SHIFT = declare("level_shift", {"level_shift": "size first"})
DRIFT = declare("drift", {"drift": "size first last"})
ODD_TOGETHER = declare("odd_rows", {"odd_rows": "example ends is_one_value"}, is_of_alarms=True)


def is_of_alarms(finding: Finding) -> bool:
    """Tell whether a finding is made of alarms of a detector."""
    return MISTAKES[finding.kind].is_of_alarms
