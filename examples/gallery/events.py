"""Events judged as they come, one by one.

A model is fitted to last month's rows. Each new row gets a p-value: the chance that an ordinary row is as odd.

Area: running it
Prints:
    order 0: ordinary
    order 1: alarm: ...
"""

import numpy as np
import pandas as pd

import tellwhy

rng = np.random.default_rng(0)
last_month = pd.DataFrame({"size": rng.normal(20, 2, 500), "price": rng.gamma(4, 5, 500)})
model = tellwhy.fit(last_month, clean=True)

new = pd.DataFrame({"size": [20.5, 61.0], "price": [18.0, 21.0]})
for number in range(len(new)):
    found = tellwhy.judge(model, new.iloc[[number]])
    alarms = [anomaly for anomaly in found.anomalies if anomaly.is_alarm]
    print(f"order {number}:", f"alarm: {alarms[0].reasons[0].text}" if alarms else "ordinary")
