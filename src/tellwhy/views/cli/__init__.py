"""The command line: `tellwhy explain`, `compare`, `report`, `methods`, `insight`, `fit-svm`."""

from tellwhy.views.cli.main import app, main

__all__ = ["app", "main"]
