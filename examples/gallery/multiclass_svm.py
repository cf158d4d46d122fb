"""Why this digit is a 3 and not an 8.

An all-in-one SVM has one weight vector for each class. Their difference, times the picture, says which pixels speak for
the first.

Area: SVMs
Prints:
    certified to the optimum: True
    values add up to the lead of 3 over 8: True
"""

import numpy as np
import plotly.express as px
from sklearn.datasets import load_digits

from tellwhy.classifiers import WestonWatkinsSVM
from tellwhy.explainers import LinearRelevance

X, y = load_digits(return_X_y=True)
model = WestonWatkinsSVM(C=0.1, random_state=0).fit(X / 16, y)
print("certified to the optimum:", bool(model.dual_gap_ <= 1e-3))

threes = X[y == 3][:3] / 16
explanation = LinearRelevance(model, target=3, against=8).explain(threes)
lead = model.decision_function(threes)[:, 3] - model.decision_function(threes)[:, 8]
whole = explanation.base_values + explanation.values.reshape(3, -1).sum(axis=1)
print("values add up to the lead of 3 over 8:", bool(np.allclose(whole, lead)))
figure = px.imshow(
    explanation.values.reshape(-1, 8, 8),
    facet_col=0,
    color_continuous_scale="RdBu_r",
    color_continuous_midpoint=0,
)
figure.update_xaxes(visible=False).update_yaxes(visible=False)
figure.for_each_annotation(lambda note: note.update(text=""))
figure.update_layout(title="What speaks for a 3 (red) and for an 8 (blue) in three digits")
