"""From a model or a file to explained anomalies."""
