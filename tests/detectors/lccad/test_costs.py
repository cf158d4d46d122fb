"""Balls of classes: one that has lost its nodes stays where it was."""

import numpy as np

from tellwhy.detectors.lccad.costs import Balls, fit_balls


def test_a_class_without_nodes_keeps_its_ball():
    old = Balls(np.array([[1.0, 2.0], [7.0, 8.0]]), np.zeros(2))
    rows = np.array([[0.0, 0.0], [2.0, 4.0]])
    for nu in (1.0, 0.5):
        found = fit_balls(rows, np.zeros(2, dtype=np.int32), old, nu=nu, loss="hinge")
        np.testing.assert_allclose(found.centres, [[1.0, 2.0], [7.0, 8.0]], atol=1e-6)
