"""Why a seven does not look like a zero.

A one-class SVM learns zeros. The picture shows, for six sevens, which pixels make them odd: ink in the middle, and the
missing left side of the ring.

Area: pictures
Prints:
    odd digits found: 6 of 6
"""

import plotly.express as px
from sklearn.datasets import load_digits

from tellwhy.detectors import OneClassSVM
from tellwhy.explainers import OneClassDTD

digits = load_digits()
zeros = digits.data[digits.target == 0] / 16
sevens = digits.data[digits.target == 7][:6] / 16

model = OneClassSVM(nu=0.1).fit(zeros)
print("odd digits found:", (model.predict(sevens) == -1).sum(), "of 6")
explanation = OneClassDTD(model).explain(sevens)
figure = px.imshow(
    explanation.values.reshape(-1, 8, 8), facet_col=0, facet_col_wrap=3, color_continuous_scale="Oranges"
)
figure.update_xaxes(visible=False).update_yaxes(visible=False)
figure.for_each_annotation(lambda note: note.update(text=""))
figure.update_layout(title="Which pixels make six sevens odd among zeros")
