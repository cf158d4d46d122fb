"""Checks of labels: new, vanished and rare ones, misspellings, pairs that hardly ever occur."""
