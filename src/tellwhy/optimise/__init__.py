"""Minimising: descent of many small problems, search without derivatives, quadratic programmes."""
