"""Why an isolation forest calls a tumour odd.

Shapley values of trees are exact and need no background rows. The bars lead from the usual score to this row's.

Area: trees
Prints:
    the oddest row is number 122; first reason: mean concavity
"""

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import IsolationForest

import tellwhy

data = load_breast_cancer(as_frame=True).data
model = IsolationForest(random_state=0).fit(data)
explanation = tellwhy.explain(model, data)
row = int(explanation.scores.argmax())
print(f"the oddest row is number {row}; first reason: {data.columns[explanation.values[row].argmax()]}")
figure = tellwhy.plot.waterfall(explanation, row=row)
