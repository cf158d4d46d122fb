"""A spike and a shift of a sensor, and when.

Readings in the order of time. Each is compared with what came before; events are named and placed.

Area: series
Prints:
    shift_up at 1400 in heat
    spike at 700 in load
"""

import numpy as np
import pandas as pd

import tellwhy

rng = np.random.default_rng(5)
second = np.arange(2000)
load = np.sin(second / 8) + 0.1 * rng.normal(size=2000)
load[700] += 4
heat = 20 + 0.1 * rng.normal(size=2000)
heat[1400:] += 1.5

found = tellwhy.workflow.explain_events(
    pd.DataFrame({"second": second, "load": load, "heat": heat}), time="second"
)
for event in found.anomalies:
    if event.is_alarm:
        print(event.reasons[0].facts["what"], "at", event.row, "in", event.reasons[0].feature)
figure = tellwhy.tell(found, "html")
