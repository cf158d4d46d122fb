"""What boosted trees learned about diabetes.

One point for each patient and column: to the right, the column raises the prediction.

Area: trees
Prints:
    columns by importance: s5, bmi, bp
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor

import tellwhy

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = GradientBoostingRegressor(random_state=0).fit(X, y)
explanation = tellwhy.explain(model, X)
order = np.abs(explanation.values).mean(axis=0).argsort()[::-1]
print("columns by importance:", ", ".join(X.columns[order[:3]]))
figure = tellwhy.plot.beeswarm(explanation)
