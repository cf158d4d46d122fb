"""From scores to verdicts: which rows are alarms, for which reasons, and whether the reasons hold."""
