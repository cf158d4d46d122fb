"""A flaw in a texture, and where it is.

The model learns the patches of ordinary stripes. The flaw has no grey level of its own: only its pattern is wrong.

Area: pictures
Prints:
    share of the relevance on the flaw, which is 1.6 % of the picture: 0.4
"""

import numpy as np

import tellwhy
from tellwhy.detectors import PatchModel

rng = np.random.default_rng(0)
ordinary = np.sin(np.arange(24) / 2)[:, None] + 0.1 * rng.normal(size=(10, 24, 24))
odd = ordinary[:1].copy()
odd[0, 10:13, 15:18] *= -1

model = PatchModel(patch_size=(5, 5), n_train_patches=1000).fit(ordinary)
explanation = tellwhy.explain(model, odd)
share = explanation.values[0, 10:13, 15:18].sum() / explanation.values[0].sum()
print("share of the relevance on the flaw, which is 1.6 % of the picture:", round(float(share), 1))
figure = tellwhy.plot.overlay(explanation)
