"""Score functions that are made elsewhere."""


class Own:
    """A score function that is not made from a function by tellwhy."""

    feature_shape = None
    feature_names = None
    describes = "a score of my own"
    threshold = None

    def __init__(self, function, gradient):
        self.value, self.gradient = function, gradient
