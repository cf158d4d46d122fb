"""The types everything hangs on: explanations, score functions, errors, parameters, the registry."""
