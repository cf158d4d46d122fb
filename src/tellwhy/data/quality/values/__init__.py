"""Checks of the cells of one column: placeholders, signs, dates, units, slips of the decimal point."""
