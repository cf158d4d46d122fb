"""A person whose friends are all of another kind.

A graph of two groups of people, and somebody with the habits of one group and the friends of the other.

Area: graphs
Prints:
    the oddest person: 17, by context: 1.0
"""

import numpy as np

import tellwhy
from tellwhy.data.graphs import from_edges
from tellwhy.detectors import LCCAD
from tellwhy.explainers import LatentClassDTD

rng = np.random.default_rng(2)
group = np.repeat([0, 1], 60)
habits = rng.normal(size=(120, 3)) + 6.0 * group[:, None]
habits[17] = rng.normal(size=3) + 6.0
friends = {(i, i + 1) for i in range(119) if i != 59}  # everybody knows the next one
friends |= {
    (i, int(j)) for i in range(120) for j in rng.choice(np.flatnonzero(group == group[i]), 4) if i < j
}

model = LCCAD(2, random_state=0).fit(habits, from_edges(sorted(friends), 120))
explanation = LatentClassDTD(model).explain()
oddest = int(np.argmax(model.outlierness()))
print(f"the oddest person: {oddest}, by context: {explanation.extras['context_share'][oddest]:.1f}")
figure = tellwhy.plot.cross_plot(explanation)
