"""Reports: one self-contained HTML page, readable offline, on paper and on a phone; of a run, or of labelled texts."""

from tellwhy.views.report.page import render, write_report
from tellwhy.views.report.text_page import render_texts, write_text_report

__all__ = ["render", "render_texts", "write_report", "write_text_report"]
