"""Adapters for third-party models, found by qualified class name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellwhy.core.score_function import ScoreFunction

ADAPTERS: dict[str, Callable[[Any], ScoreFunction]] = {}
