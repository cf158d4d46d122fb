"""Rows judged beside rows like them: the baselines of segments, and those of times of the week."""
