"""From third-party models and pipelines to score functions."""
