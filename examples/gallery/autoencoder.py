"""A variational autoencoder, and why a row is odd to it.

Six sensors follow two hidden causes. In the odd row one sensor does not follow, though its value is an ordinary one.

Area: networks
Needs: torch
Prints:
    the row stands out: True
    first reason: sensor 2
"""

import numpy as np
import pandas as pd

import tellwhy
from tellwhy.detectors import VAE

rng = np.random.default_rng(0)
causes = rng.normal(size=(800, 2))
mixing = np.array([[1, 1, 0, 1, -1, 0], [0, 1, 1, -1, 1, 1]])
names = [f"sensor {k}" for k in range(6)]
rows = pd.DataFrame(np.tanh(causes @ mixing) + 0.05 * rng.normal(size=(800, 6)), columns=names)
odd = pd.DataFrame(np.tanh(np.array([[0.8, -0.6]]) @ mixing), columns=names)
odd["sensor 2"] += 1.4

model = VAE(random_state=0).fit(rows)
print("the row stands out:", bool(model.predict(odd)[0] == -1))
explanation = tellwhy.explain(model, odd, background=rows)
print("first reason:", names[explanation.values[0].argmax()])
figure = tellwhy.plot.bar(explanation, row=0)
