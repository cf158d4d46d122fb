"""When plain steps are given up for another method."""

from tellwhy.classifiers.svm.solver import is_slow


def asked_at(factor, max_epochs, loss="ww"):
    """The epochs at which another method would be tried, with a gap that falls by a factor each epoch."""
    history = []
    found = []
    for epoch in range(2, max_epochs, 10):
        history.append({"epoch": epoch, "gap": 0.5 * factor**epoch})
        if is_slow(loss, history, tol=1e-3, max_epochs=max_epochs):
            found.append(epoch)
    return found


def test_another_method_is_tried_where_the_epochs_left_will_not_do():
    # ln(500) / ln(1 / 0.98) = 308 epochs, and 6,200 with 0.999.
    assert asked_at(0.98, 1000) == []
    assert asked_at(0.98, 250) == [102, 202]
    assert asked_at(0.999, 1000) == [102, 202, 402, 802]
    assert asked_at(1.001, 10_000)[:3] == [102, 202, 402]
    assert asked_at(0.98, 1000, loss="llw") == [22]
