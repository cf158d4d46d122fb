"""Colours, the same in figures and in the report; nothing here needs plotly.

Orange raises a score, blue lowers it: people who do not tell red from green tell these two apart.
"""

from __future__ import annotations

import numpy as np

from tellwhy.core.score import Floats

ODD = "#c65307"
USUAL = "#2f6ea8"
NEUTRAL = "#98a3b0"
INK = "#1a2330"

DIVERGING = [[0.0, "#1f4e79"], [0.25, "#74a5d1"], [0.5, "#f7f7f5"], [0.75, "#f2a068"], [1.0, "#a33f00"]]
LOW_TO_HIGH = [[0.0, USUAL], [0.5, "#c9c3bd"], [1.0, ODD]]
CURVES = [  # dashes differ too: curves stay apart on paper without colours
    (ODD, "solid"),
    (USUAL, "solid"),
    ("#6b4fa0", "dash"),
    ("#11806a", "dashdot"),
    ("#7a5c00", "longdash"),
]
CLASS_COLORS = (
    *("#2f6ea8", "#e0a13c", "#11806a", "#9c5fb5", "#7a5c00"),
    *("#b8476b", "#4a9fb8", "#6b7280", "#98a33d", "#333333"),
)
SCORE_COLORS = ((0.0, "#fbfaf8"), (0.35, "#f6c58f"), (0.7, ODD), (1.0, "#4d1f00"))


def choose_class_color(k: int, missing: str = INK) -> str:
    """Return the colour of latent class number k; they repeat after ten, and −1 is a missing node.

    Examples
    --------
    >>> choose_class_color(0) == choose_class_color(10) == CLASS_COLORS[0], choose_class_color(-1)
    (True, '#1a2330')
    """
    return CLASS_COLORS[k % len(CLASS_COLORS)] if k >= 0 else missing


def score_limits(values: Floats) -> tuple[float, float]:
    """Return the least value and the 99.5 % quantile, between which a map of scores has its colours.

    Examples
    --------
    >>> score_limits(np.append(np.zeros(999), 1e6)), score_limits(np.array([np.nan]))
    ((0.0, 1000000.0), (0.0, 0.0))
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 0.0
    low = float(finite.min())
    # One absurd node would otherwise leave a single dark dot on a blank map.
    high = float(np.quantile(finite, 0.995))
    return low, high if high > low else float(finite.max())
