"""Summer's value in winter.

No value is extreme. `LCCAD` looks at each reading with its neighbours in time, and says whether a reading is odd by its
value or by its context.

Area: series
Prints:
    odd by value: 40
    odd by context: 250
"""

import numpy as np

import tellwhy
from tellwhy.data.graphs import chain
from tellwhy.detectors import LCCAD
from tellwhy.explainers import LatentClassDTD

rng = np.random.default_rng(0)
season = np.repeat([0, 1, 0, 1], 100)
readings = rng.normal(size=(400, 2)) + np.column_stack([4.0 * season, np.zeros(400)])
readings[250] = [3.9, 0.1]
readings[40] = [0.0, -7.0]

model = LCCAD(2, random_state=0).fit(readings, chain(400))
explanation = LatentClassDTD(model).explain()
first, second = np.argsort(-model.outlierness())[:2]
context = explanation.extras["context_share"]
print("odd by value:", first if context[first] < 0.5 else second)
print("odd by context:", first if context[first] > 0.5 else second)
figure = tellwhy.plot.time_line(explanation)
