"""What is wrong with a table as data: placeholders, broken relations, slips, repeats; before any detector."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.checks.check import Finding as Finding, Quality as Quality, check_table as check_table

_PLACES = {"Finding": "check", "Quality": "check", "check_table": "check"}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
