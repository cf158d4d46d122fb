"""A stretch of a series unlike any other.

No single reading is extreme, but for twenty readings the wave runs backwards. Windows of the series are compared with
each other.

Area: series
Prints:
    the oddest window begins near 900: True
"""

import numpy as np
import pandas as pd

import tellwhy

rng = np.random.default_rng(6)
time = np.arange(2000)
level = np.abs((time / 25) % 2 - 1) ** 2 + 0.03 * rng.normal(size=2000)
level[900:930] = level[900:930][::-1].copy()

found = tellwhy.workflow.explain_series(
    pd.DataFrame({"second": time, "level": level}), time="second", window=20, top=1
)
print("the oddest window begins near 900:", abs(found.anomalies[0].row - 910) < 40)
figure = tellwhy.tell(found, "html")
