"""What is written to disk: whole files, saved models and explanations; never pickle."""
