"""`tellwhy.plot` shows its figures and nothing else, and loads what they need."""

from __future__ import annotations

import subprocess
import sys

import tellwhy
from tellwhy.views.plots import colors

FIGURES = [
    "bar",
    "beeswarm",
    "box_ratios",
    "cross_plot",
    "decision",
    "flipping",
    "force",
    "grid",
    "heatmap",
    "insights",
    "node_maps",
    "overlay",
    "randomisation",
    "region_flipping",
    "scatter",
    "scores",
    "series",
    "six_views",
    "strategies",
    "text",
    "time_line",
    "visualise",
    "waterfall",
]


def test_only_figures_are_shown() -> None:
    assert dir(tellwhy.plot) == FIGURES
    assert tellwhy.plot.__all__ == FIGURES


def test_each_name_is_a_function_however_often_it_is_asked_for() -> None:
    for name in FIGURES * 2:
        assert getattr(tellwhy.plot, name).__name__ == name


def test_colours_do_not_load_plotly() -> None:
    code = f"import sys, {colors.__name__}; sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_it_can_be_imported_like_any_module() -> None:
    code = """
import sys
import tellwhy.plot
assert 'plotly' not in sys.modules
from tellwhy.plot import waterfall
import tellwhy.plot as plot
import tellwhy.views.plots
assert plot is tellwhy.plot is tellwhy.views.plots and waterfall is plot.waterfall
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
