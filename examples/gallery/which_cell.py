"""Which cell is wrong?

Temperature and load go together. A row breaks the rule; which of its cells is the wrong one? The corruption posterior
answers with a probability for each cell.

Area: tables
Prints:
    wrong with 99 % or more: ['load']
"""

import numpy as np
import pandas as pd
from sklearn.mixture import GaussianMixture

import tellwhy

rng = np.random.default_rng(4)
load = rng.normal(50, 10, 500)
ordinary = pd.DataFrame({"load": load, "heat": 20 + 0.8 * load + rng.normal(size=500)})
ordinary["flow"] = 5 + 0.3 * ordinary["load"] + rng.normal(size=500)
rows = ordinary.head(12).copy()
rows.loc[3, "load"] += 40

model = GaussianMixture(1).fit(ordinary)
explanation = tellwhy.explain(model, rows, ask="blame")
blamed = explanation.values[3] > 0.99
print(
    "wrong with 99 % or more:",
    [name for name, is_wrong in zip(rows.columns, blamed, strict=True) if is_wrong],
)
figure = tellwhy.plot.heatmap(explanation)
