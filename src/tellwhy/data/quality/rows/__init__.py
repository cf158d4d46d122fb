"""Checks of whole rows: copies, bursts, values that are stuck, rows that are nearly empty."""
