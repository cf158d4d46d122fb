"""Readings in the order of time, beside what their time of the week usually has."""
