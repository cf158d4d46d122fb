"""Methods for Lee–Lin–Wahba at large C, where steps of one variable creep."""
