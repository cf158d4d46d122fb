"""What a model has learned, with intervals.

The model is asked about many rows, and sums of a few columns are fitted to its answers. It does one thing where the
first column is positive, and another where it is not; both are found, each with intervals of 95 %.

Area: models
Prints:
    half of the rows: x2
    half of the rows: x1
"""

import numpy as np

import tellwhy
from tellwhy.explainers import DMMMEN

X = np.random.default_rng(0).normal(size=(300, 5))


def model(rows):
    """What is explained: any function of rows."""
    return np.where(rows[:, 0] > 0, 10 + 3 * rows[:, 1], -10 - 2 * rows[:, 2])


insights = DMMMEN(model, n_components=5).fit(X).insights(1)
for insight in insights:
    print("half of the rows:" if round(insight.share, 1) == 0.5 else insight.share, insight.names[0])
figure = tellwhy.plot.insights(insights)
