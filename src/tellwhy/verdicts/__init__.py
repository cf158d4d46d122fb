"""From scores to anomalies: alarms, causes, reasons, repairs."""
