"""A one-class SVM of scikit-learn, explained in closed form.

The pipeline is explained in your own columns. `relative` values say how many times the usual a column contributes.

Area: SVMs
Prints:
    method: OneClassDTD
    first reason of the oddest wine: ...
"""

from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

import tellwhy

wines = load_wine(as_frame=True).data
model = make_pipeline(StandardScaler(), OneClassSVM(nu=0.1)).fit(wines)
explanation = tellwhy.explain(model, wines)
oddest = explanation.top(12)
print("method:", explanation.method)
print("first reason of the oddest wine:", wines.columns[oddest.values[0].argmax()])
figure = tellwhy.plot.heatmap(oddest)
