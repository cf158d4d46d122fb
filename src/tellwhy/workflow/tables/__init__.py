"""From a table to ranked, explained anomalies."""
