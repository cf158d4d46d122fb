"""Values of things and reliabilities of their sources, by plain loops over the reports."""

import math
from collections import defaultdict


def believed(reports, weights, rounds, k):
    """P of each value of each thing, for reports (thing, source, value): as Dawid and Skene, source by source."""
    reliable = dict.fromkeys(weights, 0.7)
    for _ in range(rounds):
        p = {}
        by_thing = defaultdict(list)
        for thing, source, value in reports:
            by_thing[thing].append((source, value))
        for thing, told in by_thing.items():
            score = defaultdict(float)
            for source, value in told:
                q = reliable[source]
                score[value] += weights[source] * math.log(k * q / (1 - q))
            # Another value, that nobody reports, has odds e^−2.
            total = sum(math.exp(each) for each in score.values()) + math.exp(-2)
            for value, each in score.items():
                p[thing, value] = math.exp(each) / total
        right = defaultdict(float)
        n = defaultdict(int)
        for thing, source, value in reports:
            right[source] += p[thing, value]
            n[source] += 1
        base = (sum(right.values()) + 2) / (len(reports) + 4)
        reliable = {s: min(max((right[s] + 4 * base) / (n[s] + 4), 0.03), 0.97) for s in weights}
    return p
