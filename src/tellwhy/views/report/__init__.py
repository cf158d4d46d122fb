"""Reports of a run or of labelled texts: one HTML page, readable offline, on paper and on a phone."""

from typing import TYPE_CHECKING

from tellwhy.core.lazy import lazy_names

if TYPE_CHECKING:
    from tellwhy.views.report.page import render as render, write_report as write_report
    from tellwhy.views.report.text_page import (
        render_texts as render_texts,
        write_text_report as write_text_report,
    )

_PLACES = {
    "render": "page",
    "render_texts": "text_page",
    "write_report": "page",
    "write_text_report": "text_page",
}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
