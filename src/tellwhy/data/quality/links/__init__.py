"""Checks of columns against each other: equations, orders, dependencies."""
