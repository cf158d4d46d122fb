"""A committee of simple detectors: each finds what the others miss, and each is explained in closed form.

A member gives a score and, in closed form, what each column contributed to it. Scores of different members
cannot be compared, so each becomes a *surprise*: −log of the probability that an ordinary row scores that
high. The committee's score is the surprise of the members' weighted sum.
"""
