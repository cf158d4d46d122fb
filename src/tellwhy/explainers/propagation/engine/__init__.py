"""The engine: one forward pass that records a model's operations, and one backward pass for each method.

Glossary
--------
activation
    A tensor that depends on the explained input. Everything else (parameters, masks, …) is a constant.
operation
    One PyTorch function applied to activations. Its record is an `Operation`; its kind says what it does to
    relevance (`kinds`).
call
    The function and the arguments of one operation, as PyTorch reported them before it was carried out.
layer
    An operation that is a linear map with weights and a bias: fully connected, convolution, batch norm.
difference
    What an activation differs by from that of a reference, which goes through the network first
    (`differences`).
relevance, R
    The share of the explained output that an activation is responsible for.
contribution, c
    Relevance divided by the activation: c = R/a. For linear operations it goes down like a gradient.
rule
    How an operation shares the relevance of its outputs among its inputs (`rules`).
composite
    Which layer gets which rule.
method
    What travels backwards (a gradient, contributions, relevance or multipliers of differences), and by which
    composite and settings.
step
    An operation as autograd sees it, if its plain derivative does not serve all methods: the way up is the
    operation's own, the way down is what the current method says.
program
    All that is done for a batch, up and down, as one graph of PyTorch's operators (`program`).
pass
    A function that makes the graph of a program simpler (`graph_passes`).
leaf
    A tensor that relevance is handed down to: a copy of the input, or the embedding of its tokens.
ledger
    How much relevance arrived at each operation, and how much it handed on.
trailing softmax
    A softmax that is the last operation of the model. It is left out, so that a score is explained and not a
    probability.

Where to start reading
----------------------
`passes` runs the model under a `Capture` (`capture`), which sees each call. `recording` finds out of what
kind it is, and runs it as it is or in a step (`steps`, `derivative_steps`). `passes.run_backward` then goes
down for one method. Where many batches are alike, `program` writes all of this down once, `graph_passes`
folds and merges it, and the graph serves the other batches, as it is or compiled.
"""
