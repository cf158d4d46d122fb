"""The report: one self-contained HTML page of a run, readable offline, on paper and on a phone."""

from tellwhy.views.report.page import render, write_report

__all__ = ["render", "write_report"]
