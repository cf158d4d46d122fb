"""A detector of windows and patches, for series and images."""
