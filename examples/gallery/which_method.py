"""Which explainer to trust on your rows?

One cell of an ordinary row is moved, and each method is asked which cell it was. A mean reciprocal rank of 1 means
always right; a random order stands beside.

Area: models
Prints:
    best: Sensitivity
"""

import plotly.graph_objects as go
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from tellwhy.detectors import KernelDensity
from tellwhy.evaluation import compare
from tellwhy.explainers import GaussianNLL, OneClassDTD, RandomAttribution, Sensitivity

data, labels = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(data[labels == 1][:, :10])
detector = KernelDensity().fit(X[:250])
table = compare([OneClassDTD, Sensitivity, GaussianNLL, RandomAttribution], detector, X[250:])
print("best:", table.method.iloc[table.mrr.argmax()])
spread = {"array": table.mrr_high - table.mrr, "arrayminus": table.mrr - table.mrr_low}
figure = go.Figure(go.Bar(x=table.method, y=table.mrr, error_y=spread, marker_color="#2f6db5"))
figure.update_layout(
    template="simple_white", title="Does the method name the moved cell?", yaxis_title="mean reciprocal rank"
)
