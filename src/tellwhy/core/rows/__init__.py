"""Rows and labels as estimators take them: checked, and brought to comparable scales."""
