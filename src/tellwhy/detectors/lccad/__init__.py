"""Latent-class contextual anomaly detection: what is odd beside its neighbours.

What stands where:

- `lccad.LCCAD`: the estimator; `alternation`: the objective, and the steps that lower it.
- `costs`: balls, losses, and limits to what one node may cost; `couplings`: how classes go together.
- `class_scores`: how odd a node is for each class, which is what is explained.
- `theta`, `suggest`: the weight of distances against couplings and the number of classes, from the data.
- `map_inference` beside this folder: the best labels of a graph.

Words used in this folder:

node
    One row of data that has neighbours: a point of a sequence, a pixel, an edge-linked record.
class
    A hidden ("latent") group of nodes, not given but found. Neighbours are in classes that go together.
labels
    The class of each node; −1 where a node is missing.
ball
    Centre and radius of a class. A node far from the centre of its own class is odd.
coupling
    How well two classes go together on neighbouring nodes: the higher, the more usual.
emission
    A linear score of a node's features for a class, learned beside the balls.
field
    The cost of every label at every node, and of every pair of labels on an edge. The labels with the least
    total cost are wanted.
"""
