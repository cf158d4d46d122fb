"""Multi-class SVMs: the dual problem, its loop, and one file per loss.

What stands where:

- `weston_watkins`, `lee_lin_wahba`: one file for the losses that compare classes with the label
  (Weston–Watkins, Crammer–Singer), one for those that judge each class alone (Lee–Lin–Wahba, one-vs-rest):
  the estimators, and the engine that holds weights and dual variables.
- `multiclass_svm.MulticlassSVM`: what the estimators share: rows and labels, scores, probabilities.
- `problem`: the dual problem as arrays; `solver`: epochs and certificates until the gap is small.
- `_compiled_steps`: the maths of one example; `_compiled_pairs`, `_compiled_singles`: sweeps of both kinds;
  `dual_lists`, `_compiled_lists`: which variables are visited, and certificates.
- `interior_point`, `accelerated_ascent`: solvers for large C.
- `threads/`: sweeps shared by threads; `ranks/`: engines over several processes; `training/`: on files.

The words that the code uses:

example
    A row with one label to defend and a cap C_i on its variables. With sets of labels a row is several
    examples, one for each label.
dual variable
    α_ic of example i and class c, between 0 and C_i: how strongly the example pushes that class's weights
    away. The weights are sums of rows times variables.
gain
    1 − (w_y − w_c)ᵀx for a class c that is compared with the label y, or 1 + w_cᵀx for one that is judged on
    its own: the slope of the dual objective in α_ic. Positive where the margin is violated. `base` is the
    part that all classes of an example share.
violation
    How far a variable is from its optimality condition: its gain, unless a bound keeps it from following it.
certificate
    A pass over all variables that moves none. It gives both objectives, and so the gap that is left.
listed
    A variable that is kept in a list and visited in sweeps: it is not zero, or its margin is below 1 + slack.
    All others are zero; the next certificate looks at them again.
sweep, epoch
    A sweep visits some variables once, an epoch all that are listed; a dense epoch visits the others too.
negligible, idle, patience
    An example whose violation was negligible at a visit is idle; idle for `patience` visits, it is left out
    until the next certificate.
class block
    Some of the classes, whose weights lie in one array. The public parameter `n_bundles` is their number.
group, tile
    Group g: the examples with labels in class block g. Tile (g, b): the variables of group g against the
    classes of block b. Its steps touch the weights of these two blocks only.
batch, part
    Rows that are swept without waiting for each other in between. A batch of separate parts has four parts;
    rows of different parts have no feature in common.
shard
    Some of the features. Each thread has some shards of all rows, and their weights.
barrier
    A point in a sweep that no thread passes before all have come.
"""
