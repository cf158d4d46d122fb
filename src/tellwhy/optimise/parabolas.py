"""The lowest place of a curve, narrowed down by parabolas through three points of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tellwhy.core.score_function import Floats, Integers


class Bracket(NamedTuple):
    """Three places of each of n curves, in order, and the heights there; both of shape (n, 3).

    Examples
    --------
    >>> bowl = Bracket(np.array([[0.0, 1.0, 4.0]]), np.array([[4.0, 1.0, 4.0]]))  # (x − 2)²
    >>> bowl.vertex()
    array([2.])
    >>> bowl.narrower(bowl.vertex(), np.array([0.0])).places
    array([[1., 2., 4.]])
    """

    places: Floats
    heights: Floats

    @classmethod
    def around_lowest(cls, places: Floats, heights: Floats) -> Bracket:
        """Take the lowest of many places, and its neighbours."""
        middle = np.clip(heights.argmin(axis=1), 1, places.shape[1] - 2)
        return cls(places, heights)._three_around(middle)

    def vertex(self) -> Floats:
        """Return the lowest place of the parabola; half-way into the wider side where it is not inside."""
        a = self.places[:, 0]
        b = self.places[:, 1]
        c = self.places[:, 2]
        left = self.heights[:, 1] - self.heights[:, 0]
        right = self.heights[:, 1] - self.heights[:, 2]
        # Three places on a line, or two that are equal, have no vertex: the division then gives no number.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            top = (b - a) ** 2 * right - (b - c) ** 2 * left
            vertex = b - 0.5 * top / ((b - a) * right - (b - c) * left)
        inside = np.isfinite(vertex) & (vertex > a) & (vertex < c) & (vertex != b)
        wider = np.where(c - b > b - a, 0.5 * (b + c), 0.5 * (a + b))
        return np.where(inside, vertex, wider)

    def narrower(self, place: Floats, height: Floats) -> Bracket:
        """Add one place to each curve, and keep the three around the lowest of the four."""
        places = np.column_stack([self.places, place])
        heights = np.column_stack([self.heights, height])
        order = np.argsort(places, axis=1, kind="stable")
        sorted_four = Bracket(
            np.take_along_axis(places, order, axis=1), np.take_along_axis(heights, order, axis=1)
        )
        return sorted_four._three_around(np.clip(sorted_four.heights.argmin(axis=1), 1, 2))

    def _three_around(self, middle: Integers) -> Bracket:
        around = middle[:, None] + np.array([-1, 0, 1])
        return Bracket(
            np.take_along_axis(self.places, around, axis=1), np.take_along_axis(self.heights, around, axis=1)
        )
