"""A package of somebody else: a check that card numbers end in the digit that the others imply."""

import numpy as np

from tellwhy.checks.chance import LEVEL, agreement
from tellwhy.checks.check import add_check
from tellwhy.checks.mistakes import declare
from tellwhy.words.english.findings import says

CHECK_DIGIT = declare("check_digit", {"check_digit": "length"}, is_repairable=True)
MOST = 0.05  # of the numbers: where more do not fit, their last digits are no check digits


@says("check_digit")
def _tell_check_digit(f, _subject):
    return f"{f.columns[0]} ends in a digit that does not fit the {f.facts['length'] - 1} before it"


def fits(number):
    """Whether the digits add up to a multiple of ten, every second from the right doubled (Luhn)."""
    digits = [int(digit) for digit in reversed(number)]
    return (sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])) % 10 == 0


@add_check()
def find_wrong_check_digits(seen, known):
    """Numbers that do not fit, in columns where nearly all do."""
    found = []
    for column in seen.frame.columns:
        cells = [cell if isinstance(cell, str) and cell.isdecimal() else "" for cell in seen.frame[column]]
        lengths = {len(cell) for cell in cells if cell}
        if len(lengths) != 1 or max(lengths) < 8:
            continue
        wrong = np.array([bool(cell) and not fits(cell) for cell in cells])
        n_filled = sum(map(bool, cells))
        surprise = agreement(n_filled - int(wrong.sum()), n_filled, 0.1)
        if 0 < wrong.mean() <= MOST and surprise > LEVEL:
            rows = np.flatnonzero(wrong)
            facts = {"length": max(lengths)}
            found.append(CHECK_DIGIT.report(seen, column, rows, facts, surprise=surprise))
    return found
