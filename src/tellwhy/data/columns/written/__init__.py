"""Cells as people write them: money, percentages, measurements, thousands, yes and no, dates and times."""
