"""Reports of a run or of labelled texts: one HTML page, readable offline, on paper and on a phone."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.views.page.labels import render_texts as render_texts, write_text_report as write_text_report
    from tellwhy.views.page.page import render as render, write_report as write_report

_PLACES = {
    "render": "page",
    "render_texts": "labels",
    "write_report": "page",
    "write_text_report": "labels",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
