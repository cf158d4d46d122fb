"""A spot on a map that only its neighbours give away.

Two kinds of ground, each with its own values. One cell has the values of the other kind.

Area: graphs
Prints:
    the oddest cell: (12, 5)
"""

import numpy as np

import tellwhy
from tellwhy.data.graphs import grid
from tellwhy.detectors import LCCAD
from tellwhy.explainers import LatentClassDTD

rng = np.random.default_rng(1)
ground = np.zeros((30, 30))
ground[:, 15:] = 6.0
values = np.stack([ground, -ground], axis=-1) + rng.normal(size=(30, 30, 2))
values[12, 5] = [6.0, -6.0]

graph = grid((30, 30))
model = LCCAD(2, random_state=0).fit(values.reshape(-1, 2), graph)
row, column = np.unravel_index(np.argmax(model.outlierness()), (30, 30))
print("the oddest cell:", (int(row), int(column)))
figure = tellwhy.plot.node_maps(LatentClassDTD(model).explain(), graph)
